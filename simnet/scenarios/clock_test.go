package scenarios

import (
	"context"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/simnet"
)

// late is a store that is asked by a process which stands still, as on a machine with too much to do: the deadline of one
// call passes by the real clock before the call arrives.
type late struct {
	rounds.KV
	left *int // calls until then
}

func (l late) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if *l.left--; *l.left == 0 {
		expired, cancel := context.WithDeadline(ctx, time.Time{})
		defer cancel()
		ctx = expired
	}
	return l.KV.Get(ctx, key)
}

// A run is the same however slow the machine is: time is the world's, and nothing in it looks at a real clock.
func TestARunIsTheSameOnASlowMachine(t *testing.T) {
	rig.OneGoroutine(t)
	trace := func(at int) uint64 {
		s := &simnet.Scenario{Name: "slow machine", Set: func(r *simnet.Run) {
			f := newElectors(r, 4, 0)
			for _, name := range []string{"a", "b"} {
				x := r.Add(simnet.NodeConfig{Name: name, Store: f.store, Deps: func(d *actors.Deps) { d.Elections.KV = late{d.Elections.KV, &at} }})
				x.Elect(f.c, simnet.FetchOptions{}, f.source)
			}
		}}
		return s.Run(1, 0).Trace
	}
	if want, got := trace(0), trace(5); got != want {
		t.Errorf("the trace is %016x, and %016x if the process stands still", want, got)
	}
}
