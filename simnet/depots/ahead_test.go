package depots

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
)

// A clock that jumps ahead, once while the machine is on and once while it is off, ends no lease so
// early that the grace does not cover it: together the two are noticed, or are no longer than the grace.
func TestWhatIsBelievedOfAClockIsCoveredByTheGrace(t *testing.T) {
	const day, on = 24 * time.Hour, 11*time.Hour + 50*time.Minute
	for name, off := range map[string]time.Duration{"noticed": 22 * time.Hour, "not noticed": 12 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := &simnet.Scenario{Name: "ahead", Limit: Limit, Set: func(r *simnet.Run) {
				Tell(r, func(s *Story) {
					d, a, c := New(s.Net, Config{Name: "depot"}), s.Add(simnet.NodeConfig{Name: "anna"}), s.Folder("share", 2, 60_000)
					a.Seed(c)
					d.Account("anna", 1<<30, a)
					d.Excuse()
					d.GC()
					d.Synced = false
					s.Pass(time.Minute)
					s.Hold(a, d, c, 10*day)
					s.Kept(d, c)
					s.Pass(8 * day)
					d.SetClock(on)
					s.Pass(2 * time.Hour)
					d.PowerOff()
					d.SetClock(d.Ahead() + off)
					d.Start()
					s.Pass(2 * time.Hour)
					st, _ := s.Do(d, actors.DepotQuery{})
					s.Expect(st.Frozen == (on+off > depot.MaxDoubt), "it is %v ahead; frozen: %v", d.Ahead(), st.Frozen)
					s.Pass(9*day + 20*time.Hour - 8*day - 4*time.Hour)
					s.Expect(d.Here(c) == nil && d.State(c) == depot.Stable, "four hours before the lease ends it is %v: %v", d.State(c), d.Here(c))
				})
			}}
			if r := s.Run(1, 0); !r.OK() {
				t.Error(r.Report())
			}
		})
	}
}
