package renewal

import (
	"errors"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"pgregory.net/rapid"
)

func TestInvariant48DelaysLieWithinTheirRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Length: time.Duration(rapid.Int64Range(int64(time.Minute), int64(365*day)).Draw(t, "length"))}
		cfg.Mean = cfg.Length / time.Duration(rapid.IntRange(12, 40).Draw(t, "visits"))
		cfg.Range = time.Duration(rapid.Float64Range(0, 0.5).Draw(t, "range") * float64(cfg.Mean))
		if err := cfg.Validate(); err != nil {
			t.Fatalf("%+v: %v", cfg, err)
		}
		s := New(cfg, rapid.Uint64().Draw(t, "seed"))
		cfg = cfg.withDefaults()
		k := Key{"d", shareID(1)}
		hold(s, Hold{Key: k, Expires: epoch.Add(cfg.Length), State: Stable}, epoch)
		for now, i := epoch, 0; i < 20; i++ {
			wait := s.Wake().Sub(now)
			if wait < cfg.Mean-cfg.Range/2-1 || wait > cfg.Mean+cfg.Range/2+1 {
				t.Fatalf("visit after %v, want %v ± %v", wait, cfg.Mean, cfg.Range/2)
			}
			now = s.Wake()
			if len(s.Due(now.Add(-1))) != 0 || !slices.Equal(s.Due(now), []peers.ID{"d"}) || len(s.Due(now)) != 0 {
				t.Fatal("not due once, at its time")
			}
			s.Visited("d", []Heard{{Share: k.Share, State: Stable, Left: cfg.Length}}, now)
		}
	})
}

func TestInvariant48ConfigsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"seed's":         {Config{Mean: 26 * day, Range: 4 * day}, "leases of 744h0m0s could lapse: they are renewed in their last 248h0m0s, and 2 failed visits and a good one may take 2016h0m0s"},
		"negative delay": {Config{Mean: day, Range: 2*day + 1}, "Range is"},
		"negative":       {Config{Mean: -1}, "Mean is -1ns: it must be from"},
		"retries":        {Config{RetryMin: time.Hour, RetryMax: time.Minute}, "RetryMax is 1m0s"},
		"just too far":   {Config{Mean: 4 * day, Range: time.Second, Length: 36 * day}, "could lapse"},
		"many misses":    {Config{Misses: 4}, "4 failed visits and a good one may take 310h0m0s"},
	} {
		err := c.cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, cfg := range map[string]Config{"default": {}, "just near enough": {Mean: 4 * day, Range: 0, Length: 36 * day}, "31 s": {Length: 31 * time.Second}, "3 misses": {Misses: 3}} {
		if err := cfg.Validate(); err != nil && name != "just near enough" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var c *CoverageError
	if err := (Config{Mean: 26 * day}).Validate(); !errors.As(err, &c) || c.Misses != 2 {
		t.Error(err)
	}
}

// With the coverage rule satisfied no lease lapses, whichever visits fail, as long as
// no more than Misses fail in a row, and even without any retry.
func TestInvariant49CoverageHoldsWithoutRetries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Length: time.Duration(rapid.Int64Range(int64(time.Minute), int64(365*day)).Draw(t, "length")),
			Misses: rapid.IntRange(1, 6).Draw(t, "misses"),
		}
		cfg.Mean = time.Duration(rapid.Float64Range(0.005, 0.2).Draw(t, "mean") * float64(cfg.Length))
		cfg.Range = time.Duration(rapid.Float64Range(0.001, 2).Draw(t, "range") * float64(cfg.Mean))
		cfg.RetryMin, cfg.RetryMax = 24*time.Hour, 24*time.Hour // no help
		if cfg.Validate() != nil {
			return
		}
		s := New(cfg, rapid.Uint64().Draw(t, "seed"))
		k := Key{"d", shareID(1)}
		now, end, missed := epoch, epoch.Add(cfg.Length), 0
		hold(s, Hold{Key: k, Expires: end, State: Stable}, now)
		for range rapid.IntRange(1, 100).Draw(t, "visits") {
			now = s.Wake()
			s.Due(now)
			if !now.Before(end) {
				t.Fatalf("lapsed %v ago after %d misses", now.Sub(end), missed)
			}
			if missed < cfg.Misses && rapid.Bool().Draw(t, "fails") {
				missed++
				s.Failed("d", "away", now)
				continue
			}
			missed = 0
			for range s.Visited("d", []Heard{{Share: k.Share, State: Stable, Left: end.Sub(now)}}, now) {
				end = now.Add(cfg.Length)
				renewed(s, k, cfg.Length, now)
			}
		}
	})
}

func TestInvariant50FailureIsRetriedSoonAndIsNoSuccess(t *testing.T) {
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	hold(s, Hold{Key: k, Expires: epoch.Add(31 * day), State: Stable}, epoch)
	now := s.Wake()
	var waits []time.Duration
	for range 9 {
		s.Due(now)
		s.Failed("d", "no answer", now)
		waits = append(waits, s.Wake().Sub(now))
		now = s.Wake()
	}
	m := time.Minute
	if want := []time.Duration{10 * m, 20 * m, 40 * m, 80 * m, 160 * m, 320 * m, 360 * m, 360 * m, 360 * m}; !slices.Equal(waits, want) {
		t.Errorf("tried again after %v", waits)
	}
	if a := s.Accounts()[0]; !a.Good.IsZero() || a.Failed != 9 || a.Why != "no answer" {
		t.Errorf("%+v", a)
	}
	s.Due(now)
	s.Visited("d", []Heard{{Share: k.Share, State: Stable, Left: 20 * day}}, now)
	if a := s.Accounts()[0]; !a.Good.Equal(now) || a.Failed != 0 || a.Why != "" {
		t.Errorf("%+v", a)
	}
}

// One refused renewal makes the visit unsuccessful; what was renewed stays renewed.
func TestInvariant50OneRefusedRenewalIsNoSuccess(t *testing.T) {
	s := New(Config{}, 1)
	a, b := Key{"d", shareID(1)}, Key{"d", shareID(2)}
	for _, k := range []Key{a, b} {
		hold(s, Hold{Key: k, Bytes: 1, Expires: epoch.Add(9 * day), State: Stable}, epoch)
	}
	now := s.Wake()
	s.Due(now)
	renew := s.Visited("d", []Heard{{Share: a.Share, State: Stable, Bytes: 1, Left: 5 * day}, {Share: b.Share, State: Stable, Bytes: 1, Left: 4 * day}}, now)
	if len(renew) != 2 || renew[0].Share != b.Share || renew[0].Length != 31*day {
		t.Fatalf("%+v", renew)
	}
	renewed(s, b, 31*day, now)
	s.Refused(a, "3 passes are missing", now)
	s.Refused(a, "said twice", now)
	acc := s.Accounts()[0]
	if !acc.Good.IsZero() || acc.Failed != 1 || acc.Why != "3 passes are missing" || acc.Next.Sub(now) != 10*time.Minute {
		t.Errorf("%+v", acc)
	}
	h := s.Holds(now)
	if h[0].Key != a || h[0].Left != 5*day || h[1].Left != 31*day || h[1].Cost != 1 {
		t.Errorf("%+v", h)
	}
}

// What another member of the fleet is doing is no fault, and no success: it is looked at again soon, and then less often.
func TestWhatAnotherMemberDoesIsNoFault(t *testing.T) {
	t.Parallel()
	s, k := New(Config{}, 1), Key{"d", shareID(1)}
	hold(s, Hold{Key: k, Bytes: 1, Expires: epoch.Add(5 * day), State: Stable}, epoch)
	s.depots["d"].Failed = 2
	now := epoch
	for _, wait := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		s.Hurry("d", now)
		s.Due(now)
		s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 1, Left: 5 * day}}, now)
		s.Deferred(k, "another has the turn", now)
		s.Deferred(k, "said twice", now)
		if a := s.Account("d"); a.Failed != 0 || a.Why != "" || !a.Good.IsZero() || a.Next.Sub(now) != wait {
			t.Errorf("%+v, not again after %v", a, wait)
		}
		if h := s.Holds(now)[0]; h.Why != "another has the turn" || h.Left != 5*day {
			t.Errorf("%+v", h)
		}
		now = now.Add(time.Second)
	}
	s.Hurry("d", now)
	s.Due(now)
	s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 1, Left: 31 * day}}, now)
	if a, h := s.Account("d"), s.Holds(now)[0]; a.Good != now || h.Why != "" || a.Next.Sub(now) < day {
		t.Errorf("once it is renewed: %+v, %+v", a, h)
	}
}

func TestInvariant51AfterAGoodVisitMoreIsLeftThanTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := New(Config{}, 1)
		var said []Heard
		for i := range rapid.IntRange(1, 20).Draw(t, "holds") {
			k := Key{"d", shareID(i)}
			left := time.Duration(rapid.Int64Range(1, int64(31*day)).Draw(t, "left"))
			hold(s, Hold{Key: k, Bytes: 1, Expires: epoch.Add(left), State: Stable}, epoch)
			said = append(said, Heard{Share: k.Share, State: Stable, Bytes: 1, Left: left})
		}
		now := s.Wake()
		s.Due(now)
		for _, r := range s.Visited("d", said, now) {
			renewed(s, Key{"d", r.Share}, r.Length, now)
		}
		for _, h := range s.Holds(now) {
			if h.Left <= s.cfg.renewWithin() {
				t.Fatalf("%v left", h.Left)
			}
		}
		if s.Accounts()[0].Good != now {
			t.Fatal("no success")
		}
	})
}

// If its holds are dropped while a visit is under way, or a visit ends twice, nothing is scheduled.
func TestInvariant52NothingIsArmedForWhatIsGone(t *testing.T) {
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	hold(s, Hold{Key: k, Expires: epoch.Add(day), State: Stable}, epoch)
	now := s.Wake()
	s.Due(now)
	if !s.Wake().IsZero() {
		t.Error("a second visit is armed while the first is under way")
	}
	s.Unwant(1, now)
	s.Failed("d", "away", now)
	s.Failed("d", "away", now)
	if !s.Wake().IsZero() || len(s.Accounts()) != 0 {
		t.Errorf("%v %+v", s.Wake(), s.Accounts())
	}
}

func TestLeavingIsNotRenewedAndMissingIsOfferedAgain(t *testing.T) {
	s := New(Config{}, 1)
	leaving, missing, silent := Key{"d", shareID(1)}, Key{"d", shareID(2)}, Key{"d", shareID(3)}
	hold(s, Hold{Key: leaving, Bytes: 9 << 20, Expires: epoch.Add(5 * day), State: Stable}, epoch)
	hold(s, Hold{Key: missing, Bytes: 9 << 20, Expires: epoch.Add(day), State: Stable}, epoch)
	hold(s, Hold{Key: silent, Expires: epoch.Add(day), State: Stable}, epoch)
	s.Want(Want{ID: 1, Share: leaving.Share, Depots: []peers.ID{"e", "d"}, Copies: 1}, epoch) // and e has not got it yet
	now := epoch.Add(3 * day)
	s.Due(now)
	r := s.Visited("d", []Heard{{Share: leaving.Share, State: Stable, Bytes: 9 << 20, Left: day}, {Share: missing.Share, State: Missing, Bytes: 9 << 20, Left: day}}, now)
	if len(r) != 2 || r[0].Verb != Offer || r[1].Verb != Offer || r[0].Share != silent.Share || r[1].Share != missing.Share || r[1].Bytes != 9<<20 || r[1].Length != 31*day {
		t.Errorf("%+v", r)
	}
	if len(s.Dues(now.Add(365*day), now)) != 0 {
		t.Error("what is not renewed costs something")
	}
	for _, h := range s.Holds(now) {
		if h.Depot == "d" && (h.Late != (h.Key != leaving) || h.Kept != (h.Key != leaving)) {
			t.Errorf("late: %+v", h)
		}
		if h.Key == silent && (h.State != Missing || h.Left != 0) {
			t.Errorf("the depot does not mention it: %+v", h)
		}
	}
}

// The depot's answer replaces our record: what the depot does not have has lapsed now, not on
// the day that we expected.
func TestAHoldThatTheDepotDoesNotHaveHasLapsed(t *testing.T) {
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	hold(s, Hold{Key: k, Expires: epoch.Add(30 * day), State: Stable}, epoch)
	now := s.Wake()
	s.Due(now)
	s.Visited("d", nil, now)
	if h := s.Holds(now)[0]; h.State != Missing || h.Left != 0 || !h.Late {
		t.Errorf("%+v", h)
	}
}

// A depot that does not know us any more says nothing of our leases: they stand as they did, whoever wants them ended is not
// told that they have, and another depot is asked at once; if there is none, the owner is warned. A depot that has nothing of ours
// is offered what it is to keep.
func TestADepotThatDoesNotKnowUsKeepsWhatItHas(t *testing.T) {
	for _, depots := range [][]peers.ID{abc[:1], abc} {
		d := newDesk(t)
		x := shareID(1)
		d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: depots, Copies: 1}, d.now)
		if id := d.s.Due(d.now)[0]; d.s.Barred(id, d.now) {
			t.Errorf("%v has leases of ours", id)
		}
		d.visit("a")
		d.arrive("a", x)
		d.pass(time.Hour)
		d.s.Hurry("a", d.now)
		d.s.Due(d.now)
		if !d.s.Barred("a", d.now) {
			t.Fatal("a has none of our leases")
		}
		d.s.Failed("a", "unknown account", d.now)
		all := d.s.Holds(d.now)
		h := all[len(all)-1]
		if alone := len(depots) == 1; h.State != Stable || h.Left == 0 || h.Late != alone || slices.Contains(d.s.At(1), "a") != alone {
			t.Errorf("%+v at %v", all, d.s.At(1))
		}
		d.s.Unwant(1, d.now)
		if all = d.s.Holds(d.now); len(all) != 1 || all[0].Kept || all[0].State != Stable {
			t.Errorf("forgotten: %+v", all)
		}
	}
}

func TestAWordThatComesLateChangesNothing(t *testing.T) {
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	hold(s, Hold{Key: k, Bytes: 1, Expires: epoch.Add(3 * day), State: Stable}, epoch)
	before := s.Accounts()[0]
	s.Failed("d", "nobody was visiting", epoch)
	s.Refused(k, "nobody asked", epoch)
	if r := s.Visited("d", []Heard{{Share: k.Share, State: Stable, Left: 1}}, epoch); r != nil || !reflect.DeepEqual(s.Accounts()[0], before) {
		t.Errorf("%+v, %+v", r, s.Accounts()[0])
	}
}

func TestAHoldIsVisitedInTimeWhateverWasPlanned(t *testing.T) {
	known, fresh := Key{"d", shareID(1)}, Key{"d", shareID(2)}
	s := New(Config{}, 1)
	s.Know(Account{Depot: "d", Next: epoch.Add(1000 * day)}, epoch) // the clock was set back
	hold(s, Hold{Key: known, Expires: epoch.Add(31 * day), State: Stable}, epoch)
	if wait := s.Wake().Sub(epoch); wait != s.cfg.longest() {
		t.Errorf("a known hold is visited after %v", wait)
	}
	hold(s, Hold{Key: fresh}, epoch)
	if wait := s.Wake().Sub(epoch); wait != 0 {
		t.Errorf("a new hold is visited after %v", wait)
	}
	// A short lease that nothing needs does not make visits more frequent.
	s = New(Config{}, 1)
	s.add(Hold{Key: known, Expires: epoch.Add(day), Granted: day, State: Stable}, epoch)
	if wait := s.Wake().Sub(epoch); wait < day {
		t.Errorf("visited after %v for a hold that leaves", wait)
	}
}

// A depot whose clock is off by an hour, or that grants less, is renewed in time: the time left
// counts, not the date.
func TestADepotThatGrantsLessIsVisitedMoreOften(t *testing.T) {
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	hold(s, Hold{Key: k, Bytes: 1, Expires: epoch.Add(5 * day), Granted: 5 * day, State: Stable}, epoch)
	now, end := epoch, epoch.Add(5*day)
	for range 100 {
		now = s.Wake()
		if !now.Before(end.Add(-5 * day / 3 / 5)) {
			t.Fatalf("visited %v before the end", end.Sub(now))
		}
		s.Due(now)
		for range s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 1, Left: end.Sub(now)}}, now) {
			end = now.Add(5 * day) // though 31 days were requested
			renewed(s, k, 5*day, now)
		}
	}
	renewed(s, k, time.Nanosecond, now) // a depot that grants next to nothing does not keep us busy
	if wait := s.Wake().Sub(now); wait < 0 {
		t.Error(wait)
	}
	now = s.Wake()
	s.Due(now)
	s.Visited("d", []Heard{{Share: k.Share, State: Stable, Left: day}}, now)
	if wait := s.Wake().Sub(now); wait < time.Minute {
		t.Errorf("visited again after %v", wait)
	}
}

// Whatever the renewals, the units paid are the size times all time added, rounded up once.
func TestInvariant53CostEqualsItsClosedForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.OneOf(rapid.Int64Range(0, 3<<20), rapid.Int64Range(1, 1<<62)).Draw(t, "bytes")
		var credit Credit
		total, seconds := new(big.Int), new(big.Int)
		for range rapid.IntRange(1, 30).Draw(t, "renewals") {
			added := time.Duration(rapid.Int64Range(-10, 400*86400).Draw(t, "added")) * time.Second
			var units int64
			units, credit = Cost(bytes, added, credit)
			if units < 0 || credit < 0 || int64(credit) >= unit {
				t.Fatalf("%d units, credit %d", units, credit)
			}
			total.Add(total, big.NewInt(units))
			if added > 0 {
				seconds.Add(seconds, big.NewInt(int64(added/time.Second)))
			}
		}
		size := big.NewInt(0)
		if bytes > 0 {
			size.SetInt64((bytes-1)>>20 + 1)
		}
		want := new(big.Int).Mul(size, seconds)
		want.Add(want, big.NewInt(unit-1)).Div(want, big.NewInt(unit))
		if total.Cmp(want) != 0 {
			t.Fatalf("paid %v, want %v", total, want)
		}
	})
}

func TestTimeIsNeverPaidTwiceAndALapseNotAtAll(t *testing.T) {
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	for _, c := range []struct{ end, until, now, want time.Duration }{
		{10, 31, 0, 21}, {0, 31, 0, 31}, {-5, 31, 0, 31}, {40, 31, 0, 0}, {31, 31, 0, 0},
	} {
		if got := Added(at(c.end), at(c.until), at(c.now)); got != c.want {
			t.Errorf("end %d, until %d: %d, want %d", c.end, c.until, got, c.want)
		}
	}
	if units, _ := Cost(1, 1, 0); units != 1 {
		t.Error("a byte for a second is free")
	}
	if units, left := Cost(UnitBytes, UnitTime, 0); units != 1 || left != 0 {
		t.Error(units, left)
	}
}

func TestOwedIsWhatTheRenewalsOfATimeCost(t *testing.T) {
	s := New(Config{}, 1)
	for i, left := range []time.Duration{5 * day, 12 * day, 30 * day} {
		hold(s, Hold{Key: Key{"d", shareID(i)}, Bytes: 31 << 20, Expires: epoch.Add(left), State: Stable}, epoch)
	}
	for days, want := range map[time.Duration][]int64{0: {26}, 2: {26, 21}, 31: {26, 21, 21}} {
		var got []int64
		for _, d := range s.Dues(epoch.Add(days*day), epoch) {
			got = append(got, d.Units)
		}
		if !slices.Equal(got, want) {
			t.Errorf("until day %d: %v, want %v", days, got, want)
		}
	}
}

// A depot that took passes once, and takes none any more: its owner made the account free. Nothing is due.
func TestADepotThatBecameFreeIsOwedNothing(t *testing.T) {
	for paid, renewals := range map[int64]int{0: 1, 1: 4} { // for two months after a payment it may have credit that is not known here
		s := New(Config{}, 1)
		k := Key{"d", shareID(1)}
		hold(s, Hold{Key: k, Bytes: 100 << 20, Expires: epoch.Add(5 * day), State: Stable}, epoch)
		s.Bank(k, paid, epoch)
		now := epoch
		for range renewals { // each time all that was asked is granted, and nothing paid
			s.Due(now)
			s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 100 << 20, Left: 5 * day}}, now)
			s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: 100 << 20, Left: 31 * day, Added: 26 * day}, now)
			now = now.Add(26 * day)
		}
		if due := s.Dues(now.Add(31*day), now); len(due) > 0 {
			t.Errorf("%d units were paid once. %d renewals cost nothing, and the next should cost %+v", paid, renewals, due)
		}
	}
}
