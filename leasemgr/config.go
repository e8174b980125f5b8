package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Config is how leases are handed out. The zero value of each field means its
// default.
type Config struct {
	// LeaseDuration bounds every deadline: no lease outlives the last sign of life
	// of its source by more. Default 300 s.
	LeaseDuration time.Duration
	// Patience is how late a source may be, besides the time its bytes take at its
	// rate. The pools of a transfer use it as well.
	Patience peers.Patience

	// MaxLeasesPerPeer caps the leases of a source that has not been measured.
	// Default 4. Pieces smaller than 1 MiB count by their bytes: the source may
	// hold more leases than this as long as they cover at most MaxLeasesPerPeer
	// MiB together, up to MaxSmallLeases.
	MaxLeasesPerPeer int
	// MaxSmallLeases caps the leases on small pieces of a source that has not
	// been measured. Default 256.
	MaxSmallLeases int
	// Ahead is how much work beyond one round trip a measured source may hold,
	// as time at its rate: its request pipeline. Default 500 ms. A measured
	// source may always hold two leases: one it fetches, one that is next.
	Ahead time.Duration
	// MaxWindow caps the bytes still to come on the leases of a measured
	// source. Default 64 MiB.
	MaxWindow int64
	// MaxMeasuredLeases caps the leases of a measured source. Default 4,096.
	MaxMeasuredLeases int
	// MinPeerScore is the score below which a source holds one lease at a time,
	// so that what it does wrong costs little and is plainly its own doing.
	// Default 0.2; negative means never.
	MinPeerScore float64
	// Explore is the fraction of wake-ups that name a random source first instead
	// of the best. Default 0.05; negative means none.
	Explore float64

	// ShunFor is how long a source is not asked again for a piece on which it
	// sent wrong data or missed its deadline, as long as another source has that
	// piece and has not failed with it as well. Default 30 s; negative means it is
	// asked again at once.
	ShunFor time.Duration

	// SpareFor is how long a source is spared after it sent us elsewhere for a piece.
	// That needs the others to bring SpareFactor times what the source could send.
	// Defaults 10 s and 3; a negative SpareFor means that no source is spared.
	SpareFor    time.Duration
	SpareFactor float64

	// HedgeFactor says when a holder is clearly slower: it is expected to take
	// more than this many times what the asker needs, in a crowd three times as many. Default 2.
	HedgeFactor float64
	// TakeoverFactor is how many times faster than the holder of an overdue
	// piece a source must be to take its lease away. Where two hold the piece, it is
	// enough to bring so many blocks while the holder brings none. Default 10.
	TakeoverFactor float64
	// HedgeShare and HedgeFloor bound hedging: pieces held twice, together with
	// the bytes hedges have wasted, never exceed HedgeShare of the plan's bytes
	// or HedgeFloor, whichever is more. Defaults 0.01 and 16 MiB; a negative
	// HedgeFloor together with a negative HedgeShare means no hedging.
	HedgeShare float64
	HedgeFloor int64
}

// Validate names the fields that are out of range, with their ranges. New takes a
// Config that Validate has not refused.
func (c Config) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "LeaseDuration", c.LeaseDuration, time.Second, 24*time.Hour)
	f.Add("Patience", c.Patience.Validate())
	bounds.In(&f, "MaxLeasesPerPeer", c.MaxLeasesPerPeer, 1, share.MaxPieces)
	bounds.In(&f, "MaxSmallLeases", c.MaxSmallLeases, 1, share.MaxPieces)
	bounds.In(&f, "Ahead", c.Ahead, time.Millisecond, time.Minute)
	bounds.In(&f, "MaxWindow", c.MaxWindow, minWindow, 1<<40)
	bounds.In(&f, "MaxMeasuredLeases", c.MaxMeasuredLeases, 2, share.MaxPieces)
	bounds.UpToOrOff(&f, "MinPeerScore", c.MinPeerScore, 3)
	bounds.UpToOrOff(&f, "Explore", c.Explore, 1)
	bounds.UpToOrOff(&f, "ShunFor", c.ShunFor, 24*time.Hour)
	bounds.UpToOrOff(&f, "SpareFor", c.SpareFor, 24*time.Hour)
	bounds.In(&f, "SpareFactor", c.SpareFactor, 0, 1e6)
	bounds.In(&f, "HedgeFactor", c.HedgeFactor, 1, 1e6)
	bounds.In(&f, "TakeoverFactor", c.TakeoverFactor, 1, 1e6)
	bounds.UpToOrOff(&f, "HedgeShare", c.HedgeShare, 1)
	bounds.UpToOrOff(&f, "HedgeFloor", c.HedgeFloor, 1<<50)
	return f.Err()
}

func (c Config) withDefaults() Config {
	bounds.Default(&c.LeaseDuration, 300*time.Second)
	c.Patience = c.Patience.WithDefaults()
	bounds.Default(&c.MaxLeasesPerPeer, 4)
	bounds.Default(&c.MaxSmallLeases, 256)
	bounds.Default(&c.Ahead, 500*time.Millisecond)
	bounds.Default(&c.MaxWindow, 64<<20)
	bounds.Default(&c.MaxMeasuredLeases, 4096)
	bounds.Default(&c.MinPeerScore, 0.2)
	bounds.Default(&c.Explore, 0.05)
	bounds.Default(&c.ShunFor, 30*time.Second)
	bounds.Default(&c.SpareFor, 10*time.Second)
	bounds.Default(&c.SpareFactor, 3)
	bounds.Default(&c.HedgeFactor, 2)
	bounds.Default(&c.TakeoverFactor, 10)
	bounds.Default(&c.HedgeShare, 0.01)
	bounds.Default(&c.HedgeFloor, 16<<20)
	return c
}

// Geometry is what a Manager asks about the share; *share.Layout has it.
type Geometry interface {
	Pieces() int
	Bytes() int64
	PieceLen(share.Piece) int
}

// Plan is what is to be fetched.
type Plan struct {
	Layout   Geometry   // of the share, usually a *share.Layout
	Verified *share.Set // pieces we have; nil: none
	Wanted   *share.Set // pieces to fetch, whether we have them or not; nil: all
	Epoch    uint64     // grows each time the transfer is opened: the upper 24 bits of tokens
	Self     peers.ID   // this node, if it fetches for itself alone: see ours.go
	Seed     uint64     // breaks ties between equally rare pieces
	OnDemand bool       // only what readers will read soon is leased
}
