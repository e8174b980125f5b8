package fetchpool

import (
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Config says how a Pool behaves. The zero value is the default; the defaults
// say where they come from.
type Config struct {
	// FirstWindow is the bytes in flight before anything is measured. Default
	// 256 KiB: a fifth of a second on a line of 10 Mbit/s, and four doublings from
	// one of 200 Mbit/s with 100 ms.
	FirstWindow int
	// MinWindow is the least the window shrinks to. Default 128 KiB: one block on
	// the way and one waiting, so that the slowest source is never without work.
	MinWindow int
	// MaxWindow bounds the bytes in flight. Default 64 MiB: 1 Gbit/s with 400 ms.
	MaxWindow int
	// MaxRequest bounds one request. Default 1 MiB.
	MaxRequest int
	// MaxRequests bounds the requests in flight. Default 512.
	MaxRequests int
	// MaxLeases bounds the leases held. Default 4,096.
	MaxLeases int
	// Turnaround is how long bytes may lie in queues beyond the round trip, for the
	// machines at both ends: a busy one takes that long to turn round. Default 25 ms,
	// and never more than 3 MiB.
	Turnaround time.Duration
	// Recheck is how often the round trip is measured anew on a busy link, with
	// half a window. Default 10 s.
	Recheck time.Duration

	// Patience is how long a source may be silent, beside the time the bytes take.
	Patience peers.Patience

	// RedialMin and RedialMax bound all back-offs. Defaults 1 s and 30 s.
	RedialMin, RedialMax time.Duration
	// DialFor is how long a dial may take before it counts as failed. Default
	// 30 s; the network has its own, shorter time-outs.
	DialFor time.Duration
	// SubscribeFor is how long a source may take to answer a subscription. Default 10 s.
	SubscribeFor time.Duration
	// HoldBusy is the longest wait for a busy source for which idle leases are
	// kept. Default 1 s.
	HoldBusy time.Duration
	// AbsentFor is how long a piece is not asked for again after NOT_FOUND. Default 30 s.
	AbsentFor time.Duration
}

func (c Config) withDefaults() Config {
	bounds.Default(&c.FirstWindow, 256<<10)
	bounds.Default(&c.MinWindow, 128<<10)
	bounds.Default(&c.MaxWindow, 64<<20)
	bounds.Default(&c.MaxRequest, 1<<20)
	bounds.Default(&c.MaxRequests, 512)
	bounds.Default(&c.MaxLeases, 4096)
	bounds.Default(&c.Turnaround, 25*time.Millisecond)
	bounds.Default(&c.Recheck, 10*time.Second)
	c.Patience = c.Patience.WithDefaults()
	bounds.Default(&c.RedialMin, time.Second)
	bounds.Default(&c.RedialMax, 30*time.Second)
	bounds.Default(&c.DialFor, 30*time.Second)
	bounds.Default(&c.SubscribeFor, 10*time.Second)
	bounds.Default(&c.HoldBusy, time.Second)
	bounds.Default(&c.AbsentFor, 30*time.Second)

	// A probe of the round trip halves the window, which must still hold a block.
	c.MinWindow = max(c.MinWindow, 2*share.BlockSize)
	c.MaxWindow = max(c.MaxWindow, c.MinWindow)
	c.FirstWindow = min(max(c.FirstWindow, c.MinWindow), c.MaxWindow)
	c.MaxRequest = max(c.MaxRequest, share.BlockSize)
	c.RedialMax = max(c.RedialMax, c.RedialMin)
	return c
}
