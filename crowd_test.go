package fetcher

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// reads counts the bytes that are read to be sent.
type reads struct {
	p2p.Blocks
	bytes *atomic.Int64
}

func (r reads) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	k, reply := r.Blocks.ReadRun(id, p, first, n, dst)
	r.bytes.Add(int64(k))
	return k, reply
}

// Eight nodes know one source with a slow line and nobody else. They find each
// other through it, and it need not send each of them a copy.
func TestCrowdFeedsItself(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	const children, size = 8, 6 << 20
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, size, 5)
	var sent atomic.Int64
	source := shareOf(t, src, func(c *Config) {
		c.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks { return reads{b, &sent} })
	})
	source.node.SetUploadRate(3e6)
	var all []*Transfer
	for range children {
		x, err := openNode(t).Fetch(t.Context(), source.ID().String(), FetchOptions{Dir: t.TempDir(), Peers: source.node.Addrs()})
		must(t, err)
		all = append(all, x)
	}
	for _, x := range all {
		must(t, x.Wait(t.Context()))
	}
	copies := float64(sent.Load()) / size
	t.Logf("the source sent %.2f copies to %d", copies, children)
	if copies > children/2 {
		t.Errorf("the source sent %.2f copies to %d", copies, children)
	}
}
