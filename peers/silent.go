package peers

import (
	"slices"
	"time"
)

// SilentConfig bounds connections that came in and have not said who they are.
type SilentConfig struct {
	All   int           // of them at once
	OfNet int           // ... from one network
	OfOne int           // ... from one address
	For   time.Duration // how long one may take: after that it counts as gone
}

// Silent counts the connections that came in and have not yet said who they are, so
// that those that never will do not take the places of others. One address, and one
// network, has only some of the places; and when all are taken, a network that has more of
// them than another gives way to it. C is what its owner closes then. It has one owner; the time is
// an argument.
type Silent[C any] struct {
	cfg  SilentConfig
	each []newcomer[C] // the oldest first
}

type newcomer[C any] struct {
	id, addr, net string
	conn          C
	until         time.Time
}

// NewSilent counts nobody yet.
func NewSilent[C any](cfg SilentConfig) *Silent[C] { return &Silent[C]{cfg: cfg} }

// Came reports whether a connection from an address in a network may stay; id names it.
// gone is to be closed in its place; zero: nothing.
func (s *Silent[C]) Came(id, addr, net string, conn C, now time.Time) (gone C, ok bool) {
	ofNet, ofOne := 0, 0
	s.each = slices.DeleteFunc(s.each, func(x newcomer[C]) bool {
		if !now.Before(x.until) || x.id == id {
			return true
		}
		if x.net == net {
			ofNet++
		}
		if x.addr == addr {
			ofOne++
		}
		return false
	})
	if ofNet >= s.cfg.OfNet || ofOne >= s.cfg.OfOne {
		return gone, false
	}
	if len(s.each) >= s.cfg.All {
		i := s.over(ofNet + 1)
		if i < 0 {
			return gone, false
		}
		gone = s.each[i].conn
		s.each = slices.Delete(s.each, i, i+1)
	}
	s.each = append(s.each, newcomer[C]{id, addr, net, conn, now.Add(s.cfg.For)})
	return gone, true
}

// over is the index of the oldest connection from the network that has most, if it has more
// than fair; -1 if none has.
func (s *Silent[C]) over(fair int) int {
	of := map[string]int{}
	most := fair
	for _, x := range s.each {
		of[x.net]++
		most = max(most, of[x.net])
	}
	return slices.IndexFunc(s.each, func(x newcomer[C]) bool { return of[x.net] == most && most > fair })
}

// Spoke notes that a connection has said who it is.
func (s *Silent[C]) Spoke(id string) {
	s.each = slices.DeleteFunc(s.each, func(x newcomer[C]) bool { return x.id == id })
}
