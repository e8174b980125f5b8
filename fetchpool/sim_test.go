package fetchpool

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// world runs one pool against a modelled source on a modelled path, in virtual
// time. Everything that is asked for goes through one bottleneck in order: half a
// round trip to the source, then rate, then half a round trip back.
type world struct {
	t      testing.TB
	pool   *Pool
	layout *share.Layout
	now    time.Time
	events events
	seq    int

	rate   func(now time.Time) float64 // bytes per second of the bottleneck
	rtt    time.Duration
	serve  time.Duration // the source's own time per request
	jitter func() time.Duration
	run    int  // bytes reported at once
	parts  bool // report what came of a run four times a second
	silent bool // the source answers nothing
	path   *path
	jobs   []*job    // at the source
	last   time.Time // when the last run arrives

	next    share.Piece // to be leased
	leave   func(int) Permission
	limit   int  // pieces there are to lease
	few     bool // lease one at a time
	token   share.Token
	wakeAt  time.Time
	live    map[uint64]Request
	link    int // events of an older link are dropped
	arrived int
	most    int // most bytes in flight so far
	queued  []time.Duration
	back    map[Reason]int
	dials   int
	closed  int
	sent    int
	largest int // request
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// layoutOf is the layout of a share with one file for each size.
func layoutOf(t testing.TB, sizes ...int64) *share.Layout {
	t.Helper()
	var entries []share.Entry
	for i, size := range sizes {
		e := share.Entry{Path: fmt.Sprintf("f%07d", i), Size: size, Root: share.EmptyRoot}
		if n := piecesOf(size); n > 1 {
			e.Pieces = make([]share.Hash, n)
			e.Root = share.FileRoot(e.Pieces)
		}
		if size > 0 && size <= share.MinPiece {
			e.Root = share.Hash{1}
		}
		entries = append(entries, e)
	}
	m, err := share.NewManifest("t", entries)
	if err != nil {
		t.Fatal(err)
	}
	return m.Layout()
}

func piecesOf(size int64) int {
	exp := share.PieceExp(size)
	return int((size + 1<<exp - 1) >> exp)
}

func granted(int) Permission { return Granted }

func newWorld(t testing.TB, cfg Config, layout *share.Layout, rate float64, rtt time.Duration) *world {
	w := &world{t: t, leave: granted, layout: layout, now: start, rtt: rtt, run: 256 << 10, limit: layout.Pieces(),
		rate: func(time.Time) float64 { return rate }, live: map[uint64]Request{}, back: map[Reason]int{}, path: &path{}}
	w.path.worlds = []*world{w}
	w.pool = New(cfg, layout, 1, w.now)
	return w
}

func (w *world) after(d time.Duration, do func()) { w.schedule(w.now.Add(d), do) }

func (w *world) schedule(at time.Time, do func()) {
	w.seq++
	heap.Push(&w.events, event{at, w.seq, do})
}

// to runs until a time.
func (w *world) to(end time.Time) {
	w.step()
	for len(w.events) > 0 && !w.events[0].at.After(end) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		w.step()
	}
	w.now = end
	w.step()
}

// together runs worlds that share a path.
func together(end time.Time, worlds ...*world) {
	for _, w := range worlds {
		w.step()
	}
	for {
		var next *world
		for _, w := range worlds {
			if len(w.events) > 0 && (next == nil || w.events[0].at.Before(next.events[0].at)) {
				next = w
			}
		}
		if next == nil || next.events[0].at.After(end) {
			break
		}
		next.to(next.events[0].at)
	}
	for _, w := range worlds {
		w.to(end)
	}
}

func (w *world) step() {
	t := w.pool.Next(w.now, w.leave)
	for _, id := range t.Cancel {
		delete(w.live, id)
	}
	for _, r := range t.Return {
		w.back[r.Why]++
	}
	if t.Close {
		w.closed++
		w.link++
		clear(w.live)
	}
	if t.Dial {
		w.dials++
		w.last = w.now
		w.link++
		clear(w.live)
		link := w.link
		w.after(w.rtt, func() {
			if link == w.link {
				w.pool.Opened(w.rtt, w.now)
			}
		})
	}
	if t.Subscribe && !w.silent {
		link := w.link
		w.after(w.rtt, func() {
			if link == w.link {
				w.pool.Subscribed(w.now)
			}
		})
	}
	for _, r := range t.Requests {
		w.live[r.ID] = r
		w.sent++
		w.largest = max(w.largest, r.Bytes)
		w.request(r)
	}
	if n, window := w.pool.InFlight(); n > window && len(t.Requests) > 0 {
		w.t.Fatalf("%d bytes in flight of a window of %d", n, window)
	} else {
		w.most = max(w.most, n)
	}
	if t.Want > 0 {
		w.lease(t.Want)
	}
	if !t.Wake.IsZero() && !t.Wake.Equal(w.wakeAt) {
		w.wakeAt = t.Wake
		at := t.Wake
		w.after(max(t.Wake.Sub(w.now), 0), func() {
			if at.Equal(w.wakeAt) {
				w.wakeAt = time.Time{}
			}
		})
	}
}

func (w *world) lease(n int) {
	if w.few {
		if n = min(n, 1-w.pool.Leases()); n <= 0 {
			return
		}
	}
	var works []Work
	for len(works) < n && int(w.next) < w.limit {
		w.token++
		works = append(works, Work{Piece: w.next, Token: w.token})
		w.next++
	}
	if len(works) == 0 {
		w.pool.Refused("", time.Time{}, w.now)
		return
	}
	w.pool.Grant(works, w.now)
	w.after(0, func() {})
}

// job is a request at the source.
type job struct {
	Request
	link int
	came time.Time
	left int
}

// request carries a request to the source.
func (w *world) request(r Request) {
	link := w.link
	w.after(w.rtt/2+w.serve, func() {
		w.jobs = append(w.jobs, &job{r, link, w.now, r.Bytes})
		w.path.pump(w.now)
	})
}

// path is a bottleneck, which several worlds may share, a run each in turn.
type path struct {
	worlds []*world
	turn   int
	busy   bool
}

// head is the next request of a world that was not cancelled.
func (w *world) head() *job {
	for len(w.jobs) > 0 {
		j := w.jobs[0]
		if _, live := w.live[j.ID]; live && j.link == w.link && !w.silent {
			return j
		}
		w.jobs = w.jobs[1:]
	}
	return nil
}

// pump sends the next run.
func (p *path) pump(now time.Time) {
	if p.busy {
		return
	}
	for range p.worlds {
		w := p.worlds[p.turn%len(p.worlds)]
		p.turn++
		if j := w.head(); j != nil {
			w.send(j, now)
			return
		}
	}
}

func (w *world) send(j *job, now time.Time) {
	if j.left == j.Bytes {
		w.queued = append(w.queued, now.Sub(j.came))
	}
	n := min(j.left, w.run)
	j.left -= n
	if j.left == 0 {
		w.jobs = w.jobs[1:]
	}
	takes := time.Duration(float64(n) / w.rate(now) * float64(time.Second))
	for p := 250 * time.Millisecond; w.parts && p < takes; p += 250 * time.Millisecond {
		w.bring(j, now.Add(p), func() { w.pool.Partial(j.ID, int(float64(n)*0.25/takes.Seconds()), w.now) })
	}
	last := j.left == 0
	w.bring(j, now.Add(takes), func() {
		w.arrived += n
		w.pool.Arrived(j.ID, n, w.now)
		if last {
			delete(w.live, j.ID)
			w.pool.Finished(j.ID, w.now)
		}
	})
	w.path.busy = true
	w.schedule(now.Add(takes), func() {
		w.path.busy = false
		w.path.pump(w.now)
	})
}

// bring carries what has left the bottleneck to the pool.
func (w *world) bring(j *job, at time.Time, do func()) {
	at = at.Add(w.rtt / 2)
	if w.jitter != nil {
		at = at.Add(w.jitter())
	}
	if at.After(w.last) { // one stream keeps its order
		w.last = at
	}
	w.schedule(w.last, func() {
		if _, live := w.live[j.ID]; live && j.link == w.link && !w.silent {
			do()
		}
	})
}

// used is the share of the path's capacity that was used since from.
func (w *world) used(bytes int, from time.Time) float64 {
	return float64(bytes) / (w.rate(w.now) * w.now.Sub(from).Seconds())
}

func bigLayout(t testing.TB) *share.Layout { return layoutOf(t, 32<<30) }

func TestFarFastPathIsKeptFull(t *testing.T) {
	rig.Slow(t)
	for _, c := range []struct {
		mbit float64
		rtt  time.Duration
	}{{200, 100 * time.Millisecond}, {1000, 100 * time.Millisecond}, {100, 20 * time.Millisecond}, {50, 300 * time.Millisecond}, {200, time.Millisecond}} {
		t.Run(fmt.Sprintf("%v Mbit/s, %v", c.mbit, c.rtt), func(t *testing.T) {
			w := newWorld(t, Config{}, bigLayout(t), c.mbit*1e6/8, c.rtt)
			w.to(start.Add(30 * time.Second))
			whole := w.used(w.arrived, start)
			at, n := w.now, w.arrived
			w.to(at.Add(15 * time.Second))
			steady := w.used(w.arrived-n, at)
			bdp := c.mbit * 1e6 / 8 * c.rtt.Seconds()
			t.Logf("used %.3f from the dial on, %.3f later; at most %.1f MB in flight for %.1f MB on the path; requests of %d KiB; window %d KiB", whole, steady, float64(w.most)/1e6, bdp/1e6, w.largest>>10, w.pool.win.size>>10)
			if whole < 0.9 || steady < 0.95 {
				t.Errorf("used %.3f from the dial on and %.3f later, want 0.9 and 0.95", whole, steady)
			}
			if len(w.back) > 0 || w.closed > 0 {
				t.Errorf("returned %v, closed %d", w.back, w.closed)
			}
		})
	}
}

func TestDeepBufferIsNotFilled(t *testing.T) {
	// 10 Mbit/s with a buffer of 200 ms: 250 kB.
	for _, rtt := range []time.Duration{5 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond} {
		w := newWorld(t, Config{}, bigLayout(t), 1.25e6, rtt)
		w.to(start.Add(3 * time.Second))
		begun, at, n := len(w.queued), w.now, w.arrived
		w.to(start.Add(60 * time.Second))
		var worst, sum time.Duration
		for _, q := range w.queued[begun:] {
			worst, sum = max(worst, q), sum+q
		}
		mean := sum / time.Duration(len(w.queued)-begun)
		t.Logf("rtt %v: used %.3f, queue %v in the mean, %v at worst, %d KiB in flight", rtt, w.used(w.arrived-n, at), mean, worst, w.most>>10)
		if used := w.used(w.arrived-n, at); used < 0.95 {
			t.Errorf("rtt %v: used %.3f", rtt, used)
		}
		if worst > 120*time.Millisecond {
			t.Errorf("rtt %v: waited up to %v in the buffer", rtt, worst)
		}
	}
}

func TestLoopbackNeedsFewMegabytes(t *testing.T) {
	for _, rate := range []float64{300e6, 600e6, 1.2e9} {
		w := newWorld(t, Config{}, bigLayout(t), rate, 150*time.Microsecond)
		w.serve = 100 * time.Microsecond
		rng := rand.New(rand.NewPCG(1, 2))
		w.jitter = func() time.Duration { return time.Duration(rng.Int64N(int64(2 * time.Millisecond))) }
		w.to(start.Add(2 * time.Second))
		t.Logf("%.0f MB/s: used %.3f, %d KiB in flight at most, requests up to %d KiB", rate/1e6, w.used(w.arrived, start), w.most>>10, w.largest>>10)
		if used := w.used(w.arrived, start); used < 0.95 {
			t.Errorf("%.0f MB/s: used %.3f", rate/1e6, used)
		}
		if w.most > 8<<20 {
			t.Errorf("%.0f MB/s: %d KiB in flight", rate/1e6, w.most>>10)
		}
	}
}

func TestSlowHonestSourceIsNeverFailedWhileBytesArrive(t *testing.T) {
	for _, rate := range []float64{3e3, 10e3, 100e3} {
		for _, parts := range []bool{true, false} {
			w := newWorld(t, Config{}, layoutOf(t, 1<<30), rate, 50*time.Millisecond)
			w.parts = parts
			if rate < 5e3 && !parts {
				continue // a block takes 22 s, which counts as silence without a sign in between
			}
			w.to(start.Add(20 * time.Minute))
			t.Logf("%.0f B/s: used %.3f, %v returned, %d dials", rate, w.used(w.arrived, start), w.back, w.dials)
			if parts && (w.back[MissedDeadline] > 0 || w.dials > 1) || w.dials > 2 {
				t.Errorf("%.0f B/s, parts %v: returned %v after %d dials", rate, parts, w.back, w.dials)
			}
			if used := w.used(w.arrived, start); used < 0.9 {
				t.Errorf("%.0f B/s: used %.3f", rate, used)
			}
		}
	}
}

func TestLackOfLeasesIsNotTakenForASlowSource(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 25e6, 100*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	size := w.pool.win.size
	w.few = true
	w.to(start.Add(25 * time.Second))
	if rate, _, _ := w.pool.Measure(); rate < 20e6 || w.pool.win.size < size*3/4 {
		t.Errorf("with one lease at a time: %.1f MB/s, a window of %d after %d", rate/1e6, w.pool.win.size, size)
	}
	w.few = false
	n, at := w.arrived, w.now
	w.to(at.Add(time.Second))
	if used := w.used(w.arrived-n, at); used < 0.8 {
		t.Errorf("used %.3f in the second after", used)
	}
}

func TestStartGoesOnAfterALackOfLeases(t *testing.T) {
	sizes := make([]int64, 2000)
	for i := range sizes {
		sizes[i] = 100 << 10
	}
	w := newWorld(t, Config{}, layoutOf(t, sizes...), 25e6, 100*time.Millisecond)
	w.few = true
	w.to(start.Add(5 * time.Second))
	w.few = false
	n, at := w.arrived, w.now
	w.to(at.Add(time.Second))
	if used := w.used(w.arrived-n, at); used < 0.45 {
		t.Errorf("used %.3f of the second after", used)
	}
}

func TestTimeWithoutWorkIsNotTheSources(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 25e6, 100*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	all := w.limit
	w.limit = int(w.next)
	w.to(start.Add(25 * time.Second))
	w.limit = all
	w.pool.Available(w.now)
	w.to(w.now.Add(250 * time.Millisecond))
	if rate, _, _ := w.pool.Measure(); rate < 20e6 {
		t.Errorf("%.1f MB/s after a pause", rate/1e6)
	}
	n, at := w.arrived, w.now
	w.to(at.Add(time.Second))
	if used := w.used(w.arrived-n, at); used < 0.9 {
		t.Errorf("used %.3f after a pause", used)
	}
}

func TestSlowSourceIsSeenThroughALackOfLeases(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 25e6, 100*time.Millisecond)
	w.parts = true
	w.to(start.Add(5 * time.Second))
	w.few = true
	w.to(start.Add(7 * time.Second))
	w.rate = func(time.Time) float64 { return 1e6 }
	w.to(start.Add(20 * time.Second))
	if rate, _, _ := w.pool.Measure(); rate > 1.5e6 {
		t.Errorf("%.1f MB/s are thought, 1 MB/s come", rate/1e6)
	}
	if len(w.back) > 0 {
		t.Errorf("returned %v", w.back)
	}
}

func TestWindowFollowsThePath(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"twice the rate":             func(w *world) { w.rate = func(time.Time) float64 { return 10e6 } },
		"ten times the rate":         func(w *world) { w.rate = func(time.Time) float64 { return 50e6 } },
		"a tenth of the rate":        func(w *world) { w.rate = func(time.Time) float64 { return 0.5e6 } },
		"three times the round trip": func(w *world) { w.rtt *= 3 },
		"half the round trip":        func(w *world) { w.rtt /= 2 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{}, bigLayout(t), 5e6, 40*time.Millisecond)
			w.to(start.Add(20 * time.Second))
			change(w)
			w.to(start.Add(40 * time.Second))
			n, at, queued := w.arrived, w.now, len(w.queued)
			w.to(start.Add(60 * time.Second))
			var worst time.Duration
			for _, q := range w.queued[queued:] {
				worst = max(worst, q)
			}
			t.Logf("used %.3f, waited up to %v, window %d KiB", w.used(w.arrived-n, at), worst, w.pool.win.size>>10)
			if used := w.used(w.arrived-n, at); used < 0.9 {
				t.Errorf("used %.3f after the change", used)
			}
			if worst > 250*time.Millisecond {
				t.Errorf("waited up to %v in the path", worst)
			}
			if len(w.back) > 0 {
				t.Errorf("returned %v", w.back)
			}
		})
	}
}

func TestPoolsOnOneLineDoNotDriveEachOtherUp(t *testing.T) {
	rig.Slow(t)
	for _, mbit := range []float64{20, 200} {
		line := &path{}
		var worlds []*world
		for i := range 4 {
			w := newWorld(t, Config{}, bigLayout(t), mbit*1e6/8, 50*time.Millisecond)
			w.path = line
			line.worlds = append(line.worlds, w)
			w.pool = New(Config{}, w.layout, uint64(i), start)
			worlds = append(worlds, w)
		}
		together(start.Add(2*time.Minute), worlds...)
		var before int
		var queued []int
		for _, w := range worlds {
			before += w.arrived
			queued = append(queued, len(w.queued))
		}
		together(start.Add(150*time.Second), worlds...)
		all, worst, least, most := 0, time.Duration(0), 1<<62, 0
		for i, w := range worlds {
			all += w.arrived
			least, most = min(least, w.arrived), max(most, w.arrived)
			for _, q := range w.queued[queued[i]:] {
				worst = max(worst, q)
			}
			if len(w.back) > 0 || w.closed > 0 {
				t.Errorf("%v Mbit/s: returned %v, closed %d", mbit, w.back, w.closed)
			}
		}
		used := float64(all-before) / (mbit * 1e6 / 8 * 30)
		t.Logf("%v Mbit/s: used %.3f, waited up to %v after 2 minutes; shares %.2f to %.2f", mbit, used, worst, float64(least)/float64(all), float64(most)/float64(all))
		if used < 0.95 {
			t.Errorf("%v Mbit/s: used %.3f", mbit, used)
		}
		if worst > 400*time.Millisecond {
			t.Errorf("%v Mbit/s: waited up to %v", mbit, worst)
		}
	}
}

func TestManySmallPiecesArePipelined(t *testing.T) {
	sizes := make([]int64, 20_000)
	for i := range sizes {
		sizes[i] = 10 << 10
	}
	w := newWorld(t, Config{}, layoutOf(t, sizes...), 50e6, 50*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	t.Logf("%d of %d pieces in 5 s, %d requests", w.arrived/(10<<10), len(sizes), w.sent)
	// 512 in flight over 50 ms would be 10,000 a second, the line 4,900.
	if n := w.arrived / (10 << 10); n < 19_000 {
		t.Errorf("%d pieces in 5 s", n)
	}
}
