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

// Releasing an earlier version at a depot that answers does not wait for another depot that is away,
// from which an earlier version was released before.
func TestReleaseOfAVersionWaitsForNoOtherDepot(t *testing.T) {
	away := map[peers.ID]bool{}
	held := map[renewal.Key]wire.Held{}
	h := newHeld(t, nil)
	h.answer = func(id peers.ID, q any) any {
		if away[id] {
			return nil
		}
		now := h.s.Wall().Unix()
		switch m := q.(type) {
		case wire.Hold:
			a := wire.Held{Share: m.Share, At: now, State: uint8(depot.Stable), Bytes: m.Bytes, Expires: m.Until, Added: m.Until - now}
			held[renewal.Key{Depot: id, Share: m.Share}] = a
			return a
		case wire.Release:
			delete(held, renewal.Key{Depot: id, Share: m.Share})
			return wire.Held{Share: m.Share, At: now}
		}
		p := wire.HoldingsPage{At: now}
		for n := range byte(100) {
			if a, ok := held[renewal.Key{Depot: id, Share: share.IDOf([]byte{n})}]; ok {
				p.Items = append(p.Items, wire.Holding{Share: a.Share, State: a.State, Bytes: a.Bytes, Expires: a.Expires})
			}
		}
		for i := range p.Items {
			for j := range i {
				if p.Items[i].Share.Compare(p.Items[j].Share) < 0 {
					p.Items[i], p.Items[j] = p.Items[j], p.Items[i]
				}
			}
		}
		return p
	}
	id := func(n int) share.ID { return share.IDOf([]byte{byte(n)}) }
	edit := func(want int64, d peers.ID, n int) {
		h.s.Send(h.pid, KeepHold{Want: renewal.Want{ID: want, Share: id(n), Bytes: 1 << 30, Depots: []peers.ID{d}, Keep: 3}, Depots: []peers.Addr{{ID: d}}})
		h.w.Run(time.Minute)
	}
	edit(1, "a", 1)
	edit(1, "a", 2)
	edit(2, "b", 11)
	edit(2, "b", 12)
	away["a"] = true
	h.s.Send(h.pid, DropShare{Share: id(1)})
	h.w.Run(24 * time.Hour) // some visits fail
	if len(h.r.asked) != 0 {
		t.Fatalf("the first waits: %+v", h.r.asked)
	}
	began := h.s.Now()
	h.s.Send(h.pid, DropShare{Share: id(11)})
	for h.w.Run(time.Second); len(h.r.asked) > 0 && h.s.Now().Sub(began) < 24*time.Hour; h.w.Run(time.Second) {
	}
	if took := h.s.Now().Sub(began); took > 2*time.Minute {
		t.Errorf("released at b %v later", took)
	}
}
