package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// tookNear is how long a node takes for 24 MiB from a source 30 ms away, beside a slow neighbour in its own network that
// lacks one file of 96, or without it.
func tookNear(neighbour bool, up float64, lacks int) (took time.Duration) {
	s := &simnet.Scenario{Name: "slow-neighbour", Set: func(r *simnet.Run) {
		c := r.Folder("photos", 96, 256<<10)
		source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 30*time.Millisecond)}).Seed(c)
		from := []*simnet.Node{source}
		office := r.Site("oslo", even(100*simnet.Mbit, 5*time.Millisecond))
		if neighbour {
			x := r.Add(simnet.NodeConfig{Name: "slow", Site: office, Line: simnet.Line{Up: up, Down: 100 * simnet.Mbit, Latency: time.Millisecond / 5}})
			f := x.FetchWith(c, simnet.FetchOptions{Skip: func(entry int) bool { return entry == lacks }}, source)
			from = []*simnet.Node{x, source}
			r.After(10*time.Minute, func() { f.Choose(true, lacks) })
		}
		r.After(time.Minute, func() {
			f := r.Add(simnet.NodeConfig{Name: "comes", Site: office, Line: even(100*simnet.Mbit, time.Millisecond/5)}).FetchWith(c, simnet.FetchOptions{Leave: true}, from...)
			r.Finally(func() { took = f.Took() })
		})
		r.AtLeast(11 * time.Minute)
	}}
	s.Run(1, 0)
	return took
}

// A slow neighbour that has nearly all takes no time from a fetch.
func TestASlowNeighbourTakesNoTime(t *testing.T) {
	rig.Slow(t)
	rig.OneGoroutine(t)
	alone := tookNear(false, 0, 0)
	for _, lacks := range []int{40, 44} { // a piece that is ours to ask for, and one that is the neighbour's
		if beside := tookNear(true, simnet.Mbit, lacks); beside > alone*11/10 || beside == 0 {
			t.Errorf("alone it took %v, beside a neighbour of 1 Mbit/s that lacks file %d %v", alone, lacks, beside)
		}
	}
}

// Colleagues on the same LAN who have fetched what they wanted of a share, a few of its files, take no time from who wants all of it.
func TestNeighboursThatWantNoMoreTakeNoTime(t *testing.T) {
	rig.Slow(t)
	rig.OneGoroutine(t)
	took := func(stay, far int) (took time.Duration) {
		s := &simnet.Scenario{Name: "content-neighbours", Set: func(r *simnet.Run) {
			c := r.Folder("photos", 96, 256<<10)
			source := r.Add(simnet.NodeConfig{Name: "source", Line: even(40*simnet.Mbit, 30*time.Millisecond)}).Seed(c)
			office := r.Site("oslo", even(100*simnet.Mbit, 5*time.Millisecond))
			from := []*simnet.Node{source}
			for i := range stay + far {
				cfg := simnet.NodeConfig{Name: fmt.Sprint("stays", i), Line: even(100*simnet.Mbit, 20*time.Millisecond)}
				if i < stay {
					cfg.Site, cfg.Line = office, even(300*simnet.Mbit, time.Millisecond/5)
				}
				x := r.Add(cfg)
				mod := 10 // of those near; those far away have a half
				if i >= stay {
					mod = 2
				}
				f := x.FetchWith(c, simnet.FetchOptions{Skip: func(entry int) bool { return entry%mod != 1 }}, source)
				from = append(from, x)
				r.After(10*time.Minute, func() {
					for e := range c.Manifest.Len() {
						f.Choose(true, e)
					}
				})
			}
			r.After(time.Minute, func() {
				f := r.Add(simnet.NodeConfig{Name: "comes", Site: office, Line: even(300*simnet.Mbit, time.Millisecond/5)}).FetchWith(c, simnet.FetchOptions{Leave: true}, from...)
				r.Finally(func() { took = f.Took() })
			})
			r.AtLeast(11 * time.Minute)
		}}
		s.Run(1, 0)
		return took
	}
	for _, x := range [][2]int{{1, 0}, {2, 0}, {2, 1}, {4, 1}} {
		without, with := took(0, x[1]), took(x[0], x[1])
		if with > without*11/10 || with == 0 {
			t.Errorf("with %d neighbours that want no more, and %d such nodes far away, it took %v, without the neighbours %v", x[0], x[1], with, without)
		}
	}
}
