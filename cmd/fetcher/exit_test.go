package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

// An error of the node means the same to a command that asks it as to one that does the
// work itself.
func TestErrorsTravelAsWhatTheyAre(t *testing.T) {
	here := []error{errInterrupted, fetcher.ErrStopped, errPipe, errFaults, api.ErrNoNode, daemon.ErrDepot, daemon.ErrSettings, daemon.ErrMembership, kvurl.ErrURL, rounds.ErrAway, rounds.ErrUnfit, rounds.ErrNever} // of this process
	for _, o := range outcomes {
		if slices.Contains(here, o.err) {
			continue
		}
		b, err := json.Marshal(api.ProblemOf(fmt.Errorf("what happened: %w", o.err)))
		if err != nil {
			t.Fatal(err)
		}
		var p api.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		if code, name := outcome(&p); code != o.code || name != o.name {
			t.Errorf("%v travels as %s, and ends a command with %d, %s; want %d, %s", o.err, b, code, name, o.code, o.name)
		}
	}
}
