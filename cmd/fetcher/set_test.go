package main

import (
	"testing"

	"github.com/piecelease/fetcher/api"
)

func TestALimitThatTheScheduleCoversIsSaidToBeKept(t *testing.T) {
	for want, l := range map[string]api.Limits{
		"3.00 MB/s up, no limit down": {Up: 3_000_000},
		"2.00 MB/s up, no limit down, by the schedule; what was set applies outside the schedule": {Up: 2_000_000, Schedule: true},
	} {
		if got := setText(l); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
