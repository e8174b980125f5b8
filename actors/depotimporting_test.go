package actors

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// lookedAtKeep is a disk that is not there now, and has no share whole.
type lookedAtKeep struct{ awayKeep }

func (lookedAtKeep) Look(share.ID) (depot.OnDisk, error) { return depot.OnDisk{Gone: true}, nil }

// A share is to be imported whose fetch has just ended, while the depot looks whether it is here: whoever imports it does not wait for the end
// of a fetch that is over.
func TestAnImportDoesNotWaitForAFetchThatIsOver(t *testing.T) {
	w, nodes, _ := newWorld(1, "self")
	s, id := nodes[0], share.IDOf([]byte("x"))
	node := s.Spawn(nil, "node", 10, receive(func(actor.Context) {}), system.OnPanicStop) // it has no such transfer
	d := newDepot(s, nil, node, DepotConfig{Ledger: ledgerOf(t), Keep: lookedAtKeep{}, Reading: func() depot.Reading { return depot.Reading{Wall: s.Wall()} }})
	d.loaded, d.hourly, d.crawler.busy = true, s.Now().Add(everyHour), true
	d.want(id, false)
	d.begin(id, d.arrivals[id])
	pid := s.Spawn(nil, "depot", depotBox, func() actor.Actor { return d }, system.OnPanicStop)
	told := false
	s.Spawn(nil, "importer", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Send(pid, arrivalEvent{id, Ended{}})
			ctx.Request(pid, Importing{Share: id})
		case DepotStatus:
			told = true
		}
	}), system.OnPanicStop)
	w.Run(20 * time.Second)
	if !told {
		t.Error("it waits")
	}
	closeNode(t, s)
}
