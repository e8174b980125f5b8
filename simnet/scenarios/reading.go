package scenarios

import (
	"fmt"
	"github.com/piecelease/fetcher/simnet"
	"time"
)

// reading are scenarios in which files are read, chosen and paced while they are fetched.
var reading = []*simnet.Scenario{
	{
		Name: "reading-ahead",
		Says: "Three readers read a long file while it comes in: from the start, from near the end, and from the middle while a source is lost.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			line := even(20*simnet.Mbit, 20*time.Millisecond)
			a, b := r.Add(simnet.NodeConfig{Name: "a", Line: line}).Seed(c), r.Add(simnet.NodeConfig{Name: "b", Line: line}).Seed(c)
			f := r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Config: patient()}, a, b)
			start := f.Read(0, 0, 3*mib)
			var end, middle *simnet.Reading
			r.After(1500*time.Millisecond, func() { end = f.Read(0, 31*mib, mib) })
			r.After(2*time.Second, func() { middle = f.Read(0, 16*mib, 6*mib) })
			r.After(2500*time.Millisecond, b.Kill)
			r.Finally(func() {
				for i, x := range []*simnet.Reading{start, end, middle} {
					r.Expect(x.Took() > 0 && x.Err() == nil, "reader %d is not done; what went wrong: %v", i, orNothing(x.Err()))
				}
				r.Expect(start.First() < time.Second, "the first bytes came after %v", start.First())
				r.Expect(end.First() < 3*time.Second, "the bytes near the end came after %v", end.First())
			})
		},
	},
	{
		Name: "change-of-mind",
		Says: "Half the files are left out, others are dropped midway while one of them is read, and all are wanted in the end.",
		Set: func(r *simnet.Run) {
			c := r.Folder("photos", 40, 300_000)
			a := r.Add(simnet.NodeConfig{Name: "a", Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c)
			b := r.Add(simnet.NodeConfig{Name: "b", Line: even(10*simnet.Mbit, 40*time.Millisecond)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient(), Skip: func(entry int) bool { return entry%2 == 1 }}, a, b)
			var none, dropped *simnet.Reading
			r.After(700*time.Millisecond, func() {
				none = f.Read(1, 0, 1000)
				dropped = f.Read(38, 0, 300_000)
				f.Choose(false, 38, 36, 34, 32)
			})
			r.After(1000*time.Millisecond, func() {
				var all []int
				for i := range c.Manifest.Len() {
					all = append(all, i)
				}
				f.Choose(true, all...)
			})
			r.Finally(func() {
				r.Expect(none.Err() != nil, "a file that was left out could be read")
				r.Expect(dropped.Err() != nil || dropped.Took() > 0, "the reader of a file that was dropped was not told")
			})
		},
	},
	{
		Name: "paced",
		Says: "A node that fetches from three fast sources is limited to a megabyte per second, and later it is not: no source is blamed for the wait.",
		Set: func(r *simnet.Run) {
			c := r.File("film", 12*mib)
			var from []*simnet.Node
			for i := range 3 {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i)}).Seed(c))
			}
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.SetDownloadRate(1_000_000)
			f := x.Fetch(c, from...)
			r.After(4*time.Second, func() {
				r.Expect(f.Progress().Verified < 6*mib, "%d bytes came in four seconds", f.Progress().Verified)
				x.SetDownloadRate(0)
			})
			r.Finally(func() {
				r.Expect(f.Took() > 4*time.Second && f.Took() < 8*time.Second, "the fetch took %v, and should take 4 to 8 s", f.Took())
			})
		},
	},
}
