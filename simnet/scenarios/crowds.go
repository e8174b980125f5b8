package scenarios

import (
	"fmt"
	"github.com/piecelease/fetcher/simnet"
	"time"
)

// crowds are scenarios of crowds that come bit by bit, or in which some give nothing.
var crowds = []*simnet.Scenario{
	{
		Name:  "crowd-one-by-one",
		Says:  "Nodes come one after the other, each when the last one has the share, and all stay: each fetches from all before it.",
		Nodes: 10,
		Set: func(r *simnet.Run) {
			c, source := homeSource(r)
			const gap = 8 * time.Second // one alone takes 6 s
			rng := r.Rand("crowd")
			for i := range r.Nodes {
				x := simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: homeLine(rng.IntN(50))}
				r.After(time.Duration(i)*gap, func() { r.Add(x).Fetch(c, source) })
			}
			r.AtLeast(time.Duration(r.Nodes) * gap)
			r.Finally(func() {
				copies := float64(source.Sent()) / float64(c.Bytes())
				r.Timeline().Note("the source sent %.2f copies", copies)
				most := 1 + 0.5*float64(r.Nodes-1)
				r.Expect(copies <= most, "the source sent %.2f copies of the share to %d nodes, %.1f are allowed", copies, r.Nodes, most)
			})
		},
	},
	{
		Name:  "crowd-free-riders",
		Says:  "Of a crowd that comes bit by bit every third node says that it serves the share on, and answers no request.",
		Nodes: 18,
		Set: func(r *simnet.Run) {
			c, source := homeSource(r)
			rng := r.Rand("crowd")
			var honest []*simnet.Fetch
			const gap = 3 * time.Second
			for i := range r.Nodes {
				x := simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: homeLine(rng.IntN(50))}
				if i%3 == 0 {
					x.Acts = simnet.Mute(0)
				}
				r.After(time.Duration(i)*gap, func() {
					if f := r.Add(x).Fetch(c, source); i%3 > 0 {
						honest = append(honest, f)
					}
				})
			}
			r.AtLeast(time.Duration(r.Nodes) * gap)
			r.Finally(func() {
				slowest := time.Duration(0)
				for _, f := range honest {
					slowest = max(slowest, f.Took())
				}
				copies := float64(source.Sent()) / float64(c.Bytes())
				r.Timeline().Note("the source sent %.2f copies, and the slowest took %v", copies, slowest)
				most := 1 + 0.45*float64(r.Nodes-1)
				r.Expect(copies <= most, "the source sent %.2f copies of the share to %d nodes, %.1f are allowed", copies, r.Nodes, most)
				r.Expect(r.Soon(slowest, 20*time.Second), "the slowest took %v", slowest)
			})
		},
	},
	{
		Name: "crowd-at-a-trickle",
		Says: "Three nodes on fast lines fetch eight pieces from a source that may send a quarter of a megabyte per second: it sends each about once, and they share what they have.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 8*mib)
			source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
			source.SetUploadRate(250_000)
			var all []*simnet.Fetch
			for i := range 3 {
				all = append(all, r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: homeLine(10 * i)}).Fetch(c, source))
			}
			r.Finally(func() {
				slowest := time.Duration(0)
				for _, f := range all {
					slowest = max(slowest, f.Took())
				}
				copies := float64(source.Sent()) / float64(c.Bytes())
				r.Timeline().Note("the source sent %.2f copies, and the slowest took %v", copies, slowest)
				r.Expect(copies <= 1.6, "the source sent %.2f copies", copies)
				r.Expect(r.Soon(slowest, 50*time.Second), "the slowest took %v; to send the file once takes 34 s", slowest)
			})
		},
	},
}

// homeSource is the only source that a crowd knows, on a typical home line.
func homeSource(r *simnet.Run) (*simnet.Content, *simnet.Node) {
	c := r.Folder("photos", 96, 128<<10)
	return c, r.Add(simnet.NodeConfig{Name: "source", Line: homeLine(15)}).Seed(c)
}

func homeLine(away int) simnet.Line {
	return simnet.Line{Up: 20 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: time.Duration(5+away) * time.Millisecond}
}
