package actors

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// A depot whose database was lost reads all shares that it finds. It rests between the slices of that as between all others: it does not keep
// its disk busy for days.
func TestTheCrawlerRestsAlsoWhileItReadsWhatIsDue(t *testing.T) {
	for what, begun := range map[string]bool{"in a share": true, "between two": false} {
		t.Run(what, func(t *testing.T) {
			w, nodes, _ := newWorld(1, "self")
			s := nodes[0]
			d := newDepot(s, nil, nil, DepotConfig{Ledger: ledgerOf(t), Keep: adoptedKeep{away: new(bool)}, Reading: func() depot.Reading { return depot.Reading{Wall: s.Wall()} }})
			c := d.crawler
			c.crawl.Next(s.Wall())
			c.crawl.Did(s.Wall(), 0, share.ID{}, true)
			c.scrub.Next(s.Wall())
			c.scrub.Did(s.Wall(), depot.Slice, share.ID{}, false) // a slice has just ended
			if id := share.IDOf([]byte("x")); begun {
				c.reading = reading{id: id, extra: true}
			} else {
				c.due.set(id, s.Wall())
			}
			s.Spawn(nil, "depot", depotBox, receive(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Started); ok {
					d.crawl(ctx, s.Now())
				}
			}), system.OnPanicStop)
			w.Run(depot.Slice * (depot.Duty - 1) / 2)
			if c.busy {
				t.Error("the next slice begins at once")
			}
			closeNode(t, s)
		})
	}
}
