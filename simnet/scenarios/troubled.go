package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store/storetest"
)

// troubled are scenarios in which nodes, their disks or their clocks are at fault.
var troubled = []*simnet.Scenario{
	{
		Name: "power-cuts",
		Says: "The fetching node loses power during a sync, again and again, each time during a different one.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 48, 300_000)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			rng := r.Rand("power")
			left, cuts := 4+rng.IntN(10), 0
			x.Disk().Fault = func(op storetest.Op) error {
				if op.Kind != "sync" && op.Kind != "syncdir" && op.Kind != "syncall" && op.Kind != "rename" && op.Kind != "move" || cuts == 12 {
					return nil
				}
				if left--; left > 0 {
					return nil
				}
				left = 5 + rng.IntN(40)
				cuts++
				r.After(0, func() {
					x.PowerOff()
					r.After(500*time.Millisecond, x.Start)
				})
				return storetest.ErrPower
			}
			often := patient() // a sync for each piece or two, so that there is something to cut
			often.SyncEvery, often.SyncBytes = 250*time.Millisecond, 8<<20
			x.FetchWith(c, simnet.FetchOptions{Config: often}, source)
			r.Finally(func() { r.Expect(cuts >= 3, "power cuts: %d; there should be at least 3", cuts) })
		},
	},
	{
		Name: "kills-at-rename",
		Says: "The fetching node is killed when it renames a file, again and again.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 48, 300_000)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			left, kills := 3, 0
			x.Disk().Fault = func(op storetest.Op) error {
				if op.Kind != "rename" && op.Kind != "move" || kills == 8 || left < 0 {
					return nil
				}
				if left--; left > 0 {
					return nil
				}
				left = -1
				kills++
				r.After(0, func() {
					x.Kill()
					r.After(200*time.Millisecond, func() { left = 1 + kills%4; x.Start() })
				})
				if kills%2 == 0 {
					return errKilled
				}
				return nil
			}
			x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
		},
	},
	{
		Name: "one-sync-fails",
		Says: "One sync of the disk fails and throws away what it should have kept.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			n, at := 0, 6+r.Rand("sync").IntN(12)
			x.Disk().Fault = func(op storetest.Op) error {
				if op.Kind == "sync" {
					if n++; n == at {
						return errors.New("input/output error")
					}
				}
				return nil
			}
			x.FetchWith(c, simnet.FetchOptions{MayFail: true}, source)
		},
	},
	{
		Name: "sync-fails-upstream",
		Says: "Syncs of a node fail, so that it loses what it had announced, while two others fetch from it and from each other.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 24*mib)
			line := even(40*simnet.Mbit, 10*time.Millisecond)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: line}).Seed(c)
			middle := r.Add(simnet.NodeConfig{Name: "middle", Line: line})
			syncs, failed := 0, 0
			middle.Disk().Fault = func(op storetest.Op) error {
				if op.Kind != "sync" || !strings.HasPrefix(op.Name, "film.partial/data") {
					return nil
				}
				if syncs++; syncs == 2 || syncs == 4 {
					failed++
					return errors.New("input/output error")
				}
				return nil
			}
			often := patient() // to lose some of what has come, and not all
			often.SyncEvery = time.Duration(800+r.Rand("sync").IntN(400)) * time.Millisecond
			middle.FetchWith(c, simnet.FetchOptions{Config: often}, source)
			var below []*simnet.Fetch
			r.After(time.Second, func() { // when it has something to offer
				for i := range 2 {
					below = append(below, r.Add(simnet.NodeConfig{Name: fmt.Sprint("child", i), Line: line}).Fetch(c, middle))
				}
			})
			r.AtLeast(2 * time.Second)
			r.Finally(func() {
				r.Expect(failed == 2, "syncs that failed: %d, not 2", failed)
				for _, f := range below {
					r.Expect(r.Soon(f.Took(), 15*time.Second), "%s took %v; the line of the node \"middle\" needs 10 s to send the share to both", f.Node().Name(), f.Took())
				}
			})
		},
	},
	{
		Name: "small-disk",
		Says: "The disk fills up before the share is whole; the room that is freed first is too little, and the fetch goes on when there is enough.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			var from []*simnet.Node
			for i := range 3 {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Line: even(20*simnet.Mbit, 10*time.Millisecond)}).Seed(c))
			}
			x := r.Add(simnet.NodeConfig{Name: "node", Disk: 64 * mib})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, from...)
			r.After(700*time.Millisecond, func() { x.Disk().Resize(2 * mib) })
			r.After(13*time.Second, func() { x.Disk().Resize(4 * mib) })
			r.After(33*time.Second, func() { x.Disk().Resize(64 * mib) })
			r.Finally(func() { r.Expect(r.Soon(f.EndedAt(), 50*time.Second), "the fetch ended at %v", f.EndedAt()) })
		},
	},
	{
		Name:  "freezes",
		Says:  "Nodes of a swarm freeze, one after the other, and go on later; some stay frozen for longer than anybody waits.",
		Nodes: 5,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 96, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			all := []*simnet.Node{source}
			for i := range r.Nodes {
				x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i)})
				x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
				all = append(all, x)
			}
			rng := r.Rand("freezes")
			for i, x := range all {
				at := time.Duration(1500+900*i) * time.Millisecond
				r.After(at, x.Freeze)
				r.After(at+time.Duration(500+rng.IntN(60_000))*time.Millisecond, x.Thaw)
			}
			r.Patience(45 * time.Second)
		},
	},
	{
		Name: "clocks-jump",
		Says: "The wall clock of a node jumps an hour ahead and then a day back.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			good := r.Add(simnet.NodeConfig{Name: "good", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			liar := r.Add(simnet.NodeConfig{Name: "liar", Acts: simnet.Liar(1)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.Fetch(c, good, liar)
			r.After(1500*time.Millisecond, func() { x.SetClock(time.Hour) })
			r.After(3*time.Second, func() { x.SetClock(-23 * time.Hour) })
			r.Finally(func() { r.Expect(r.Soon(f.Took(), 20*time.Second), "the fetch took %v", f.Took()) })
		},
	},
	{
		Name: "clocks-drift",
		Says: "The clock of a node is a tenth too fast, that of a source a tenth too slow, and the node remembers across a restart who lied.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			good := r.Add(simnet.NodeConfig{Name: "good", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			liar := r.Add(simnet.NodeConfig{Name: "liar", Acts: simnet.Liar(1)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			good.DriftClock(-100 * time.Millisecond)
			x.DriftClock(100 * time.Millisecond)
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, good, liar)
			r.After(3*time.Second, x.Kill)
			r.After(4*time.Second, x.Start)
			r.Finally(func() { r.Expect(f.EndedAt() < 20*time.Second, "the fetch ended at %v", f.EndedAt()) })
		},
	},
	{
		Name: "many-small-files",
		Says: "A thousand files of four kilobytes from two sources.",
		Set: func(r *simnet.Run) {
			c := r.Folder("source-tree", 1000, 4000)
			a := r.Add(simnet.NodeConfig{Name: "a"}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b", Line: even(20*simnet.Mbit, 50*time.Millisecond)}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, a, b)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 15*time.Second), "the fetch took %v; the line of node a needs 0.4 s", f.Took())
			})
		},
	},
	{
		Name: "two-fetches",
		Says: "A node fetches two shares at once, one from a fast source and one from a slow one, in little memory.",
		Set: func(r *simnet.Run) {
			c, d := r.File("film", 16*mib), r.File("book", 4*mib)
			a := r.Add(simnet.NodeConfig{Name: "fast"}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "slow", Line: even(4*simnet.Mbit, 100*time.Millisecond)}).Seed(d)
			x := r.Add(simnet.NodeConfig{Name: "node", InFlight: 1 << 20, Buffers: 16})
			f, g := x.Fetch(c, a), x.Fetch(d, b)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 10*time.Second), "the film took %v", f.Took())
				r.Expect(r.Soon(g.Took(), 20*time.Second), "the book took %v; its line needs 9 s", g.Took())
			})
		},
	},
	{
		Name: "withdrawn",
		Says: "One of two sources says midway that its files have changed.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			a := r.Add(simnet.NodeConfig{Name: "a", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b"}).Seed(c)
			r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, a, b)
			r.After(800*time.Millisecond, func() { b.Withdraw(c) })
		},
	},
	{
		Name: "all-withdrawn",
		Says: "Both sources say midway that their files have changed; the fetch ends and says so.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			a := r.Add(simnet.NodeConfig{Name: "a", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Want: share.ErrNotFound}, a, b)
			r.After(800*time.Millisecond, func() { b.Withdraw(c) })
			r.After(1200*time.Millisecond, func() { a.Withdraw(c) })
			r.Finally(func() { r.Expect(r.Soon(f.EndedAt(), 5*time.Second), "the fetch ended at %v", f.EndedAt()) })
		},
	},
	{
		Name: "stopped-and-resumed",
		Says: "A fetch is stopped again and again, and each time goes on from what it has.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			for i := range 5 {
				r.After(time.Duration(1500+1500*i)*time.Millisecond, func() { x.Stop() })
				r.After(time.Duration(1700+1500*i)*time.Millisecond, x.Start)
			}
			r.AtLeast(9 * time.Second)
			r.Finally(func() {
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(got < 1.4, "%.2f copies of the share came over the wire", got)
				r.Expect(f.Resumed() > 0, "nothing was resumed")
			})
		},
	},
	{
		Name: "whole-and-back",
		Says: "A node that has fetched the whole share is started again, and serves it when nobody else is left.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 8*mib)
			source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
			first := r.Add(simnet.NodeConfig{Name: "first"})
			first.FetchWith(c, simnet.FetchOptions{Manifest: true}, source) // the manifest is beside what it has fetched
			r.After(4*time.Second, first.Stop)
			r.After(6*time.Second, source.Kill)
			r.After(8*time.Second, first.Start)
			r.AtLeast(11 * time.Second)
			r.After(10*time.Second, func() {
				f := r.Add(simnet.NodeConfig{Name: "second"}).Fetch(c, first)
				r.Finally(func() { r.Expect(f.Took() < 10*time.Second, "the fetch took %v; the line needs 1 s", f.Took()) })
			})
		},
	},
	{
		Name: "edited-partial",
		Says: "A node is killed, and before it starts again somebody changes four bytes of what it had fetched: they are fetched anew, and the changed ones are served to nobody.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			line := even(20*simnet.Mbit, 20*time.Millisecond)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: line}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			child := r.Add(simnet.NodeConfig{Name: "child"})
			edited := false
			r.When(func() bool { return f.Part() >= 0.7 }, func() {
				at := int64(-1)
				for p := range f.Verified().All() { // the first that is there
					at = c.Manifest.Layout().PieceSpan(p).Offset
					break
				}
				x.Kill()
				file, err := x.Disk().FS().Edit("film.partial/data")
				if err == nil {
					_, err = file.WriteAt([]byte("edit"), at+100)
					err = errors.Join(err, file.Close())
				}
				edited = err == nil
				r.Expect(edited, "nothing was edited: %v", err)
				r.After(time.Second, x.Start)
				r.After(2*time.Second, func() { child.FetchWith(c, simnet.FetchOptions{Config: patient()}, x) })
			})
			r.AtLeast(8 * time.Second)
			r.Finally(func() {
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(edited && got < 1.2, "%.2f copies of the share came over the wire", got)
			})
		},
	},
	{
		Name: "no-source",
		Says: "The only source is switched off: the fetch ends and says that there is no connection.",
		Set: func(r *simnet.Run) {
			c := r.File("film", mib)
			source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
			source.PowerOff()
			r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Want: share.ErrNetwork}, source)
		},
	},
	{
		Name: "unknown-share",
		Says: "Every source answers that it does not have the share.",
		Set: func(r *simnet.Run) {
			c := r.File("film", mib)
			a, b := r.Add(simnet.NodeConfig{Name: "a"}), r.Add(simnet.NodeConfig{Name: "b"})
			r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Want: share.ErrNotFound}, a, b)
		},
	},
	{
		Name: "only-liars",
		Says: "Every source lies: the fetch ends and says so.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 8*mib)
			var from []*simnet.Node
			for i, b := range []simnet.Behaviour{simnet.ProofLiar(), simnet.Liar(1), simnet.Shuffler()} {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("bad", i), Acts: b}).Seed(c))
			}
			r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Want: share.ErrLied}, from...)
		},
	},
}

var errKilled = errors.New("killed")
