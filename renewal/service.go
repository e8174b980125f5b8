package renewal

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// State is what a depot says about a share that it keeps for us.
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

// Hold is a storage lease that we hold at a depot, or want to hold there.
type Hold struct {
	Key
	Want    int64         // the Want for which it was made, or that needs it now
	Also    []int64       `json:",omitempty"` // other wants for which it is an earlier version
	Since   time.Time     // when it last became the version to keep, for people to read
	Bytes   int64         // size of the lease, according to the depot
	Size    int64         // ... and according to the Want for which it was made; 0: not known
	Covered time.Time     // until when it is paid for, by our own account
	Ahead   Credit        `json:",omitempty"` // was paid for it, and nothing is granted for that yet
	Expires time.Time     // by our clock, as last reported; zero: not granted yet
	Granted time.Duration // its length when it was last granted or renewed; 0: not known
	Maybe   time.Time     // how long it may last after an offer that the depot did not answer; zero: not in doubt
	State   State
	Lacks   time.Time `json:",omitzero"` // since when its depot has not had all of it; zero: it has
	Cost    int64     // passes paid so far, in units
	Why     string    // why the last request for it was refused
	Name    string    `json:",omitempty"` // of the last Want that it was for, once that is dropped
	Lapses  bool      `json:",omitempty"` // it is not released, though nothing needs it any more: it lapses
}

// Of says whether a hold is, or was, for a Want.
func (h *Hold) Of(want int64) bool { return h.Want == want || slices.Contains(h.Also, want) }

// Account is our account at one depot, to be kept over a restart.
type Account struct {
	Depot  peers.ID
	Addrs  []string  // the depot's addresses
	Paid   bool      // it takes passes
	Next   time.Time // when it is visited next
	Good   time.Time // when a visit last succeeded; zero: never
	Heard  time.Time `json:",omitzero"` // when it last said how our leases stand
	Failed int       // visits since then
	Why    string    // ... the last of them failed
	Credit Credit
	// Counted are the IDs of payments that are in Spent and Credit, and that the wallet may still have.
	Counted [][16]byte `json:",omitempty"`

	Budget int64     // units that the owner lets be paid there in a month; 0: any number
	Month  time.Time // when the present one began
	Spent  int64     // units paid since then

	WasMonth time.Time `json:",omitzero"`  // another month: the one before, or a later one if the clock went back
	WasSpent int64     `json:",omitempty"` // ... and what was paid in it
}

// Verb is what to do about a lease.
type Verb uint8

// The verbs.
const (
	Renew   Verb = iota + 1 // move its end
	Offer                   // have the depot fetch the share: it does not have it, or has lost some of it
	Release                 // end it
)

// Task is what a visit is to do about one lease. A lease is requested until Length from when the depot said
// what it has, by its clock: however long the visit takes, no more time is asked for, and paid.
type Task struct {
	Verb
	Share  share.ID
	Bytes  int64 // size of the lease
	Length time.Duration
	Units  int64 // its cost by our own account, if the depot grants no more than before
	Due    bool  // of an Offer: the present lease is near its end, and is renewed even if the share cannot be offered
	Fleet  bool  // only for whoever has the turn: ask for that, and call Visited again with what the depot says then
}

// Heard is what a depot says about one hold. Left is the time until the lease ends, by
// the depot's own clock.
type Heard struct {
	Share share.ID
	State State
	Bytes int64
	Left  time.Duration
	Added time.Duration // after a renewal or an offer: how much longer the lease is than before
}

// Service decides for all holds of a node. It has one owner; it is not safe for
// concurrent use.
type Service struct {
	cfg     Config
	rng     *rand.Rand
	depots  map[peers.ID]*depot
	wants   map[int64]*Want
	byShare map[share.ID][]*Want
	last    int64     // the greatest ID of a Want so far
	seen    time.Time // by the clock, when Due was last called
}

type depot struct {
	Account
	holds map[share.ID]*Hold
	// versions are the holds by the wants for which they are, or were.
	versions map[int64][]*Hold

	busy   bool // being visited
	again  bool // ... and something was requested meanwhile
	owed   map[share.ID]Task
	fault  string    // why the visit under way has failed so far; empty: it has not
	waits  bool      // ... and something in it waits for another
	opens  time.Time // when the month of the budget ends in which it began
	barred bool      // it did not know us when it was visited last, though it has leases of ours
	looks  int       // visits in a row after which something was still to come, since the last share was new there
	defers int       // ... after which something waited for another
}

// New returns a Service with no holds. The seed determines the delays.
func New(cfg Config, seed uint64) *Service {
	return &Service{cfg: cfg.withDefaults(), rng: rand.New(rand.NewPCG(seed, 0x72656e65)), depots: map[peers.ID]*depot{}, wants: map[int64]*Want{}, byShare: map[share.ID][]*Want{}}
}

func (s *Service) depot(id peers.ID, now time.Time) *depot {
	d := s.depots[id]
	if d == nil {
		d = &depot{Account: Account{Depot: id}, holds: map[share.ID]*Hold{}, versions: map[int64][]*Hold{}}
		d.Next = s.sample(d, now)
		s.depots[id] = d
	}
	return d
}

// Wake returns when a depot becomes due; zero if never.
func (s *Service) Wake() (at time.Time) {
	for _, d := range s.depots {
		if !d.busy && len(d.holds) > 0 {
			at = times.Earliest(at, d.Next)
		}
	}
	return at
}

// Due returns the depots to visit now. Each visit ends with Failed, or with Visited
// and then Renewed, Released or Refused for each of its tasks.
func (s *Service) Due(now time.Time) (visit []peers.ID) {
	back := now.Before(s.seen)
	s.seen = now
	some := false
	for _, d := range s.depots {
		if back { // by the clock as it was, the next visit may be far off
			d.Next = times.Earliest(d.Next, now.Add(s.of(d, s.cfg.longest())))
		}
		some = some || d.due(now)
	}
	if !some {
		return nil
	}
	s.planAll(now)
	for id, d := range s.depots {
		if d.due(now) {
			d.busy, d.again, d.fault, d.waits, d.barred, d.owed = true, false, "", false, false, nil
			_, d.opens = d.left(now)
			visit = append(visit, id)
		}
	}
	slices.Sort(visit)
	return visit
}

// due reports whether a depot is to be visited.
func (d *depot) due(now time.Time) bool { return !d.busy && len(d.holds) > 0 && !now.Before(d.Next) }

// planAll plans every Want, in the order of their IDs.
func (s *Service) planAll(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(s.wants)) {
		s.plan(s.wants[id], now)
	}
}

// Failed ends a visit when the depot does not answer, or stops answering.
func (s *Service) Failed(id peers.ID, why string, now time.Time) {
	if d := s.depots[id]; d != nil && d.busy {
		for x, t := range d.owed {
			if h := d.holds[x]; h != nil && t.Verb == Offer {
				h.Maybe = now.Add(t.Length)
			}
		}
		d.fault, d.owed = why, nil
		s.close(d, now)
	}
}

// Barred is told that a depot does not know us, and reports whether it has leases of ours all the same, as far as is known:
// they stand until they end, and the visit has failed. A depot that has none may be offered what it is to keep.
func (s *Service) Barred(id peers.ID, now time.Time) bool {
	d := s.depots[id]
	if d != nil && d.busy {
		d.barred = d.some(func(h *Hold) bool { return h.Expires.After(now) })
	}
	return d != nil && d.barred
}

// Visited takes what a depot says about all our holds there; a hold that it does not mention
// is missing. It returns the tasks for that depot, the most urgent first.
func (s *Service) Visited(id peers.ID, all []Heard, now time.Time) (tasks []Task) {
	d := s.depots[id]
	if d == nil || !d.busy {
		return nil
	}
	s.setBack(d, now)
	said := map[share.ID]Heard{}
	for _, h := range all {
		said[h.Share] = h
	}
	for x, h := range d.holds {
		h.Maybe = time.Time{}
		if heard, ok := said[x]; ok {
			was, known := h.State, h.Expires
			s.reported(d, h, heard, now, true)
			later := h.State != Missing && h.Expires.After(known.Add(jitter))
			if later && was != Unknown && s.ofFleet(h) { // another member has had it granted since then
				h.Granted = max(h.Granted, h.Expires.Sub(now))
			}
			if later && h.State == Stable && !known.IsZero() {
				s.takeBack(h, now)
			}
		} else if h.is(Missing, now); h.Expires.After(now) {
			h.Expires = now
		}
	}
	for _, h := range d.holds { // all states are known by now
		if t := s.task(d, h, now); t.Verb != 0 {
			tasks = append(tasks, t)
		} else if h.State == Stable { // whatever was refused before
			h.Why = ""
		}
	}
	class := func(t Task) Verb {
		if t.Due {
			return Renew
		}
		return t.Verb
	}
	slices.SortFunc(tasks, func(a, b Task) int {
		x, y := d.holds[a.Share], d.holds[b.Share]
		return cmp.Or(cmp.Compare(class(a), class(b)), x.Expires.Compare(y.Expires), x.Share.Compare(y.Share))
	})
	d.owed = map[share.ID]Task{}
	for _, t := range tasks {
		d.owed[t.Share] = t
	}
	if len(tasks) == 0 {
		s.close(d, now)
	}
	return tasks
}

// task returns what to do about a hold on which a depot has just reported; nothing if its
// Verb is 0.
func (s *Service) task(d *depot, h *Hold, now time.Time) (t Task) {
	t = Task{Share: h.Share, Bytes: s.size(h), Length: s.length(h)}
	left := h.Expires.Sub(now)
	switch s.fate(h) {
	case leave:
		return t
	case release:
		if h.State != Missing {
			t.Verb = Release
		}
		return t
	}
	switch due := left <= s.window(h); {
	case h.State == Missing && s.needs(h) != nil:
		t.Verb = Offer
	case h.State == Missing:
		return t // an earlier version; a later one is offered
	case h.State == Corrupt && s.needs(h) != nil:
		if t.Verb, t.Due = Offer, due; !due {
			t.Length = min(t.Length, left)
		}
	case due:
		t.Verb = Renew
	default:
		return t
	}
	t.Fleet = s.ofFleet(h)
	if d.Paid {
		t.Units, _ = Cost(t.Bytes, Added(h.Expires, now.Add(min(t.Length, s.lasts(h))), now), d.Credit)
	}
	return t
}

// noTime is why a renewal does not count that its depot granted and that changed nothing.
const noTime = "it takes the renewal, but adds no time to the lease"

// Renewed says how a lease stands that was renewed or made. It is charged for the time
// that this added, unless the depot granted it though something was missing, and has been paid nothing for as long as the lease lasts:
// then it takes no passes any more. Before, it may have given credit back for a lease that it ended, or another member has paid.
func (s *Service) Renewed(id peers.ID, heard Heard, now time.Time) {
	d := s.depots[id]
	if d == nil {
		return
	}
	if h := d.holds[heard.Share]; h != nil {
		size, left := min(heard.Bytes, s.size(h)), max(heard.Left, 0)
		if d.Paid {
			added := min(heard.Added, max(s.room(h, now), 0))
			s.lost(d, d.Credit-d.without(size, heard.Added-added), now) // nothing was paid for so much
			if missing, _ := Cost(size, added, d.Credit); missing > 0 && h.Ahead == 0 && !now.Before(d.Month.Add(UnitTime+s.length(h))) {
				d.Paid = false
			} else {
				d.use(d.without(size, added))
				h.cover(now, max(added, 0))
			}
		}
		s.reported(d, h, heard, now, false)
		h.Why = ""
		switch t, ok := d.owed[heard.Share]; {
		case ok && t.Length != s.length(h): // it was repaired, and its end stays
		case ok && heard.Added <= 0 && left <= s.window(h) && (h.Granted > 0 || left == 0 || !t.Fleet): // or another member has just made it
			h.Why, d.fault = noTime, noTime
		default:
			h.Granted = max(left, 1)
		}
	}
	s.settle(d, heard.Share, now)
}

// Stands reports whether a task of a visit is still to be done: the owner may have said something else meanwhile, or left the lease to
// the fleet, for which that takes the turn. One that is not counts as done, and the depot is visited again.
func (s *Service) Stands(id peers.ID, t Task, now time.Time) bool {
	d := s.depots[id]
	if d == nil || !d.busy {
		return false
	}
	switch h := d.holds[t.Share]; {
	case h == nil, t.Verb != Release && !t.Fleet && s.ofFleet(h):
	case t.Verb == Release && s.fate(h) == release,
		t.Verb == Renew && s.fate(h) == keep && t.Length <= s.length(h),
		t.Verb == Offer && s.needs(h) != nil && t.Length <= s.length(h):
		return true
	}
	d.again = true
	s.settle(d, t.Share, now)
	return false
}

// Released records that a lease has ended, as requested. Of an earlier version nothing is left then, also if
// it would be kept by now: none can be made again.
func (s *Service) Released(k Key, now time.Time) {
	if d := s.depots[k.Depot]; d != nil {
		if h := d.holds[k.Share]; h != nil && s.needs(h) == nil {
			d.drop(k.Share)
		}
		s.settle(d, k.Share, now)
	}
}

// Refused records that a request for a lease was not granted, and why: passes are missing,
// or the depot refuses. The visit does not count as successful.
func (s *Service) Refused(k Key, why string, now time.Time) {
	s.undone(k, why, now, func(d *depot) { d.fault = why })
}

// Deferred records that another member of the fleet is doing what a task is for. That is no fault; the depot is visited
// again soon, but this visit does not count as successful.
func (s *Service) Deferred(k Key, why string, now time.Time) {
	s.undone(k, why, now, func(d *depot) { d.waits = true })
}

// undone records why a task was not done, on its hold and, with note, on its depot.
func (s *Service) undone(k Key, why string, now time.Time, note func(*depot)) {
	if d := s.depots[k.Depot]; d != nil && d.busy {
		note(d)
		if h := d.holds[k.Share]; h != nil {
			h.Why = why
		}
		s.settle(d, k.Share, now)
	}
}

// settle marks one task of a visit as done, and ends the visit after the last.
func (s *Service) settle(d *depot, x share.ID, now time.Time) {
	if _, ok := d.owed[x]; !ok {
		return
	}
	delete(d.owed, x)
	if len(d.owed) == 0 {
		s.close(d, now)
	}
}

// lookSoon is the longest time until a depot that has only begun to fetch is visited again. It doubles, so a share is known to be
// there by the time that it took once more.
const lookSoon = time.Second

// close ends a visit: the next one is drawn, or comes soon after a failure, at the latest when the budget opens again, and while a
// share is coming or being repaired.
func (s *Service) close(d *depot, now time.Time) {
	d.busy = false
	d.Why = d.fault
	d.Next = s.sample(d, now)
	switch {
	case d.waits && d.fault == "":
		d.Failed = 0
		d.defers++
		d.Next = times.Earliest(d.Next, now.Add(s.of(d, s.cfg.backOff(s.cfg.RetryMin, d.defers))))
	case d.fault == "":
		d.Good, d.Failed, d.defers = now, 0, 0
		if d.some(func(h *Hold) bool { return h.State != Stable && s.needs(h) != nil }) { // something is still to come
			d.looks++
			soon := s.cfg.backOff(min(s.of(d, s.cfg.RetryMin/20), lookSoon), d.looks)
			d.Next = times.Earliest(d.Next, now.Add(min(soon, s.of(d, s.cfg.RetryMax))))
		} else {
			d.looks = 0
		}
	default:
		d.Failed++
		d.Next = times.Earliest(d.Next, now.Add(min(s.of(d, s.cfg.backOff(s.cfg.RetryMin, d.Failed)), s.untold(d, now))), d.opens)
	}
	s.planAll(now)
	if d.fault == "" {
		s.moveBack(d, now)
	}
	s.tidy(d, now)
	over := func(h *Hold) bool { return h.State != Missing && s.fate(h) == release } // this visit made it so
	if d.again || d.fault == "" && d.some(over) {
		d.again, d.Next = false, now
	}
}

// untold returns how soon to retry a failed depot that does not know yet what to release, or grants only leases that are shorter than
// what is left: well before that would end anyway, but not too often for a depot that grants very short leases.
func (s *Service) untold(d *depot, now time.Time) time.Duration {
	soon := s.cfg.RetryMax
	for _, h := range d.holds {
		lasts := time.Duration(0) // nothing, or not any more
		switch {
		case h.Granted > 0 && h.Why == noTime:
			lasts = h.Expires.Sub(now)
		case s.fate(h) == release:
			lasts = h.Granted
		}
		if lasts > 0 {
			soon = min(soon, max(lasts/15, s.cfg.RetryMin/100))
		}
	}
	return soon
}

// some reports whether a depot has such a hold.
func (d *depot) some(such func(*Hold) bool) bool {
	for _, h := range d.holds {
		if such(h) {
			return true
		}
	}
	return false
}
