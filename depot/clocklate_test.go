package depot

import (
	"testing"
	"time"
)

// A machine that is off every night, and whose clock is synchronised a minute after each start, as the network comes up then: its clock
// is believed. What it was off for is known by then.
func TestAClockThatIsSynchronisedSoonAfterAStartIsBelieved(t *testing.T) {
	w := newClockwork()
	for night := range 30 {
		w.run(16*time.Hour, 0)
		w.restart(8*time.Hour, false)
		w.Reading.Synced = true
		if w.run(time.Minute, 0); w.Frozen {
			t.Fatalf("frozen after %d nights: gap %v", night+1, w.Gap)
		}
	}
}
