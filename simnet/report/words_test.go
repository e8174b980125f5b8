package report

import (
	"testing"
	"time"
)

func TestTimesAreRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", 999_600 * time.Microsecond: "1 s", 99 * time.Second: "99 s",
		100 * time.Second: "1m40s", 2 * time.Minute: "2m", 2*time.Hour + 10*time.Second: "2h0m10s", 2 * time.Hour: "2h0m",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestHoldersAreCounted(t *testing.T) {
	for want, n := range map[string][2]uint16{"nobody has it": {0, 0}, "1 node has it": {1, 1}, "3 nodes have it": {3, 3}, "first 3, then 4 nodes have it": {3, 4}} {
		if got := holders(n[0], n[1]); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
}
