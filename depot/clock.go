package depot

import "time"

const (
	// MaxDrift is how far the wall clock and the time that passed may be apart, in
	// sum since the owner's last word.
	MaxDrift = 12 * time.Hour
	// MaxGap is how much time, in sum since the owner's last word, may have passed
	// while nobody could measure it.
	MaxGap = 24 * time.Hour
)

// A Clock says what time it is for leases, and whether that may be believed. Once it
// is frozen, time stands still for leases until the owner says that the wall clock
// is right: nothing expires, and nothing is collected.
//
// It is kept with the database. Its fields are exported to be stored alone; the zero
// value has never been looked at.
type Clock struct {
	Boot   string        // the start of the system that Passed counts from
	Wall   time.Time     // at the last look
	Passed time.Duration // at the last look
	Drift  time.Duration // wall clock minus time that passed, while it was measured
	Gap    time.Duration // time that nobody measured, forth or back
	Now    time.Time     // what was last believed; it never goes back without the owner
	Frozen bool
}

// A Reading is what the system says of the time.
type Reading struct {
	Boot   string        // names a start of the system
	Wall   time.Time     // the wall clock
	Passed time.Duration // since that start, suspension included: CLOCK_BOOTTIME
	Synced bool          // the kernel says that the wall clock is synchronised
}

// Look says what time it is for leases. It is to be called at the start, and at
// least once an hour from then on; what it changes is to be stored.
//
// Time between two looks in one start of the system is measured. Over a restart it
// is not: it counts as a gap, unless the clock is synchronised.
func (c *Clock) Look(r Reading) time.Time {
	switch wall := r.Wall.Sub(c.Wall); {
	case c.Wall.IsZero():
		c.Now = r.Wall
	case r.Boot == c.Boot && r.Passed >= c.Passed:
		c.Drift += wall - (r.Passed - c.Passed)
	case !r.Synced:
		c.Gap = min(c.Gap+min(wall.Abs(), 2*MaxGap), 2*MaxGap) // no sum overflows
	}
	c.Boot, c.Wall, c.Passed = r.Boot, r.Wall, r.Passed
	c.Frozen = c.Frozen || c.Drift.Abs() > MaxDrift || c.Gap > MaxGap
	if !c.Frozen && c.Wall.After(c.Now) {
		c.Now = c.Wall
	}
	return c.Now
}

// Elapsed is a time that passes as it was measured, whatever the wall clock is set to and
// whether it is believed: for what must be some time apart, and is no promise. It jumps with
// the owner's word, and where nobody measured.
func (c *Clock) Elapsed() time.Time { return c.Wall.Add(-c.Drift) }

// OK is the owner's word that the wall clock is right.
func (c *Clock) OK(r Reading) time.Time {
	*c = Clock{Boot: r.Boot, Wall: r.Wall, Passed: r.Passed, Now: r.Wall}
	return c.Now
}
