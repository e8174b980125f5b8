package scenarios

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/simnet"
)

// networks are scenarios in which the network is at fault.
var networks = []*simnet.Scenario{
	{
		Name:  "rolling-partitions",
		Says:  "A swarm is cut into two halves again and again, different halves each time.",
		Nodes: 8,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 96, 256<<10)
			all := swarm(r, c)
			rng := r.Rand("partitions")
			rounds := 0
			r.Every(3*time.Second, func() bool {
				var halves [2][]*simnet.Node
				for _, x := range all {
					k := rng.IntN(2)
					halves[k] = append(halves[k], x)
				}
				heal := r.Partition(halves[0], halves[1])
				r.After(time.Duration(500+rng.IntN(20_000))*time.Millisecond, heal)
				rounds++
				return rounds < 8
			})
		},
	},
	{
		Name:  "asymmetric-cuts",
		Says:  "Again and again one direction between two nodes of a swarm is cut for a while.",
		Nodes: 5,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 96, 256<<10)
			all := swarm(r, c)
			rng := r.Rand("cuts")
			rounds := 0
			r.Every(700*time.Millisecond, func() bool {
				a, b := rng.IntN(len(all)), rng.IntN(len(all)-1)
				if b >= a {
					b++
				}
				from, to := all[a:a+1], all[b:b+1]
				r.CutOneWay(from, to)
				r.After(time.Duration(200+rng.IntN(30_000))*time.Millisecond, func() { r.HealOneWay(from, to) })
				rounds++
				return rounds < 20
			})
		},
	},
	{
		Name: "far-and-lossy",
		Says: "The sources are 300 ms away and lose five packets in a hundred.",
		Set: func(r *simnet.Run) {
			c := r.File("book", 4*mib)
			var from []*simnet.Node
			for i := range 3 {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("far", i), Line: simnet.Line{Up: 50 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: 140 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.05}}).Seed(c))
			}
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, from...)
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 240*time.Second), "the fetch took %v; TCP can do it in 83 s", f.Took())
			})
		},
	},
	{
		Name: "asymmetric-lines",
		Says: "Nodes feed each other over lines that are ten times faster down than up.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 128<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: simnet.Line{Up: 4 * simnet.Mbit, Down: 40 * simnet.Mbit, Latency: 20 * time.Millisecond}}).Seed(c)
			for i := range 5 {
				r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Up: 4 * simnet.Mbit, Down: 40 * simnet.Mbit, Latency: time.Duration(10+10*i) * time.Millisecond}}).Fetch(c, source)
			}
			r.Finally(func() {
				copies := float64(source.Sent()) / float64(c.Bytes())
				r.Expect(copies <= 2, "the source sent %.2f copies", copies)
			})
		},
	},
	{
		Name: "two-offices",
		Says: "Two offices with fast networks and a slow line between them; the source is in one.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			oslo := r.Site("oslo", even(20*simnet.Mbit, 15*time.Millisecond))
			rome := r.Site("rome", even(20*simnet.Mbit, 25*time.Millisecond))
			lan := even(1000*simnet.Mbit, 200*time.Microsecond)
			source := r.Add(simnet.NodeConfig{Name: "source", Site: oslo, Line: lan}).Seed(c)
			for i := range 6 {
				r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Site: []*simnet.Site{oslo, rome}[i%2], Line: lan}).Fetch(c, source)
			}
		},
	},
	{
		Name:  "three-offices",
		Says:  "Three offices with fast networks and thin lines to the world: each byte leaves the source's office about once, and reaches each of the others about once.",
		Nodes: 9,
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 256<<10)
			lan := even(1000*simnet.Mbit, 200*time.Microsecond)
			var offices [3]*simnet.Site
			for i := range offices {
				offices[i] = r.Site([...]string{"oslo", "rome", "lima"}[i], even(20*simnet.Mbit, time.Duration(15+10*i)*time.Millisecond))
			}
			source := r.Add(simnet.NodeConfig{Name: "source", Site: offices[0], Line: lan}).Seed(c)
			for i := range r.Nodes {
				r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Site: offices[i%3], Line: lan}).Fetch(c, source)
			}
			r.Finally(func() {
				for _, o := range offices[1:] {
					copies := float64(cameTo(r, o)) / float64(c.Bytes())
					r.Timeline().Note("%.2f copies came to %s", copies, o.Name())
					r.Expect(!r.Modelled() || copies < 1.3, "%.2f copies came to %s", copies, o.Name())
				}
				left := float64(wentFrom(r, offices[0])) / float64(c.Bytes())
				r.Timeline().Note("%.2f copies left %s", left, offices[0].Name())
				r.Expect(!r.Modelled() || left < 1.4, "%.2f copies left %s", left, offices[0].Name())
			})
		},
	},
	{
		Name: "busy-office",
		Says: "An office sends all that its thin uplink takes, and fetches over the same line: its requests do not wait behind what it sends.",
		Set: func(r *simnet.Run) {
			film := r.File("film", 16*mib)
			office := r.Site("office", simnet.Line{Up: 2 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: 15 * time.Millisecond})
			lan := even(1000*simnet.Mbit, 200*time.Microsecond)
			serves := r.Add(simnet.NodeConfig{Name: "serves", Site: office, Line: lan})
			for i := range 3 {
				book := r.File(fmt.Sprint("book", i), 3*mib)
				serves.Seed(book)
				r.Add(simnet.NodeConfig{Name: fmt.Sprint("child", i)}).Fetch(book, serves)
			}
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(film)
			x := r.Add(simnet.NodeConfig{Name: "node", Site: office, Line: lan})
			var f *simnet.Fetch
			r.After(3*time.Second, func() { f = x.Fetch(film, source) })
			r.AtLeast(4 * time.Second)
			r.Finally(func() { // whole nodes are slowed down because a full queue drops acknowledgements
				r.Expect(!r.Modelled() || f.Took() < 10*time.Second, "the fetch took %v; the source's line needs 7 s", f.Took())
			})
		},
	},
	{
		Name: "behind-nat",
		Says: "Of a swarm only the source and one node can be dialled.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 64, 128<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(10*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			for i := range 6 {
				r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), NAT: i > 0}).Fetch(c, source)
			}
		},
	},
	{
		Name: "chain",
		Says: "C knows only B, and B only A: C fetches while B does.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 16*mib)
			a := r.Add(simnet.NodeConfig{Name: "a", Line: even(10*simnet.Mbit, 10*time.Millisecond)}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b"})
			fb := b.Fetch(c, a)
			r.After(time.Second, func() {
				fc := r.Add(simnet.NodeConfig{Name: "c"}).Fetch(c, b)
				r.When(func() bool { got := fc.Verified(); return got != nil && got.Count() > 0 }, func() {
					r.Expect(fb.Part() < 0.5, "C had its first piece when B had %.0f %%", 100*fb.Part())
				})
			})
			r.AtLeast(2 * time.Second)
		},
	},
	{
		Name: "flapping-source",
		Says: "The only source is out of reach for four seconds of every eight.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 48*mib)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 30*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, source)
			r.Every(8*time.Second, func() bool {
				heal := r.Partition([]*simnet.Node{source}, []*simnet.Node{x})
				r.After(4*time.Second, heal)
				return !over(f)
			})
			r.Finally(func() {
				r.Expect(r.Soon(f.Took(), 90*time.Second), "the fetch took %v; the line needs 40 s with the gaps", f.Took())
			})
		},
	},
	{
		Name: "lines-change",
		Says: "A line becomes twenty times slower midway, and fast again later.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 64*mib)
			a := r.Add(simnet.NodeConfig{Name: "a", Line: even(80*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b", Line: even(20*simnet.Mbit, 40*time.Millisecond)}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, a, b)
			r.After(1500*time.Millisecond, func() {
				a.SetLine(even(4*simnet.Mbit, 20*time.Millisecond))
			})
			r.After(8*time.Second, func() {
				a.SetLine(even(80*simnet.Mbit, 20*time.Millisecond))
			})
			r.Finally(func() { r.Expect(r.Soon(f.Took(), 16*time.Second), "the fetch took %v", f.Took()) })
		},
	},
	{
		Name:  "churn",
		Says:  "Nodes of a swarm come and go all the time; some are killed, some lose power, some leave in peace.",
		Nodes: 20,
		Set:   func(r *simnet.Run) { churn(r, r.Folder("photos", 64, 128<<10), patient()) },
	},
	{
		Name:  "churn-100",
		Says:  "Many nodes, each of which fetches from ten at most, come and go all the time.",
		Nodes: 100,
		Only:  "a hundred whole nodes take minutes",
		Set: func(r *simnet.Run) {
			few := patient()
			few.MaxSources = 10
			churn(r, r.Folder("photos", 24, 64<<10), few)
		},
	},
	{
		Name:  "sources-take-turns",
		Says:  "Several sources, of which only one is up at any time after the first second.",
		Nodes: 3,
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			var from []*simnet.Node
			for i := range r.Nodes {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Line: even(20*simnet.Mbit, 30*time.Millisecond)}).Seed(c))
			}
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, from...)
			turn := 0
			var next func()
			next = func() {
				if over(f) {
					return
				}
				for i, y := range from {
					if i == turn%len(from) {
						y.Start()
					} else if (i+turn)%2 == 0 {
						y.Kill()
					} else {
						y.Stop()
					}
				}
				turn++
				r.After(5*time.Second, next)
			}
			r.After(time.Second, next)
			r.Patience(45 * time.Second)
		},
	},
}

// cameTo is how many bytes came to a site from others, framing included.
func cameTo(r *simnet.Run, site *simnet.Site) int64 {
	return crossed(r, func(from, to *simnet.Site) bool { return to == site && from != site })
}

// wentFrom is how many bytes a site sent to others, framing included.
func wentFrom(r *simnet.Run, site *simnet.Site) int64 {
	return crossed(r, func(from, to *simnet.Site) bool { return from == site && to != site })
}

// crossed is how many bytes went between nodes of such sites.
func crossed(r *simnet.Run, counts func(from, to *simnet.Site) bool) (n int64) {
	for _, x := range r.Net.Nodes() {
		for _, y := range r.Net.Nodes() {
			if counts(y.Config().Site, x.Config().Site) {
				in, _ := x.Traffic(y.ID())
				n += in
			}
		}
	}
	return n
}

func churn(r *simnet.Run, c *simnet.Content, cfg actors.TransferConfig) {
	source := r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
	rng := r.Rand("churn")
	var all []*simnet.Node
	for i := range r.Nodes {
		x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Up: 20 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: time.Duration(5+rng.IntN(60)) * time.Millisecond}})
		all = append(all, x)
		r.After(time.Duration(rng.IntN(5000))*time.Millisecond, func() { x.FetchWith(c, simnet.FetchOptions{Config: cfg}, source) })
	}
	r.AtLeast(40 * time.Second)
	r.Every(8*time.Second/time.Duration(r.Nodes), func() bool { // each node about three times
		x := all[rng.IntN(len(all))]
		if !x.Alive() {
			return r.Elapsed() < 30*time.Second
		}
		[]func(){x.Kill, x.PowerOff, x.Stop, x.Freeze}[rng.IntN(4)]()
		r.After(time.Duration(200+rng.IntN(8000))*time.Millisecond, func() {
			x.Thaw()
			x.Start()
		})
		return r.Elapsed() < 30*time.Second
	})
}
