package depots

import (
	"context"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/simnet"
)

// Owner is a node that has depots keep one thing for it, with the machine on which it runs: what
// its catalog says outlives its programs.
type Owner struct {
	*simnet.Node
	// Good and Failed are its visits of depots so far.
	Good, Failed int
	// Turn is that of its HoldsConfig; nil: it need not ask.
	Turn func(ctx context.Context, depot peers.ID, units int64) (end func(), err error)

	book *catalog.DB
	cfg  renewal.Config
	want renewal.Want
	at   []peers.Addr // of depots
	now  *simnet.Content
}

// NewOwner makes a node that has depots keep content from now on, as a Want says.
func NewOwner(n *simnet.Net, cfg simnet.NodeConfig, r renewal.Config, w renewal.Want, c *simnet.Content, all ...*Depot) *Owner {
	book, _, err := catalog.Open(context.Background(), ":memory:")
	must(err)
	o := &Owner{book: book, cfg: r, want: w, now: c}
	o.want.ID = 1
	for _, d := range all {
		o.want.Depots = append(o.want.Depots, d.ID())
		o.at = append(o.at, peers.Addr{ID: d.ID(), Addrs: []string{"/sim"}})
	}
	cfg.Deps = o.deps
	n.Add(cfg)
	o.Seed(c)
	o.tell()
	return o
}

func (o *Owner) deps(p *actors.Deps) {
	o.Node = p.Network.(*simnet.Node)
	p.Holds = &actors.HoldsConfig{Book: o.book, Renewal: o.cfg, Visited: func(_ peers.ID, why string) {
		if why == "" {
			o.Good++
		} else {
			o.Failed++
		}
	}}
	if o.want.Fleet {
		p.Holds.Turn = func(ctx context.Context, depot peers.ID, units int64) (func(), error) {
			return o.Turn(ctx, depot, units)
		}
	}
}

// Start starts it again, as Node.Start does, with what it now serves.
func (o *Owner) Start() {
	o.Node.Start()
	o.tell()
}

// Edit replaces what it serves, and has depots keep, with another version from now on.
func (o *Owner) Edit(c *simnet.Content) {
	o.Withdraw(o.now)
	o.now = c
	o.Seed(c)
	o.tell()
}

// tell tells its program what depots are to keep.
func (o *Owner) tell() {
	o.want.Share, o.want.Bytes = o.now.ID(), depot.Bytes(o.now.Manifest)
	if o.Program() != nil {
		o.Program().Hear(actors.KeepHold{Want: o.want, Depots: o.at, NoWait: true}, func(any) {})
	}
}

// Release makes depots keep nothing for it any more.
func (o *Owner) Release() { o.Program().Hear(actors.DropHold{Want: o.want.ID}, func(any) {}) }

// Promised is when the lease of an account ends, by the depot's clock; zero: there is none.
func (d *Depot) Promised(account string, c *simnet.Content) (end time.Time) {
	d.quietly(func() {
		id, err := d.DB.Named(context.Background(), account)
		must(err)
		all, err := d.DB.Leases(context.Background(), d.Reading().Wall, c.ID())
		must(err)
		for _, l := range all {
			if l.Account == id {
				end = l.Expires
			}
		}
	})
	return end
}

// Has says whether an account can rely on a depot to have all of some content: there is a live
// lease, and all of it is on the disk.
func (d *Depot) Has(account string, c *simnet.Content) error {
	if end := d.Promised(account, c); !d.Reading().Wall.Before(end) {
		return fmt.Errorf("%s has no lease of %s", account, c.Manifest.Name)
	}
	if s := d.State(c); s != depot.Stable {
		return fmt.Errorf("%s is %v", c.Manifest.Name, s)
	}
	return d.Here(c)
}
