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
