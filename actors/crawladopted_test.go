package actors

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// adoptedKeep is a disk that was used with the database of another node while it was away: as disk.Root does, it makes the present one
// incomplete when it is back.
type adoptedKeep struct {
	pagedKeep
	away *bool
	seen map[share.ID]bool // looked at since then
}

func (k adoptedKeep) Ready(ctx context.Context, l Ledger) error {
	if !*k.away {
		return nil
	}
	*k.away = false
	clear(k.seen)
	return l.SetIdentity(ctx, "depot", "anew")
}

func (k adoptedKeep) Look(id share.ID) (depot.OnDisk, error) {
	k.seen[id] = true
	return depot.OnDisk{Gone: true}, nil
}

func (adoptedKeep) Sweep() error { return nil }

// The disk of a depot went away in the middle of a cycle of the crawler, and another database wrote to it before it was back. The crawler begins
// anew then: what was promised meanwhile may be beside shares that it had looked at before, and the ledger does not count as complete without that.
func TestALedgerIsNotCompleteAfterTheRestOfACycle(t *testing.T) {
	w, nodes, _ := newWorld(1, "self")
	s, db := nodes[0], ledgerOf(t)
	k := adoptedKeep{pagedKeep: pagedKeep{page: 9}, away: new(bool), seen: map[share.ID]bool{}}
	for i := range 9 {
		k.ids = append(k.ids, share.IDOf([]byte{byte(i)}))
	}
	slices.SortFunc(k.ids, share.ID.Compare)
	half := crawlPlace{Crawl: depot.Crawl{Cycle: 1, Began: s.Wall(), At: k.ids[5], Rest: s.Wall().Add(time.Minute)}, Scrub: depot.Crawl{Done: true, Rest: s.Wall().Add(time.Hour)}}
	place, err := json.Marshal(half)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.SetPlace(t.Context(), "", place); err != nil {
		t.Fatal(err)
	}
	cfg := DepotConfig{Ledger: db, Keep: k, Reading: func() depot.Reading {
		return depot.Reading{Boot: "1", Wall: s.Wall(), Passed: w.Elapsed(), Synced: true}
	}}
	s.Spawn(nil, "depot", depotBox, func() actor.Actor { return newDepot(s, nil, nil, cfg) }, system.OnPanicStop)
	w.Run(30 * time.Second)
	*k.away = true
	w.Run(time.Minute)
	if m, err := db.Meta(t.Context()); err != nil || *k.away || m.CompleteSince.IsZero() || len(k.seen) < len(k.ids) {
		t.Errorf("it is complete since %v, and %d of %d shares were looked at; %v, %v", m.CompleteSince, len(k.seen), len(k.ids), *k.away, err)
	}
	closeNode(t, s)
}
