package peers

import (
	"math"
	"slices"
	"time"
)

// A piece that is on its way to one child is not sent to another at the same time:
// the other is told "elsewhere", and fetches it from the first as soon as that has
// it. If two children share a line, both finish only when the second would have
// finished anyway; if served one after the other, the first passes it on meanwhile.
//
// The source of a share goes further when a crowd comes: it lets each piece get
// around before it sends it again, so that every byte leaves it about once. This is
// the aim of BitTorrent's super-seeding (BEP 16), but decided per request and not per
// announcement: a child may ask for whatever it likes, and knows what the source has.
//
//	free --a request begins--> on its way --it is served--> getting around --> free
//	          at most 4 usual services, at least 2 s     Spread * (log2(crowd) - 2),
//	                                                     in a large crowd Spread * 20
//
// In a large crowd that holds for pieces that were sent while it was small, too.
//
// While a piece is held back, only children that were given it may ask for more of it.
// That ends by itself, within longestSpread whatever a child does or claims; at once
// when the children that were given it are gone; and, once it is served, for a child
// that is pressed, because it gets less elsewhere than it could here. A child that does
// not pass pieces on holds nothing back, nor does one that asks again for what it was
// given before; and a child that knows few others, or none, is not sent away.
//
// Members of a fleet, whose pieces cross the line that they share only once anyway, send nobody elsewhere while they take less
// time for a piece than whoever is sent would wait: of a hundred members each asked for each piece seven times.
//
// And when many ask for the list of files at once, a large crowd is coming (Ask.Flash): then it holds for
// children that know a single other, too, which will soon know more. If they are not that many after all, it ends with
// their coming.
//
// A child that knows enough others that have all of the share, and was given its part here, is
// sent to them for the rest (Ask.Fed), unless it is pressed or asks on: nothing has to get around first.
//
// A source with a limit has less to give than its children could take, however few
// they are: they wait for whatever it sends twice. So there one other child is enough to
// be sent to; and because a piece is asked for in parts, and each part waits for its
// turn, a piece is held back for as long as it takes to send one to each child.
const (
	shortestOnWay = 2 * time.Second
	onWayServices = 4
	longestSpread = 30 * time.Second
	soonestRetry  = 100 * time.Millisecond
	smallCrowd    = 6       // with fewer others nobody is sent elsewhere: much of what helps is here
	typicalPiece  = 1 << 20 // bytes
	headSteps     = 2       // first doublings of a piece, which the time to send it covers
	// From largeCrowd others on, this node's line is a small part of all lines, and what it
	// sends twice is of little use: a piece is then held back for largeSteps of Spread.
	largeCrowd = 16
	largeSteps = 20
	// fedRetry is after how long a child that was given its part may ask for more: by then
	// it is pressed if the others bring it too little.
	fedRetry = time.Second
	// rememberSpread is how long a piece is remembered once it is no longer held
	// back, for children that ask for a piece in parts.
	rememberSpread = 2 * time.Second
	// maxSpreads is how many pieces are remembered that are not held back: 8 MiB. Of small
	// files more are sent within that time.
	maxSpreads = 32 << 10
)

// Deferral is a waiting request that will not be served, because its piece has
// just been given to another child.
type Deferral struct {
	Job   Job
	Retry time.Duration // after which the child may ask again, if need be
}

// spreads is the pieces that are held back.
type spreads struct {
	each    map[pieceKey]*spread
	fading  []*spread     // served, in that order; some may be on their way again
	took    time.Duration // to serve a request, smoothed
	refused []Deferral    // not told yet
}

type pieceKey struct {
	key   string
	piece uint32
}

// spread is one piece that is held back.
type spread struct {
	at     pieceKey
	to     []*child  // the children that were given it
	onWay  int       // requests being served
	since  time.Time // when the last of them was
	until  time.Time
	served time.Time // when the last of them was over
	forget time.Time // when it needs no longer be remembered
	fading bool      // in spreads.fading
}

// elsewhere reports whether a child is to get a piece from others, and when it may ask again.
func (u *Uploads) elsewhere(a *Ask, c *child, now time.Time) (retry time.Duration, yes bool) {
	if a.Fed && !a.Pressed && u.cfg.Spread >= 0 {
		return fedRetry, true
	}
	if few := u.fewest(a.Key); a.Crowd < few && !(a.Flash && a.Crowd > 0) {
		return 0, false
	}
	s := u.spreads.each[pieceKey{a.Key, a.Piece}]
	if s == nil || slices.Contains(s.to, c) {
		return 0, false
	}
	large := a.Whole && (a.Flash || a.Crowd >= largeCrowd)
	if a.Fleet && !a.Whole && u.spreads.took > 0 && u.spreads.took < soonestRetry {
		return 0, false
	}
	left := s.until.Sub(now)
	if large && s.onWay == 0 && len(s.to) > 0 { // however small the crowd was when it was sent
		left = max(left, s.within(s.served.Add(u.around(a, large))).Sub(now))
	}
	switch {
	case left <= 0:
		return 0, false
	case s.onWay > 0 && (!a.Whole || a.Pressed):
		retry = min(left, u.spreads.took)
	case a.Pressed:
		return 0, false
	case large: // it may be pressed before the piece is free
		retry = min(left, u.doubled(a.Crowd))
	default:
		retry = left
	}
	return max(retry, soonestRetry), true
}

// fewest is how many others must be able to help a child that is sent elsewhere for a share.
func (u *Uploads) fewest(key string) int {
	if u.limit != nil || u.gates[key] != nil {
		return 1
	}
	return smallCrowd
}

// begun notes that a request begins to be served.
func (u *Uploads) begun(j *job, now time.Time) {
	j.began = now
	if !j.Spreads || u.cfg.Spread < 0 {
		return
	}
	u.fade(now)
	at := pieceKey{j.Key, j.Piece}
	s := u.spreads.each[at]
	if s == nil {
		if u.sent.had(j.Key, j.Piece, j.child.tag) {
			return // it was given it before
		}
		s = &spread{at: at}
		u.spreads.each[at] = s
	}
	if !slices.Contains(s.to, j.child) {
		if s.onWay == 0 {
			s.to = nil
		}
		s.to = append(s.to, j.child)
		s.since = now
	}
	s.onWay++
	s.hold(now, max(shortestOnWay, onWayServices*u.spreads.took))
	j.spread = s
}

// served notes that a request that was being served is over.
func (u *Uploads) served(j *job, now time.Time) {
	u.spreads.took += (now.Sub(j.began) - u.spreads.took) / 16
	s := j.spread
	if s == nil {
		return
	}
	if s.onWay--; s.onWay > 0 {
		return
	}
	s.hold(now, u.around(&j.Ask, j.Crowd >= largeCrowd))
	if s.served, s.forget = now, s.until; j.Whole {
		s.forget = now.Add(u.cfg.Spread * largeSteps)
	}
	if !s.fading {
		s.fading = true
		u.spreads.fading = append(u.spreads.fading, s)
	}
}

// letGo ends the hold of a request that was being served and has come to nothing.
func (u *Uploads) letGo(j *job) {
	s := j.spread
	if j.spread = nil; s == nil {
		return
	}
	if s.onWay--; s.onWay > 0 {
		return
	}
	s.to, s.until = nil, time.Time{}
	if !s.fading {
		s.fading = true
		u.spreads.fading = append(u.spreads.fading, s)
	}
}

// hold holds a piece back for a while from now, but not for ever.
func (s *spread) hold(now time.Time, d time.Duration) { s.until = s.within(now.Add(d)) }

// within is a time at which a piece is free, or the latest that may be.
func (s *spread) within(at time.Time) time.Time {
	if latest := s.since.Add(longestSpread); latest.Before(at) {
		return latest
	}
	return at
}

// doubled is how long a piece takes to get around in a crowd: the number that have it
// doubles with each step.
func (u *Uploads) doubled(crowd int) time.Duration {
	return time.Duration(float64(u.cfg.Spread) * max(0, math.Log2(float64(1+crowd))-headSteps))
}

// around is how long a piece that was served is held back. With a limit the rest of it has
// to be sent first.
func (u *Uploads) around(a *Ask, large bool) time.Duration {
	if !a.Whole {
		return 0
	}
	around := u.doubled(a.Crowd)
	if large {
		around = largeSteps * u.cfg.Spread
	}
	if u.limit == nil {
		return around
	}
	piece := typicalPiece * float64(1+a.Crowd) / float64(u.limit.Limit()) // while others get theirs
	return max(around, u.cfg.Spread+time.Duration(min(piece, longestSpread.Seconds())*float64(time.Second)))
}

// fade forgets what has not been held back for a while.
func (u *Uploads) fade(now time.Time) {
	q := &u.spreads
	for len(q.fading) > 0 {
		s := q.fading[0]
		remember := now.Before(s.forget.Add(rememberSpread)) && (len(q.fading) <= maxSpreads || now.Before(s.until))
		if s.onWay == 0 && remember {
			return
		}
		q.fading[0] = nil
		q.fading = q.fading[1:]
		s.fading = false
		if s.onWay == 0 {
			delete(q.each, s.at)
		}
	}
	q.fading = nil
}

// unspread forgets a child that has gone: pieces given to it alone are free.
func (u *Uploads) unspread(c *child) {
	for _, s := range u.spreads.each { // each is changed on its own: the order does not matter
		n := len(s.to)
		s.to = slices.DeleteFunc(s.to, func(x *child) bool { return x == c })
		if n > 0 && len(s.to) == 0 {
			s.until = time.Time{}
		}
	}
}

// Elsewhere returns the waiting requests that, since its last call, were found not to
// be served. It is to be called after each of Ask, Done, Tick and Forget.
func (u *Uploads) Elsewhere() []Deferral {
	out := u.spreads.refused
	u.spreads.refused = nil
	return out
}
