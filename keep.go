package fetcher

import (
	"context"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	depotdisk "github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/depot/keep"
	"github.com/piecelease/fetcher/share"
)

// DepotConfig makes a node keep shares for accounts, under storage leases. Its parts stay
// the caller's, and must work until Close has returned; package daemon puts them together.
type DepotConfig struct {
	Ledger  Ledger          // what was promised, such as a leasedb.DB
	Disk    *depotdisk.Root // where the shares lie
	Reading func() DepotReading
	// Issuer signs the passes that accounts pay with, and takes them, such as an issuer.Counter; default:
	// no passes are taken.
	Issuer Issuer
	// Reserve is how many bytes of the disk are to stay free.
	Reserve int64
	// Open are the terms of the account that a peer without one gets; default: it gets none.
	Open *DepotTerms
	// Fetches is how many shares are fetched at once; default 4.
	Fetches int
	// Changed is called when a share changes its state. It must not block.
	Changed func(id share.ID, s HoldState, why string)
}

// Ledger is what a depot has promised, durably.
type Ledger = actors.Ledger

// Issuer signs passes and takes them.
type Issuer = actors.Issuer

// DepotReading is a reading of the system's clocks.
type DepotReading = depot.Reading

// DepotTerms are what an account may have of a depot.
type DepotTerms = depot.Terms

// DepotStatus is the state of a node's depot.
type DepotStatus = actors.DepotStatus

// What DepotDo may be asked to do.
type (
	DepotClockOK   = actors.ClockOK    // the wall clock is right
	DepotCollect   = actors.CollectNow // remove what may be removed, now
	DepotCrawl     = actors.CrawlNow   // check all shares, now
	DepotScrub     = actors.ScrubNow   // read all shares, now
	DepotImporting = actors.Importing  // that share is to be imported: its fetch ends, for a while
	DepotImported  = actors.Imported   // that share was put whole into the folder and the ledger
)

// ErrNotADepot says that this node keeps no shares for others.
var ErrNotADepot = actors.ErrNotADepot

// DepotDo tells the depot of this node to do something: a DepotClockOK, DepotCollect, DepotCrawl,
// DepotScrub or DepotImported, whose end it does not wait for, or a DepotImporting; nil is nothing. It returns the depot's
// status. The error wraps ErrNotADepot.
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
