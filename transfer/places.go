package transfer

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// places decides which of the sources are fetched from, where more are known than
// Config.MaxSources: those that are active in tiers have a pool, the others wait.
//
// A source is worth what it brings, beside what others bring. Where it is counts once it
// has shown that it brings something: until then it shares a location with all that have
// not, so that nobody displaces good sources by naming many places.
type places struct {
	tiers *peers.Tiers
	clock time.Time // advances only while sources could bring something
	at    time.Time // when that was last set
}

const (
	rateEvery    = time.Second
	exploreEvery = 30 * time.Second

	// blockWithin is how long a source that sends may take for a block and keep its place: one that
	// falls silent meanwhile is not fetched from for a while, and rated then.
	blockWithin = 40 * time.Second

	// leasedWithin is the same for what a whole fleet awaits from one source.
	leasedWithin = 3 * time.Minute
)

func newPlaces(most int, now time.Time) places {
	return places{tiers: peers.NewTiers(peers.TierConfig{MaxActive: most, MaxTracked: 1 << 20, Explore: exploreEvery}), clock: now, at: now}
}

// enlist finds a place for a source that is new, or has given up its own.
func (s *sources) enlist(src *source) {
	s.tiers.Subscribe(src.addr.ID, peers.Endpoint{}, 0, s.clock)
	s.place()
}

// dismiss takes a source out of all sets.
func (s *sources) dismiss(src *source) {
	s.tiers.Close(src.addr.ID, s.clock)
	s.place()
}

// place stops the pools of sources that have lost their place, and starts those of sources that have got one.
func (s *sources) place() {
	s.tiers.Moves()
	for _, src := range s.order {
		if set := s.tiers.Set(src.addr.ID); set != src.set {
			src.set, src.moved = set, s.now
		}
		if src.pool != 0 && src.set != peers.Active {
			s.rest(src, "waits while others are tried: it brought less than the other sources")
		}
	}
	for _, src := range s.order {
		if src.pool == 0 && src.set == peers.Active {
			s.startPool(src)
		}
	}
}

// rest stops the pool of a source that stays known.
func (s *sources) rest(src *source, why string) {
	s.stop(src)
	src.info.State, src.info.Why, src.info.Since = Resting, why, s.now
	s.tell(src)
}

// seen is the present state of a source, as others are told.
func (s *sources) seen(src *source) Source {
	out := src.info
	out.Rate = src.rate.perSecond(s.now)
	if !s.someWait() {
		return out
	}
	if st, ok := s.tiers.Standing(src.addr.ID, s.clock); ok {
		st.ID, st.Since = "", src.moved
		out.Standing = st
	}
	return out
}

// someWait says whether a source waits for a place.
func (p *places) someWait() bool { return p.tiers.Len(peers.Passive) > 0 }

// rateAll lets better sources take the places of worse. It returns when to call it again.
// idle says that this node wants nothing now. It holds them back too while its limit is all but used up.
func (s *sources) rateAll(idle bool) (next time.Time) {
	if !s.working || !s.someWait() {
		s.at = s.now
		return next
	}
	if next = s.at.Add(rateEvery); next.After(s.now) {
		return next
	}
	passed := s.now.Sub(s.at)
	s.at = s.now
	var rates []float64
	sum := 0.0
	for _, src := range s.order {
		if src.pool != 0 {
			rates = append(rates, src.rate.perSecond(s.now))
			sum += rates[len(rates)-1]
		}
	}
	if idle || s.limit > 0 && sum >= float64(s.limit)/2 {
		return s.now.Add(rateEvery)
	}
	s.clock = s.clock.Add(passed)
	usual := usualOf(rates)
	for _, src := range s.order {
		alone := s.leasedAlone(src)
		if src.pool == 0 || !alone && s.mayStillBring(src) {
			continue
		}
		worth := 0.0
		if rate := src.rate.perSecond(s.now); rate > 0 {
			worth, src.gave = rate/(rate+usual), s.clock
		} else if src.held {
			worth = peers.InitialScore // it waits for this node, like those without a place
		}
		if alone {
			worth = 1
		}
		s.tiers.Did(src.addr.ID, worth, s.clock)
		s.rehouse(src)
	}
	s.tiers.Tick(s.clock)
	s.place()
	return s.now.Add(rateEvery)
}

// leasedAlone says whether a source outside a fleet is asked for pieces. No other member asks for these, however long the line that all of them
// share takes, and what is on its way would enter the fleet twice. One that never sends anything is waited for once.
func (s *sources) leasedAlone(src *source) bool {
	if !s.cfg.Fleet.Used() || !src.fetching || src.info.Via == peers.ViaPeer || src.info.Via == peers.ViaItself {
		return false
	}
	if src.asked.IsZero() {
		src.asked = s.clock
	}
	return s.clock.Sub(src.asked) < leasedWithin || s.clock.Sub(src.gave) < leasedWithin
}

// mayStillBring says whether a block of a slow source may be under way, which would be lost with its place.
func (s *sources) mayStillBring(src *source) bool {
	st, ok := s.tiers.Standing(src.addr.ID, s.clock)
	return ok && src.fetching && src.rate.perSecond(s.now) == 0 &&
		(s.clock.Sub(st.Since) < blockWithin || s.clock.Sub(src.gave) < blockWithin)
}

// usualOf is the median.
func usualOf(rates []float64) float64 {
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// rehouse tells the tiers where a source is, once it has had its place for a while: nowhere,
// unless it has brought something lately.
func (p *places) rehouse(src *source) {
	st, ok := p.tiers.Standing(src.addr.ID, p.clock)
	if !ok || p.clock.Sub(st.Since) < peers.DefaultDwell {
		return
	}
	if p.clock.Sub(src.gave) < peers.DefaultDwell {
		p.tiers.Subscribe(src.addr.ID, src.from, src.info.RTT, p.clock)
		p.tiers.Measured(src.addr.ID, src.info.RTT, p.clock)
	} else {
		p.tiers.Subscribe(src.addr.ID, peers.Endpoint{}, 0, p.clock)
	}
}
