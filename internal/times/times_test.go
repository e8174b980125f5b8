package times

import (
	"testing"
	"time"
)

func TestEarliestLeavesOutWhatIsNotSet(t *testing.T) {
	var none time.Time
	a, b := time.Unix(1, 0), time.Unix(2, 0)
	for _, x := range []struct {
		of   []time.Time
		want time.Time
	}{{nil, none}, {[]time.Time{none, none}, none}, {[]time.Time{none, b}, b}, {[]time.Time{b, none}, b}, {[]time.Time{a, b}, a}, {[]time.Time{b, a, b}, a}} {
		if got := Earliest(x.of...); !got.Equal(x.want) {
			t.Errorf("%v: %v, want %v", x.of, got, x.want)
		}
	}
}
