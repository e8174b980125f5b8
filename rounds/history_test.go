package rounds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
)

// A history is what some clients of a store did and were told, in virtual time,
// while messages were lost and late, clocks were wrong, and clients paused and
// crashed.
type history struct {
	t      *testing.T
	seed   uint64
	office bool
	store  *memkv.KV
	start  time.Time
	end    time.Duration
	late   sync.WaitGroup

	mu      sync.Mutex
	cut     [clients]bool
	log     []revision // of the record
	target  rounds.Target
	ops     []porcupine.Operation
	guards  map[uint64]string // term: the run that had a guard of it
	counts  map[string]int
	skew    [clients]time.Duration
	targets int
}

const (
	clients  = 5
	jobTTL   = 20 * time.Second
	deskTTL  = 3 * time.Second
	maxTTL   = 5 * time.Minute
	lateness = time.Minute
)

// A revision is an entry of the store's own log.
type revision struct {
	at   time.Duration
	rec  rounds.Record
	ok   bool // it can be read
	whom int
}

// seeds returns how many histories of each kind are made, and how many virtual minutes each
// of them lasts.
func seeds() (n int, minutes int) {
	if n, err := strconv.Atoi(os.Getenv("ROUNDS_SEEDS")); err == nil {
		return n, 30
	}
	return 6, 8
}

// Histories of many clients, whose records, guards and pointer are checked one by one. The
// invariants 54 to 59 of rounds have tests by these names.
func TestInvariant54OneWinsARoundThatIsFree(t *testing.T) {
	n, minutes := seeds()
	for _, office := range []bool{false, true} {
		total := map[string]int{}
		for seed := range n {
			var h *history
			synctest.Test(t, func(t *testing.T) {
				h = newHistory(t, uint64(seed), office, time.Duration(minutes)*time.Minute)
				h.play()
			})
			h.t = t
			h.check()
			for k, v := range h.counts {
				total[k] += v
			}
			if t.Failed() {
				t.Fatalf("office %v, seed %d", office, seed)
			}
		}
		t.Logf("office %v: %v", office, total)
		for _, what := range []string{"won", "held", "lost", "unknown", "late", "crash", "garbage"} {
			if total[what] == 0 {
				t.Errorf("office %v: these histories have no %q", office, what)
			}
		}
	}
}

func newHistory(t *testing.T, seed uint64, office bool, end time.Duration) *history {
	h := &history{t: t, seed: seed, office: office, end: end, start: time.Now(), store: memkv.New(), guards: map[uint64]string{}, counts: map[string]int{}}
	rng := h.chance(99)
	for i := range h.skew {
		if rng.IntN(2) == 0 {
			h.skew[i] = time.Duration(rng.Int64N(int64(4*time.Minute))) - 2*time.Minute
		}
	}
	h.store.Wrote = func(e rounds.Entry) { h.wrote(e) }
	return h
}

func (h *history) chance(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(h.seed, stream)) }

func (h *history) now() time.Duration { return time.Since(h.start) }

func (h *history) count(what string) {
	h.mu.Lock()
	h.counts[what]++
	h.mu.Unlock()
}

// wrote records every revision of the store.
func (h *history) wrote(e rounds.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Key {
	case recordKey:
		rec, err := rounds.DecodeRecord(e.Value)
		r := revision{at: h.now(), rec: rec, ok: err == nil}
		fmt.Sscanf(rec.Holder, "client %d", &r.whom)
		h.log = append(h.log, r)
	case pointerKey:
		target, err := rounds.DecodeTarget(e.Value)
		if err != nil || target.Term < h.target.Term || target.Term == h.target.Term && target.Seq <= h.target.Seq {
			h.t.Errorf("%v: the pointer went from %+v to %+v, %v", h.now(), h.target, target, err)
		}
		h.target = target
		h.targets++
	}
}

// play runs the clients and the disturbances.
func (h *history) play() {
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { h.client(i) })
	}
	wg.Go(h.partitions)
	wg.Go(h.garbage)
	wg.Wait()
	h.late.Wait()
}

// partitions cuts clients off from the store, and all of them at times.
func (h *history) partitions() {
	rng := h.chance(100)
	for h.now() < h.end {
		time.Sleep(upTo(rng, 40*time.Second))
		h.mu.Lock()
		all, cut := rng.IntN(4) == 0, rng.IntN(2) == 0
		for i := range h.cut {
			if all || rng.IntN(3) == 0 {
				h.cut[i] = cut
			}
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	h.cut = [clients]bool{}
	h.mu.Unlock()
}

// garbage overwrites the record now and then, as an operator's mistake would.
func (h *history) garbage() {
	rng := h.chance(101)
	for h.now() < h.end {
		time.Sleep(upTo(rng, 4*time.Minute))
		value := []byte("garbage")
		if rng.IntN(2) == 0 {
			value = nil
		}
		began := h.now()
		h.store.Overwrite(recordKey, value)
		h.op(clients, began, input{kind: "garbage"}, output{})
		h.count("garbage")
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d))) + 1
}

// A wire is a client's connection to the store.
type wire struct {
	*history
	who   int
	rng   *rand.Rand
	terms []uint64 // terms that it tried to write since the last question
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[w.who]
}

// travel calls the store; any part of the way may take long, or lose the message.
func travel[R any](w *wire, ctx context.Context, f func(context.Context) (R, error)) (R, error) {
	var none R
	silence := func() (R, error) {
		<-ctx.Done()
		return none, ctx.Err()
	}
	w.pause()
	if ctx.Err() != nil || w.isCut() {
		return silence()
	}
	time.Sleep(upTo(w.rng, 20*time.Millisecond))
	if w.rng.IntN(30) == 0 {
		delay := upTo(w.rng, lateness)
		w.count("late")
		w.late.Go(func() {
			time.Sleep(delay)
			f(context.Background())
		})
		return silence()
	}
	r, err := f(context.WithoutCancel(ctx))
	time.Sleep(upTo(w.rng, 20*time.Millisecond))
	if w.isCut() || w.rng.IntN(40) == 0 {
		return silence()
	}
	w.pause()
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	return r, err
}

// pause stops the client at times, as a busy machine does.
func (w *wire) pause() {
	if w.rng.IntN(25) == 0 {
		time.Sleep(upTo(w.rng, 10*time.Second))
	}
}

func (w *wire) Get(ctx context.Context, key string) (rounds.Entry, error) {
	return travel(w, ctx, func(ctx context.Context) (rounds.Entry, error) { return w.store.Get(ctx, key) })
}

func (w *wire) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	w.tries(key, value)
	return travel(w, ctx, func(ctx context.Context) (uint64, error) { return w.store.Create(ctx, key, value) })
}

func (w *wire) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	w.tries(key, value)
	return travel(w, ctx, func(ctx context.Context) (uint64, error) { return w.store.Update(ctx, key, value, rev) })
}

func (w *wire) Delete(context.Context, string, uint64) (uint64, error) { panic("not used") }

func (w *wire) Watch(context.Context, string, func([]rounds.Entry)) error { panic("not used") }

func (w *wire) tries(key string, value []byte) {
	if rec, err := rounds.DecodeRecord(value); key == recordKey && err == nil {
		w.terms = append(w.terms, rec.Term)
	}
}

// client runs, crashes and runs again.
func (h *history) client(who int) {
	w := &wire{history: h, who: who, rng: h.chance(uint64(who))}
	var term uint64 // of the guard it had when it crashed, if it remembers that
	for n := 0; h.now() < h.end; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), upTo(w.rng, 3*time.Minute))
		l := &life{wire: w, ctx: ctx, crash: cancel, run: fmt.Sprintf("run %d of %d", n, who)}
		l.live(term)
		term = 0
		if g := l.guard; g != nil {
			h.count("crash")
			if w.rng.IntN(2) == 0 {
				term = g.Term()
			}
		}
		cancel()
		time.Sleep(upTo(w.rng, 10*time.Second))
	}
}

// A life is one process of a client.
type life struct {
	*wire
	ctx   context.Context
	crash func()
	run   string
	guard *rounds.Guard
}

func (l *life) clock() rounds.Now {
	now := l.now()
	wall := l.start.Add(now + l.skew[l.who])
	if l.office { // a clock that jumps by hours, all the time
		wall = wall.Add(time.Duration(now%7-3) * time.Hour)
	}
	return rounds.Now{Wall: wall, Mono: now}
}

func (l *life) live(saved uint64) {
	r, err := rounds.New(l.wire, rounds.Config{Name: name, Office: l.office, Holder: fmt.Sprint("client ", l.who), Run: l.run, MaxTTL: maxTTL, Clock: l.clock})
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := rounds.NewPointer(l.wire, name)
	if err != nil {
		l.t.Fatal(err)
	}
	for first := true; l.ctx.Err() == nil && l.now() < l.end; first = false {
		switch {
		case first && saved != 0 && !l.office:
			l.resume(r, saved)
		case l.rng.IntN(10) == 0:
			l.current()
		default:
			l.acquire(r)
		}
		if l.guard == nil {
			continue
		}
		if l.office {
			l.govern()
		} else {
			l.work(p)
		}
	}
}

// done records a call, and what is known about it.
func (l *life) done(began time.Duration, in input, err error, out output) {
	in.run, in.tried = l.run, l.terms
	l.terms = nil
	switch e, held := errors.AsType[*rounds.HeldError](err); {
	case err == nil:
		out.kind = "ok"
	case held:
		out.kind, out.rec = "held", e.Record
	case errors.As(err, new(*rounds.LostError)):
		out.kind = "lost"
	default:
		out.kind = "unknown"
	}
	l.count(out.kind)
	l.op(l.who, began, in, out)
}

func (h *history) op(who int, began time.Duration, in input, out output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.kind == "unknown" && len(in.tried) == 0 {
		return // it has changed nothing, and tells nothing
	}
	o := porcupine.Operation{ClientId: who, Input: in, Output: out, Call: int64(began), Return: int64(h.now())}
	if out.kind == "unknown" {
		o.Return += int64(2 * lateness) // it may still take effect
	}
	h.ops = append(h.ops, o)
}

func (l *life) acquire(r *rounds.Round) {
	ttl := jobTTL
	if l.office {
		ttl = deskTTL
	}
	began := l.now()
	g, err := r.TryAcquire(l.ctx, ttl)
	l.took(began, input{kind: "acquire"}, g, err)
	wait := upTo(l.rng, ttl/4)
	if held, ok := errors.AsType[*rounds.HeldError](err); ok {
		wait = min(held.Again+1, wait)
	}
	if g == nil {
		time.Sleep(wait)
	}
}

func (l *life) resume(r *rounds.Round, term uint64) {
	began := l.now()
	g, err := r.Resume(l.ctx, term)
	l.took(began, input{kind: "resume", term: term}, g, err)
}

// took records a guard: no two runs may have one of the same term, unless the second
// resumed it.
func (l *life) took(began time.Duration, in input, g *rounds.Guard, err error) {
	var out output
	if g != nil {
		out.term, l.guard = g.Term(), g
		l.count("won")
		l.mu.Lock()
		if run, twice := l.guards[g.Term()]; twice && in.kind != "resume" {
			l.t.Errorf("%v: %s and %s have guards of term %d", l.now(), run, l.run, g.Term())
		}
		l.guards[g.Term()] = l.run
		l.mu.Unlock()
	}
	l.done(began, in, err, out)
}

func (l *life) current() {
	began := l.now()
	rec, err := rounds.Current(l.ctx, l.wire, name)
	out := output{rec: rec}
	if errors.Is(err, rounds.ErrNever) || errors.Is(err, rounds.ErrCorrupt) {
		err = nil
	}
	l.done(began, input{kind: "current"}, err, out)
}

// work does a job, publishes the result and completes the round, often too late.
func (l *life) work(p *rounds.Pointer) {
	if l.nap(upTo(l.rng, jobTTL*3/2)) {
		return
	}
	for seq := range l.rng.Uint64N(3) {
		err := p.Publish(l.ctx, rounds.Target{Term: l.guard.Term(), Seq: seq, Value: l.run})
		if errors.As(err, new(*rounds.StaleError)) {
			l.count("stale")
		}
	}
	l.finish()
}

// govern holds an office until it is lost, or no longer wanted.
func (l *life) govern() {
	for l.rng.IntN(15) != 0 {
		if l.nap(rounds.Heartbeat(deskTTL)) {
			return
		}
		began := l.now()
		err := l.guard.Extend(l.ctx)
		l.done(began, input{kind: "extend", term: l.guard.Term()}, err, output{})
		if errors.As(err, new(*rounds.LostError)) {
			l.guard = nil
			return
		}
	}
	l.finish()
}

// nap waits; true means that the process crashed.
func (l *life) nap(d time.Duration) bool {
	select {
	case <-l.ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}

func (l *life) finish() {
	began := l.now()
	in := input{kind: "complete", term: l.guard.Term()}
	var err error
	switch choice := l.rng.IntN(6); {
	case choice == 0:
		l.guard.Close()
		l.guard = nil
		return
	case choice == 1:
		l.crash()
		return
	case choice == 2 || l.office:
		in.kind = "abandon"
		err = l.guard.Abandon(l.ctx, "")
	default:
		err = l.guard.Complete(l.ctx, "")
	}
	l.done(began, in, err, output{})
	l.guard.Close()
	l.guard = nil
}

// check examines what the store has seen, and looks for an order of all calls.
func (h *history) check() {
	high, last := uint64(0), revision{}
	since := time.Duration(0) // when the term of last began
	for i, r := range h.log {
		switch {
		case r.ok && r.rec.Term < high, r.ok && r.rec.Term == high && last.ok && r.rec.Holder != last.rec.Holder:
			h.t.Errorf("%v: term %d of %q after term %d", r.at, r.rec.Term, r.rec.Holder, high)
		case i > 0 && r.ok && last.ok && r.rec.Term != last.rec.Term:
			h.justified(last, r, since)
		}
		if r.ok && r.rec.Term > high {
			high, since = r.rec.Term, r.at
		}
		last = r
	}
	if h.targets == 0 && !h.office {
		h.t.Error("nothing was published")
	}
	if result, info := porcupine.CheckOperationsVerbose(acquisition, h.ops, time.Minute); result != porcupine.Ok {
		h.t.Errorf("linearizable: %v", result)
		h.explain(info)
	}
}

// explain shows the end of the longest order of calls that explains their answers.
func (h *history) explain(info porcupine.LinearizationInfo) {
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	show := func(what string, o porcupine.Operation) {
		out := o.Output.(output)
		h.t.Logf("%s %d [%v %v] %+v: %s %d, %d %s %v", what, o.ClientId, time.Duration(o.Call), time.Duration(o.Return), o.Input, out.kind, out.term, out.rec.Term, out.rec.Run, out.rec.State)
	}
	in := map[string]bool{}
	for i, o := range longest {
		in[fmt.Sprint(o.ClientId, o.Call)] = true
		if i > len(longest)-15 {
			show("fits", o)
		}
	}
	left := 15
	for _, o := range h.ops {
		if !in[fmt.Sprint(o.ClientId, o.Call)] && left > 0 {
			left--
			show("does not", o)
		}
	}
}

// justified fails unless the round was free when next took it: invariant 54.
func (h *history) justified(last, next revision, since time.Duration) {
	rec := last.rec
	switch {
	case rec.State == rounds.Abandoned:
	case h.office && next.rec.Holder == rec.Holder:
	case h.office:
		if quiet := next.at - last.at; quiet < rec.TTL {
			h.t.Errorf("%v: %q took the office from %q %v after it was extended", next.at, next.rec.Holder, rec.Holder, quiet)
		}
	default:
		clock := h.start.Add(next.at + h.skew[next.whom])
		if clock.Before(rec.Expires()) && next.at-since < rec.TTL && rec.Expires().Sub(clock) < maxTTL {
			h.t.Errorf("%v: %q took a job from %q that ends at %v, at %v by its clock", next.at, next.rec.Holder, rec.Holder, rec.Expires(), clock)
		}
		if h.start.Add(next.at).Before(rec.Expires()) {
			h.counts["early"]++
		}
	}
}

// A call, and its result.
type input struct {
	kind  string
	run   string
	term  uint64
	tried []uint64
}

type output struct {
	kind string // ok, held, lost, unknown
	term uint64
	rec  rounds.Record
}

// A state is the state of the round.
type state struct {
	term  uint64 // 0 if the record cannot be read
	run   string
	state rounds.State
	high  uint64 // of all terms
}

// acquisition is a round as seen by one process at a time. It does not model when the
// round's time is over: see justified.
var acquisition = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, i, o any) []any { return s.(state).step(i.(input), o.(output)) },
}).ToModel()

func (s state) step(in input, out output) (next []any) {
	mine := s.term != 0 && s.run == in.run
	after := s.after(in, out.term, mine)
	switch {
	case in.kind == "garbage":
		return []any{state{high: s.high}}
	case out.kind == "ok" && in.kind != "current":
		return after
	case out.kind == "held" || out.kind == "ok":
		// The write may have taken effect, and be over by the time the caller read again.
		if out.rec.Term == s.term && out.rec.Run == s.run && out.rec.State == s.state {
			after = append(after, s)
		}
		return after
	case out.kind == "lost": // likewise
		if in.kind == "resume" || !mine || s.term != in.term {
			after = append(after, s)
		}
		return after
	}
	return append(after, s)
}

// after returns the states in which a call that succeeded may leave the round.
func (s state) after(in input, won uint64, mine bool) (next []any) {
	to := func(term uint64, became rounds.State) {
		next = append(next, state{term, in.run, became, max(s.high, term)})
	}
	switch in.kind {
	case "acquire":
		if won != 0 && mine && s.term == won && s.state == rounds.Running {
			to(won, rounds.Running) // a call before this one took it
		}
		for _, term := range append(in.tried, won) {
			if term > s.high && (won == 0 || won == term) {
				to(term, rounds.Running)
			}
		}
	case "resume":
		if s.term == in.term && s.state == rounds.Running {
			to(in.term, rounds.Running)
		}
	case "extend":
		if mine && s.term == in.term {
			to(in.term, rounds.Running)
		}
	case "complete", "abandon":
		if mine && s.term == in.term {
			to(in.term, map[string]rounds.State{"complete": rounds.Completed, "abandon": rounds.Abandoned}[in.kind])
		}
	}
	return next
}
