package scenarios

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
)

// hostile are scenarios in which peers are hostile.
var hostile = []*simnet.Scenario{
	{
		Name:  "flood",
		Says:  "Half the nodes of a swarm flood all others with messages.",
		Nodes: 6,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			for i := range r.Nodes {
				cfg := simnet.NodeConfig{Name: fmt.Sprint("node", i)}
				if i%2 == 0 {
					cfg.Acts = simnet.Flooder(1000)
				}
				r.Add(cfg).FetchWith(c, simnet.FetchOptions{MayFail: i%2 == 0}, source)
			}
		},
	},
	{
		Name: "oversize-frames",
		Says: "Of two sources one sends frames larger than allowed, again and again.",
		Only: "the host of a whole node refuses to send frames that are too large",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			good := r.Add(simnet.NodeConfig{Name: "good", Line: even(50*simnet.Mbit, 15*time.Millisecond)}).Seed(c)
			bad := r.Add(simnet.NodeConfig{Name: "bad", Acts: simnet.Oversize()}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, good, bad)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 12*time.Second), "the fetch took %v; the good source alone needs 3 s", f.Took())
			})
		},
	},
	{
		Name: "inventions",
		Says: "A source names peers that do not exist, whose IDs all have the same ending.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			a := r.Add(simnet.NodeConfig{Name: "a", Acts: simnet.Namer(), Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, a)
		},
	},
	{
		Name: "lying-beacon",
		Says: "A beacon introduces liars, peers that have nothing and peers that do not exist; the source alone is honest.",
		Only: "no ticket of these whole nodes names a beacon",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			line := even(20*simnet.Mbit, 20*time.Millisecond)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: line}).Seed(c)
			var liars []*simnet.Node
			var them []peers.ID
			for i, acts := range []simnet.Behaviour{simnet.Liar(1), simnet.ProofLiar(), simnet.Mute(0), simnet.MapLiar()} {
				liar := r.Add(simnet.NodeConfig{Name: fmt.Sprint("liar", i), Acts: acts, Line: line}).Seed(c)
				liars, them = append(liars, liar), append(them, liar.ID())
			}
			them = append(them, r.Add(simnet.NodeConfig{Name: "empty"}).ID())
			beacon := r.Add(simnet.NodeConfig{Name: "beacon", Acts: simnet.Introducer(them...), Deps: func(d *actors.Deps) { d.Beacon = true }})
			x := r.Add(simnet.NodeConfig{Name: "node", Deps: func(d *actors.Deps) { d.Meetings = func() []actors.Meeting { return nil } }})
			f := x.FetchWith(c, simnet.FetchOptions{Beacons: []*simnet.Node{beacon}}, source)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 21*time.Second), "the fetch took %v; the source alone needs 7 s", f.Took())
				in := int64(0)
				for _, l := range liars {
					from, _ := x.Traffic(l.ID())
					in += from
				}
				r.Expect(in > 0, "nobody whom the beacon named was tried")
			})
		},
	},
	{
		Name: "wrong-places",
		Says: "A source names an honest child at a wrong address; a slow source then names it at the right one.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			line := even(1*simnet.Mbit, 5*time.Millisecond)
			bad := r.Add(simnet.NodeConfig{Name: "bad", Acts: simnet.Misplacer(), Line: line}).Seed(c)
			line.Latency = 60 * time.Millisecond
			good := r.Add(simnet.NodeConfig{Name: "good", Line: line}).Seed(c)
			child := r.Add(simnet.NodeConfig{Name: "child", Line: even(50*simnet.Mbit, 10*time.Millisecond)})
			child.Part(c, func(p share.Piece) bool { return p != 3 })
			child.FetchWith(c, simnet.FetchOptions{Manifest: true}, bad, good)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			var f *simnet.Fetch
			r.After(time.Second, func() { f = x.FetchWith(c, simnet.FetchOptions{Manifest: true}, bad, good) })
			r.AtLeast(2 * time.Second)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 30*time.Second), "the fetch took %v; the two sources by themselves would need 67 s", f.Took())
			})
		},
	},
	{
		Name:  "rotten-swarm",
		Says:  "A third of a swarm lies, a third is mute or slow, and nodes of all kinds are killed and started again.",
		Nodes: 12,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			rng := r.Rand("rotten")
			var all []*simnet.Node
			for i := range r.Nodes {
				cfg := simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Up: 20 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: time.Duration(5+rng.IntN(60)) * time.Millisecond}}
				switch i % 3 {
				case 0:
					cfg.Acts = []simnet.Behaviour{simnet.Liar(0.3), simnet.ProofLiar(), simnet.LateLiar(5), simnet.Shuffler(), simnet.MapLiar(), simnet.Garbler(0.05)}[rng.IntN(6)]
				case 1:
					cfg.Acts = []simnet.Behaviour{simnet.Mute(0), simnet.Mute(mib), simnet.Trickle(2000), {}}[rng.IntN(4)]
				}
				x := r.Add(cfg)
				x.FetchWith(c, simnet.FetchOptions{Config: patient(), MayFail: i%3 == 0}, source)
				all = append(all, x)
			}
			for range 6 {
				x := all[rng.IntN(len(all))]
				at := time.Duration(1000+rng.IntN(8000)) * time.Millisecond
				r.After(at, x.Kill)
				r.After(at+time.Duration(rng.IntN(4000))*time.Millisecond, x.Start)
			}
			r.Patience(45 * time.Second)
		},
	},
	{
		Name: "two-faced",
		Says: "A source lies to one of two nodes and to nobody else: that one bans it, and the other goes on with it.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			line := even(20*simnet.Mbit, 20*time.Millisecond)
			good := r.Add(simnet.NodeConfig{Name: "good", Line: line}).Seed(c)
			bad := r.Add(simnet.NodeConfig{Name: "bad", Line: line}).Seed(c)
			a, b := r.Add(simnet.NodeConfig{Name: "a"}), r.Add(simnet.NodeConfig{Name: "b"})
			bad.Become(simnet.Behaviour{Name: "lies to node a", Block: func(to peers.ID, _ share.Piece, _ share.Block, data []byte, _ *rand.Rand) {
				if to == a.ID() {
					data[0] ^= 1
				}
			}})
			alone := simnet.FetchOptions{Config: actors.TransferConfig{Verifiers: 2, Anonymous: true}} // they do not learn of each other
			f, g := a.FetchWith(c, alone, good, bad), b.FetchWith(c, alone, good, bad)
			r.Finally(func() {
				r.Expect(sourceIn(f, bad).Banned && sourceIn(f, bad).BadBlocks > 0, "node a does not say that the liar lied to it")
				r.Expect(!sourceIn(g, bad).Banned && sourceIn(g, bad).BadBlocks == 0, "node b says that the liar lied to it, and it did not: %s", sourceIn(g, bad).Lie)
				r.Expect(sourceIn(g, bad).Bytes > 4*mib, "node b took only %d bytes from the liar, which did not lie to it", sourceIn(g, bad).Bytes)
			})
		},
	},
	badDay,
	muteSources,
	greedyChild,
	deafChildren,
	{
		Name: "garbled",
		Says: "Of two sources one garbles a part of its messages.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			a := r.Add(simnet.NodeConfig{Name: "a", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b", Acts: simnet.Garbler(0.5)}).Seed(c)
			r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, a, b)
		},
	},
	{
		Name: "liar-then-slow",
		Says: "Liars that are fast, and an honest source that is rate limited and far away.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 12*mib)
			var from []*simnet.Node
			for i, b := range []simnet.Behaviour{simnet.Liar(1), simnet.ProofLiar(), simnet.LateLiar(3), simnet.Claimer()} {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("bad", i), Acts: b, Line: even(200*simnet.Mbit, 2*time.Millisecond)}).Seed(c))
			}
			honest := r.Add(simnet.NodeConfig{Name: "honest", Line: even(100*simnet.Mbit, 60*time.Millisecond)}).Seed(c)
			honest.SetUploadRate(1_000_000)
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, append(from, honest)...)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 25*time.Second), "the fetch took %v; the honest source alone needs 13 s", f.Took())
			})
		},
	},
}

// badDay is everything at once. It fails if what a kill left of unfinished pieces
// is counted both as room taken and as room needed.
var badDay = &simnet.Scenario{
	Name: "bad-day",
	Says: "Half the sources lie, one stalls, the disk has just enough room for the share, and the node is killed twice; the disk of another fills up.",
	Set: func(r *simnet.Run) {
		c := r.File("film", 24*mib)
		rng := r.Rand("bad day")
		line := func() simnet.Line {
			return even(20*simnet.Mbit, time.Duration(5+rng.IntN(60))*time.Millisecond)
		}
		var from []*simnet.Node
		for i, acts := range []simnet.Behaviour{simnet.Liar(0.3), simnet.ProofLiar(), simnet.LateLiar(4), simnet.Shuffler(), {}, {}, {}, {}} {
			from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Acts: acts, Line: line()}).Seed(c))
		}
		stalled := from[len(from)-1]
		r.After(time.Duration(200+rng.IntN(1500))*time.Millisecond, stalled.Freeze)
		rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })

		x := r.Add(simnet.NodeConfig{Name: "node", Disk: c.Bytes() + 2*mib})
		f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, from...)
		kills := 0
		for _, part := range []float64{0.1 + 0.3*rng.Float64(), 0.5 + 0.4*rng.Float64()} {
			down := time.Duration(100+rng.IntN(3000)) * time.Millisecond
			r.When(func() bool { return f.Part() >= part }, func() {
				x.Kill()
				kills++
				r.After(down, x.Start)
			})
		}

		y := r.Add(simnet.NodeConfig{Name: "full", Disk: c.Bytes() + 2*mib})
		g := y.FetchWith(c, simnet.FetchOptions{Config: actors.TransferConfig{Verifiers: 2, Stall: 20 * time.Second}, Want: share.ErrDiskFull}, from...)
		r.When(func() bool { return g.Part() >= 0.3 }, func() { y.Disk().Resize(0) })
		r.Patience(45 * time.Second)
		r.Finally(func() {
			r.Expect(kills == 2, "times that the node was killed: %d, not 2", kills)
			r.Expect(r.Soon(f.EndedAt(), 90*time.Second), "the fetch ended at %v", f.EndedAt())
			done, err := g.Done()
			r.Expect(done && errors.Is(err, share.ErrDiskFull), "the fetch on the disk that fills up has ended: %v; what went wrong: %v", done, orNothing(err))
		})
	},
}

// muteSources is about places of sources: see peers.Tiers.
var muteSources = &simnet.Scenario{
	Name:  "mute-sources",
	Says:  "A node may fetch from only so many sources at once, and the first that it knows take all the places and send nothing, or next to nothing; four good ones wait behind them.",
	Nodes: 12,
	Set: func(r *simnet.Run) {
		c := r.File("film", 16*mib)
		line := even(20*simnet.Mbit, 15*time.Millisecond)
		var from []*simnet.Node
		for i := range r.Nodes {
			acts := simnet.Mute(0)
			if i%3 == 0 {
				acts = simnet.Trickle(2000)
			}
			from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("mute", i), Acts: acts, Line: line}).Seed(c))
		}
		for i := range 4 {
			from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("good", i), Line: line}).Seed(c))
		}
		cfg := actors.TransferConfig{Verifiers: 2, Anonymous: true, MaxSources: r.Nodes}
		f := r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Config: cfg, Manifest: true}, from...)
		r.Finally(func() {
			r.Expect(r.Soon(f.Took(), 25*time.Second), "the fetch took %v; a good source gets its place after 10 s, and needs 7 s from then on", f.Took())
		})
	},
}

// greedyChild is about shares of a limited upload rate.
var greedyChild = &simnet.Scenario{
	Name: "greedy-child",
	Says: "Of four children of a source with a limited upload, one asks a hundred times as hard as the others.",
	Only: "a node bypasses its own program and asks over links of its own",
	Set: func(r *simnet.Run) {
		const rate, from, until = 1_000_000, 5 * time.Second, 65 * time.Second
		c := r.File("film", 16*mib)
		source := r.Add(simnet.NodeConfig{Name: "source", Line: even(200*simnet.Mbit, 5*time.Millisecond)}).Seed(c)
		source.SetUploadRate(rate)
		alone := simnet.FetchOptions{Config: actors.TransferConfig{Verifiers: 2, Anonymous: true}} // they do not learn of each other
		var children []*simnet.Node
		for i := range 3 {
			x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("child", i), NAT: true})
			x.FetchWith(c, alone, source)
			children = append(children, x)
		}
		greedy := r.Add(simnet.NodeConfig{Name: "greedy", NAT: true})
		stop := greedy.Grab(c, source, 100)
		if !r.Modelled() {
			greedy.FetchWith(c, alone, source)
		}
		children = append(children, greedy)
		before := make([]int64, len(children))
		r.After(from, func() {
			for i, x := range children {
				before[i] = x.Received()
			}
		})
		r.After(until, func() {
			all := rate * (until - from).Seconds()
			for i, x := range children {
				got := float64(x.Received()-before[i]) / all
				r.Timeline().Note("%s got %.3f of the upload", x.Name(), got)
				r.Expect(got > 0.2 && got < 0.3, "%s got %.3f of the upload of the source", x.Name(), got)
			}
			stop()
			source.SetUploadRate(0)
		})
	},
}

// deafChildren is about slots for uploads.
var deafChildren = &simnet.Scenario{
	Name: "deaf-children",
	Says: "Eight nodes ask a source for all they can and read none of its replies; meanwhile two honest ones fetch, one over a slow line.",
	Only: "nodes bypass their own programs and ask over links of their own",
	Set: func(r *simnet.Run) {
		c := r.File("film", 8*mib)
		book := r.File("book", 96<<10)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c).Seed(book)
		for i := range 8 {
			deaf := r.Add(simnet.NodeConfig{Name: fmt.Sprint("deaf", i), Acts: simnet.Deaf()})
			stop := deaf.Grab(c, source, 4)
			r.After(35*time.Second, stop)
		}
		var f *simnet.Fetch
		r.After(time.Second, func() { f = r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, source) })
		slow := r.Add(simnet.NodeConfig{Name: "slow", Line: even(1000, 100*time.Millisecond)})
		g := slow.FetchWith(book, simnet.FetchOptions{Config: patient()}, source)
		r.Patience(100 * time.Second) // a block takes 65 s
		r.AtLeast(2 * time.Second)
		r.Finally(func() {
			r.Expect(r.Soon(f.Took(), 12*time.Second), "the fetch took %v; the source's line needs 6 s to send the film to all nine", f.Took())
			r.Expect(r.Soon(g.Took(), 150*time.Second), "the slow node took %v; its line needs 98 s", g.Took())
		})
	},
}
