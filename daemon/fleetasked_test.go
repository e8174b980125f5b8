package daemon

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

// Several ask a node how its fleet is while the store does not answer: none waits for all before it, nor longer than it wants to, and who
// changes something waits for none of them.
func TestWhoAsksForAFleetDoesNotWaitForAllThatAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{store: fetcher.FleetStore{KV: silent{}, Secret: "the secret of a fleet"}, kv: &kvurl.Patient{}}
		m.heard.last.At = time.Now().Add(-time.Hour)
		d, began := &Daemon{member: m}, time.Now()
		ask := func(ctx context.Context, want time.Duration) {
			if f, err := d.Fleet(ctx); err != nil || f.Away == "" || time.Since(began) != want {
				t.Errorf("after %v, and not %v: %+v, %v", time.Since(began), want, f, err)
			}
		}
		hurried, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var asking sync.WaitGroup
		asking.Go(func() { ask(hurried, 2*time.Second) })
		synctest.Wait()
		for range 3 { // a page, a command, a monitor: the first of them asks when the hurried one has gone
			asking.Go(func() { ask(t.Context(), 2*time.Second+fleetTime) })
		}
		asking.Go(func() { ask(hurried, 2*time.Second) })
		synctest.Wait()
		if m.forget(); time.Since(began) > 0 {
			t.Errorf("a change has waited %v", time.Since(began))
		}
		asking.Wait()
		began = time.Now()
		ask(t.Context(), fleetTime) // what failed before is no answer to this
	})
}
