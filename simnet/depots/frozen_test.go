package depots

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/simnet"
)

// A depot does not trust its clock, which was wrong for some hours and is right again, until its owner sees that 40 days later, and
// confirms it. All that time a node that runs visits it in time: what the node has it keep is kept.
func TestWhatIsVisitedInTimeIsKeptWhenAClockIsConfirmed(t *testing.T) {
	const day = 24 * time.Hour
	for frozenFor, name := range map[time.Duration]string{5 * day: "5 days", 40 * day: "40 days"} {
		t.Run(name, func(t *testing.T) {
			s := &simnet.Scenario{Name: "frozen", Limit: 100 * day, Set: func(r *simnet.Run) {
				Tell(r, func(s *Story) {
					d, c := New(s.Net, Config{Name: "depot"}), s.Folder("share", 2, 60_000)
					d.Excuse()
					d.GC()
					o := NewOwner(s.Net, simnet.NodeConfig{Name: "anna"}, renewal.Config{}, renewal.Want{}, c, d)
					o.MayComplain(true)
					d.Account("anna", 1<<30, o.Node)
					s.Kept(d, c)
					s.Pass(day)
					d.SetClock(13 * time.Hour)
					s.Pass(2 * time.Hour)
					d.SetClock(0)
					s.Pass(2 * time.Hour)
					st, _ := s.Do(d, actors.CollectNow{})
					s.Expect(st.Frozen, "the clock is believed")
					good := o.Good
					s.Pass(frozenFor)
					s.Expect(o.Good > good+int(frozenFor/(3*day)) && d.Here(c) == nil, "good visits in that time: %d; here: %v", o.Good-good, d.Here(c))
					st, err := s.Do(d, actors.ClockOK{})
					s.Expect(err == nil && !st.Frozen, "%+v, %v", st, err)
					s.Pass(2 * time.Hour)
					s.Expect(d.Has("anna", c) == nil, "what is kept for a node that ran all the time, and reached the depot every two days: %v", d.Has("anna", c))
					s.Expect(d.Here(c) == nil, "its bytes: %v", d.Here(c))
					s.Expect(d.State(c) == depot.Stable, "it is %v", d.State(c))
				})
			}}
			if r := s.Run(1, 0); !r.OK() {
				t.Error(r.Report())
			}
		})
	}
}
