package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// What the owner wants kept again before its depot heard of the release is not released: its lease is paid for, and perhaps this node
// has the files no more.
func TestWhatIsWantedAgainDuringAVisitIsNotReleased(t *testing.T) {
	l := newLender(t)
	want := func(id int64, x byte) KeepHold {
		return KeepHold{Want: renewal.Want{ID: id, Share: share.IDOf([]byte{x}), Bytes: 1 << 30, Depots: []peers.ID{"d"}}, Depots: []peers.Addr{{ID: "d"}}}
	}
	l.s.Send(l.pid, want(1, 1))
	l.s.Send(l.pid, want(2, 2))
	l.w.Run(time.Second)
	l.hears = func(q any) {
		m, ok := q.(wire.Release) // the first of two
		if !ok {
			return
		}
		l.hears = nil
		again := byte(1)
		if m.Share == share.IDOf([]byte{1}) {
			again = 2
		}
		l.s.Send(l.pid, want(3, again))
	}
	l.s.Send(l.pid, DropHold{Want: 1})
	l.s.Send(l.pid, DropHold{Want: 2})
	l.w.Run(time.Minute)
	if l.release != 1 || len(l.held) != 1 || len(l.early) > 0 {
		t.Errorf("%d releases, %d offers; released though the book says that it is wanted: %+v", l.release, l.offers, l.early)
	}
}
