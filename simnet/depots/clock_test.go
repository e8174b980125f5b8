package depots

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
)

// tell plays a story of a depot that keeps a share for a node.
func tell(t *testing.T, f func(*Story, *Depot, *simnet.Content)) {
	t.Helper()
	s := &simnet.Scenario{Name: "clock", Limit: Limit, Set: func(r *simnet.Run) {
		Tell(r, func(s *Story) {
			d, a, c := New(s.Net, Config{Name: "depot"}), s.Add(simnet.NodeConfig{Name: "anna"}), s.Folder("share", 2, 60_000)
			a.Seed(c)
			d.Account("anna", 1<<30, a)
			d.Excuse()
			s.Pass(time.Minute)
			s.Hold(a, d, c, 20*24*time.Hour)
			s.Kept(d, c)
			f(s, d, c)
		})
	}}
	if r := s.Run(1, 0); !r.OK() {
		t.Error(r.Report())
	}
}

// What rots while the clock is wrong is repaired: that does not need a clock that is believed.
func TestDamageIsMendedWhileTheClockIsNotBelieved(t *testing.T) {
	for _, ahead := range []time.Duration{365 * 24 * time.Hour, -20 * time.Hour, -6 * time.Hour} {
		tell(t, func(s *Story, d *Depot, c *simnet.Content) {
			d.SetClock(ahead)
			st, _ := s.Do(d, actors.CollectNow{})
			s.Expect(st.Frozen == (ahead.Abs() > depot.MaxDrift), "frozen: %v", st.Frozen)
			d.Rot(c, s.Rand("rot"))
			for range 3 {
				s.Do(d, actors.ScrubNow{})
				s.Pass(61 * time.Minute)
			}
			s.Kept(d, c)
			d.SetClock(0)
		})
	}
}

// A clock that was found to be wrong is not believed after a power cut either, even if the
// machine reports by then that it is synchronised.
func TestAPowerCutDoesNotMakeAClockBelieved(t *testing.T) {
	tell(t, func(s *Story, d *Depot, _ *simnet.Content) {
		d.SetClock(365 * 24 * time.Hour)
		st, _ := s.Do(d, actors.CollectNow{})
		s.Expect(st.Frozen, "it is believed")
		s.Pass(time.Second)
		d.PowerOff()
		d.Start()
		s.Pass(time.Minute)
		st, _ = s.Do(d, actors.CollectNow{})
		s.Expect(st.Frozen, "it is believed after a power cut")
	})
}
