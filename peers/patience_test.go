package peers

import (
	"strings"
	"testing"
	"time"
)

func TestPatienceIsWithEachFieldAsItSays(t *testing.T) {
	for _, x := range []struct {
		p        Patience
		measured bool
		want     time.Duration
	}{
		{Patience{}, false, 5 * time.Second},
		{Patience{}, true, 2400 * time.Millisecond},
		{Patience{First: time.Second, Slack: time.Hour, Trips: 9}, false, time.Second},
		{Patience{Slack: time.Second}, true, 1400 * time.Millisecond},
		{Patience{Trips: 2}, true, 2200 * time.Millisecond},
	} {
		if got := x.p.WithDefaults().Of(x.measured, 100*time.Millisecond); got != x.want {
			t.Errorf("%+v, measured %v: %v, want %v", x.p, x.measured, got, x.want)
		}
	}
	for name, p := range map[string]Patience{"First": {First: -1}, "Slack": {Slack: 2 * time.Hour}, "Trips": {Trips: -1}} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
