package depot

import "time"

const (
	// MaxDrift is how far the wall clock and the time that passed may be apart, in
	// total since the owner last confirmed the clock.
	MaxDrift = 12 * time.Hour
	// MaxDoubt is the most that may be doubted of the clock, in total since the owner last
	// confirmed it: how far those two are apart, and the time that passed unmeasured. A clock that
	// is wrong and believed ends no lease so early that the grace does not make up for it.
	MaxDoubt = Grace
	// MaxStep is how far the time for leases goes forward at once where nobody measured it. A longer step
	// would end leases whose holders had no time to renew them: see Clock.Waits.
	MaxStep = Grace
	// Respite is how much of a lease a step may not take. Whoever holds leases of up to
	// a year visits at least that often.
	Respite = 31 * 24 * time.Hour
)

// A Clock tells the time for leases, and whether that time is believed. Once it is
// frozen, time stands still for leases until the owner confirms that the wall clock
// is right: nothing expires, and nothing is collected.
//
// It is kept with the database. Its fields are exported only to be stored; the zero
// value has never read the time.
type Clock struct {
	Boot   string        // the boot that Passed counts from
	Wall   time.Time     // at the last Look
	Passed time.Duration // at the last Look
	Drift  time.Duration // wall clock minus time that passed, where that was measured
	Gap    time.Duration // time that nobody measured, forwards or back
	Now    time.Time     // the time last believed; it goes back only when the owner confirms the clock
	Frozen bool
	// Waits says that time is to go forward from Now to Wall by more than MaxStep. It stands still until Stepped,
	// so that what is held can be given a respite first.
	Waits bool
	// Late says that the clock was not synchronised since the boot began. What is doubted since then counts
	// only if it never is; Before is what was doubted before.
	Late   bool
	Before Doubt
}

// A Doubt is why a Clock may be wrong: see there.
type Doubt struct {
	Drift, Gap time.Duration
	Frozen     bool
}

// A Reading is what the system says about the time.
type Reading struct {
	Boot   string        // names a boot of the system
	Wall   time.Time     // the wall clock
	Passed time.Duration // since that boot, suspension included: CLOCK_BOOTTIME
	Synced bool          // the kernel says that the wall clock is synchronised
}

// Look returns the time for leases. Call it at the start, and at least once an hour from
// then on, and store what it changes.
//
// Time between two calls within one boot is measured. Time over a restart is not: it
// counts as a gap, unless the clock is synchronised, then or later in that boot.
func (c *Clock) Look(r Reading) time.Time {
	step := r.Wall.Sub(c.Now) // without what was measured
	switch wall := r.Wall.Sub(c.Wall); {
	case c.Wall.IsZero():
		c.Now = r.Wall
	case r.Boot == c.Boot && r.Passed >= c.Passed:
		c.Drift += wall - (r.Passed - c.Passed)
		step -= r.Passed - c.Passed
	default:
		c.Late, c.Before = true, Doubt{c.Drift, c.Gap, c.Frozen}
		c.Gap = min(c.Gap+min(wall.Abs(), 2*MaxDoubt), 2*MaxDoubt) // the sum must not overflow
	}
	if c.Late && r.Synced {
		c.Late, c.Drift, c.Gap, c.Frozen = false, c.Before.Drift, c.Before.Gap, c.Before.Frozen
	}
	c.Boot, c.Wall, c.Passed = r.Boot, r.Wall, r.Passed
	c.Frozen = c.Frozen || c.Drift.Abs() > MaxDrift || c.Drift.Abs()+c.Gap > MaxDoubt
	c.Waits = !c.Frozen && (c.Waits || step > MaxStep) && c.Wall.Sub(c.Now) > MaxStep
	if !c.Frozen && !c.Waits && c.Wall.After(c.Now) {
		c.Now = c.Wall
	}
	return c.Now
}

// Stepped is called when what is held was given a respite because the clock waits. Time goes on from to.
func (c *Clock) Stepped(to time.Time) { c.Now, c.Waits = to, false }

// Elapsed is a time that advances as measured, whatever the wall clock is set to and whether
// it is believed: for events that must be some time apart, not for promises. It jumps when
// the owner confirms the clock, where nobody measured, and when a clock is synchronised late.
func (c *Clock) Elapsed() time.Time { return c.Wall.Add(-c.Drift) }

// OK is called when the owner confirms that the wall clock is right.
func (c *Clock) OK(r Reading) {
	now := r.Wall
	waits := !c.Now.IsZero() && now.Sub(c.Now) > MaxStep
	if waits {
		now = c.Now
	}
	*c = Clock{Boot: r.Boot, Wall: r.Wall, Passed: r.Passed, Now: now, Waits: waits}
}
