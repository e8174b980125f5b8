package renewal

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// State is what a depot says of a share that it keeps for us.
type State uint8

// The states of a held share, as far as they matter here.
const (
	Unknown State = iota // not asked yet
	Coming               // the depot is fetching it
	Stable               // it has all of it
	Corrupt              // it has lost some of it, and repairs that
	Missing              // it does not have it, or no lease of ours
)

func (s State) String() string {
	return [...]string{"unknown", "coming", "stable", "corrupt", "missing"}[s]
}

// Key names a hold: a share at a depot.
type Key struct {
	Depot peers.ID
	Share share.ID
}

// Hold is a storage lease that we hold at a depot.
type Hold struct {
	Key
	Bytes   int64         // that the lease counts, by the depot
	Expires time.Time     // by our clock, as last heard
	Granted time.Duration // how long it was when it was granted or renewed last; 0: Config.Length
	State   State
	// Leaving: the share is moved elsewhere, so this lease is never renewed.
	Leaving bool
	Cost    int64 // units paid so far
}

// Account is how we stand with one depot, to be kept over a restart.
type Account struct {
	Depot  peers.ID
	Next   time.Time // when it is visited next
	Good   time.Time // when a visit last went well; zero: never
	Failed int       // visits since then
	Why    string    // ... the last of them failed
	Credit Credit
}

// Renewal is one lease to be renewed. Ask for Length from now, in the depot's clock.
type Renewal struct {
	Share  share.ID
	Length time.Duration
	Units  int64 // that it costs, if the depot grants all of it
}

// Heard is what a depot says of one hold. Left is until the lease ends, by the
// depot's own clock.
type Heard struct {
	Share share.ID
	State State
	Bytes int64
	Left  time.Duration
}

// Service decides for all holds of a node. It has one owner; it is not safe for
// concurrent use.
type Service struct {
	cfg    Config
	rng    *rand.Rand
	depots map[peers.ID]*depot
}

type depot struct {
	Account
	holds map[share.ID]*Hold
	busy  bool // being visited
	owed  map[share.ID]Renewal
	fault string // why the visit under way has failed, as far as it has
}

// New is a Service with no holds. The seed draws the delays.
func New(cfg Config, seed uint64) *Service {
	return &Service{cfg: cfg.withDefaults(), rng: rand.New(rand.NewPCG(seed, 0x72656e65)), depots: map[peers.ID]*depot{}}
}

// Restore adds what was known of a depot before a restart, before its holds are added.
// A visit that was due meanwhile is due at once.
func (s *Service) Restore(a Account, now time.Time) { s.depot(a.Depot, now).Account = a }

// Add enters a hold, or changes it. One of which the depot has said nothing yet is
// visited soon, after RetryMin; any other no later than the longest time between visits,
// whatever was planned before.
func (s *Service) Add(h Hold, now time.Time) {
	d := s.depot(h.Depot, now)
	if d.holds[h.Share] == nil && h.State == Unknown {
		d.Next = times.Earliest(d.Next, now.Add(s.cfg.RetryMin))
	}
	d.holds[h.Share] = &h
	d.Next = times.Earliest(d.Next, now.Add(s.of(d, s.cfg.longest())))
}

// Drop forgets a hold, which was released.
func (s *Service) Drop(k Key) {
	d := s.depots[k.Depot]
	if d == nil {
		return
	}
	delete(d.holds, k.Share)
	delete(d.owed, k.Share)
	if len(d.holds) == 0 && !d.busy {
		delete(s.depots, k.Depot)
	}
}

func (s *Service) depot(id peers.ID, now time.Time) *depot {
	d := s.depots[id]
	if d == nil {
		d = &depot{Account: Account{Depot: id}, holds: map[share.ID]*Hold{}}
		d.Next = s.sample(d, now)
		s.depots[id] = d
	}
	return d
}

// shortest is the shortest lease that a depot grants us. One that grants less than
// was asked for is visited as much more often, but no more than a thousand times: what
// it grants is its own affair, and what we do for it is ours.
func (s *Service) shortest(d *depot) time.Duration {
	length := s.cfg.Length
	for _, h := range d.holds {
		if h.Granted > 0 && !h.Leaving {
			length = min(length, h.Granted)
		}
	}
	return max(length, s.cfg.Length/1000)
}

// of is what a time of the Config is for a depot.
func (s *Service) of(d *depot, t time.Duration) time.Duration {
	return time.Duration(float64(t) * (float64(s.shortest(d)) / float64(s.cfg.Length)))
}

// sample draws the time of the next visit of a depot.
func (s *Service) sample(d *depot, now time.Time) time.Time {
	low, between := s.of(d, s.cfg.Mean-s.cfg.Range/2), s.of(d, s.cfg.Range)
	return now.Add(low + time.Duration(s.rng.Int64N(int64(between)+1)))
}

// window is how much is left of a lease of a depot when it is renewed.
func (s *Service) window(d *depot) time.Duration { return s.of(d, s.cfg.renewWithin()) }

// Wake is when Due has something to say; zero if never.
func (s *Service) Wake() (at time.Time) {
	for _, d := range s.depots {
		if !d.busy && len(d.holds) > 0 {
			at = times.Earliest(at, d.Next)
		}
	}
	return at
}

// Due are the depots to be visited now. Each visit ends with Failed, or with Visited
// and then Renewed or Refused for each renewal that Visited asked for.
func (s *Service) Due(now time.Time) (visit []peers.ID) {
	for id, d := range s.depots {
		if !d.busy && len(d.holds) > 0 && !now.Before(d.Next) {
			d.busy, d.fault, d.owed = true, "", nil
			visit = append(visit, id)
		}
	}
	slices.Sort(visit)
	return visit
}

// Failed ends a visit without a word from the depot.
func (s *Service) Failed(id peers.ID, why string, now time.Time) {
	if d := s.depots[id]; d != nil && d.busy {
		d.fault, d.owed = why, nil
		s.close(d, now)
	}
}

// Visited takes what a depot says of all our holds there; one of which it says
// nothing is missing. renew is what is near its end, the most urgent first.
func (s *Service) Visited(id peers.ID, all []Heard, now time.Time) (renew []Renewal) {
	d := s.depots[id]
	if d == nil || !d.busy {
		return nil
	}
	said := map[share.ID]Heard{}
	for _, h := range all {
		said[h.Share] = h
	}
	for x, h := range d.holds {
		heard, ok := said[x]
		if !ok {
			h.State, h.Expires = Missing, times.Earliest(h.Expires, now)
			continue
		}
		h.State, h.Bytes, h.Expires = heard.State, heard.Bytes, now.Add(max(heard.Left, 0))
		if !h.Leaving && h.State != Missing && h.Expires.Sub(now) <= s.window(d) {
			renew = append(renew, s.renewal(d, h, now))
		}
	}
	slices.SortFunc(renew, func(a, b Renewal) int {
		x, y := d.holds[a.Share], d.holds[b.Share]
		return cmp.Or(x.Expires.Compare(y.Expires), bytes.Compare(x.Share.Bytes(), y.Share.Bytes()))
	})
	d.owed = map[share.ID]Renewal{}
	for _, r := range renew {
		d.owed[r.Share] = r
	}
	if len(renew) == 0 {
		s.close(d, now)
	}
	return renew
}

func (s *Service) renewal(d *depot, h *Hold, now time.Time) Renewal {
	units, _ := Cost(h.Bytes, Added(h.Expires, now.Add(s.cfg.Length), now), d.Credit)
	return Renewal{Share: h.Share, Length: s.cfg.Length, Units: units}
}

// Renewed says that a lease now has left to go, by the depot's clock. It is charged
// for the time that this added.
func (s *Service) Renewed(k Key, left time.Duration, now time.Time) {
	d := s.depots[k.Depot]
	if d == nil {
		return
	}
	if h := d.holds[k.Share]; h != nil {
		var units int64
		units, d.Credit = Cost(h.Bytes, Added(h.Expires, now.Add(left), now), d.Credit)
		h.Cost += units
		h.Granted, h.Expires = left, now.Add(max(left, 0))
	}
	s.settle(d, k.Share, now)
}

// Refused says that a lease was not renewed, and why: passes are missing, or the
// depot will not. The visit does not count as one that went well.
func (s *Service) Refused(k Key, why string, now time.Time) {
	if d := s.depots[k.Depot]; d != nil && d.busy {
		d.fault = why
		s.settle(d, k.Share, now)
	}
}

// settle takes one renewal off a visit, and ends the visit with the last.
func (s *Service) settle(d *depot, x share.ID, now time.Time) {
	if _, ok := d.owed[x]; !ok {
		return
	}
	delete(d.owed, x)
	if len(d.owed) == 0 {
		s.close(d, now)
	}
}

// close ends a visit: the next one is drawn, or comes soon after a failure.
func (s *Service) close(d *depot, now time.Time) {
	d.busy = false
	d.Why = d.fault
	if d.fault == "" {
		d.Good, d.Failed = now, 0
		d.Next = s.sample(d, now)
		return
	}
	d.Failed++
	d.Next = times.Earliest(now.Add(s.of(d, s.backOff(d.Failed))), s.sample(d, now))
	if len(d.holds) == 0 {
		delete(s.depots, d.Depot)
	}
}

// backOff is how long after the n-th failure in a row the depot is tried again.
func (s *Service) backOff(n int) time.Duration {
	d := s.cfg.RetryMin
	for ; n > 1 && d < s.cfg.RetryMax; n-- {
		d *= 2
	}
	return min(d, s.cfg.RetryMax)
}
