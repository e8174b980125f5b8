package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// What the owner has released before its depot heard of it is not asked for, and what is released before it is paid is not paid.
func TestWhatIsReleasedDuringAVisitIsNotPaid(t *testing.T) {
	for _, itself := range []bool{false, true} { // it is released while the depot is asked for it, or for another
		h := newHeld(t, nil)
		granted, dropped, asked, paid := h.answer, share.ID{}, 0, 0
		h.answer = func(id peers.ID, q any) any {
			switch m := q.(type) {
			case wire.Hold:
				if dropped.IsZero() { // the first of two
					want := int64(1)
					if (m.Share == share.IDOf([]byte{1})) != itself {
						want = 2
					}
					dropped = share.IDOf([]byte{byte(want)})
					h.s.Send(h.pid, DropHold{Want: want})
				}
				if m.Share == dropped {
					asked++
					return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
				}
			case wire.Pay:
				paid++
			}
			return granted(id, q)
		}
		for id := range int64(2) {
			h.s.Send(h.pid, KeepHold{Want: renewal.Want{ID: id + 1, Share: share.IDOf([]byte{byte(id + 1)}), Bytes: 1 << 30, Depots: []peers.ID{"d"}}, Depots: []peers.Addr{{ID: "d"}}})
		}
		h.w.Run(time.Minute)
		if want := map[bool]int{true: 1}[itself]; paid > 0 || asked != want || dropped.IsZero() {
			t.Errorf("itself: %v. What was released is asked for %d times, and paid %d times", itself, asked, paid)
		}
	}
}
