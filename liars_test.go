package fetcher

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// liar serves a share wrongly in one way; the rest of the node is honest.
type liar struct {
	p2p.Blocks
	layout *share.Layout
	runs   atomic.Int64
	proof  func(p share.Piece, values []share.Hash)
	run    func(l *liar, id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply)
}

func (l *liar) Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply) {
	values, r := l.Blocks.Proof(id, p)
	if l.proof != nil {
		values = append([]share.Hash(nil), values...)
		l.proof(p, values)
	}
	return values, r
}

func (l *liar) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	l.runs.Add(1)
	if l.run != nil {
		return l.run(l, id, p, first, n, dst)
	}
	return l.Blocks.ReadRun(id, p, first, n, dst)
}

// flip returns a run with one wrong bit in every nth.
func flip(nth int64, after int64) func(*liar, share.ID, share.Piece, share.Block, int, []byte) (int, wire.Reply) {
	return func(l *liar, id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
		k, r := l.Blocks.ReadRun(id, p, first, n, dst)
		if at := l.runs.Load(); at > after && at%nth == 0 && k > 0 {
			dst[k/2] ^= 4
		}
		return k, r
	}
}

func TestHonestBytesArriveThoughMostSourcesLie(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 48<<20, 7)
	stuck := make(chan struct{})
	defer close(stuck)
	kinds := map[string]*liar{
		"wrong proof":         {proof: func(_ share.Piece, v []share.Hash) { v[len(v)/2][3] ^= 8 }},
		"a flipped bit":       {run: flip(20, 0)},
		"honest, then lying":  {run: flip(1, 16)},
		"another place":       {run: misplaced},
		"claims all, has few": {run: absent},
		"stops answering": {run: func(l *liar, id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
			if l.runs.Load() > 20 {
				<-stuck
			}
			return l.Blocks.ReadRun(id, p, first, n, dst)
		}},
	}
	honest := shareOf(t, src, func(c *Config) { c.UploadRate = 12e6 })
	peers := honest.node.Addrs()
	names := map[string]string{}
	for name, l := range kinds {
		s := shareOf(t, src, func(c *Config) {
			c.UploadRate = 12e6
			c.P2P.Timeouts.Shutdown = time.Second
			c.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks {
				l.Blocks, l.layout = b, honest.Manifest().Layout()
				return l
			})
		})
		peers = append(peers, s.node.Addrs()...)
		names[string(s.node.ID())] = name
	}
	dir := t.TempDir()
	x, err := openNode(t).Fetch(t.Context(), honest.ID().String(), FetchOptions{Dir: dir, Peers: peers})
	must(t, err)
	var moved time.Time
	for e := range x.Events(t.Context()) {
		switch e := e.(type) {
		case Progress:
			if e.Reason == "" {
				moved = time.Now()
			}
		case Stalled:
			t.Logf("%v: %s", e.For, e.Reason)
			for _, w := range e.Why {
				t.Log("    ", w)
			}
			moved = time.Now()
		}
		if !moved.IsZero() && time.Since(moved) > 20*time.Second {
			t.Errorf("%v without a byte or a reason", time.Since(moved))
		}
	}
	must(t, x.Wait(t.Context()))
	if got, _ := os.ReadFile(filepath.Join(dir, "big.bin")); !bytes.Equal(got, want) {
		t.Error("content differs")
	}
	for _, s := range x.Progress().Sources {
		name := names[string(s.Peer)]
		t.Logf("%-20s %9d bytes, %d bad, banned %v: %s", name, s.Bytes, s.BadBlocks, s.Banned, s.Why)
		switch name {
		case "", "stops answering", "claims all, has few": // none of them sent a wrong byte
			if s.BadBlocks > 0 || s.Banned {
				t.Errorf("%q is blamed", name)
			}
		default:
			if !s.Banned {
				t.Errorf("%q is not banned", name)
			}
		}
	}
}

// misplaced sends a valid block from another place.
func misplaced(l *liar, id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	if n == 1 && int(first)+1 < l.layout.Blocks(p) {
		return l.Blocks.ReadRun(id, p, first+1, 1, dst)
	}
	k, r := l.Blocks.ReadRun(id, p, first, n, dst)
	if n > 1 {
		a, b := dst[:share.BlockSize], dst[share.BlockSize:2*share.BlockSize]
		for i := range min(len(a), len(b)) {
			a[i], b[i] = b[i], a[i]
		}
	}
	return k, r
}

// absent has only every fourth piece, whatever its have-map says.
func absent(l *liar, id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	if p%4 != 0 {
		return 0, wire.Reply{Status: wire.NotFound}
	}
	return l.Blocks.ReadRun(id, p, first, n, dst)
}
