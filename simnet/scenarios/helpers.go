package scenarios

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/simnet"
)

// even is a line that is as fast up as down, in bytes per second.
func even(rate float64, latency time.Duration) simnet.Line {
	return simnet.Line{Up: rate, Down: rate, Latency: latency}
}

// swarm is a source, and as many nodes as the run has, which fetch from it and keep serving for long.
func swarm(r *simnet.Run, c *simnet.Content) []*simnet.Node {
	all := []*simnet.Node{r.Add(simnet.NodeConfig{Name: "source", Line: even(30*simnet.Mbit, 20*time.Millisecond)}).Seed(c)}
	for i := range r.Nodes {
		x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Up: 20 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: 25 * time.Millisecond}})
		x.FetchWith(c, simnet.FetchOptions{Config: patient()}, all[0])
		all = append(all, x)
	}
	return all
}

// patient is a transfer that does not give up for a long time.
func patient() actors.TransferConfig { return actors.TransferConfig{Verifiers: 2, Stall: time.Hour} }

// over says whether a fetch has ended.
func over(f *simnet.Fetch) bool {
	done, _ := f.Done()
	return done
}

// sourceIn is what a fetch reports of one of its sources.
func sourceIn(f *simnet.Fetch, source *simnet.Node) actors.Source {
	for _, s := range f.Progress().Sources {
		if s.Peer == source.ID() {
			return s
		}
	}
	return actors.Source{}
}

// orNothing is an error for people who read a fault.
func orNothing(err error) string {
	if err == nil {
		return "nothing"
	}
	return err.Error()
}
