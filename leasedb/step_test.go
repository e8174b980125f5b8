package leasedb

import (
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
)

// What was left of a lease before a step is left after it, at most a respite, and so is what was left of a grace. What was
// over is over.
func TestAStepTakesNothing(t *testing.T) {
	t.Parallel()
	from, to := start.Add(40*day), start.Add(90*day)
	for i, c := range []struct{ ends, then time.Duration }{ // from the step on
		{31 * day, 31 * day},
		{90 * day, 40 * day}, // it ends later than that anyway
		{60 * day, 31 * day},
		{day, day},
		{time.Second, time.Second},
		{0, 0},
		{-23 * time.Hour, -23 * time.Hour},
		{-day, -day - 50*day},
	} {
		for _, swept := range []bool{false, true} {
			r := newRig(t)
			r.ok(r.SetAccount(t.Context(), people[0], depot.Terms{Quota: 1000, MaxLease: 366 * day}))
			ends := from.Add(c.ends)
			a := r.ask(people[0], nth(1), 100)
			a.Until = ends
			_, err := r.Hold(t.Context(), start, a)
			r.ok(err)
			r.stable(nth(1))
			if swept {
				_, _, err = r.Sweep(t.Context(), from, 100)
				r.ok(err)
			}
			r.ok(r.Step(t.Context(), from, to, []byte("clock")))
			then := to.Add(c.then)
			if l, err := r.Leases(t.Context(), to, nth(1)); (len(l) == 1) != then.After(to) || err != nil || len(l) == 1 && !l[0].Expires.Equal(then) {
				t.Errorf("case %d: %+v, %v; it should end at %v", i, l, err, then)
			}
			if at := then.Add(depot.Grace - time.Second); at.After(to) {
				if err := r.Collect(t.Context(), at, nth(1)); !errors.Is(err, depot.ErrKept) {
					t.Errorf("case %d, swept %v: a second before its grace is over: %v", i, swept, err)
				}
			}
			r.ok(r.Collect(t.Context(), latest(to, then.Add(depot.Grace)), nth(1)))
			if m, err := r.Meta(t.Context()); err != nil || string(m.Clock) != "clock" || m.Frozen {
				t.Errorf("%+v, %v", m, err)
			}
			r.sums()
		}
	}
}

// What is asked before a step, and done after it, counts from then on.
func TestWhatWasAskedBeforeAStepCountsFromThenOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from, to := start, start.Add(40*day)
	r.ok(r.Step(t.Context(), from, to, nil))
	a := r.ask(people[0], nth(1), 100)
	a.Until = to.Add(9 * day)
	g, err := r.Hold(t.Context(), from, a)
	if r.ok(err); !g.Expires.Equal(a.Until) {
		t.Errorf("a lease until %v, asked for until %v", g.Expires, a.Until)
	}
	b := r.ask(people[0], nth(2), 100)
	b.Until = from.Add(31 * day)
	var refused *depot.Refusal
	if _, err := r.Hold(t.Context(), from, b); !errors.As(err, &refused) || refused.Reason != depot.BadTime {
		t.Errorf("a lease that is over was granted: %v", err)
	}
	r.ok(r.SetClock(t.Context(), from, nil, false)) // its owner sets it back
	b.Request = "again"
	_, err = r.Hold(t.Context(), from, b)
	r.ok(err)
}
