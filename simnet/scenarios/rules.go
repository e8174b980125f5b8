package scenarios

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store/storetest"
)

// rules are scenarios of one rule each: rare pieces go first, a ban outlives a restart,
// what was kept stays, and so on. Without that rule they do not hold.
var rules = []*simnet.Scenario{
	{
		Name: "rare-pieces",
		Says: "A source comes late, with two pieces that no other source has: they are fetched before the others.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			rare := func(p share.Piece) bool { return p%16 == 5 }
			line := even(8*simnet.Mbit, 20*time.Millisecond)
			var from []*simnet.Node
			for i := range 4 {
				x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("part", i), Line: line})
				x.Part(c, func(p share.Piece) bool { return !rare(p) })
				from = append(from, x)
			}
			for i, x := range from {
				x.FetchWith(c, simnet.FetchOptions{Manifest: true}, from[(i+1)%len(from)])
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Manifest: true}, from...)
			alone := r.Add(simnet.NodeConfig{Name: "alone", Line: even(40*simnet.Mbit, 20*time.Millisecond)})
			alone.Part(c, func(p share.Piece) bool { return p%2 == 1 })
			r.After(time.Second, func() { alone.FetchWith(c, simnet.FetchOptions{Manifest: true}, from[0]) })
			r.When(func() bool { return f.Part() >= 0.6 }, func() {
				got := f.Verified()
				for p := range share.FullSet(got.Len()).All() {
					r.Expect(!rare(p) || got.Has(p), "piece %d, which only one source has, did not come among the first", p)
				}
			})
		},
	},
	{
		Name: "ban-outlives-restart",
		Says: "A node that was lied to is started anew, and takes nothing from the liar any more.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			good := r.Add(simnet.NodeConfig{Name: "good", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			liar := r.Add(simnet.NodeConfig{Name: "liar", Acts: simnet.Liar(1)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.FetchWith(c, simnet.FetchOptions{Config: patient()}, good, liar)
			var sent int64
			r.After(4*time.Second, x.Stop)
			r.After(5*time.Second, func() {
				sent = liar.Sent()
				x.Start()
			})
			r.AtLeast(6 * time.Second)
			r.Finally(func() {
				more := liar.Sent() - sent
				r.Expect(more < 128<<10, "the liar was asked again, and sent %d bytes", more)
			})
		},
	},
	{
		Name: "kills-lose-little",
		Says: "A node is killed again and again; nearly all that it had is still there.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 48*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			rare := patient() // hardly ever a sync: only what was noted is left
			rare.SyncEvery, rare.SyncBytes = time.Minute, 1<<40
			x.FetchWith(c, simnet.FetchOptions{Config: rare}, source)
			for i := range 5 {
				r.After(time.Duration(2500+2500*i)*time.Millisecond, x.Kill)
				r.After(time.Duration(2600+2500*i)*time.Millisecond, x.Start)
			}
			r.Finally(func() {
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(got < 1.6, "%.2f copies of the share came over the wire", got)
			})
		},
	},
	{
		Name: "power-cuts-lose-little",
		Says: "A node loses power again and again; what is more than a few seconds old is still there.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(16*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			for i := range 5 {
				r.After(time.Duration(6+6*i)*time.Second, x.PowerOff)
				r.After(time.Duration(6+6*i)*time.Second+500*time.Millisecond, x.Start)
			}
			r.Finally(func() {
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(got < 1.9, "%.2f copies of the share came over the wire", got)
			})
		},
	},
	{
		Name: "power-cuts-unsynced",
		Says: "A node that hardly ever syncs loses power: what it had noted as verified, and not synced, is not believed.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			rare := patient()
			rare.SyncEvery, rare.SyncBytes = time.Minute, 1<<40
			x.FetchWith(c, simnet.FetchOptions{Config: rare}, source)
			for i := range 4 {
				r.After(time.Duration(2500+3000*i)*time.Millisecond, x.PowerOff)
				r.After(time.Duration(3000+3000*i)*time.Millisecond, x.Start)
			}
		},
	},
	{
		Name: "upload-limit",
		Says: "A source with a limit keeps to it, and shares it fairly between two who cannot reach each other.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 8*mib)
			source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
			source.SetUploadRate(1_000_000)
			a := r.Add(simnet.NodeConfig{Name: "a", NAT: true}).Fetch(c, source)
			var b *simnet.Fetch
			y := r.Add(simnet.NodeConfig{Name: "b", NAT: true, Line: even(50*simnet.Mbit, 60*time.Millisecond)})
			r.After(time.Second, func() { b = y.Fetch(c, source) })
			r.AtLeast(2 * time.Second)
			r.Finally(func() {
				r.Expect(b.EndedAt() > 16*time.Second && r.Soon(b.EndedAt(), 24*time.Second), "the second fetch ended at %v; at the limit it takes 17 s", b.EndedAt())
				r.Expect(min(a.Took(), b.Took())*5 > max(a.Took(), b.Took())*4, "one took %v, the other %v", a.Took(), b.Took())
			})
		},
	},
	{
		Name:      "sources-slow-down",
		Says:      "Half of the sources become a hundred times slower while pieces are leased to them: the others are asked for these pieces as well.",
		Duplicate: 0.05,
		Set: func(r *simnet.Run) {
			c := r.File("film", 48*mib)
			var from []*simnet.Node
			for i := range 8 {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c))
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			r.When(func() bool { return f.Part() >= 0.5 }, func() {
				for _, x := range from[:4] {
					x.SetLine(even(0.2*simnet.Mbit, 20*time.Millisecond))
				}
			})
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 8*time.Second), "the fetch took %v; the fast sources need 5 s", f.Took())
			})
		},
	},
	{
		Name: "lies-at-the-end",
		Says: "A source lies in the last block of each piece and nowhere else.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib+5)
			l := c.Manifest.Layout()
			liar := simnet.Behaviour{Name: "lies at the end", Block: func(_ peers.ID, p share.Piece, first share.Block, data []byte, _ *rand.Rand) {
				if int(first)*share.BlockSize+len(data) == l.PieceLen(p) {
					data[len(data)-1] ^= 1
				}
			}}
			good := r.Add(simnet.NodeConfig{Name: "good", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			bad := r.Add(simnet.NodeConfig{Name: "bad", Acts: liar}).Seed(c)
			r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, good, bad)
		},
	},
	{
		Name: "short-queues",
		Says: "A source becomes four times slower: less is then asked of it at a time, so that nothing waits long.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.Fetch(c, source)
			r.After(6*time.Second, func() {
				source.SetLine(even(5*simnet.Mbit, 20*time.Millisecond))
			})
			look := func(most int64) {
				bytes, _ := x.InFlight()
				r.Expect(bytes <= most, "%d bytes are asked for at once", bytes)
			}
			r.After(5*time.Second, func() { look(2 * mib) })
			r.After(14*time.Second, func() { look(mib / 2) })
		},
	},
	{
		Name: "resets",
		Says: "The connection to the only source is reset again and again: leases come back at once, and none has to run out.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node", InFlight: mib, Buffers: 16}).FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			for i := range 8 {
				at := time.Duration(1500+1500*i) * time.Millisecond
				r.After(at, source.Kill)
				r.After(at+20*time.Millisecond, source.Start)
			}
			r.Finally(func() {
				r.Expect(f.Revoked() == 0, "leases that had to be taken back: %d", f.Revoked())
				r.Expect(r.Soon(f.Took(), 40*time.Second), "the fetch took %v; the line needs 14 s", f.Took())
			})
		},
	},
	{
		Name: "joins-early",
		Says: "Two nodes, one with the list of files and one without, know only a third node, which does not have the list yet: both are told to come again, and both do.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 8*mib)
			far := r.Add(simnet.NodeConfig{Name: "far", Line: even(20*simnet.Mbit, 400*time.Millisecond)}).Seed(c)
			middle := r.Add(simnet.NodeConfig{Name: "middle"})
			middle.Fetch(c, far)
			for _, name := range []string{"knows", "asks"} {
				f := r.Add(simnet.NodeConfig{Name: name}).FetchWith(c, simnet.FetchOptions{Manifest: name == "knows"}, middle)
				r.Finally(func() { r.Expect(r.Soon(f.Took(), 30*time.Second), "%s took %v", name, f.Took()) })
			}
		},
	},
	{
		Name: "pieces-lost",
		Says: "The disk takes the bytes of a file and loses them at a sync: they are fetched again, and nothing else is.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			n, at := 0, 1+r.Rand("sync").IntN(2)
			x.Disk().Fault = func(op storetest.Op) error {
				if op.Kind == "sync" && strings.HasSuffix(op.Name, ".partial/data") {
					if n++; n == at {
						return errors.New("input/output error")
					}
				}
				return nil
			}
			x.Fetch(c, source)
			r.Finally(func() {
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(n >= at, "no sync failed")
				r.Expect(got < 1.7, "%.2f copies of the share came over the wire", got)
			})
		},
	},
	{
		Name: "many-announcements",
		Says: "For a minute, a node that fetches slowly tells another every tenth of a second what it has.",
		Set: func(r *simnet.Run) {
			c := r.Folder("source-tree", 900, 16000)
			slow := r.Add(simnet.NodeConfig{Name: "slow", Line: even(2*simnet.Mbit, 30*time.Millisecond)}).Seed(c)
			middle := r.Add(simnet.NodeConfig{Name: "middle"})
			f := middle.Fetch(c, slow)
			var last *simnet.Fetch
			r.After(2*time.Second, func() { last = r.Add(simnet.NodeConfig{Name: "last"}).Fetch(c, middle) })
			r.AtLeast(3 * time.Second)
			r.Finally(func() {
				r.Expect(r.Soon(last.EndedAt()-f.EndedAt(), 3*time.Second), "the node \"last\" was done %v after the node \"middle\"", last.EndedAt()-f.EndedAt())
			})
		},
	},
}
