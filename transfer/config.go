package transfer

import (
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Config is how one transfer behaves. The zero value works.
type Config struct {
	// Stall is how long a transfer goes on without a verified byte; default 60 s.
	Stall time.Duration
	// SyncEvery and SyncBytes bound how much can be lost to a power cut: data is
	// synced, then committed, after that time or that many bytes. Defaults 2 s
	// and 256 MiB; the end of the process, kill -9 included, costs less, see package store.
	SyncEvery time.Duration
	SyncBytes int64
	// Verifiers is the number of PieceVerifier actors; default GOMAXPROCS, or the number of cores if that is less.
	Verifiers int
	// MaxSources bounds how many sources are fetched from at once; default 64.
	MaxSources int
	// Anonymous keeps this node from being named to others as a source.
	Anonymous bool
	// Keep says that the share is still served once what is wanted of it is here, until it
	// is withdrawn. The sources are told of that, unless Anonymous is set.
	Keep bool
	// OnDemand says that only what readers will read soon is fetched. Time during which
	// no reader waits does not count as a stall.
	OnDemand bool
	// Called says that a source may connect to this node that nobody has named: the transfer goes on without a source
	// until it stalls.
	Called bool
	// Leases is the configuration of the lease manager.
	Leases leasemgr.Config
	// WatchLeases reports each grant and end of a lease, as a LeaseEvent.
	WatchLeases bool
	// Fleet is how the transfer takes part in a fleet.
	Fleet Fleet
}

// Fleet is how a transfer takes part in a fleet. The zero value does not.
type Fleet struct {
	// Coordinator is the node to lease from; it may be this one. With Secret it is the elected
	// node, and this node must be able to take part in elections.
	Coordinator peers.Addr
	Secret      fleet.Secret
	// Alone is the time without the coordinator, or with it but without a verified
	// byte, after which the transfer goes on by itself, as one without a fleet, until
	// it joins again. 0 is never: it waits.
	Alone time.Duration
}

// Used says whether there is a fleet.
func (f Fleet) Used() bool { return f.Coordinator.ID != "" || f.Secret != "" }

func (c Config) withDefaults() Config {
	bounds.Default(&c.Stall, time.Minute)
	bounds.Default(&c.SyncEvery, 2*time.Second)
	bounds.Default(&c.SyncBytes, 256<<20)
	bounds.Default(&c.Verifiers, 1)
	bounds.Default(&c.MaxSources, 64)
	return c
}

// Fetch is what is to be fetched.
type Fetch struct {
	Share    share.ID
	Self     peers.ID        // this node
	Sources  []peers.Addr    // to begin with
	Manifest *share.Manifest // nil: to be asked for
}
