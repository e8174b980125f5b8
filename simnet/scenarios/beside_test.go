package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// Whoever fetches a share from its source is not held up by others that serve the share on: those that have one
// file of it, and, but for the four seconds in which that shows, those that it cannot reach.
func TestThoseWhoStayHoldUpNobody(t *testing.T) {
	rig.OnlyLong(t)
	for name, took := range map[string]func(stay int) time.Duration{
		"a node beside nodes with one file": func(stay int) (took time.Duration) {
			play(t, func(r *simnet.Run) {
				c := r.Folder("photos", 192, 256<<10)
				source := r.Add(simnet.NodeConfig{Name: "source", Line: homeLine(15)}).Seed(c)
				stayWithOne(r, c, source, stay)
				r.After(20*time.Second, func() {
					f := r.Add(simnet.NodeConfig{Name: "comes", Line: homeLine(10)}).FetchWith(c, simnet.FetchOptions{Leave: true}, source)
					r.Finally(func() { took = f.Took() })
				})
			})
			return took
		},
		"a fleet beside nodes with one file": func(stay int) (took time.Duration) {
			play(t, func(r *simnet.Run) {
				f, source, members, _ := newFleet(r, 48, 2)
				stayWithOne(r, f.Content(), source, stay)
				r.After(20*time.Second, func() {
					for _, x := range joinAll(f, members, simnet.FetchOptions{}, source) {
						r.Finally(func() { took = max(took, x.Took()) })
					}
				})
			})
			return took
		},
		"a node that reaches none of them": func(stay int) (took time.Duration) {
			play(t, func(r *simnet.Run) {
				c := r.Folder("photos", 192, 256<<10)
				source := r.Add(simnet.NodeConfig{Name: "source", Line: homeLine(15)}).Seed(c)
				var there []*simnet.Node
				for i := range stay {
					x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("stays", i), Line: homeLine(10 * i)})
					there = append(there, x)
					r.After(time.Duration(i)*40*time.Second, func() { x.Fetch(c, source) })
				}
				r.After(3*time.Minute, func() {
					x := r.Add(simnet.NodeConfig{Name: "comes", Line: homeLine(10)})
					r.Partition(there, []*simnet.Node{x})
					f := x.FetchWith(c, simnet.FetchOptions{Leave: true}, source)
					r.Finally(func() { took = f.Took() })
				})
			})
			return took
		},
	} {
		alone, beside, shows := took(0), took(4), time.Duration(0)
		if strings.HasSuffix(name, "reaches none of them") {
			shows = 4 * time.Second
		}
		if beside > alone*11/10+shows {
			t.Errorf("%s: it took %v, and %v alone", name, beside, alone)
		}
	}
}

// stayWithOne adds nodes that fetch one file of a share, and serve that on.
func stayWithOne(r *simnet.Run, c *simnet.Content, source *simnet.Node, stay int) {
	for i := range stay {
		x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("stays", i), Line: homeLine(10 * i)})
		f := x.FetchWith(c, simnet.FetchOptions{Skip: func(entry int) bool { return entry != 7 }, Manifest: true}, source)
		r.After(3*time.Minute, func() { // a run ends when all have it all
			for entry := range c.Manifest.Len() {
				f.Choose(true, entry)
			}
		})
	}
}

// play runs a scenario for four minutes or longer. Those who stay with a part of the share are no fault.
func play(t *testing.T, set func(r *simnet.Run)) {
	t.Helper()
	s := &simnet.Scenario{Name: "beside", Set: func(r *simnet.Run) {
		set(r)
		r.AtLeast(4 * time.Minute)
	}}
	for _, f := range s.Run(1, 0).Faults {
		if !strings.HasPrefix(string(f.Node), "stays") {
			t.Fatal(f)
		}
	}
}
