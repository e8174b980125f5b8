package actors

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// failingKeep is a disk on which the first look at each share fails.
type failingKeep struct{ adoptedKeep }

func (k failingKeep) Look(id share.ID) (depot.OnDisk, error) {
	if _, ok := k.seen[id]; !ok {
		k.seen[id] = false
		return depot.OnDisk{}, errors.New("an input/output error")
	}
	return k.adoptedKeep.Look(id)
}

// What the ledger has forgotten in the middle of a cycle is looked at soon also if the first look fails, or if the depot is started again before it.
func TestWhatTheLedgerHasForgottenIsLookedAtSoonAlsoAfterAFailureOrARestart(t *testing.T) {
	for what, restarts := range map[string]bool{"a look that fails": false, "a restart": true} {
		t.Run(what, func(t *testing.T) {
			w, nodes, _ := newWorld(1, "self", "again")
			s, db := nodes[0], ledgerOf(t)
			k := adoptedKeep{pagedKeep: pagedKeep{page: 9}, away: new(bool), seen: map[share.ID]bool{}}
			for i := range 9 {
				k.ids = append(k.ids, share.IDOf([]byte{byte(i)}))
			}
			slices.SortFunc(k.ids, share.ID.Compare)
			place, err := json.Marshal(crawlPlace{Crawl: depot.Crawl{Cycle: 1, Began: s.Wall(), At: k.ids[5], Rest: s.Wall().Add(time.Minute)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.SetPlace(t.Context(), "", place); err != nil {
				t.Fatal(err)
			}
			cfg := DepotConfig{Ledger: db, Keep: failingKeep{k}, Reading: func() depot.Reading {
				return depot.Reading{Boot: "1", Wall: s.Wall(), Passed: w.Elapsed(), Synced: true}
			}}
			start := func(s *system.System) *actor.PID {
				pid := s.Spawn(nil, "depot", depotBox, func() actor.Actor { return newDepot(s, nil, nil, cfg) }, system.OnPanicStop)
				w.Run(time.Second)
				return pid
			}
			pid := start(s)
			if delete(k.seen, k.ids[0]); restarts { // the scrub has looked at it
				k.seen[k.ids[0]] = false
			}
			s.Send(pid, depotDone{notes: []note{{id: k.ids[0], state: depot.None, outdated: true}}})
			if restarts {
				w.Run(time.Second)
				s.Root.Stop(pid)
				w.Run(time.Second)
				start(nodes[1])
			}
			if w.Run(time.Hour); !k.seen[k.ids[0]] {
				t.Error("an hour later it was not looked at")
			}
			for _, s := range nodes {
				closeNode(t, s)
			}
		})
	}
}
