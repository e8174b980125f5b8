package scenarios

import (
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/simnet"
)

// patient is a transfer that does not give up for a long time.
func patient() actors.TransferConfig { return actors.TransferConfig{Verifiers: 2, Stall: time.Hour} }

// over says whether a fetch has ended.
func over(f *simnet.Fetch) bool {
	done, _ := f.Done()
	return done
}

// sourceIn is what a fetch says of one of its sources.
func sourceIn(f *simnet.Fetch, source *simnet.Node) actors.Source {
	for _, s := range f.Progress().Sources {
		if s.Peer == source.ID() {
			return s
		}
	}
	return actors.Source{}
}
