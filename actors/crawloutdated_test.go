package actors

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// A share was to be removed, and its leases on the disk are newer than the database, which forgets it: until the crawler has looked at it, whoever holds it
// is told that it has no lease. It is looked at soon, also if a cycle of the crawler that is under way has passed it already, and not three days later.
func TestWhatTheLedgerHasForgottenIsLookedAtSoonAlsoInTheMiddleOfACycle(t *testing.T) {
	for what, done := range map[string]bool{"after a cycle": true, "in a cycle": false} {
		t.Run(what, func(t *testing.T) {
			w, nodes, _ := newWorld(1, "self")
			s, db := nodes[0], ledgerOf(t)
			k := adoptedKeep{pagedKeep: pagedKeep{page: 9}, away: new(bool), seen: map[share.ID]bool{}}
			for i := range 9 {
				k.ids = append(k.ids, share.IDOf([]byte{byte(i)}))
			}
			slices.SortFunc(k.ids, share.ID.Compare)
			place, err := json.Marshal(crawlPlace{Crawl: depot.Crawl{Cycle: 1, Began: s.Wall(), At: k.ids[5], Rest: s.Wall().Add(time.Minute), Done: done}})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.SetPlace(t.Context(), "", place); err != nil {
				t.Fatal(err)
			}
			cfg := DepotConfig{Ledger: db, Keep: k, Reading: func() depot.Reading {
				return depot.Reading{Boot: "1", Wall: s.Wall(), Passed: w.Elapsed(), Synced: true}
			}}
			pid := s.Spawn(nil, "depot", depotBox, func() actor.Actor { return newDepot(s, nil, nil, cfg) }, system.OnPanicStop)
			w.Run(time.Second)
			clear(k.seen)
			s.Send(pid, depotDone{notes: []note{{id: k.ids[0], state: depot.None, outdated: true}}})
			if w.Run(time.Hour); !k.seen[k.ids[0]] {
				t.Errorf("an hour later it was not looked at; %d others were", len(k.seen))
			}
			closeNode(t, s)
		})
	}
}
