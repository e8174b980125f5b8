package renewal

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

var years = flag.Int("years", rig.Most(60, 12), "virtual node-years of TestNoLeaseLapses")

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func shareID(n int) share.ID {
	m := fmt.Appendf(nil, "%032d", n)
	id, err := share.IDFromBytes(append([]byte("\x01\x71\x1e\x20"), m...))
	if err != nil {
		panic(err)
	}
	return id
}

// A world is one node and its depots: what they promised, and what happens to them.
type world struct {
	rng   *rand.Rand
	cfg   Config
	s     *Service
	now   time.Time
	ends  map[Key]time.Time // by the depot's clock
	down  map[peers.ID]time.Time
	night bool // this machine sleeps at night

	added              int64 // MiB-seconds
	lapsed, held       time.Duration
	restarts, failures int
}

func newWorld(cfg Config, seed uint64, depots, holds int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), cfg: cfg, now: epoch, ends: map[Key]time.Time{}, down: map[peers.ID]time.Time{}, night: true}
	w.s = New(cfg, seed)
	for d := range depots {
		for h := range holds {
			k := Key{peers.ID(fmt.Sprintf("depot-%02d", d)), shareID(h)}
			w.ends[k] = w.now.Add(w.cfg.withDefaults().Length)
			hold(w.s, Hold{Key: k, Bytes: int64(h+1) << 20, Expires: w.ends[k], State: Stable}, w.now)
		}
	}
	return w
}

// hold enters a hold at a depot that takes passes, and the Want for it.
func hold(s *Service, h Hold, now time.Time) {
	h.Want = int64(len(s.wants) + 1)
	s.add(h, now)
	s.depots[h.Depot].Paid = true
	s.Want(Want{ID: h.Want, Share: h.Share, Bytes: h.Bytes, Depots: []peers.ID{h.Depot}, At: []peers.ID{h.Depot}}, now)
}

// renewed reports that a lease has left to run, and that what was missing has been paid.
func renewed(s *Service, k Key, left time.Duration, now time.Time) {
	d := s.depots[k.Depot]
	h := d.holds[k.Share]
	added := Added(h.Expires, now.Add(left), now)
	units, _ := Cost(h.Bytes, added, d.Credit)
	s.Renewed(k.Depot, Heard{Share: k.Share, State: Stable, Bytes: h.Bytes, Left: left, Added: added, Units: units}, now)
}

// step goes on to the next event, at most an hour ahead.
func (w *world) step() {
	next := w.now.Add(time.Hour)
	if at := w.s.Wake(); at.After(w.now) && at.Before(next) {
		next = at
	}
	for _, end := range w.ends {
		w.held += next.Sub(w.now)
		if end.Before(next) {
			w.lapsed += next.Sub(later(end, w.now))
		}
	}
	w.now = next
	if w.rng.IntN(24*40) == 0 {
		w.restart()
	}
	if hour := w.now.Hour(); w.night && hour < 8 {
		return
	}
	for _, id := range w.s.Due(w.now) {
		w.visit(id)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// restart ends the process and starts it again: only the accounts and the holds are kept.
func (w *world) restart() {
	w.restarts++
	book := w.s.Book()
	w.s = New(w.cfg, w.rng.Uint64())
	w.s.Resume(book, w.now)
}

func (w *world) visit(id peers.ID) {
	switch {
	case w.now.Before(w.down[id]):
		w.s.Failed(id, "away", w.now)
		w.failures++
		return
	case w.now.Sub(w.down[id]) > 31*day && w.rng.IntN(180) == 0: // once in a year of visits, and no two in one lease
		w.down[id] = w.now.Add(7 * day)
		w.s.Failed(id, "away", w.now)
		return
	case w.rng.IntN(20) == 0:
		w.s.Failed(id, "no answer", w.now)
		w.failures++
		return
	}
	var said []Heard
	for _, h := range w.s.Holds(w.now) {
		if h.Depot == id {
			said = append(said, Heard{Share: h.Share, State: Stable, Bytes: h.Bytes, Left: w.ends[h.Key].Sub(w.now)})
		}
	}
	for _, r := range w.s.Visited(id, said, w.now) {
		k := Key{id, r.Share}
		if w.rng.IntN(50) == 0 {
			w.s.Refused(k, "busy", w.now)
			continue
		}
		until := w.now.Add(r.Length)
		w.added += int64(Added(w.ends[k], until, w.now) / time.Second)
		w.ends[k] = until
		renewed(w.s, k, r.Length, w.now)
	}
}

func TestNoLeaseLapses(t *testing.T) {
	t.Parallel()
	const depots, holds = 5, 2
	w := newWorld(Config{}, 1, depots, holds)
	for w.now.Before(epoch.AddDate(*years, 0, 0)) {
		w.step()
	}
	if w.lapsed > 0 {
		t.Errorf("%v of %v without a lease", w.lapsed, w.held)
	}
	if w.restarts < *years*5 || w.failures < *years*depots {
		t.Errorf("only %d restarts and %d failures: nothing was tried", w.restarts, w.failures)
	}
	t.Logf("%d years, %d depots: %d restarts, %d visits failed, no lapse", *years, depots, w.restarts, w.failures)
}

// The defaults of the design that this began with: visits 24 to 28 days apart, and a renewal only
// of what has lapsed.
func TestTheFoundingDefaultsLapse(t *testing.T) {
	t.Parallel()
	cfg := Config{Mean: 26 * day, Range: 4 * day}
	if err := cfg.Validate(); err == nil {
		t.Error("they are accepted")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	end, now := 31*day, time.Duration(0)
	var lapsed time.Duration
	for now < 280*365*day {
		now += 24*day + time.Duration(rng.Int64N(int64(4*day)))
		if left := end - now; left < 0 {
			lapsed += -left
			end = now + 31*day
		}
	}
	if part := float64(lapsed) / float64(now); part < 0.35 || part > 0.45 {
		t.Errorf("%.3f of the time without a lease, known is 0.40", part)
	}
}
