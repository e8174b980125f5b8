package renewal

import (
	"testing"
	"time"
)

// A depot that takes each renewal and adds no time to the lease (its owner made leases as short as can be, or its account was made
// of leases found on the disk and got only its key back) lets it lapse: this is said before, as of a renewal that is refused.
func TestALeaseToWhichRenewalsAddNothingIsLateBeforeItLapses(t *testing.T) {
	t.Parallel()
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	end := epoch.Add(31 * day)
	hold(s, Hold{Key: k, Bytes: 1, Expires: end, Granted: 31 * day, State: Stable}, epoch)
	asked, said := 0, false
	for {
		now := s.Wake()
		if !now.Before(end) {
			break
		}
		s.Due(now)
		for range s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 1, Left: end.Sub(now)}}, now) {
			asked++
			s.Renewed(k.Depot, Heard{Share: k.Share, State: Stable, Bytes: 1, Left: end.Sub(now)}, now) // granted, and not a second added
		}
		for at := now; at.Before(s.Wake()) && at.Before(end.Add(-time.Hour)); at = at.Add(time.Hour) {
			h := s.Holds(at)[0]
			said = said || h.Late || h.Why != ""
		}
	}
	if !said {
		t.Errorf("renewed %d times, and lapsed, and until an hour before nobody was told", asked)
	}
}

// A depot that now grants an hour only, and had granted 31 days, is asked again before the long lease ends, so that none lapses.
func TestADepotThatGrantsMuchLessIsAskedBeforeTheLongLeaseEnds(t *testing.T) {
	t.Parallel()
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	end := epoch.Add(31 * day)
	hold(s, Hold{Key: k, Bytes: 1, Expires: end, Granted: 31 * day, State: Stable}, epoch)
	visits := 0
	for now := s.Wake(); now.Before(epoch.Add(32 * day)); now = s.Wake() {
		if now.After(end) {
			t.Fatalf("it lapsed at %v", end.Sub(epoch))
		}
		visits++
		s.Due(now)
		for range s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 1, Left: end.Sub(now)}}, now) {
			added := Added(end, now.Add(time.Hour), now)
			end = end.Add(added)
			s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: 1, Left: end.Sub(now), Added: added}, now)
		}
	}
	if h := s.Holds(epoch.Add(32 * day))[0]; h.Why != "" || h.Granted != time.Hour || visits > 1000 {
		t.Errorf("%d visits, %+v", visits, h)
	}
}
