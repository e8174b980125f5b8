package rounds_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
)

// callsTake makes time pass for a party whenever it calls the store.
func callsTake(p *party, d *time.Duration) func(string, context.Context) {
	return func(string, context.Context) { p.Pass(*d) }
}

// Every call may fail, before or after it takes effect: a caller that tries again gets what
// it would have got, nobody gets it twice, and no term is used twice.
func TestEveryCallMayFail(t *testing.T) {
	for _, kind := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				m := memkv.New()
				kv := &faultyKV{KV: m, n: n, after: after}
				aRoundsLife(t, m, kv, kind)
				if !kv.failed {
					break
				}
				if t.Failed() {
					t.Fatalf("office %v, call %d failed, after it happened: %v", kind, n, after)
				}
			}
		}
	}
}

// aRoundsLife acquires, extends, publishes and ends a round over kv, trying each
// step again if it fails.
func aRoundsLife(t *testing.T, m *memkv.KV, kv *faultyKV, kind bool) {
	a := newParty(t, kv, rounds.Config{Holder: "a", Office: kind})
	b := newParty(t, m, rounds.Config{Holder: "b", Office: kind})
	try := func(f func() error) {
		t.Helper()
		if err := f(); errors.Is(err, errLost) {
			a.Pass(time.Second)
			ok(t, f())
		} else {
			ok(t, err)
		}
	}
	var g *rounds.Guard
	try(func() (err error) { g, err = a.TryAcquire(t.Context(), time.Minute); return err })
	if g.Term() != 1 {
		t.Errorf("term %d", g.Term())
	}
	b.held(t, time.Minute)
	if kind {
		try(func() error { return g.Extend(t.Context()) })
	}
	p, err := rounds.NewPointer(kv, name)
	ok(t, err)
	try(func() error { return p.Publish(t.Context(), rounds.Target{Term: g.Term(), Value: "x"}) })
	if kind {
		try(func() error { return g.Abandon(t.Context(), "over") })
		b.free(t, time.Minute, 2)
	} else {
		try(func() error { return g.Complete(t.Context(), "done") })
		b.held(t, time.Minute)
		if rec := current(t, m); rec.State != rounds.Completed || rec.Outcome != "done" {
			t.Errorf("record %+v", rec)
		}
	}
	a.told(t)
}

func TestAResumptionMayFail(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; n <= 3; n++ {
			m := memkv.New()
			job(t, m, "a").free(t, time.Minute, 1)
			kv := &faultyKV{KV: m, n: n, after: after}
			again := newParty(t, kv, rounds.Config{Holder: "a", Run: "another"})
			g, err := again.Resume(t.Context(), 1)
			if errors.Is(err, errLost) {
				g, err = again.Resume(t.Context(), 1)
			}
			ok(t, err)
			ok(t, g.Complete(t.Context(), "done"))
		}
	}
}

// A lateKV performs a write only after its caller was told that it failed, and has read the
// key again.
type lateKV struct {
	rounds.KV
	n    int // writes until the late one
	late func() error
}

func (k *lateKV) write(f func() (uint64, error)) (uint64, error) {
	if k.n--; k.n == 0 {
		k.late = func() error { _, err := f(); return err }
		return 0, errLost
	}
	return f()
}

func (k *lateKV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.write(func() (uint64, error) { return k.KV.Create(context.WithoutCancel(ctx), key, value) })
}

func (k *lateKV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return k.write(func() (uint64, error) { return k.KV.Update(context.WithoutCancel(ctx), key, value, rev) })
}

func TestAWriteMayHappenLate(t *testing.T) {
	m := memkv.New()
	kv := &lateKV{KV: m, n: 1}
	a, b := job(t, kv, "a"), job(t, m, "b")
	if _, err := a.TryAcquire(t.Context(), time.Hour); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	ok(t, kv.late())
	b.held(t, time.Hour)
	a.Pass(time.Minute)
	g := a.free(t, time.Hour, 1) // finds it
	if g.Left() != 59*time.Minute {
		t.Errorf("left %v", g.Left())
	}
	ok(t, g.Complete(t.Context(), "done"))

	// Two writes for one term are under way: only one of them takes effect.
	m = memkv.New()
	kv = &lateKV{KV: m, n: 1}
	a = job(t, kv, "a")
	if _, err := a.TryAcquire(t.Context(), time.Hour); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	a.free(t, time.Hour, 1)
	if err := kv.late(); !errors.Is(err, rounds.ErrExists) {
		t.Errorf("it happened too: %v", err)
	}

	// Somebody else wins meanwhile: the late write cannot take effect any more.
	m = memkv.New()
	kv = &lateKV{KV: m, n: 1}
	a, b = job(t, kv, "a"), job(t, m, "b")
	if _, err := a.TryAcquire(t.Context(), time.Hour); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	b.free(t, time.Hour, 1)
	if err := kv.late(); !errors.Is(err, rounds.ErrExists) {
		t.Errorf("it happened too: %v", err)
	}
	a.held(t, time.Hour)
}

// The time of an office counts from the first attempt to write its record, whenever that is found. (A job's wall clock
// says so, too.)
func TestTheTimeOfALostWriteCounts(t *testing.T) {
	kv := &faultyKV{KV: memkv.New(), n: 3, after: true} // after the reads of record and pointer
	a := office(t, kv, "a")
	kv.before = callsTake(a, new(100*time.Millisecond))
	if g := a.free(t, 3*time.Second, 1); !kv.failed || g.Left() != 2800*time.Millisecond {
		t.Errorf("left %v, 200 ms after the write was sent", g.Left())
	}

	late := &lateKV{KV: memkv.New(), n: 1}
	a = office(t, late, "a")
	if _, err := a.TryAcquire(t.Context(), 3*time.Second); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	a.Pass(time.Second)
	ok(t, late.late())
	if g := a.free(t, 3*time.Second, 1); g.Left() != 2*time.Second {
		t.Errorf("left %v, a second after the write was sent", g.Left())
	}
}

// If a write found late is over already, a new term is taken.
func TestALateWriteThatIsOverIsNotResumed(t *testing.T) {
	m := memkv.New()
	kv := &lateKV{KV: m, n: 1}
	a := job(t, kv, "a")
	if _, err := a.TryAcquire(t.Context(), time.Hour); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	ok(t, kv.late())
	a.Pass(time.Hour)
	a.free(t, time.Hour, 2)
}

// Another process of the same holder, by mistake: its record is not ours, though
// holder and term are the same.
func TestRunsOfOneHolderAreToldApart(t *testing.T) {
	m := memkv.New()
	kv := &lateKV{KV: m, n: 1}
	a := job(t, kv, "a")
	if _, err := a.TryAcquire(t.Context(), time.Hour); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	newParty(t, m, rounds.Config{Holder: "a", Run: "another"}).free(t, time.Hour, 1)
	a.held(t, time.Hour)
}

// Every call is bounded; in an office by a heartbeat, so that its holder can try
// again in time.
func TestEveryCallIsBounded(t *testing.T) {
	const ttl = 3 * time.Second
	for kind, bound := range map[bool]time.Duration{false: 30 * time.Second, true: rounds.Heartbeat(ttl)} {
		kv := &faultyKV{KV: memkv.New()}
		calls := 0
		kv.before = func(op string, ctx context.Context) {
			calls++
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > bound {
				t.Errorf("office %v: %s may take %v", kind, op, time.Until(at))
			}
		}
		a := newParty(t, kv, rounds.Config{Holder: "a", Office: kind})
		g := a.free(t, ttl, 1)
		if kind {
			ok(t, g.Extend(t.Context()))
		}
		ok(t, g.Abandon(t.Context(), ""))
		if calls < 4 {
			t.Errorf("%d calls", calls)
		}
	}
}

// A heartbeat's answer was lost, and the record could not be read again: abandoning the office
// then writes its own record over the heartbeat that did take effect.
func TestAnOfficeIsAbandonedOverAHeartbeatWhoseAnswerWasLost(t *testing.T) {
	m := memkv.New()
	calls := 0
	kv := &faultyKV{KV: m, after: true}
	a := office(t, kv, "a")
	g := a.free(t, time.Minute, 1)
	ctx, cancel := context.WithCancel(t.Context())
	kv.n, kv.before = 1, func(string, context.Context) {
		if calls++; calls == 2 {
			cancel() // the second reading
		}
	}
	if err := g.Extend(ctx); err == nil {
		t.Fatal("it was extended")
	}
	kv.before = nil
	ok(t, g.Abandon(t.Context(), "done"))
	if rec := current(t, m); rec.State != rounds.Abandoned || rec.Outcome != "done" {
		t.Errorf("%+v", rec)
	}
}

func TestWhatIsSaidOfAHolderMayChange(t *testing.T) {
	m := memkv.New()
	a := office(t, m, "a")
	g := a.free(t, time.Minute, 1)
	ok(t, a.SetData("moved"))
	ok(t, g.Extend(t.Context()))
	if rec := current(t, m); rec.Data != "moved" {
		t.Errorf("%+v", rec)
	}
	if a.SetData(string(make([]byte, rounds.MaxData+1))) == nil || a.SetData("\xff") == nil {
		t.Error("what does not fit is taken")
	}
	ok(t, g.Extend(t.Context()))
	if rec := current(t, m); rec.Data != "moved" {
		t.Errorf("%+v", rec)
	}
}
