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

var years = flag.Int("years", rig.Most(4, 1), "virtual years of TestNoLeaseLapses")

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

// A world is 200 nodes, each with a share at each of two of 20 depots.
const (
	worldNodes  = 200
	worldDepots = 20
	worldCopies = 2
)

// outages returns when each depot goes away for a week: three times in two years or so, and no two within the length of a lease.
func outages(years int) (all [worldDepots][]time.Time) {
	for i := range all {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		for at := epoch; at.Before(epoch.AddDate(years, 0, 0)); {
			at = at.Add(120*day + time.Duration(rng.Int64N(int64(240*day))))
			all[i] = append(all[i], at)
		}
	}
	return all
}

// A lived is one node and its depots: what they promised, and what happens to them. It goes from event to event.
type lived struct {
	rng     *rand.Rand
	cfg     Config
	s       *Service
	now     time.Time
	skew    time.Duration            // of the node's clock
	ends    map[Key]time.Time        // by the depots
	down    map[peers.ID][]time.Time // outages to come, and the present one
	restart time.Time                // the next

	lapsed                               time.Duration
	visits, failures, restarts, renewals int
}

func (w *lived) clock() time.Time { return w.now.Add(w.skew) }

func newLived(seed int, down [worldDepots][]time.Time) *lived {
	w := &lived{rng: rand.New(rand.NewPCG(uint64(seed), 7)), now: epoch, ends: map[Key]time.Time{}, down: map[peers.ID][]time.Time{}}
	w.s = New(w.cfg, uint64(seed))
	for i := range worldCopies {
		at := (seed + i*(1+seed/worldDepots%(worldDepots-1))) % worldDepots
		k := Key{peers.ID(fmt.Sprintf("depot-%02d", at)), shareID(i)}
		w.down[k.Depot] = down[at]
		w.ends[k] = w.now.Add(DefaultLength)
		hold(w.s, Hold{Key: k, Bytes: int64(i+1) << 20, Expires: w.ends[k], State: Stable}, w.now)
	}
	w.again()
	return w
}

// again draws the time of the next restart.
func (w *lived) again() { w.restart = w.now.Add(time.Duration(w.rng.Int64N(int64(80 * day)))) }

// step goes on to the next event. From midnight to 8 the node sleeps.
func (w *lived) step() {
	next := later(w.s.Wake().Add(-w.skew), w.now.Add(time.Second))
	if w.restart.Before(next) {
		next = w.restart
	}
	if next.Hour() < 8 {
		next = next.Truncate(day).Add(8 * time.Hour)
	}
	if w.now = next; !w.now.Before(w.restart) {
		w.restarts++
		book := w.s.Book()
		w.s = New(w.cfg, w.rng.Uint64())
		w.skew = time.Duration(w.rng.Int64N(int64(2*time.Hour))) - time.Hour // and its clock is set
		w.s.Resume(book, w.clock())
		w.again()
	}
	for _, id := range w.s.Due(w.clock()) {
		w.visit(id)
	}
}

// away reports whether a depot is away.
func (w *lived) away(id peers.ID) bool {
	for len(w.down[id]) > 0 && !w.now.Before(w.down[id][0].Add(7*day)) {
		w.down[id] = w.down[id][1:]
	}
	return len(w.down[id]) > 0 && !w.now.Before(w.down[id][0])
}

func (w *lived) visit(id peers.ID) {
	w.visits++
	if w.away(id) || w.rng.IntN(20) == 0 {
		w.s.Failed(id, "away", w.clock())
		w.failures++
		return
	}
	var said []Heard
	for k, end := range w.ends {
		if k.Depot == id {
			said = append(said, Heard{Share: k.Share, State: Stable, Bytes: 1 << 20, Left: end.Sub(w.now)})
		}
	}
	for _, task := range w.s.Visited(id, said, w.clock()) {
		k := Key{id, task.Share}
		if w.rng.IntN(50) == 0 {
			w.s.Refused(k, "busy", w.clock())
			continue
		}
		w.lapsed += max(w.now.Sub(w.ends[k]), 0)
		w.ends[k] = w.now.Add(task.Length)
		w.renewals++
		renewed(w.s, k, task.Length, w.clock())
	}
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
	s.Bank(k, units, now)
	s.Renewed(k.Depot, Heard{Share: k.Share, State: Stable, Bytes: h.Bytes, Left: left, Added: added}, now)
}

// 200 nodes with leases at two of 20 depots each: visits fail, nodes sleep at night, restart, and have clocks that are off by
// up to an hour, depots are away for a week, and refuse a renewal now and then.
func TestNoLeaseLapses(t *testing.T) {
	t.Parallel()
	down, end := outages(*years), epoch.AddDate(*years, 0, 0)
	var sum lived
	for seed := range worldNodes {
		w := newLived(seed, down)
		for w.now.Before(end) {
			w.step()
		}
		for _, at := range w.ends {
			w.lapsed += max(w.now.Sub(at), 0)
		}
		if w.lapsed > 0 {
			t.Errorf("node %d: %v without a lease", seed, w.lapsed)
		}
		sum.visits, sum.failures, sum.restarts, sum.renewals = sum.visits+w.visits, sum.failures+w.failures, sum.restarts+w.restarts, sum.renewals+w.renewals
	}
	if n := *years * worldNodes; sum.restarts < 5*n || sum.failures < 10*n || sum.renewals < 15*worldCopies*n {
		t.Errorf("only %d restarts, %d failures and %d renewals: nothing was tried", sum.restarts, sum.failures, sum.renewals)
	}
	t.Logf("%d years of %d nodes: %d visits, %d failed, %d restarts, %d renewals, no lapse", *years, worldNodes, sum.visits, sum.failures, sum.restarts, sum.renewals)
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
