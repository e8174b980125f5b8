package fleet

import "time"

// seating is the standing of a Member with its coordinator.
type seating uint8

const (
	away seating = iota
	dialing
	subscribing
	seated
)

// seat is a Member's place at its coordinator, or its way there.
type seat struct {
	state  seating
	tries  int       // failed in a row
	since  time.Time // of being seated, or not
	why    string    // why it is not seated, if so
	barred bool      // it is not, because the coordinator does not admit this node
	retry  time.Time // away: when to try again
	late   time.Time // dialing, subscribing: when it takes too long
}

func (s *seat) joined(now time.Time) {
	s.state, s.tries, s.why, s.barred, s.since = seated, 0, "", false, now
}

func (s *seat) lost(why string, now time.Time) {
	if s.state == seated {
		s.since = now
	}
	s.state, s.why, s.barred = away, why, false
	s.retry = now.Add(min(firstRejoin<<min(s.tries, 8), lastRejoin))
	s.tries++
}
