package scenarios

import (
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/depots"
	"github.com/piecelease/fetcher/wire"
)

// frozen expects the clock of a depot to be disbelieved, or not.
func frozen(s *depots.Story, d *depots.Depot, want bool) actors.DepotStatus {
	st, err := s.Do(d, actors.CollectNow{})
	s.Expect(err == nil, "the depot did not collect: %v", err)
	s.Expect(err != nil || st.Frozen == want, "the depot distrusts its clock: %v; expected: %v", st.Frozen, want)
	return st
}

// left expects an account to have one lease, of which so much is left, give or take an hour.
func left(s *depots.Story, x *simnet.Node, d *depots.Depot, want time.Duration) {
	all, err := s.Holdings(x, d)
	s.Expect(err == nil && len(all) == 1, "%s should have a lease at %s; the depot says %+v, error: %v", x.Name(), d.Name(), all, orNothing(err))
	if len(all) == 1 {
		got := time.Unix(all[0].Expires, 0).Sub(d.Reading().Wall)
		s.Expect((got-want).Abs() < time.Hour, "time left on the lease: %v; it should be %v, give or take an hour", got, want)
	}
}

// ticking are scenarios of clocks: those of machines that sleep are right, those that jump
// end no lease.
var ticking = []*simnet.Scenario{
	ofDepot("clock-jumps-a-year", "A depot's clock jumps a year ahead: no lease ends until the depot's owner has set the clock right and said so; then each ends when it should.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 10*day)
		s.Kept(d, c)
		d.Excuse()
		d.SetClock(365 * day)
		s.Pass(2 * time.Hour)
		frozen(s, d, true)
		s.Pass(61 * time.Minute)
		s.Kept(d, c)
		holds(s, a, d, c)
		d.SetClock(0)
		s.Pass(2 * time.Hour)
		frozen(s, d, true)
		s.Do(d, actors.ClockOK{})
		frozen(s, d, false)
		until(s, a, d, h)
		to(d, time.Unix(h.Expires, 0).Add(depot.Grace-time.Hour))
		s.Do(d, actors.CollectNow{})
		s.Pass(time.Minute)
		s.Kept(d, c)
		s.Sleep(time.Hour, d)
		s.Gone(d, c)
	}),
	ofDepot("clock-back", "A depot's clock goes back by some hours, which is believed and lengthens no lease, then by a month, which is not believed.", func(s *depots.Story) {
		d, a, c := pair(s)
		s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		before := s.Used(a, d).At
		d.SetClock(-6 * time.Hour)
		s.Pass(2 * time.Hour)
		st := frozen(s, d, false)
		s.Expect(st.Now.Unix() == before, "the time of leases should stand still at %d, and is %d", before, st.Now.Unix())
		d.Excuse()
		d.SetClock(-30 * day)
		s.Pass(2 * time.Hour)
		st = frozen(s, d, true)
		s.Expect(st.Now.Unix() == before, "the time of leases should stand still at %d, and is %d", before, st.Now.Unix())
		d.Kill()
		d.Start()
		s.Pass(time.Minute)
		frozen(s, d, true)
		d.SetClock(0)
		s.Do(d, actors.ClockOK{})
		frozen(s, d, false)
		s.Kept(d, c)
	}),
	ofDepot("a-year-ahead-for-a-month", "A depot's clock is a year ahead for a month, across restarts: whatever is held is kept, and once the clock is right again, there is time to renew the leases.", func(s *depots.Story) {
		d, a, c := pair(s)
		d.Synced = s.Rand("synced").IntN(2) == 0
		s.Hold(a, d, c, 31*day)
		s.Kept(d, c)
		d.Excuse()
		d.SetClock(365 * day)
		s.Pass(2 * time.Hour)
		for i := range 29 {
			if i%3 == 1 {
				d.PowerOff()
				d.Start()
			}
			s.Sleep(day-2*time.Hour, d)
			frozen(s, d, true)
		}
		s.Kept(d, c)
		holds(s, a, d, c)
		d.SetClock(d.Ahead() - 365*day)
		s.Do(d, actors.ClockOK{})
		left(s, a, d, 31*day)
		holds(s, a, d, c)
	}),
	ofDepot("jumps-every-day", "A depot's clock jumps 23 hours every day, or 11, forward or back, while its machine is on or off: what is held for a month is kept for a month.", func(s *depots.Story) {
		d, a, c := pair(s)
		rng := s.Rand("jumps")
		d.Synced = false
		d.Excuse()
		jump := [...]time.Duration{23 * time.Hour, 11 * time.Hour, -23 * time.Hour, -11 * time.Hour}[rng.IntN(4)]
		off := rng.IntN(2) == 0
		h := s.Hold(a, d, c, 31*day)
		s.Kept(d, c)
		for range 29 {
			if off {
				d.PowerOff()
				d.SetClock(d.Ahead() + jump)
				d.Start()
			} else {
				d.SetClock(d.Ahead() + jump)
			}
			s.Sleep(20*time.Hour, d)
			s.Do(d, actors.CollectNow{})
			s.Expect(d.State(c) == depot.Stable, "the state of the share is %v", d.State(c))
		}
		frozen(s, d, true)
		s.Kept(d, c)
		until(s, a, d, h)
	}),
	ofDepot("asleep-every-night", "A depot's machine sleeps at night, and every third night it is switched off instead: the depot believes its clock all the time, and a lease that is renewed every day never lapses.", func(s *depots.Story) {
		d, a, c := pair(s)
		s.Hold(a, d, c, 2*day)
		s.Kept(d, c)
		other := s.File("film", 200_000)
		a.Seed(other)
		once := s.Hold(a, d, other, 10*day)
		s.Kept(d, other)
		for night := range 30 {
			if night%3 == 2 {
				d.PowerOff()
				d.Sleep(14 * time.Hour)
				d.Start()
			} else {
				d.Sleep(14 * time.Hour)
			}
			s.Pass(61 * time.Minute)
			h := s.Granted(a, d, wire.Renew{Share: c.ID(), Request: s.Request(), Until: d.Reading().Wall.Add(2 * day).Unix()})
			s.Expect(h.Expires-h.At >= int64(2*day/time.Second)-1, "a lease of two days was asked for, and ends after %d s", h.Expires-h.At)
			d.Sleep(9 * time.Hour)
			frozen(s, d, false)
			kept := time.Unix(once.Expires, 0).Add(depot.Grace)
			if now := d.Reading().Wall; now.Before(kept) {
				s.Expect(d.State(other) == depot.Stable, "the state of the share is %v at %v, and the share is to be kept until %v", d.State(other), now, kept)
			}
		}
		s.Kept(d, c)
		s.Gone(d, other)
	}),
}
