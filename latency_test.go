package fetcher

import (
	"testing"
	"time"
)

func TestALatencyCountsUpToEachBound(t *testing.T) {
	var w stopwatch
	for _, d := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, 10 * time.Second, time.Minute} {
		w.took(d)
	}
	l := w.latency()
	if l.Count != 5 || l.Total != 70*time.Second+3*time.Millisecond || len(l.Within) != len(latencyBounds) || l.Within[time.Millisecond] != 2 || l.Within[5*time.Millisecond] != 3 || l.Within[2500*time.Millisecond] != 3 || l.Within[10*time.Second] != 4 {
		t.Errorf("%+v", l)
	}
}
