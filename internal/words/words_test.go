package words

import (
	"testing"
	"time"
)

func TestDurationsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                   "0 s",
		0:                              "0 s",
		1500 * time.Microsecond:        "1 ms",
		999 * time.Millisecond:         "999 ms",
		time.Second:                    "1 s",
		2449 * time.Millisecond:        "2 s",
		9999 * time.Millisecond:        "10 s",
		75*time.Second + 1:             "75 s",
		3 * time.Minute:                "3 min",
		24*time.Hour - time.Nanosecond: "24 h",
		24 * 8 * time.Hour:             "192 h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for n, want := range []string{"0 pieces", "1 piece", "2 pieces"} {
		if got := Count(n, "piece"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
