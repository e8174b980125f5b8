package leasedb

import "testing"

// A lease that the crawler found before the manifest came does not end when it comes: its
// account declared the right size, and nobody stored that.
func TestALeaseThatWasFoundIsMeasured(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
	r.ok(err)
	r.lose()
	_, err = r.Found(t.Context(), start, ids[0], 0, false, r.disk[ids[0]]) // no manifest yet
	r.ok(err)
	ended, err := r.Measure(t.Context(), start, ids[0], 100)
	if err != nil || len(ended) > 0 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	r.used(start, 2, 100)
}
