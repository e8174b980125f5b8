package actors

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// lender has depots of a heldWorld that remember what they keep. early are releases and offers of which the book does not
// know yet, as the depot got them.
type lender struct {
	*heldWorld
	held            map[renewal.Key]wire.Held
	offers, release int
	early           []any
	hears           func(question any) // before it is answered; may be nil
}

func newLender(t *testing.T) *lender {
	l := &lender{held: map[renewal.Key]wire.Held{}}
	l.heldWorld = newHeld(t, func(h *heldWorld) { h.answer = l.say })
	return l
}

func (l *lender) say(id peers.ID, q any) any {
	if l.hears != nil {
		l.hears(q)
	}
	now := l.s.Wall().Unix()
	wanted := func(x share.ID) bool {
		return slices.ContainsFunc(l.book.Wants, func(w renewal.Want) bool { return w.Share == x })
	}
	switch m := q.(type) {
	case wire.Hold:
		if l.offers++; !wanted(m.Share) {
			l.early = append(l.early, m)
		}
		a := wire.Held{Share: m.Share, At: now, State: uint8(depot.Stable), Bytes: m.Bytes, Expires: m.Until, Added: m.Until - now}
		l.held[renewal.Key{Depot: id, Share: m.Share}] = a
		return a
	case wire.Renew:
		a := l.held[renewal.Key{Depot: id, Share: m.Share}]
		a.At, a.Added, a.Expires = now, m.Until-a.Expires, m.Until
		l.held[renewal.Key{Depot: id, Share: m.Share}] = a
		return a
	case wire.Release:
		if l.release++; wanted(m.Share) {
			l.early = append(l.early, m)
		}
		delete(l.held, renewal.Key{Depot: id, Share: m.Share})
		return wire.Held{Share: m.Share, At: now}
	}
	p := wire.HoldingsPage{At: now}
	for k, a := range l.held {
		if k.Depot == id {
			p.Items = append(p.Items, wire.Holding{Share: a.Share, State: a.State, Bytes: a.Bytes, Expires: a.Expires})
		}
	}
	slices.SortFunc(p.Items, func(a, b wire.Holding) int { return a.Share.Compare(b.Share) })
	return p
}

// A lease is released, or made, when the book says so: a kill before that leaves the depot as the book has it.
func TestADepotHearsOfWhatIsWritten(t *testing.T) {
	l := newLender(t)
	l.keep(1, "d")
	l.hears = func(q any) { // while it is visited
		if _, ok := q.(wire.Holdings); ok {
			l.hears = nil
			l.s.Send(l.pid, DropHold{Want: 1})
			l.s.Send(l.pid, KeepHold{Want: renewal.Want{ID: 2, Share: share.IDOf([]byte{2}), Bytes: 1 << 30, Depots: []peers.ID{"d"}}})
		}
	}
	l.s.Send(l.pid, VisitDepot{Depot: "d"})
	l.w.Run(time.Minute)
	if len(l.early) > 0 || l.offers != 2 || l.release != 1 {
		t.Errorf("%d offers, %d releases; before they were written: %+v", l.offers, l.release, l.early)
	}
}

// What could not be written as released is not released at the depot, and after a kill it stands as before; leases are renewed
// meanwhile. Once it can be written, it is released.
func TestWhatIsNotWrittenAsReleasedIsNotReleased(t *testing.T) {
	for _, killed := range []bool{false, true} {
		l := newLender(t)
		for id := range int64(2) {
			l.s.Send(l.pid, KeepHold{Want: renewal.Want{ID: id + 1, Share: share.IDOf([]byte{byte(id + 1)}), Bytes: 1 << 30, Depots: []peers.ID{"d"}, Length: 2 * time.Hour}})
		}
		l.w.Run(time.Second)
		full := errors.New("a full disk")
		l.fault = full
		var said error
		l.s.Hear(l.pid, DropHold{Want: 1}, func(a any) { said = a.(HoldList).Unwritten })
		l.w.Run(100 * time.Minute)
		if !errors.Is(said, full) || l.release != 0 || len(l.held) != 2 {
			t.Fatalf("the owner hears %v; %d releases, %d leases", said, l.release, len(l.held))
		}
		if l.held[renewal.Key{Depot: "d", Share: share.IDOf([]byte{2})}].Expires < l.s.Wall().Add(time.Hour).Unix() {
			t.Error("the other lease was not renewed")
		}
		l.fault = nil
		if killed {
			l.s.Send(l.pid, "panic") // it reads the book again
		}
		l.w.Run(2 * depotRetry)
		if want := map[bool]int{false: 1}[killed]; l.release != want || l.offers != 2 || len(l.held) != 2-want {
			t.Errorf("killed: %v. %d releases, %d offers, %d leases", killed, l.release, l.offers, len(l.held))
		}
	}
}
