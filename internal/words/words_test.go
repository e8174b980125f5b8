package words

import (
	"fmt"
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
		95 * time.Hour:                 "95 h",
		24 * 8 * time.Hour:             "8 d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestDurationsAreRead(t *testing.T) {
	for s, want := range map[string]time.Duration{"31d": 744 * time.Hour, "0d": 0, "36h": 36 * time.Hour, "878400h": 878400 * time.Hour, "1h30m": 90 * time.Minute, "-5s": -5 * time.Second} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	const form, bound = "give a time such as 30s, 36h or 7d", "a time is at most 36600d"
	for s, why := range map[string]string{"": form, "d": form, "5": form, "-1d": form, "1.5d": form, "1d12h": form, "soon": form, "40000d": bound, "878401h": bound, "99999999999999999999d": bound} {
		if got, err := ParseDuration(s); err == nil || err.Error() != fmt.Sprintf("%s, not %q", why, s) {
			t.Errorf("%q is taken as %v, or refused with %v", s, got, err)
		}
	}
}

func TestCounts(t *testing.T) {
	for n, want := range []string{"0 pieces", "1 piece", "2 pieces"} {
		if got := Count(n, "piece"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	if got := Count(2, "pass"); got != "2 passes" {
		t.Error(got)
	}
}

func TestRatesAreReadWholeOrNotAtAll(t *testing.T) {
	for s, want := range map[string]int64{"500": 500, "500K": 500e3, "10M": 10e6, "1.5g": 1.5e9, "1": 1, "1000000G": 1e15} {
		if got, ok := ParseRate(s); got != want || !ok {
			t.Errorf("%q: %d, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "10MB", "10 M", "10KiB", "5KM", "M", "x", "0", "0.5", "-1", "nan", "inf", "1e300", "1M/s", "1000001G"} {
		if got, ok := ParseRate(s); ok {
			t.Errorf("%q is taken as %d", s, got)
		}
	}
}
