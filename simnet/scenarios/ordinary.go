package scenarios

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
)

const mib = 1 << 20

// besideGood is a scenario of two sources, a good one and another.
func besideGood(name, says string, other simnet.NodeConfig) *simnet.Scenario {
	return &simnet.Scenario{Name: name, Says: says, Set: func(r *simnet.Run) {
		c := r.File("film", 16*mib)
		good := r.Add(simnet.NodeConfig{Name: "good", Line: even(50*simnet.Mbit, 15*time.Millisecond)}).Seed(c)
		bad := r.Add(other).Seed(c)
		f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, good, bad)
		r.Finally(func() {
			r.Expect(r.Soon(f.Took(), 15*time.Second), "the fetch took %v; the good source alone needs 3 s", f.Took())
		})
	}}
}

// ordinary are scenarios of what happens every day, and of what is asked of every
// fetch.
var ordinary = []*simnet.Scenario{
	{
		Name: "one-source",
		Says: "One node fetches a share from one source.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib+5)
			source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, source)
			r.Finally(func() { r.Expect(r.Soon(f.Took(), 6*time.Second), "the fetch took %v; the line needs 1.4 s", f.Took()) })
		},
	},
	{
		Name: "many-shares",
		Says: "One node fetches 110 small shares at once from one source, to which it may not have that many links: some wait for others, and none is refused.",
		Set: func(r *simnet.Run) {
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(1.25*simnet.Mbit, 20*time.Millisecond)})
			x := r.Add(simnet.NodeConfig{Name: "node"})
			r.Patience(4 * time.Minute) // longer than a stalled fetch goes on
			for i := range 110 {
				c := r.File(fmt.Sprint("film", i), 100<<10+i)
				source.Seed(c)
				x.Fetch(c, source)
			}
			// Of 64 that wait for one slow line at once, one or two may be silent for too long.
			r.Finally(func() { r.Expect(!r.Modelled() || r.Links() <= 112, "%d links were made for 110 shares", r.Links()) })
		},
	},
	{
		Name:   "mixed-speeds",
		Says:   "One node fetches from many sources, the fastest a hundred times faster than the slowest.",
		Nodes:  20,
		Fewest: 2,
		Set: func(r *simnet.Run) {
			c := r.File("film", 48*mib)
			var sources []*simnet.Node
			for i := range r.Nodes {
				rate := 0.3 * simnet.Mbit * float64(int(1)<<(i%8))
				sources = append(sources, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i),
					Line: even(rate, time.Duration(5+i*7)*time.Millisecond)}).Seed(c))
			}
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.Fetch(c, sources...)
			r.Finally(func() {
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(got < 1.06, "%.3f copies of the share came over the wire", got)
			})
		},
	},
	{
		Name: "liars-mute-honest",
		Says: "Five liars of different kinds, a source that falls silent and one honest source of moderate speed.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			var from []*simnet.Node
			for i, b := range []simnet.Behaviour{simnet.ProofLiar(), simnet.Liar(0.05), simnet.Shuffler(), simnet.Claimer(), simnet.LateLiar(12), simnet.Mute(2 * mib)} {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("bad", i), Acts: b}).Seed(c))
			}
			from = append(from, r.Add(simnet.NodeConfig{Name: "honest", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c))
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			r.Finally(func() { r.Expect(r.Soon(f.Took(), 40*time.Second), "the fetch took %v", f.Took()) })
		},
	},
	{
		Name:   "half-lie",
		Says:   "Half of the sources lie, each in its own way.",
		Nodes:  10,
		Fewest: 2,
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			var from []*simnet.Node
			for i := range r.Nodes {
				cfg := simnet.NodeConfig{Name: fmt.Sprint("source", i), Line: even(20*simnet.Mbit, 20*time.Millisecond)}
				if i%2 == 0 {
					cfg.Acts = []simnet.Behaviour{simnet.ProofLiar(), simnet.Liar(0.2), simnet.Liar(1), simnet.Claimer(), simnet.LateLiar(4), simnet.Shuffler(), simnet.MapLiar()}[i/2%7]
				}
				from = append(from, r.Add(cfg).Seed(c))
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			r.Finally(func() { r.Expect(r.Soon(f.Took(), 40*time.Second), "the fetch took %v", f.Took()) })
		},
	},
	{
		Name:  "one-honest",
		Says:  "One honest source among liars.",
		Nodes: 10,
		Set: func(r *simnet.Run) {
			c := r.File("film", 12*mib)
			var from []*simnet.Node
			for i := range r.Nodes {
				cfg := simnet.NodeConfig{Name: fmt.Sprint("source", i)}
				if i > 0 {
					cfg.Acts = []simnet.Behaviour{simnet.Liar(1), simnet.ProofLiar(), simnet.Liar(0.1), simnet.Claimer(), simnet.LateLiar(3), simnet.Shuffler(), simnet.MapLiar(), simnet.Garbler(0.2), simnet.Oversize()}[i%9]
				} else {
					cfg.Line = even(20*simnet.Mbit, 30*time.Millisecond)
				}
				from = append(from, r.Add(cfg).Seed(c))
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			r.Finally(func() { r.Expect(r.Soon(f.Took(), 40*time.Second), "the fetch took %v", f.Took()) })
		},
	},
	besideGood("one-silent", "Of two sources one accepts everything and never answers a request.", simnet.NodeConfig{Name: "mute", Acts: simnet.Mute(0)}),
	{
		Name:  "flash-crowd",
		Says:  "A crowd knows only the ticket of one source, and feeds itself through the children that the source names.",
		Nodes: 50,
		Set:   func(r *simnet.Run) { crowd(r, false) },
	},
	{
		Name:  "flash-crowd-leaving",
		Says:  "A crowd feeds itself, as in flash-crowd, but each node leaves as soon as it has the share.",
		Nodes: 20,
		Set:   func(r *simnet.Run) { crowd(r, true) },
	},
	{
		Name:  "source-leaves",
		Says:  "The source leaves when the nodes of a crowd hold every piece between them.",
		Nodes: 6,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 96, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			var all []*simnet.Fetch
			for i := range r.Nodes {
				all = append(all, r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i)}).Fetch(c, source))
			}
			r.When(func() bool { return covered(c, all) }, source.Kill)
		},
	},
	{
		Name:   "missing-piece",
		Says:   "The swarm lacks one piece, says so, and completes when somebody brings it.",
		Nodes:  4,
		Fewest: 2,
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			var from []*simnet.Node
			for i := range r.Nodes {
				x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("part", i)})
				x.Part(c, func(p share.Piece) bool { return p != 7 && (int(p)+i)%2 == 0 })
				from = append(from, x)
			}
			for i, x := range from {
				x.FetchWith(c, simnet.FetchOptions{Manifest: true}, append(append([]*simnet.Node(nil), from[:i]...), from[i+1:]...)...)
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			late := r.Add(simnet.NodeConfig{Name: "late"})
			said := false
			r.After(40*time.Second, func() {
				for _, w := range f.Stalled().Why {
					said = said || len(f.Stalled().Why) == 1 && w != ""
				}
				late.Part(c, func(p share.Piece) bool { return p == 7 })
				late.Fetch(c, from...) // it is named to the others as one more child
			})
			r.Finally(func() { r.Expect(said, "the missing piece was not named: %v", f.Stalled()) })
		},
	},
	{
		Name:  "restarts",
		Says:  "Every peer of a swarm is killed and started again once, one after the other.",
		Nodes: 5,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 96, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			all := []*simnet.Node{source}
			for i := range r.Nodes {
				x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i)})
				x.Fetch(c, source)
				all = append(all, x)
			}
			for i, x := range all {
				r.After(time.Duration(1500+700*i)*time.Millisecond, x.Kill)
				r.After(time.Duration(3000+700*i)*time.Millisecond, x.Start)
			}
		},
	},
	{
		Name: "partition-at-99",
		Says: "The only source is cut off when nearly all of the share is there, and comes back a minute and a half later.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 48*mib)
			source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			var cut time.Duration
			r.When(func() bool { return f.Part() >= 0.97 }, func() {
				heal := r.Partition([]*simnet.Node{source}, []*simnet.Node{x})
				cut = r.Elapsed()
				r.After(90*time.Second, heal)
			})
			r.Patience(45 * time.Second) // a redial comes after 30 s at most, and may itself take ten
			r.Finally(func() {
				r.Expect(r.Soon(f.EndedAt()-cut, 130*time.Second), "the fetch ended %v after the cut", f.EndedAt()-cut)
			})
		},
	},
	{
		Name: "last-holder-stalls",
		Says: "Of two sources the faster falls silent when only a few pieces are left, and these are leased to it.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			fast := r.Add(simnet.NodeConfig{Name: "fast"}).Seed(c)
			slow := r.Add(simnet.NodeConfig{Name: "slow", Line: even(10*simnet.Mbit, 30*time.Millisecond)}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, fast, slow)
			var at time.Duration
			r.When(func() bool { return f.Part() >= 0.9 }, func() { at = r.Elapsed(); fast.Become(simnet.Mute(0)) })
			r.Finally(func() {
				r.Expect(r.Soon(f.EndedAt()-at, 15*time.Second), "the fetch took %v after the fast source fell silent", f.EndedAt()-at)
			})
		},
	},
	{
		Name: "slow-but-honest",
		Says: "Only slow sources far away, and none is given up.",
		Set: func(r *simnet.Run) {
			c := r.File("book", 3*mib)
			var from []*simnet.Node
			for i := range 3 {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("slow", i), Line: simnet.Line{Up: 12e3, Down: 12e3, Latency: 200 * time.Millisecond, Jitter: 100 * time.Millisecond}}).Seed(c))
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 150*time.Second), "the fetch took %v; the lines need 87 s", f.Took())
			})
		},
	},
	besideGood("trickle", "Of two sources one sends a kilobyte per second on each stream.", simnet.NodeConfig{Name: "slow", Acts: simnet.Trickle(1000)}),
	{
		Name: "disk-full",
		Says: "The disk fills up midway; the fetch waits, says so, and goes on when there is room.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(50*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node", Disk: 64 * mib})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			r.After(1500*time.Millisecond, func() { x.Disk().Resize(0) })
			said := false
			r.After(20*time.Second, func() {
				said = f.Progress().Reason != ""
				x.Disk().Resize(64 * mib)
			})
			r.Finally(func() {
				r.Expect(said, "the wait was not explained")
				got := float64(x.Received()) / float64(c.Bytes())
				r.Expect(got < 1.5, "%.2f copies of the share came over the wire; the disk was full for a time", got)
				r.Expect(r.Soon(f.EndedAt(), 40*time.Second), "the fetch ended at %v", f.EndedAt())
			})
		},
	},
}

// crowd is a flash crowd.
func crowd(r *simnet.Run, leaving bool) {
	c := r.Folder("photos", 96, 128<<10)
	source := r.Add(simnet.NodeConfig{Name: "source", Line: even(50*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
	rng := r.Rand("crowd")
	for i := range r.Nodes {
		x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Up: 20 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: time.Duration(5+rng.IntN(50)) * time.Millisecond}})
		r.After(time.Duration(rng.IntN(2000))*time.Millisecond, func() { x.FetchWith(c, simnet.FetchOptions{Leave: leaving}, source) })
	}
	r.AtLeast(2 * time.Second)
	r.Finally(func() {
		copies := float64(source.Sent()) / float64(c.Bytes())
		r.Timeline().Note("the source sent %.2f copies", copies)
		most := 2.0
		if r.Nodes < 16 { // too few to pass pieces on
			most = 3
		}
		r.Expect(copies <= most, "the source sent %.2f copies of the share to %d nodes", copies, r.Nodes)
	})
}

// covered says whether running fetches hold every piece between them.
func covered(c *simnet.Content, all []*simnet.Fetch) bool {
	have := share.NewSet(c.Manifest.Layout().Pieces())
	for _, f := range all {
		if got := f.Verified(); got != nil {
			have.Union(got)
		}
	}
	return have.Full()
}
