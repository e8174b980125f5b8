package daemon

import (
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

// Several ask a node how its fleet is while the store does not answer: none waits for as long as all before it.
func TestWhoAsksForAFleetDoesNotWaitForAllThatAskedBefore(t *testing.T) {
	rig.Slow(t) // in real time: a bubble's does not go on while a lock is waited for
	t.Parallel()
	d := &Daemon{member: &member{store: fetcher.FleetStore{KV: silent{}, Secret: "the secret of a fleet"}, kv: &kvurl.Patient{}}}
	d.member.last.At = time.Now().Add(-time.Hour)
	var asking sync.WaitGroup
	began := time.Now()
	for range 4 { // a page, a command, a monitor, another page
		asking.Go(func() {
			if f, err := d.Fleet(t.Context()); err != nil || f.Away == "" {
				t.Errorf("%+v, %v", f, err)
			}
			if took := time.Since(began); took > 2*fleetTime+time.Second {
				t.Errorf("one has waited %v for a store that has %v to answer", took.Round(time.Second), fleetTime)
			}
		})
	}
	asking.Wait()
}
