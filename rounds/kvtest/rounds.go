package kvtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// A Clock shows the time that a test sets.
type Clock struct {
	mu  sync.Mutex
	now rounds.Now
}

// NewClock returns a clock that stands still.
func NewClock(wall time.Time) *Clock { return &Clock{now: rounds.Now{Wall: wall}} }

// Now is the clock of a [rounds.Config].
func (c *Clock) Now() rounds.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Wall, c.now.Mono = c.now.Wall.Add(d), c.now.Mono+d
}

// Jump sets the wall clock, forwards or back.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Wall = c.now.Wall.Add(d)
}

// Noon is when the tests begin.
var Noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// NewRound returns a round on a store, with a clock that shows noon.
func NewRound(t testing.TB, kv rounds.KV, c rounds.Config) (*rounds.Round, *Clock) {
	t.Helper()
	clock := NewClock(Noon)
	c.Clock = clock.Now
	if c.Run == "" {
		c.Run = "run of " + c.Holder
	}
	r, err := rounds.New(kv, c)
	if err != nil {
		t.Fatal(err)
	}
	return r, clock
}

// Free fails unless the round is won, and returns its guard.
func Free(t testing.TB, r *rounds.Round, ttl time.Duration) *rounds.Guard {
	t.Helper()
	g, err := r.TryAcquire(within(t, long), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Held fails unless somebody else has the round, and returns the error that says so.
func Held(t testing.TB, r *rounds.Round, ttl time.Duration) *rounds.HeldError {
	t.Helper()
	g, err := r.TryAcquire(within(t, long), ttl)
	held, ok := errors.AsType[*rounds.HeldError](err)
	if !ok {
		t.Fatalf("guard %v, %v; want a HeldError", g, err)
	}
	return held
}

// overEngine runs rounds on the engine. Their rules are tested with the store in
// memory; this tests that the engine gives them what they need.
func overEngine(t *testing.T, e Engine) {
	t.Run("OneWinner", func(t *testing.T) {
		t.Parallel()
		oneWinner(t, e)
	})
	t.Run("ClockSkew", func(t *testing.T) {
		t.Parallel()
		clockSkew(t, e)
	})
	t.Run("TermsGrow", func(t *testing.T) {
		t.Parallel()
		termsGrow(t, e)
	})
	if e.Addr == "" {
		return
	}
	t.Run("LostAnswer", func(t *testing.T) {
		t.Parallel()
		lostAnswer(t, e)
	})
}

func oneWinner(t *testing.T, e Engine) {
	const clients = 6
	name := newKey()
	var wg sync.WaitGroup
	guards := make([]*rounds.Guard, clients)
	clocks := make([]*Clock, clients)
	rs := make([]*rounds.Round, clients)
	for i := range clients {
		rs[i], clocks[i] = NewRound(t, e.open(t), rounds.Config{Name: name, Holder: fmt.Sprint("client ", i)})
	}
	for term := uint64(1); term <= 3; term++ {
		for i := range clients {
			wg.Go(func() {
				var err error
				if guards[i], err = rs[i].TryAcquire(within(t, long), time.Hour); err != nil && !errors.As(err, new(*rounds.HeldError)) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		won := 0
		for i, g := range guards {
			clocks[i].Pass(time.Hour)
			if g == nil {
				continue
			}
			won++
			if g.Term() != term {
				t.Errorf("term %d, not %d", g.Term(), term)
			}
			if err := g.Complete(within(t, long), "done"); err != nil {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Fatalf("%d winners of term %d", won, term)
		}
	}
}

// clockSkew has a machine whose clock is an hour ahead: it never takes an office from a
// live holder, but it may run a job early.
func clockSkew(t *testing.T, e Engine) {
	name := newKey()
	const ttl = 3 * time.Second
	a, clockA := NewRound(t, e.open(t), rounds.Config{Name: name + ".office", Office: true, Holder: "a"})
	b, clockB := NewRound(t, e.open(t), rounds.Config{Name: name + ".office", Office: true, Holder: "b"})
	clockB.Jump(time.Hour)
	office := Free(t, a, ttl)
	for range 10 {
		Held(t, b, ttl)
		clockA.Pass(rounds.Heartbeat(ttl))
		clockB.Pass(rounds.Heartbeat(ttl))
		if err := office.Extend(within(t, long)); err != nil {
			t.Fatal(err)
		}
	}
	Held(t, b, ttl)
	clockB.Pass(ttl / 2)
	Held(t, b, ttl)
	clockB.Pass(ttl / 2)
	if g := Free(t, b, ttl); g.Term() != 2 {
		t.Errorf("term %d", g.Term())
	}
	var lost *rounds.LostError
	if err := office.Extend(within(t, long)); !errors.As(err, &lost) || lost.Record.Holder != "b" {
		t.Errorf("extended after it was lost: %v", err)
	}

	var notices []rounds.Notice
	slow, _ := NewRound(t, e.open(t), rounds.Config{Name: name + ".job", Holder: "slow", Notice: func(n rounds.Notice) { notices = append(notices, n) }})
	fast, clockF := NewRound(t, e.open(t), rounds.Config{Name: name + ".job", Holder: "fast"})
	clockF.Jump(time.Hour)
	job := Free(t, slow, time.Hour)
	early := Free(t, fast, time.Hour)
	if early.Term() <= job.Term() {
		t.Errorf("term %d after %d", early.Term(), job.Term())
	}
	if err := job.Complete(within(t, long), "late"); !errors.As(err, &lost) || lost.Record.Holder != "fast" {
		t.Errorf("completed after it was lost: %v", err)
	}
	Held(t, slow, time.Hour)
	if len(notices) != 2 || notices[0].Kind != rounds.Overtaken || notices[1].Kind != rounds.ClockAhead || notices[1].Record.Holder != "fast" {
		t.Errorf("notices: %v", notices)
	}
}

func termsGrow(t *testing.T, e Engine) {
	kv, name := e.open(t), newKey()
	ctx := within(t, long)
	r, clock := NewRound(t, kv, rounds.Config{Name: name, Holder: "a"})
	var last uint64
	acquire := func(after string, r *rounds.Round) *rounds.Guard {
		t.Helper()
		g := Free(t, r, time.Hour)
		if g.Term() <= last {
			t.Errorf("term %d after %d, over %s", g.Term(), last, after)
		}
		last = g.Term()
		return g
	}
	for range 5 {
		if err := acquire("an abandoned round", r).Abandon(ctx, "test"); err != nil {
			t.Fatal(err)
		}
	}
	acquire("an abandoned round", r).Close()
	clock.Pass(time.Hour)
	acquire("an expired round", r).Close()
	key := "round.v1." + name
	for _, bad := range []string{"", "garbage", `{"term":0}`} {
		entry, err := kv.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if bad == "" {
			_, err = kv.Delete(ctx, key, entry.Rev)
		} else {
			_, err = kv.Update(ctx, key, []byte(bad), entry.Rev)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rounds.Current(ctx, kv, name); !errors.Is(err, rounds.ErrCorrupt) {
			t.Errorf("current of %q: %v", bad, err)
		}
		// Another process, which has not seen the earlier terms.
		fresh, _ := NewRound(t, kv, rounds.Config{Name: name, Holder: "b"})
		acquire(fmt.Sprintf("%q", bad), fresh).Close()
	}
}

// lostAnswer loses the answer to each call of an acquisition in turn: when the connection
// is back, the caller has the round, with the term it would have had.
func lostAnswer(t *testing.T, e Engine) {
	for call := 1; call <= 3; call++ { // the record, the pointer, the write
		name, direct := newKey(), e.open(t)
		link := NewLink(t, e.Addr)
		kv := &losingKV{KV: e.Open(t, link.Addr), link: link, at: call}
		r, clock := NewRound(t, kv, rounds.Config{Name: name, Holder: "a"})
		happened := kv.lost.Load
		if call == 3 {
			happened = func() bool { return latest(t, direct, "Get", "round.v1."+name).Rev != 0 }
		}
		err := givenUp(t, happened, func(ctx context.Context) error { _, err := r.TryAcquire(ctx, time.Hour); return err })
		if err == nil || errors.As(err, new(*rounds.HeldError)) {
			t.Fatalf("call %d: %v", call, err)
		}
		link.Lose(Nothing)
		clock.Pass(time.Minute)
		g := Free(t, r, time.Hour)
		if g.Term() != 1 {
			t.Errorf("call %d: term %d", call, g.Term())
		}
		other, _ := NewRound(t, direct, rounds.Config{Name: name, Holder: "b"})
		if held := Held(t, other, time.Hour); held.Record.Holder != "a" {
			t.Errorf("call %d: held by %+v", call, held.Record)
		}
		if left, most := g.Left(), time.Hour-time.Minute; call == 3 && left > most {
			t.Errorf("%v left, want at most %v", left, most)
		}
	}
}

// A losingKV loses the answer to one call.
type losingKV struct {
	rounds.KV
	link *Link
	at   int
	lost atomic.Bool
}

func (k *losingKV) called() {
	if k.at--; k.at == 0 {
		k.link.Lose(Answers)
		k.lost.Store(true)
	}
}

func (k *losingKV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	k.called()
	return k.KV.Get(ctx, key)
}

func (k *losingKV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	k.called()
	return k.KV.Create(ctx, key, value)
}
