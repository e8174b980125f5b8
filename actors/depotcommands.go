package actors

import (
	"cmp"
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// DepotQuery, API -> Node -> depot. Answered with DepotStatus.
type DepotQuery struct{}

// DepotStatus is the state of a depot.
type DepotStatus struct {
	Now      time.Time // by the depot's clock
	Frozen   bool      // the clock is not trusted: nothing expires, nothing is collected
	Trouble  string    // why it does nothing; empty: it works
	Stuck    string    // why it cannot look at its disk; empty: it can
	Arriving int       // shares that are being fetched, or wait to be
	// Collecting says that it looks for shares to remove, and removes them. Removed is how many it has
	// removed since it began.
	Collecting bool
	Removed    int64
	Crawl      depot.Crawl
	Left       time.Duration // of the crawler's cycle; 0: not known, or it is done
	Scrub      depot.Crawl
}

// Commands of a depot's owner, API -> Node -> depot. Each is answered with DepotStatus.
type (
	ClockOK    struct{} // the wall clock is right
	CollectNow struct{} // sweep now, and remove what may go
	CrawlNow   struct{} // begin a cycle, unless one runs
	ScrubNow   struct{} // begin to read all shares, unless that is under way
)

// LookAt, API -> Node -> depot: read this share soon; somebody found it damaged.
type LookAt struct{ Share share.ID }

// Imported, API -> Node -> depot: a share was imported, and is STABLE. Answered with DepotStatus.
type Imported struct{ Share share.ID }

// Importing, API -> Node -> depot: a share is to be imported. Its fetch, if there is one, ends, and goes on after a
// rest. Answered with DepotStatus, when the fetch has ended.
type Importing struct{ Share share.ID }

// Depot sends the depot of this node a command and returns its state afterwards; DepotQuery
// changes nothing.
func (p *Program) Depot(ctx context.Context, what any) (DepotStatus, error) {
	return system.Ask[DepotStatus](ctx, p.s, p.node, what)
}

func (d *depotActor) commanded(ctx actor.Context) {
	wall := d.s.Wall()
	switch m := ctx.Message().(type) {
	case crawled:
		d.crawled(ctx, m)
		return
	case LookAt:
		if d.loaded {
			d.crawler.due.set(m.Share, wall)
		}
		return
	case ClockOK:
		d.time.confirm()
		d.storeClock(ctx)
	case CollectNow:
		if d.loaded {
			d.collect(ctx)
		}
	case Imported:
		if a := d.arrivals[m.Share]; a != nil && !a.running {
			d.forget(m.Share, a)
		}
		d.changed(ctx, m.Share, depot.Stable, "imported")
	case Importing:
		if d.giveWay(ctx, m.Share) {
			return
		}
	case CrawlNow:
		hurry(&d.crawler.crawl, wall)
	case ScrubNow:
		hurry(&d.crawler.scrub, wall)
	}
	ctx.Respond(d.status())
}

// hurry makes the next cycle begin now.
func hurry(c *depot.Crawl, now time.Time) {
	if c.Done {
		c.Rest = now
	}
}

func (d *depotActor) status() DepotStatus {
	s := DepotStatus{Now: d.time.now(), Frozen: d.time.state().Frozen, Arriving: len(d.arrivals), Collecting: d.passes > 0, Removed: d.removed, Crawl: d.crawler.crawl, Scrub: d.crawler.scrub}
	s.Left = s.Crawl.Left(d.s.Wall())
	if d.trouble != nil && !d.loaded {
		s.Trouble = words.Plain(d.trouble)
	} else if err := cmp.Or(d.crawler.stuck, d.crawler.stuckScrub); err != nil {
		s.Stuck = words.Plain(err)
	}
	return s
}
