package transfer

import (
	"fmt"
	"testing"
	"time"
)

// A peer that changes what it says again and again does not fill the log of who fetches.
func TestAReasonThatChangesAllTheTimeIsToldNowAndThen(t *testing.T) {
	w := fetching(t, Config{Stall: time.Hour}, "a")
	w.pass(quietAfter)
	told := 0
	for i := range 60 * 20 {
		w.x.Planned(PlanStatus{Why: []string{fmt.Sprintf("piece %d: nobody has it", i)}})
		w.pass(50 * time.Millisecond)
		told += len(got[Stalled](w))
		w.did = nil
	}
	if most := changesTold + int(time.Minute/repeatWhy) + 2; told < changesTold || told > most {
		t.Errorf("told %d times in a minute, at most %d", told, most)
	}
}
