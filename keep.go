package fetcher

import (
	"context"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	depotdisk "github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/depot/keep"
	"github.com/piecelease/fetcher/share"
)

// DepotConfig has a node keep shares for accounts, under storage leases. Its parts belong
// to whoever made them, and must work until Close has returned; package
// daemon puts them together.
type DepotConfig struct {
	Ledger  Ledger          // what was promised, such as a leasedb.DB
	Disk    *depotdisk.Root // where the shares lie
	Reading func() DepotReading
	// Issuer takes the passes that accounts pay with, and signs them, such as an issuer.Counter; default:
	// it takes none.
	Issuer Issuer
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

// Issuer signs passes and takes them.
type Issuer = actors.Issuer

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
	n.keep = keep.New(keep.Config{Root: c.Disk, Ledger: c.Ledger, Offers: n.catalog.offers, Later: n.finds.Go,
		Elsewhere: func(id share.ID) bool { return n.catalog.shared(id) != nil },
		Program:   func() *actors.Program { return n.program }})
	changed := func(id share.ID, s depot.State, why string) {
		n.keep.Changed(id)
		if c.Changed != nil {
			c.Changed(id, s, why)
		}
	}
	return &actors.DepotConfig{Ledger: c.Ledger, Keep: n.keep, Issuer: c.Issuer, Reading: c.Reading, Reserve: c.Reserve, Open: c.Open, Fetches: c.Fetches, Changed: changed}
}
