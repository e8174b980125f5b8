package transfer

import (
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
)

// AskListers asks the store of the fleet which members have the list of files or are getting
// it; Listers is the answer. If none is, or the claim is still that of revision Stale, this
// node claims it.
type AskListers struct{ Stale uint64 }

// Listers are who may have the list of files.
type Listers struct {
	Members []peers.Addr
	Claim   uint64 // revision of the claim to get it from outside the fleet; 0: the store did not say
	Mine    bool   // the claim is this node's
}

// How long a claim stands that its owner does not renew, and how long the store may be
// silent before the list is asked for outside the fleet regardless.
const (
	claimTime   = 3 * fleet.DefaultHeartbeat
	silentStore = 5 * fleet.DefaultHeartbeat
)

// listers makes one member of an electing fleet ask for the list of files outside, and the
// others ask that member: a list takes some traffic, and each member needs it.
type listers struct {
	asking  bool
	askAt   time.Time
	claim   uint64    // as last heard
	since   time.Time // when it was first heard
	heard   time.Time // when the store said something last
	mine    bool
	members map[peers.ID]bool
}

// askListers asks the store once a heartbeat, and returns when there is more to do.
func (s *sources) askListers() time.Time {
	l := &s.listers
	if s.cfg.Fleet.Secret == "" {
		return time.Time{}
	}
	if l.heard.IsZero() {
		l.heard = s.now // it is given as long as a store that falls silent
	}
	if !l.asking && !l.askAt.After(s.now) {
		l.asking, l.askAt = true, s.now.Add(fleet.DefaultHeartbeat)
		var stale uint64
		if !l.mine && l.claim != 0 && s.now.Sub(l.since) >= claimTime {
			stale = l.claim
		}
		s.then(AskListers{stale})
	}
	var next time.Time
	if !l.asking {
		next = l.askAt
	}
	if until := l.heard.Add(silentStore); until.After(s.now) {
		next = times.Earliest(next, until)
	}
	return next
}

// Listers is told what the store says.
func (s *sources) Listers(m Listers, now time.Time) {
	s.now = now
	l := &s.listers
	l.asking = false
	if m.Claim == 0 || s.state != Finding || s.ending != nil {
		return
	}
	l.heard, l.mine = s.now, m.Mine
	if m.Claim != l.claim {
		l.claim, l.since = m.Claim, s.now
	}
	for _, a := range m.Members {
		if l.members == nil {
			l.members = map[peers.ID]bool{}
		}
		if a.ID != s.fetch.Self {
			l.members[a.ID] = true
			s.found(SourceFound{Addr: a})
		}
	}
}

// mayList says whether a source may be asked for the list of files now.
func (s *sources) mayList(src *source) bool {
	l := &s.listers
	return s.cfg.Fleet.Secret == "" || l.mine || l.members[src.addr.ID] || s.now.Sub(l.heard) >= silentStore
}
