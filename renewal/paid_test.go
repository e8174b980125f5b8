package renewal

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// paying is a node that pays a depot for a lease of size bytes.
func paying(size int64) (*Service, Key) {
	s, k := New(Config{}, 1), Key{"d", shareID(1)}
	s.Want(Want{ID: 1, Share: k.Share, Bytes: size, Depots: []peers.ID{"d"}}, epoch)
	s.depots["d"].Paid = true
	return s, k
}

// A depot that says more than is true is paid for what it keeps.
func TestADepotDoesNotSayHowMuchItKeeps(t *testing.T) {
	s, k := paying(1 << 30)
	for _, state := range []State{Stable, Corrupt} {
		s.Hurry("d", epoch)
		s.Due(epoch)
		tasks := s.Visited("d", []Heard{{Share: k.Share, State: state, Bytes: 1 << 40, Left: day}}, epoch)
		if len(tasks) != 1 || tasks[0].Bytes != 1<<30 {
			t.Fatalf("%v: %+v", state, tasks)
		}
		if most := s.MayCost(k, tasks[0].Length, epoch); most != 1<<10 {
			t.Errorf("%v: a lease of 1,024 passes may cost %d", state, most)
		}
		s.Failed("d", "away", epoch)
	}
	if most := s.MayCost(Key{"d", shareID(2)}, day, epoch) + s.MayCost(Key{"e", k.Share}, day, epoch); most != 0 {
		t.Error("what is not held costs", most)
	}
}

// Whatever a depot says of time and credit, it is paid for the time that passes, and some lengths ahead.
func TestADepotDoesNotSayHowMuchTimeItWasPaid(t *testing.T) {
	for name, c := range map[string]struct {
		granted, lost bool
		back          time.Duration // by which the clock is set back each day
		left, added   time.Duration
	}{
		"each time nearly over": {granted: true, left: 31 * day, added: 31 * day},
		"little was added":      {granted: true, left: time.Minute, added: time.Second},
		"much was added":        {granted: true, left: 31 * day, added: 3100 * day},
		"the clock goes back":   {granted: true, left: 31 * day, added: 31 * day, back: time.Second},
		"never granted":         {},
		"never answered":        {lost: true},
	} {
		s, k := paying(100 << 20)
		now, paid, days := epoch, int64(0), 310
		for range days {
			s.Hurry("d", now)
			s.Due(now)
			for _, task := range s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 100 << 20, Left: time.Hour}}, now) {
				units := s.MayCost(k, task.Length, now)
				paid += units
				s.Bank(k, units, now)
				switch {
				case c.granted:
					s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: 100 << 20, Left: c.left, Added: c.added}, now)
				case c.lost:
					s.Failed("d", "away", now)
				default:
					s.Refused(k, "more passes", now)
				}
			}
			if now = now.Add(-c.back); c.back > 0 {
				s.Hurry("d", now)
				s.Due(now)
				s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 100 << 20, Left: 31 * day}}, now)
			}
			now = now.Add(day + c.back)
		}
		if most := int64(100 * (days/31 + 4)); paid > most || paid < 100 {
			t.Errorf("%s: %d units in %d days, %d are right and %d the most", name, paid, days, 100*days/31, most)
		}
	}
}

// Nor is it paid more for a large lease that it never grants by what it says of a small one.
func TestADepotDoesNotMakeOneLeaseForgetAnother(t *testing.T) {
	for name, c := range map[string]struct {
		free  bool          // the small one is granted without passes
		added time.Duration // to it, at each visit
		left  time.Duration // of it, at every other visit
		small int64         // MiB
	}{
		"it denies the credit":    {added: 31 * day, left: time.Hour, small: 10},
		"it uses it up":           {free: true, added: 31 * day, left: time.Hour, small: 1000},
		"it uses it up at once":   {free: true, added: 3100 * day, left: time.Hour, small: 10},
		"it says that it is used": {free: true, left: 31 * day, small: 1000},
	} {
		s, small := paying(c.small << 20)
		large := Key{"d", shareID(2)}
		s.Want(Want{ID: 2, Share: large.Share, Bytes: 1000 << 20, Depots: []peers.ID{"d"}}, epoch)
		now, paid, days := epoch, int64(0), 310
		for i := range days {
			left := time.Hour
			if i%2 > 0 {
				left = c.left
			}
			s.Hurry("d", now)
			s.Due(now)
			for _, task := range s.Visited("d", []Heard{{Share: small.Share, State: Stable, Bytes: c.small << 20, Left: left}}, now) {
				k := Key{"d", task.Share}
				units := s.MayCost(k, task.Length, now)
				if k == small && c.free {
					units = 0
				}
				paid += units
				if s.Bank(k, units, now); k == small {
					s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: c.small << 20, Left: 31 * day, Added: c.added}, now)
				} else {
					s.Refused(k, "more passes", now)
				}
			}
			now = now.Add(day)
		}
		if most := (1000 + c.small) * int64(days/31+4); paid > most {
			t.Errorf("%s: %d units in %d days, %d are the most", name, paid, days, most)
		}
	}
}

// An honest depot is never asked to keep a share for less than it costs: answers are lost, nodes are away, and
// once it loses what has happened since its last backup.
func TestAnHonestDepotIsPaid(t *testing.T) {
	type till struct {
		end    time.Time
		credit Credit
	}
	for seed := range uint64(17) {
		rng := rand.New(rand.NewPCG(seed, 1))
		size := int64(1) << (10 + 2*seed)
		s, k := paying(size)
		var has, backup till
		lapsed, restored := 0, 0
		for now, i := epoch, 0; now.Before(epoch.AddDate(5, 0, 0)); i++ {
			if next := s.Wake(); next.After(now) {
				now = next
			}
			if i > 3 && now.After(has.end) {
				lapsed++
			}
			if restored == 0 && now.After(epoch.AddDate(1, 0, 0)) {
				has, restored = backup, restored+1
			}
			if rng.IntN(5) == 0 {
				backup = has
			}
			s.Due(now)
			said := []Heard{{Share: k.Share, State: Stable, Bytes: size, Left: has.end.Sub(now).Truncate(time.Second)}}
			if !has.end.After(now) {
				said = nil
			}
			for _, task := range s.Visited("d", said, now) {
				added := Added(has.end, now.Add(task.Length+time.Duration(rng.IntN(5))*time.Second), now).Truncate(time.Second)
				units, left := Cost(size, added, has.credit)
				if most := s.MayCost(k, task.Length+5*time.Second, now); units > most {
					t.Fatalf("seed %d: it costs %d units after %v, and may cost %d", seed, units, now.Sub(epoch), most)
				}
				s.Bank(k, units, now)
				if rng.IntN(10) == 0 { // and is not granted
					has.credit += Paid(units)
					s.Failed("d", "away", now)
					break
				}
				if has.end = later(has.end, now).Add(added); true {
					has.credit = left
				}
				if rng.IntN(10) == 0 { // nobody hears it
					s.Failed("d", "away", now)
					break
				}
				s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: size, Left: has.end.Sub(now), Added: added}, now)
			}
		}
		if lapsed > restored || restored < 1 {
			t.Errorf("seed %d: lapsed %d times, restored %d times", seed, lapsed, restored)
		}
	}
}

// A lease that is paid for does not lapse because the clock was ahead for one visit: what is covered goes back with the clock, also when
// that is set right while the node is off.
func TestAClockThatWasAheadForAVisitCostsNoLease(t *testing.T) {
	for _, c := range []struct {
		length, ahead time.Duration
		off           bool
	}{{31 * day, 365 * day, false}, {31 * day, 365 * day, true}, {31 * day, 45 * day, false}, {day, 14 * day, false}} {
		const size = 100 << 20
		s, k := New(Config{}, 1), Key{"d", shareID(1)}
		s.Want(Want{ID: 1, Share: k.Share, Bytes: size, Length: c.length, Depots: []peers.ID{"d"}}, epoch)
		s.depots["d"].Paid = true
		ends := epoch // by the clock of the depot, which is honest
		for i, now := 0, epoch; i < 100; i, now = i+1, now.Add(c.length/31) {
			wrong := now
			if i == 10 {
				wrong = now.Add(c.ahead)
			}
			s.Hurry("d", wrong)
			s.Due(wrong)
			var said []Heard
			if ends.After(now) {
				said = []Heard{{Share: k.Share, State: Stable, Bytes: size, Left: ends.Sub(now)}}
			}
			for _, task := range s.Visited("d", said, wrong) {
				if most := s.MayCost(k, task.Length, wrong); task.Units > most {
					t.Fatalf("%+v: after %v its renewal costs %d passes, and may cost %d", c, now.Sub(epoch), task.Units, most)
				}
				added := Added(ends, now.Add(task.Length), now)
				ends = now.Add(task.Length)
				s.Bank(k, task.Units, wrong)
				s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: size, Left: task.Length, Added: added}, wrong)
			}
			if i == 10 && c.off {
				b := s.Book()
				s = New(Config{}, 1)
				s.Resume(b, now)
			}
		}
	}
}
