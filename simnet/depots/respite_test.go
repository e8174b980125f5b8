package depots

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/simnet"
)

// visited plays a story of a depot that a node visits, and for which it keeps a share. The node was there a day ago.
func visited(t *testing.T, f func(*Story, *Depot, *Owner)) {
	t.Helper()
	s := &simnet.Scenario{Name: "respite", Limit: Limit, Set: func(r *simnet.Run) {
		Tell(r, func(s *Story) {
			d, c := New(s.Net, Config{Name: "depot"}), s.Folder("share", 2, 60_000)
			d.Excuse()
			o := NewOwner(s.Net, simnet.NodeConfig{Name: "anna"}, renewal.Config{}, renewal.Want{}, c, d)
			o.MayComplain(true)
			d.Account("anna", 1<<30, o.Node)
			s.Kept(d, c)
			s.Pass(24 * time.Hour)
			f(s, d, o)
			for range 8 { // until the node has visited it again
				s.Pass(12 * time.Hour)
				s.Expect(d.Here(c) == nil && d.State(c) == depot.Stable, "it is %v: %v", d.State(c), d.Here(c))
			}
			s.Expect(d.Has("anna", c) == nil, "%v", d.Has("anna", c))
			s.Expect(!slices.Contains(d.Told(c), depot.Going), "it was removed, and fetched again")
		})
	}}
	if r := s.Run(1, 0); !r.OK() {
		t.Error(r.Report())
	}
}

// distrust makes a depot not trust its clock for 40 days, in which it is right again.
func distrust(s *Story, d *Depot) {
	d.SetClock(13 * time.Hour)
	s.Pass(2 * time.Hour)
	d.SetClock(0)
	s.Pass(40 * 24 * time.Hour)
	st, _ := s.Do(d, actors.DepotQuery{})
	s.Expect(st.Frozen, "the clock is believed")
}

// Holders have time to renew, whatever makes the time of a depot step forward, and whatever happens to it then.
func TestNothingEndsBeforeItsHolderCouldRenewIt(t *testing.T) {
	const day = 24 * time.Hour
	ok := func(s *Story, d *Depot) {
		st, err := s.Do(d, actors.ClockOK{})
		s.Expect(err == nil && !st.Frozen, "%+v, %v", st, err)
	}
	for name, f := range map[string]func(*Story, *Depot, *Owner){
		"confirmed twice": func(s *Story, d *Depot, _ *Owner) {
			distrust(s, d)
			ok(s, d)
			ok(s, d)
			s.Pass(time.Hour)
			ok(s, d)
		},
		"killed at each change after it was confirmed": func(s *Story, d *Depot, _ *Owner) {
			distrust(s, d)
			for n := range 8 {
				d.CrashIn(n+1, n%2 == 0)
				s.Do(d, actors.ClockOK{})
				s.Pass(time.Minute)
				d.CrashIn(0, false)
			}
			ok(s, d)
		},
		"confirmed while its disk is away": func(s *Story, d *Depot, _ *Owner) {
			distrust(s, d)
			mount := d.Unmount()
			d.PowerOff()
			d.Start()
			s.Pass(time.Minute)
			s.Do(d, actors.ClockOK{})
			s.Pass(time.Minute)
			mount()
			s.Pass(10 * time.Minute)
			st, err := s.Do(d, actors.CollectNow{})
			s.Expect(err == nil && !st.Frozen, "%+v, %v", st, err)
		},
		"confirmed while it was wrong": func(s *Story, d *Depot, _ *Owner) {
			d.SetClock(365 * day)
			s.Pass(2 * time.Hour)
			ok(s, d)
			s.Pass(10 * day)
			d.SetClock(0)
			s.Pass(2 * time.Hour)
			ok(s, d)
		},
		"its database is older than that": func(s *Story, d *Depot, _ *Owner) {
			old := d.Backup()
			distrust(s, d)
			ok(s, d)
			s.Pass(time.Hour)
			d.PowerOff()
			d.Restore(old)
			d.Start()
		},
		"off for 40 days": func(s *Story, d *Depot, _ *Owner) {
			d.PowerOff()
			s.Pass(40 * day)
			d.Start()
		},
		"off for 40 days, and synchronised late": func(s *Story, d *Depot, _ *Owner) {
			d.PowerOff()
			s.Pass(40 * day)
			d.Synced = false
			d.Start()
			s.Pass(time.Minute)
			st, _ := s.Do(d, actors.DepotQuery{})
			s.Expect(st.Frozen, "the clock is believed before it is synchronised")
			d.Synced = true
			s.Pass(2 * time.Hour)
			st, _ = s.Do(d, actors.DepotQuery{})
			s.Expect(!st.Frozen, "the clock is not believed")
		},
	} {
		t.Run(name, func(t *testing.T) { visited(t, f) })
	}
}
