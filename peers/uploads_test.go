package peers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// desk runs an Uploads in virtual time and serves what it admits at once, or
// holds it.
type desk struct {
	u     *Uploads
	now   time.Time
	job   Job
	asks  map[Job]Ask
	order []Job // admitted, in order
	bytes map[ID]int
	busy  []Job
	hold  bool // what is admitted stays until it is reported done
}

func newDesk(cfg UploadConfig) *desk {
	return &desk{u: NewUploads(cfg), now: epoch, asks: map[Job]Ask{}, bytes: map[ID]int{}}
}

func (d *desk) ask(child ID, piece uint32, bytes int) Verdict {
	d.job++
	a := Ask{Job: d.job, Child: child, Key: "share", Piece: piece, Bytes: bytes}
	d.asks[d.job] = a
	v := d.u.Ask(a, d.now)
	if v.Go {
		d.admitted([]Job{d.job})
	}
	return v
}

func (d *desk) admitted(jobs []Job) {
	for len(jobs) > 0 {
		var next []Job
		for _, j := range jobs {
			d.order = append(d.order, j)
			d.bytes[d.asks[j].Child] += d.asks[j].Bytes
			if !d.hold {
				next = append(next, d.u.Done(j, d.now)...)
			}
		}
		jobs = next
	}
}

func (d *desk) tick() {
	next, busy := d.u.Tick(d.now)
	d.busy = append(d.busy, busy...)
	d.admitted(next)
}

// run lets time pass, and keeps its alarms.
func (d *desk) run(until time.Time) {
	for {
		at := d.u.Wake()
		if at.IsZero() || at.After(until) {
			break
		}
		if at.After(d.now) {
			d.now = at
		}
		d.tick()
	}
	d.now = until
	d.tick()
}

func TestFreeSlotIsGivenAtOnce(t *testing.T) {
	d := newDesk(UploadConfig{})
	if v := d.ask("a", 1, 1<<20); !v.Go || v.Queued || v.Busy {
		t.Errorf("%+v", v)
	}
}

func TestSlotsAreBounded(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 3, SlotsPerChild: 2})
	d.hold = true
	got := ""
	for _, child := range []ID{"a", "a", "a", "b", "b"} {
		got += fmt.Sprintf("%v ", d.ask(child, 1, 1000).Go)
	}
	if got != "true true false true false " {
		t.Fatalf("admitted: %s", got)
	}
	if next := d.u.Done(4, d.now); !slices.Equal(next, []Job{5}) { // a has its two
		t.Errorf("then %v", next)
	}
	if next := d.u.Done(1, d.now); !slices.Equal(next, []Job{3}) {
		t.Errorf("then %v", next)
	}
	if d.u.Serving() != 3 || d.u.Waiting() != 0 {
		t.Errorf("%d served, %d wait", d.u.Serving(), d.u.Waiting())
	}
}

func TestGreedyChildGetsItsShareAndNoMore(t *testing.T) {
	// With 4 children of which one asks 100 times as often, each gets 20 to 30 % of a
	// limited upload.
	for _, slots := range []int{1, 4, 64} {
		for _, polite := range []int{1, 2, 4} {
			d := newDesk(UploadConfig{Slots: slots, Rate: 1e6, QueueFor: time.Hour})
			rng := rand.New(rand.NewPCG(1, 1))
			again := map[Job]bool{}
			served := 0
			keep := func() { // every request that was served is followed by another after a round trip
				for ; served < len(d.order); served++ {
					again[d.order[served]] = true
				}
			}
			for i := range 100 * polite {
				d.ask("greedy", uint32(i), 256<<10)
			}
			for i := range polite {
				for _, child := range []ID{"b", "c", "d"} {
					d.ask(child, uint32(i), 64<<10)
				}
			}
			for d.now.Before(epoch.Add(2 * time.Minute)) {
				keep()
				for _, j := range sortedJobs(again) {
					a := d.asks[j]
					d.ask(a.Child, rng.Uint32N(1000), a.Bytes)
				}
				clear(again)
				d.run(d.now.Add(20 * time.Millisecond))
			}
			total := 0
			for _, n := range d.bytes {
				total += n
			}
			for child, n := range d.bytes {
				if share := float64(n) / float64(total); share < 0.2 || share > 0.3 {
					t.Errorf("%d slots, %d requests at once: %s got %.3f", slots, polite, child, share)
				}
			}
			if rate := float64(total) / 120; rate < 0.97e6 || rate > 1.03e6 {
				t.Errorf("%d slots, %d requests at once: %.0f B/s of 1 MB/s", slots, polite, rate)
			}
		}
	}
}

func sortedJobs(m map[Job]bool) []Job {
	var out []Job
	for j := range m {
		out = append(out, j)
	}
	slices.Sort(out)
	return out
}

// waitFor makes a job of x hold the only slot, asks for pieces for a child, and
// returns the order in which they are then served.
func (d *desk) waitFor(child ID, pieces ...uint32) (order []uint32) {
	d.hold = true
	d.ask("x", 999, 1)
	slot := d.job
	for _, p := range pieces {
		d.ask(child, p, 64<<10)
	}
	d.hold = false
	n := len(d.order)
	d.admitted(d.u.Done(slot, d.now))
	for _, j := range d.order[n:] {
		order = append(order, d.asks[j].Piece)
	}
	return order
}

func TestLeastSentPieceGoesFirst(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1})
	d.ask("x", 1, 64<<10)
	d.ask("y", 1, 64<<10)
	d.ask("x", 2, 64<<10)
	if got := d.waitFor("a", 1, 2, 3); fmt.Sprint(got) != "[3 2 1]" {
		t.Errorf("served %v", got)
	}
}

func TestRestOfAPieceIsNotBehindNewOnes(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1})
	for range 10 {
		d.ask("a", 1, 64<<10)
	}
	if got := d.waitFor("a", 1, 2, 1, 3); fmt.Sprint(got) != "[1 2 1 3]" {
		t.Errorf("to the child that has the first blocks: %v", got)
	}
	if got := d.waitFor("b", 1, 2, 1, 4); fmt.Sprint(got) != "[4 1 1 2]" && fmt.Sprint(got) != "[4 1 2 1]" {
		t.Errorf("to another: %v", got)
	}
}

func TestOldRequestGoesBeforeNewPieces(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1, QueueFor: 2 * time.Second})
	d.ask("y", 1, 64<<10)
	d.hold = true
	d.ask("x", 9, 1)
	d.ask("a", 1, 64<<10)
	d.now = d.now.Add(time.Second)
	d.ask("a", 2, 64<<10)
	if next := d.u.Done(2, d.now); !slices.Equal(next, []Job{3}) {
		t.Errorf("then %v", next)
	}
}

func TestFullQueueIsBusyWithATime(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1, SlotsPerChild: 1, PerChild: 2, Queue: 3})
	d.hold = true
	var got []string
	for _, child := range []ID{"a", "a", "a", "a", "b", "b", "c"} {
		v := d.ask(child, 1, 1000)
		got = append(got, fmt.Sprint(v.Go, v.Queued, v.Busy && v.Retry > 0))
	}
	want := []string{"true false false", "false true false", "false true false", "false false true", "false true false", "false false true", "false false true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	slow := newDesk(UploadConfig{Rate: 1000, PerChild: 500, Queue: 100})
	var last Verdict
	for range 200 {
		last = slow.ask("a", 1, 64<<10)
	}
	if !last.Busy || last.Retry != 10*time.Second {
		t.Errorf("a long queue behind a low limit: %+v", last)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	d := newDesk(UploadConfig{})
	for _, n := range []int{0, -1, 16<<20 + 1} {
		if v := d.ask("a", 1, n); !v.Refused || v.Go || v.Queued || v.Busy {
			t.Errorf("%d bytes: %+v", n, v)
		}
	}
	d.hold = true
	d.ask("a", 1, 5)
	if v := d.u.Ask(Ask{Job: d.job, Child: "a", Key: "share", Piece: 1, Bytes: 5}, d.now); !v.Refused {
		t.Errorf("the same job twice: %+v", v)
	}
}

func TestWaitingTooLongIsBusy(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1, QueueFor: time.Second})
	d.hold = true
	d.ask("a", 1, 5)
	d.ask("b", 1, 5)
	if at := d.u.Wake(); !at.Equal(epoch.Add(time.Second)) {
		t.Fatalf("alarm in %v", at.Sub(epoch))
	}
	d.now = epoch.Add(time.Second - 1)
	if d.tick(); len(d.busy) > 0 {
		t.Fatal("too early")
	}
	d.now = epoch.Add(time.Second)
	if d.tick(); !slices.Equal(d.busy, []Job{2}) || d.u.Waiting() != 0 || !d.u.Wake().IsZero() {
		t.Errorf("busy %v", d.busy)
	}
	if next := d.u.Done(2, d.now); len(next) > 0 { // the handler says Done as well
		t.Error(next)
	}
}

func TestRateHoldsAndChangesWhileItRuns(t *testing.T) {
	d := newDesk(UploadConfig{QueueFor: time.Hour, PerChild: 1 << 20, Queue: 1 << 20})
	for i := range 10 {
		if !d.ask("a", uint32(i), 1<<20).Go {
			t.Fatal("no limit, and it waits")
		}
	}
	sent := func(rate int64, d2 time.Duration) float64 {
		d.u.SetRate(rate, d.now)
		before, from := d.bytes["a"], d.now
		d.run(d.now.Add(d2))
		return float64(d.bytes["a"]-before) / d.now.Sub(from).Seconds()
	}
	d.u.SetRate(1000, d.now)
	for i := range 4000 {
		d.ask("a", uint32(i), 64<<10)
	}
	for _, rate := range []int64{1e6, 200e3, 3e6} {
		if got := sent(rate, 20*time.Second); got < 0.9*float64(rate) || got > 1.1*float64(rate) {
			t.Errorf("%.0f B/s at a limit of %d", got, rate)
		}
	}
	if sent(0, time.Millisecond); d.u.Waiting() > 0 {
		t.Errorf("%d wait without a limit", d.u.Waiting())
	}
}

func TestBurstIsServedAtOnce(t *testing.T) {
	for _, c := range []struct{ burst, want int }{{64 << 10, 1}, {256 << 10, 4}, {0, 4}} {
		d, n := newDesk(UploadConfig{Rate: 100e3, Burst: c.burst}), 0
		for range 10 {
			if d.ask("a", 1, 64<<10).Go {
				n++
			}
		}
		if n != c.want {
			t.Errorf("a burst of %d: %d at once, want %d", c.burst, n, c.want)
		}
	}
}

func TestRequestLargerThanTheBurstIsServed(t *testing.T) {
	d := newDesk(UploadConfig{Rate: 100e3, Burst: 64 << 10, QueueFor: time.Hour})
	d.ask("a", 1, 1<<20)
	d.ask("a", 2, 1<<20)
	d.run(epoch.Add(time.Minute))
	if len(d.order) != 2 {
		t.Errorf("%d served", len(d.order))
	}
}

func TestForgottenChildFreesItsPlaces(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 2, SlotsPerChild: 2})
	d.hold = true
	for range 5 {
		d.ask("a", 1, 5)
	}
	d.ask("b", 1, 5)
	next := d.u.Forget("a", d.now)
	if !slices.Equal(next, []Job{6}) || d.u.Serving() != 1 || d.u.Waiting() != 0 {
		t.Errorf("then %v; %d served, %d wait", next, d.u.Serving(), d.u.Waiting())
	}
	if next := d.u.Done(1, d.now); len(next) > 0 || d.u.Serving() != 1 {
		t.Error("a job of the forgotten child was counted again")
	}
	if next := d.u.Forget("nobody", d.now); len(next) > 0 {
		t.Error(next)
	}
}

func TestComingBackGainsNothing(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1, Rate: 1e6, QueueFor: time.Hour})
	for i := range 60 { // a reconnects all the time
		d.u.Forget("a", d.now)
		for range 20 {
			d.ask("a", 1, 64<<10)
		}
		for range 20 - min(20, d.u.Waiting()-20) {
			d.ask("b", 2, 64<<10)
		}
		d.run(epoch.Add(time.Duration(i) * time.Second))
	}
	if a, b := d.bytes["a"], d.bytes["b"]; float64(a) > 1.1*float64(b) {
		t.Errorf("%d to the one that reconnects, %d to the other", a, b)
	}
}

func TestNobodySavesUpAndNobodyIsMadeToWaitForItsPast(t *testing.T) {
	for _, was := range []bool{false, true} { // b is new, or was here before and paused
		d := newDesk(UploadConfig{Slots: 1, Rate: 1e6, QueueFor: time.Hour, PerChild: 1 << 20, Queue: 1 << 20})
		if was {
			d.ask("b", 1, 64<<10)
		}
		for range 2000 {
			d.ask("a", 1, 64<<10)
		}
		d.run(epoch.Add(60 * time.Second))
		a, b := d.bytes["a"], d.bytes["b"]
		for range 2000 {
			d.ask("b", 2, 64<<10)
		}
		d.run(epoch.Add(90 * time.Second))
		a, b = d.bytes["a"]-a, d.bytes["b"]-b
		if part := float64(b) / float64(a+b); part < 0.45 || part > 0.55 {
			t.Errorf("was here: %v: b got %.2f of what followed", was, part)
		}
	}
}

func TestNewcomerHasNoHeadStart(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1, Rate: 1e6, QueueFor: time.Hour})
	for range 100 {
		d.ask("a", 1, 64<<10)
	}
	d.run(epoch.Add(time.Second))
	for range 100 {
		d.ask("b", 2, 64<<10)
	}
	n := d.bytes["a"]
	d.run(epoch.Add(2 * time.Second))
	if a, b := d.bytes["a"]-n, d.bytes["b"]; b > a+128<<10 {
		t.Errorf("%d to the newcomer, %d to the other", b, a)
	}
}

func TestForgottenClocksAreBounded(t *testing.T) {
	u := NewUploads(UploadConfig{Queue: 10})
	for i := range 1000 {
		id := ID(fmt.Sprint(i))
		u.Ask(Ask{Job: Job(i + 1), Child: id, Key: "s", Piece: 1, Bytes: 1 << 20}, epoch)
		u.Done(Job(i+1), epoch)
		u.Forget(id, epoch)
	}
	if len(u.children) > 21 {
		t.Errorf("%d children", len(u.children))
	}
}

func TestClocksOfChildrenThatNobodySaysAreLostAreBounded(t *testing.T) {
	u := NewUploads(UploadConfig{Queue: 10})
	for i := range 1000 {
		u.Ask(Ask{Job: Job(i + 1), Child: ID(fmt.Sprint(i)), Key: "s", Piece: 1, Bytes: 1 << 20}, epoch)
		u.Done(Job(i+1), epoch)
	}
	if len(u.children) > 20 {
		t.Errorf("%d children", len(u.children))
	}
}

func TestSentCountsAreBounded(t *testing.T) {
	m := sentMap{}
	for i := range uint32(sentPages + 10) {
		m.add("s", i*sentPieces, 1)
	}
	if len(m) > sentPages {
		t.Errorf("%d pages", len(m))
	}
	for i := range 200_000 {
		m.add("t", 7, uint16(i))
	}
	if m.get("t", 7, 12) != 1<<16-1 {
		t.Errorf("overflow: %d", m.get("t", 7, 12))
	}
}

// Whatever happens: every job is told once that it may start or that the source is busy,
// or it still waits; slots, queues and counts are right; and with alarms alone nobody
// waits for ever.
func TestEveryRequestIsAnsweredOnceAndCountsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := UploadConfig{
			Slots: rapid.IntRange(1, 5).Draw(t, "slots"), SlotsPerChild: rapid.IntRange(1, 3).Draw(t, "per child"),
			PerChild: rapid.IntRange(1, 6).Draw(t, "queue of a child"), Queue: rapid.IntRange(1, 12).Draw(t, "queue"),
			Rate: rapid.SampledFrom([]int64{0, 1000, 1e6}).Draw(t, "rate"), QueueFor: time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond,
		}
		u := NewUploads(cfg)
		now := epoch
		const (
			waiting = iota + 1
			serving
			parked
			over
		)
		state, owner := map[Job]int{}, map[Job]ID{}
		job := Job(0)
		go_ := func(next []Job) {
			for _, j := range next {
				if state[j] != waiting {
					t.Fatalf("job %d goes in state %d", j, state[j])
				}
				state[j] = serving
			}
		}
		some := func() Job { return Job(rapid.IntRange(1, int(job)+1).Draw(t, "job")) }
		children := []ID{"a", "b", "c"}
		check := func() {
			waits, serves, per := 0, 0, map[ID][2]int{}
			for j, s := range state {
				n := per[owner[j]]
				switch s {
				case waiting:
					waits++
					n[0]++
				case serving:
					serves++
					n[1]++
				case parked:
					n[1]++
				}
				per[owner[j]] = n
			}
			if waits != u.Waiting() || serves != u.Serving() || waits > cfg.Queue || serves > cfg.Slots {
				t.Fatalf("%d wait and %d are served, said %d and %d", waits, serves, u.Waiting(), u.Serving())
			}
			for id, n := range per {
				if n[0] > cfg.PerChild || n[1] > cfg.SlotsPerChild {
					t.Fatalf("%s: %v", id, n)
				}
			}
			if waits > 0 && u.Wake().IsZero() {
				t.Fatal("somebody waits and there is no alarm")
			}
		}
		tick := func() {
			next, busy := u.Tick(now)
			go_(next)
			for _, j := range busy {
				if state[j] != waiting {
					t.Fatalf("job %d is busy in state %d", j, state[j])
				}
				state[j] = over
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				job++
				child := rapid.SampledFrom(children).Draw(t, "child")
				v := u.Ask(Ask{Job: job, Child: child, Key: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "share"), Piece: uint32(rapid.IntRange(0, 3).Draw(t, "piece")), Bytes: rapid.IntRange(1, 300<<10).Draw(t, "bytes")}, now)
				owner[job] = child
				switch {
				case v.Go && !v.Queued && !v.Busy:
					state[job] = serving
				case v.Queued && !v.Go && !v.Busy:
					state[job] = waiting
				case v.Busy && v.Retry > 0 && !v.Go && !v.Queued:
					state[job] = over
				default:
					t.Fatalf("%+v", v)
				}
			case 3, 4:
				j := some()
				state[j] = over
				go_(u.Done(j, now))
			case 5:
				now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "wait")) * time.Millisecond)
				tick()
			case 6:
				u.SetRate(rapid.SampledFrom([]int64{0, 500, 1e5}).Draw(t, "new rate"), now)
			case 7:
				child := rapid.SampledFrom(children).Draw(t, "lost")
				next := u.Forget(child, now)
				for j := range state {
					if owner[j] == child {
						state[j] = over
					}
				}
				go_(next)
			case 8:
				j := some()
				if state[j] == serving {
					state[j] = parked
				}
				go_(u.Park(j, rapid.IntRange(0, 300<<10).Draw(t, "left"), now))
			case 9:
				go_(u.SetShareRate("s", rapid.SampledFrom([]int64{0, 500, 1e5}).Draw(t, "rate of a share"), now))
			}
			check()
		}
		for range 10_000 {
			at := u.Wake()
			if at.IsZero() {
				break
			}
			if at.After(now) {
				now = at
			}
			tick()
			check()
		}
		if u.Waiting() > 0 {
			t.Fatalf("%d wait for ever", u.Waiting())
		}
	})
}

func BenchmarkAskAndDone(b *testing.B) {
	for _, children := range []int{4, 1000} {
		b.Run(fmt.Sprint(children, " children"), func(b *testing.B) {
			u := NewUploads(UploadConfig{Queue: 1 << 20, QueueFor: time.Hour, Slots: 64})
			ids := make([]ID, children)
			for i := range ids {
				ids[i] = ID(fmt.Sprint("child", i))
			}
			b.ReportAllocs()
			job, ready := Job(0), []Job(nil)
			for b.Loop() {
				job++
				if u.Ask(Ask{Job: job, Child: ids[int(job)%children], Key: "share", Piece: uint32(job % 5000), Bytes: 256 << 10}, epoch).Go {
					ready = append(ready, job)
				}
				if u.Waiting() > 4*children && len(ready) > 0 {
					j := ready[0]
					ready = append(ready[1:], u.Done(j, epoch)...)
				}
			}
		})
	}
}

// A child that is being served has not paused: its clock stays as far behind as it was.
func TestWhoIsBeingServedLosesNoTime(t *testing.T) {
	u := NewUploads(UploadConfig{Slots: 2})
	ask := func(j Job, c ID, bytes int) {
		u.Ask(Ask{Job: j, Child: c, Key: "k", Piece: uint32(j), Bytes: bytes}, epoch)
	}
	ask(1, "a", 1)
	for j := range Job(30) {
		ask(100+j, "b", 1<<20)
	}
	serving := Job(100)
	for range 10 {
		serving = u.Done(serving, epoch)[0]
	}
	for j := range Job(5) {
		ask(10+j, "a", 1<<20)
	}
	for range 5 {
		if serving = u.Done(serving, epoch)[0]; serving >= 100 {
			t.Fatal("b is served, which has had ten times as much")
		}
	}
}

// A request is told in time to come again, although the rate allows the next one only later.
func TestWhoWaitsInVainHearsItInTime(t *testing.T) {
	u := NewUploads(UploadConfig{Rate: 1000})
	u.Ask(Ask{Job: 1, Child: "a", Key: "k", Bytes: 256 << 10}, epoch) // the burst
	if v := u.Ask(Ask{Job: 2, Child: "a", Key: "k", Bytes: 64 << 10}, epoch); !v.Queued {
		t.Fatalf("%+v", v)
	}
	if wait := u.Wake().Sub(epoch); wait != 1500*time.Millisecond {
		t.Errorf("looks again in %v", wait)
	}
}

// A child that had more than the others and left is remembered rather than those that had less.
func TestSweepingKeepsTheClocksThatMatter(t *testing.T) {
	u := NewUploads(UploadConfig{Queue: 4})
	for j := range Job(5) {
		u.Ask(Ask{Job: j, Child: "greedy", Key: "k", Bytes: 1 << 20}, epoch)
		u.Done(j, epoch)
	}
	u.Forget("greedy", epoch)
	for i := range 20 {
		u.child(ID(fmt.Sprint("idle", i))).clock = 0
		u.Forget(ID(fmt.Sprint("idle", i)), epoch)
	}
	if u.children["greedy"] == nil || len(u.children) > 9 {
		t.Errorf("%d children are known, the greedy one: %v", len(u.children), u.children["greedy"] != nil)
	}
}

func TestChildrenThatTakeNothingKeepNoSlots(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	for i := range 8 {
		for range 9 {
			d.ask(ID(fmt.Sprint("silent", i)), 1, 1<<20)
		}
	}
	if v := d.ask("honest", 1, 1<<20); !v.Queued || d.u.Serving() != 64 {
		t.Fatalf("%+v; %d are served", v, d.u.Serving())
	}
	honest := d.job
	if next := d.u.Park(1, 1<<20, d.now); !slices.Equal(next, []Job{honest}) {
		t.Errorf("when one is parked, then %v", next)
	}
	for j := range honest {
		if next := d.u.Park(j, 1<<20, d.now); len(next) > 0 {
			t.Errorf("%v: children that take nothing got other slots", next)
		}
	}
	if d.u.Serving() != 1 {
		t.Errorf("%d are served", d.u.Serving())
	}
	if next := d.u.Done(1, d.now); !slices.Equal(next, []Job{9}) {
		t.Errorf("when one takes it at last, then %v", next)
	}
	d.u.Forget("silent1", d.now)
	if d.u.Done(honest, d.now); d.u.Serving() != 1 {
		t.Errorf("%d are served in the end", d.u.Serving())
	}
}

func TestWhatWasNotTakenDoesNotCountAsSent(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1})
	d.hold = true
	d.ask("x", 2, 64<<10)
	d.u.Done(d.job, d.now)
	d.ask("silent", 1, 64<<10)
	d.u.Park(d.job, 64<<10, d.now)
	d.u.Park(d.job, 64<<10, d.now) // once is enough
	if got := d.waitFor("a", 2, 1); fmt.Sprint(got) != "[1 2]" {
		t.Errorf("served %v, and piece 1 was sent to nobody", got)
	}
}

func TestALimitIsNotSpentOnWhatIsNotTaken(t *testing.T) {
	d := newDesk(UploadConfig{Rate: 1e6, Burst: 1 << 20})
	d.hold = true
	d.ask("silent", 1, 1<<20)
	if v := d.ask("honest", 1, 1<<20); !v.Queued {
		t.Fatalf("%+v", v)
	}
	if next := d.u.Park(1, 1<<20, d.now); !slices.Equal(next, []Job{2}) {
		t.Errorf("then %v", next)
	}
}

func TestAPieceThatIsNotTakenIsNotHeldBack(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	of := func(a *Ask) { a.Crowd = 31 }
	d.crowdAsk("silent", 1, of)
	if v := d.crowdAsk("b", 1, of); !v.Elsewhere {
		t.Fatalf("%+v", v)
	}
	d.u.Park(1, 1, d.now)
	if v := d.crowdAsk("b", 1, of); !v.Go {
		t.Errorf("%+v", v)
	}
	d.pass(time.Minute)
	d.crowdAsk("b", 2, of)
	if d.u.Done(1, d.now); d.u.spreads.took > time.Second {
		t.Errorf("a request is taken to last %v", d.u.spreads.took)
	}
}

// The sets of children come before their clocks, and refuse nobody.
func TestNobodyIsServedBeforeABetterSet(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1})
	d.hold = true
	ask := func(child ID, set Set) Job {
		d.job++
		a := Ask{Job: d.job, Child: child, Key: "share", Piece: uint32(d.job), Bytes: 1000, Set: set}
		d.asks[d.job] = a
		if v := d.u.Ask(a, d.now); v.Go {
			d.admitted([]Job{d.job})
		} else if !v.Queued {
			t.Errorf("%s: %+v", child, v)
		}
		return d.job
	}
	first := ask("outside", Outside) // a slot is free
	want := []Job{first}
	p, k, a, o := ask("passive", Passive), ask("tracked", Tracked), ask("active", Active), ask("outside", Outside)
	b := ask("active", Active)
	want = append(want, a, b, p, k, o)
	for i := range want {
		d.admitted(d.u.Done(want[i], d.now))
	}
	if !slices.Equal(d.order, want) {
		t.Errorf("served %v, want %v", d.order, want)
	}
}

// A child that waited in one set has no credit in another.
func TestAnotherSetIsNotAheadOfItsOthers(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1})
	ask := func(child ID, set Set) Job {
		d.job++
		d.u.Ask(Ask{Job: d.job, Child: child, Key: "share", Piece: uint32(d.job), Bytes: 1 << 20, Set: set}, d.now)
		return d.job
	}
	last := ask("old", Active)
	ask("new", Passive)
	for range 100 {
		next := ask("old", Active)
		d.u.Done(last, d.now)
		last = next
	}
	ask("new", Active)
	if got, all := d.u.children["new"].clock, d.u.clock; got < all || all < 90<<20 {
		t.Errorf("its clock is %.0f, that of all %.0f", got, all)
	}
}
