package fetcher

import (
	"context"
	"sync"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	depotdisk "github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// DepotConfig has a node keep shares for accounts, under storage leases. Its parts belong
// to whoever made them, and must work until Close has returned; package
// daemon puts them together.
type DepotConfig struct {
	Ledger  Ledger          // what was promised, such as a leasedb.DB
	Disk    *depotdisk.Root // where the shares lie
	Reading func() DepotReading
	// Reserve is how many bytes of the disk are to stay free.
	Reserve int64
	// Open are the terms of the account that a peer gets that has none; default: it gets none.
	Open *DepotTerms
	// Fetches is how many shares are fetched at once; default 4.
	Fetches int
	// Changed is told of each share that comes into another state. It must not block.
	Changed func(id share.ID, s HoldState, why string)
}

// Ledger is what a depot has promised, durably.
type Ledger = actors.Ledger

// DepotReading is what the system says of the time.
type DepotReading = depot.Reading

// DepotTerms are what an account may have of a depot.
type DepotTerms = depot.Terms

// DepotStatus is how the depot of a node stands.
type DepotStatus = actors.DepotStatus

// What DepotDo may be told.
type (
	DepotClockOK = actors.ClockOK    // the wall clock is right
	DepotCollect = actors.CollectNow // remove what may go, now
	DepotCrawl   = actors.CrawlNow   // look at all shares, now
	DepotScrub   = actors.ScrubNow   // read all shares, now
)

// ErrNotADepot says that this node keeps no shares for others.
var ErrNotADepot = actors.ErrNotADepot

// DepotDo has the depot of this node do something: a DepotClockOK, DepotCollect, DepotCrawl
// or DepotScrub, whose end it does not wait for; nil is nothing. It says how the depot
// stands. The error wraps ErrNotADepot.
func (n *Node) DepotDo(ctx context.Context, what any) (DepotStatus, error) {
	if what == nil {
		what = actors.DepotQuery{}
	}
	return n.program.Depot(ctx, what)
}

// depotDeps is the depot as the actors need it; nil: there is none.
func depotDeps(n *Node) *actors.DepotConfig {
	c := n.cfg.Depot
	if c == nil {
		return nil
	}
	n.keep = &keep{Root: c.Disk, n: n, ours: map[share.ID]store.Source{}, absent: map[share.ID]bool{}, looking: map[share.ID]bool{}}
	n.catalog.offers.OnMissing(n.keep.look)
	return &actors.DepotConfig{Ledger: c.Ledger, Keep: n.keep, Reading: c.Reading, Reserve: c.Reserve, Open: c.Open, Fetches: c.Fetches, Changed: n.keep.changed}
}

// keep is the disk of a depot, and what is served from it: while a share comes, and later
// from when somebody asks for it.
type keep struct {
	*depotdisk.Root
	n *Node

	mu      sync.Mutex // guards the fields below
	ours    map[share.ID]store.Source
	looking map[share.ID]bool
	absent  map[share.ID]bool // looked for, and not kept
	closed  bool
	finds   sync.WaitGroup
}

const (
	maxLooking = 4    // shares that are looked for at once
	maxAbsent  = 4096 // shares of which it is remembered that they are not kept
)

func (k *keep) Ready(ctx context.Context, l actors.Ledger) error { return k.Root.Ready(ctx, l) }
func (k *keep) Forget()                                          { k.Root.Forget() }

func (k *keep) Manifest(id share.ID) *share.Manifest {
	m, err := k.Root.Manifest(id)
	if err != nil {
		return nil
	}
	return m
}

// Open opens the place of a share, and serves from it at once.
func (k *keep) Open(ctx context.Context, m *share.Manifest, wanted []bool) (actors.Target, error) {
	k.n.catalog.offers.Yield(m.ID())
	p, err := k.Root.Open(ctx, m, wanted)
	if err != nil {
		return nil, err
	}
	k.serve(m.ID(), p)
	return p, nil
}

// serve offers what the depot has of a share, unless it is served otherwise.
func (k *keep) serve(id share.ID, s store.Source) bool {
	if k.n.catalog.shared(id) != nil {
		return false
	}
	k.mu.Lock()
	k.ours[id] = s
	delete(k.absent, id)
	k.mu.Unlock()
	k.n.catalog.offers.Add(s)
	return true
}

// Withdraw ends the serving of a share.
func (k *keep) Withdraw(id share.ID) bool {
	k.mu.Lock()
	s := k.ours[id]
	delete(k.ours, id)
	k.mu.Unlock()
	return s != nil && k.n.catalog.offers.Drop(s)
}

// changed forgets that a share is not here.
func (k *keep) changed(id share.ID, s depot.State, why string) {
	k.mu.Lock()
	delete(k.absent, id)
	k.mu.Unlock()
	if f := k.n.cfg.Depot.Changed; f != nil {
		f(id, s, why)
	}
}

// look looks for a share that somebody asks for, and says whether it does.
func (k *keep) look(id share.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.looking[id] || len(k.looking) >= maxLooking:
		return true
	case k.absent[id] || k.closed:
		return false
	}
	k.looking[id] = true
	k.finds.Go(func() { k.find(id) })
	return true
}

// close ends the looking.
func (k *keep) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.finds.Wait()
}

// find opens a share that is kept.
func (k *keep) find(id share.ID) {
	found := k.open(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.looking, id)
	if !found {
		if len(k.absent) >= maxAbsent {
			clear(k.absent)
		}
		k.absent[id] = true
	}
}

func (k *keep) open(id share.ID) bool {
	s, err := k.n.cfg.Depot.Ledger.Share(context.Background(), id)
	if err != nil || s.State != depot.Stable && s.State != depot.Corrupt {
		return false
	}
	t, err := k.Root.Tree(id)
	if err != nil {
		return false
	}
	if !k.serve(id, t) {
		t.Close()
		return false
	}
	k.n.program.Offer(id)
	return true
}

// damaged is told that what was read of a share is not what it should be.
func (k *keep) damaged(id share.ID) {
	k.mu.Lock()
	ours := k.ours[id] != nil
	delete(k.ours, id)
	k.mu.Unlock()
	if ours {
		k.n.program.LookAt(id)
	}
}
