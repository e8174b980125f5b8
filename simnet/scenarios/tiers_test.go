package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet"
)

// Twenty sources of one location are as good as twenty of as many locations.
func TestSourcesOfOneLocationAreAsGoodAsOthers(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	for _, most := range []int{64, 8} { // of which so many are fetched from at once
		if one, many := tookOfTwenty(t, most, true), tookOfTwenty(t, most, false); one > many*21/20 {
			t.Errorf("at most %d at once: took %v from twenty sources of one location, and %v from twenty locations", most, one, many)
		}
	}
}

// tookOfTwenty is how long a fetch takes from twenty sources, together in one location or not.
func tookOfTwenty(t *testing.T, most int, together bool) time.Duration {
	s := &simnet.Scenario{Name: "sources", Set: func(r *simnet.Run) {
		c := r.Folder("photos", 192, 256<<10)
		var from []*simnet.Node
		where := r.Site("office", simnet.Line{})
		for i := range 20 {
			if !together {
				where = r.Site(fmt.Sprint("office", i), simnet.Line{})
			}
			from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Site: where, Line: even(5*simnet.Mbit, 15*time.Millisecond)}).Seed(c))
		}
		cfg := actors.TransferConfig{Verifiers: 2, MaxSources: most}
		r.Add(simnet.NodeConfig{Name: "node", Line: even(80*simnet.Mbit, 10*time.Millisecond)}).FetchWith(c, simnet.FetchOptions{Config: cfg}, from...)
	}}
	r := s.Run(1, 0)
	t.Log(most, together, r.Virtual)
	if !r.OK() {
		t.Error(r.Report())
	}
	return r.Virtual
}

// Fifty children on one address are all served, though few of them are active.
func TestAllChildrenOfOneAddressAreServed(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	s := &simnet.Scenario{Name: "one-address", Set: func(r *simnet.Run) {
		c := r.File("film", 2*mib)
		source := r.Add(simnet.NodeConfig{Name: "source", Line: even(50*simnet.Mbit, 10*time.Millisecond), Deps: func(d *actors.Deps) {
			d.Tiers = peers.TierConfig{MaxActive: 4, MaxPassive: 16, MaxTracked: 40}
		}}).Seed(c)
		school := r.Site("school", even(1000*simnet.Mbit, 5*time.Millisecond))
		for i := range 50 {
			x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("child", i), Site: school, Line: even(1000*simnet.Mbit, time.Millisecond)})
			x.FetchWith(c, simnet.FetchOptions{Config: actors.TransferConfig{Verifiers: 1, Anonymous: true}}, source)
		}
		r.Finally(func() {
			slowest := time.Duration(0)
			for _, x := range r.Net.Nodes()[1:] {
				slowest = max(slowest, x.Fetches()[0].Took())
			}
			r.Expect(slowest < 25*time.Second, "the slowest took %v; the line takes 17 s for all", slowest)
		})
	}}
	if r := s.Run(1, 0); !r.OK() {
		t.Error(r.Report())
	}
}
