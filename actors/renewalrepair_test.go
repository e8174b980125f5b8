package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// What a depot has lost is offered again for as long as its lease lasts, however long the visit takes: that costs nothing, and so
// needs no passes.
func TestARepairMovesNoEnd(t *testing.T) {
	h := newHeld(t, nil)
	ends := h.s.Wall().Unix() + 20*86400
	ids := []share.ID{share.IDOf([]byte{1}), share.IDOf([]byte{2})}
	slices.SortFunc(ids, share.ID.Compare)
	var late int64
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			late = max(late, m.Until-ends)
			a := wire.Held{Share: m.Share, At: h.s.Wall().Unix(), State: uint8(depot.Corrupt), Bytes: m.Bytes, Expires: max(ends, m.Until)}
			h.w.After(3*time.Second, func() { h.s.Send(h.pid, DepotAnswer{Depot: id, Answer: a}) })
			return nil
		case wire.Holdings:
			page := wire.HoldingsPage{At: h.s.Wall().Unix()}
			for _, x := range ids {
				page.Items = append(page.Items, wire.Holding{Share: x, State: uint8(depot.Corrupt), Bytes: 1 << 30, Expires: ends})
			}
			return page
		}
		return nil
	}
	h.keep(1, "d")
	h.keep(2, "d")
	h.w.Run(time.Minute)
	if late > 0 {
		t.Errorf("a lease that is not due is asked to end %d s later, which costs a pass", late)
	}
}
