package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// End is how a lease ended, or that it has begun.
type End uint8

// The ends of a lease.
const (
	Granted  End = iota // it has not: it begins
	Finished            // its piece is verified, through its source
	Failed              // its source gave it up, or sent wrong data
	Expired             // its deadline passed
	Revoked             // taken away through no fault of its source
)

func (e End) String() string {
	return [...]string{"granted", "finished", "failed", "expired", "revoked"}[e]
}

// A LeaseEvent is the beginning or the end of a lease.
type LeaseEvent struct {
	Piece  share.Piece
	Source peers.ID
	Token  share.Token
	At     time.Time
	End    End
	Why    Reason        // of a Failed one
	Hedge  bool          // another source held the piece when it was granted
	Held   time.Duration // from grant to end
	Bytes  int64         // that came in under it
}

// Watch notes from now on, for Events, every lease that fails or expires; with all, every
// grant and every end.
func (m *Manager) Watch(all bool) { m.watched, m.all = true, all }

// Events are what was noted since the last call, in order. Nothing is noted unless
// Watch was called; whoever called it must take the events.
func (m *Manager) Events() []LeaseEvent {
	out := m.journal
	m.journal = nil
	return out
}

// record puts the beginning or the end of a live lease into the journal.
func (m *Manager) record(at uint32, end End, why Reason) {
	if !m.watched || !m.all && end != Failed && end != Expired {
		return
	}
	l := &m.leases[at]
	e := LeaseEvent{Piece: share.Piece(l.piece), Source: m.sources[l.source].id, Token: l.token, At: m.clock.time(m.clock.at), End: end, Why: why, Hedge: l.hedge}
	if end != Granted {
		e.Held, e.Bytes = e.At.Sub(m.clock.time(l.granted)), int64(l.got)
	}
	m.journal = append(m.journal, e)
}
