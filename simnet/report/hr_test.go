package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// If most fetches fail, the median is not the time of one that succeeded.
func TestHRTheMedianOfFetchesThatFailed(t *testing.T) {
	s := &simnet.Scenario{Name: "most-fail", Says: "Most fail.", Set: func(r *simnet.Run) {
		c, other := r.File("film", 8<<20), r.File("other", 1<<20)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		r.Add(simnet.NodeConfig{Name: "good", Line: simnet.Line{Up: 1e6, Down: 1e6}}).Fetch(c, source)
		for _, n := range []string{"b1", "b2", "b3"} {
			r.Add(simnet.NodeConfig{Name: n}).FetchWith(other, simnet.FetchOptions{MayFail: true}, source)
		}
	}}
	_, page := recorded(t, s, 0)
	i := strings.Index(page, "The slowest node")
	if i >= 0 {
		t.Log(page[i : i+120])
	}
	if strings.Contains(page, "; the median is ") && !strings.Contains(page, "failed after") && !strings.Contains(page, "; the median is failed") {
		t.Error("the story says how long the median took, which failed")
	}
}

// Pages of short runs, and of nodes that are stopped, killed, or come after the last sample.
func TestHRShortRuns(t *testing.T) {
	for _, set := range []func(r *simnet.Run){
		func(r *simnet.Run) {
			c := r.File("film", 1)
			r.Add(simnet.NodeConfig{Name: "n"}).Fetch(c, r.Add(simnet.NodeConfig{Name: "s"}).Seed(c))
		},
		func(r *simnet.Run) {
			c := r.File("film", 1<<20)
			s := r.Add(simnet.NodeConfig{Name: "s"}).Seed(c)
			n := r.Add(simnet.NodeConfig{Name: "n", Line: simnet.Line{Up: 1e4, Down: 1e4}})
			n.FetchWith(c, simnet.FetchOptions{MayFail: true}, s)
			r.After(time.Second, n.Kill)
		},
		func(r *simnet.Run) {
			c := r.File("film", 1<<20)
			s := r.Add(simnet.NodeConfig{Name: "s"}).Seed(c)
			n := r.Add(simnet.NodeConfig{Name: "n", Line: simnet.Line{Up: 1e4, Down: 1e4}})
			n.FetchWith(c, simnet.FetchOptions{MayFail: true}, s)
			r.After(time.Second, n.Stop)
		},
	} {
		_, page := recorded(t, &simnet.Scenario{Name: "short", Says: "x", Set: set}, 0)
		for _, x := range []string{"was stopped after", "failed after", "did not get all"} {
			if i := strings.Index(page, x); i >= 0 {
				t.Log(page[max(0, i-20) : i+60])
			}
		}
	}
}
