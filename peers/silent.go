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
// network, has only some of the places. It has one owner; the time is an argument.
type Silent struct {
	cfg  SilentConfig
	each []newcomer // the oldest first
}

type newcomer struct {
	addr, net string
	until     time.Time
}

// NewSilent counts nobody yet.
func NewSilent(cfg SilentConfig) *Silent { return &Silent{cfg: cfg} }

// Came reports whether a connection from an address in a network may stay.
func (s *Silent) Came(addr, net string, now time.Time) bool {
	ofNet, ofOne := 0, 0
	s.each = slices.DeleteFunc(s.each, func(x newcomer) bool {
		if !now.Before(x.until) {
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
	if len(s.each) >= s.cfg.All || ofNet >= s.cfg.OfNet || ofOne >= s.cfg.OfOne {
		return false
	}
	s.each = append(s.each, newcomer{addr, net, now.Add(s.cfg.For)})
	return true
}

// Spoke notes that a connection from an address has said who it is.
func (s *Silent) Spoke(addr string) {
	if i := slices.IndexFunc(s.each, func(x newcomer) bool { return x.addr == addr }); i >= 0 {
		s.each = slices.Delete(s.each, i, i+1)
	}
}
