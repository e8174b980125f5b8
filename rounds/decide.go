package rounds

import "time"

// Now is a reading of a machine's two clocks.
type Now struct {
	Wall time.Time     // what people go by; it may be wrong, and may jump
	Mono time.Duration // since some moment in this process; it never jumps
}

// ClockOf makes the clock of a [Config] from this machine's clock: pass it time.Now.
func ClockOf(now func() time.Time) func() Now {
	start := now()
	return func() Now {
		t := now()
		return Now{t, t.Sub(start)}
	}
}

// Heartbeat is how often the holder of an office calls [Guard.Extend]. A ttl is
// one and a half of them.
func Heartbeat(ttl time.Duration) time.Duration { return ttl * 2 / 3 }

// aheadBy is how far a record may be ahead of our clock before that is reported. It is
// more than set clocks differ.
const aheadBy = 5 * time.Minute

// A finding is what a reader makes of an entry.
type finding int

const (
	never     finding = iota // nobody has held the round
	corrupt                  // its record cannot be read
	abandoned                // its holder gave it back
	ownOffice                // our own, from an earlier run
	expired                  // its time is over
	held                     // somebody has it
)

func (f finding) free() bool { return f != held }

// seen is what one reader knows about how long a record has stood.
type seen struct {
	rev   uint64
	term  uint64
	since time.Duration // when the first answer that counts came, by our monotonic clock
	last  time.Duration // when the last answer came
}

// answered notes that a read was answered at that time. For an office, a silence longer
// than a heartbeat restarts the count: a reader that could not read may not conclude
// that the holder could write.
func (s *seen) answered(e Entry, rec Record, office bool, at time.Duration) {
	same := s.rev == e.Rev
	if !office { // completing a job changes its record but not its time
		same = s.rev != 0 && s.term == rec.Term
	}
	if !same || office && at-s.last > Heartbeat(rec.TTL) {
		s.since = at
	}
	s.rev, s.term, s.last = e.Rev, rec.Term, at
}

// left returns how long a round still lasts for a reader that asked at now and got rec;
// 0 if it is over. ask is when to ask again so as to notice; it may be sooner or later.
func (s *seen) left(rec Record, c *Config, now Now) (left, ask time.Duration) {
	left = rec.TTL - (now.Mono - s.since)
	if c.Office {
		return max(left, 0), max(min(left, Heartbeat(rec.TTL)/4), 0)
	}
	wall := rec.Expires().Sub(now.Wall)
	if wall > c.MaxTTL+aheadBy {
		wall = 0 // one of the clocks is far off: that must not block the round
	}
	left = max(min(left, wall), 0)
	return left, left
}

// judge decides whether a round is free for the reader that c describes, and if not,
// when to ask again. now is when the read that returned rec was sent; rec.TTL is
// within MaxTTL, and earlier reports whether its run was this process or one before it.
func (s *seen) judge(rec Record, c *Config, earlier bool, now Now) (finding, time.Duration) {
	switch left, ask := s.left(rec, c, now); {
	case rec.State == Abandoned:
		return abandoned, 0
	case c.Office && earlier:
		return ownOffice, 0
	case left == 0:
		return expired, 0
	default:
		return held, ask
	}
}

// maxAhead is by how much the terms that members report may exceed those in the
// store.
const maxAhead = 1 << 32

// Plausible reports whether a term that a member reports counts, given the highest term
// known otherwise: it may be up to 2^32 above.
func Plausible(reported, highest uint64) bool {
	return reported <= highest || reported-highest <= maxAhead
}
