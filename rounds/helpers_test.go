package rounds_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/memkv"
)

const name = "nightly"

const recordKey, pointerKey = "round.v1." + name, "pointer.v1." + name

// A party is one process that asks for a round.
type party struct {
	*rounds.Round
	*kvtest.Clock
	notices []rounds.Notice
}

func newParty(t testing.TB, kv rounds.KV, c rounds.Config) *party {
	t.Helper()
	p := &party{}
	c.Name = name
	c.Notice = func(n rounds.Notice) { p.notices = append(p.notices, n) }
	p.Round, p.Clock = kvtest.NewRound(t, kv, c)
	return p
}

func job(t testing.TB, kv rounds.KV, holder string) *party {
	t.Helper()
	return newParty(t, kv, rounds.Config{Holder: holder})
}

func office(t testing.TB, kv rounds.KV, holder string) *party {
	t.Helper()
	return newParty(t, kv, rounds.Config{Holder: holder, Office: true})
}

func (p *party) free(t testing.TB, ttl time.Duration, term uint64) *rounds.Guard {
	t.Helper()
	g := kvtest.Free(t, p.Round, ttl)
	if g.Term() != term {
		t.Fatalf("term %d, want %d", g.Term(), term)
	}
	return g
}

func (p *party) held(t testing.TB, ttl time.Duration) *rounds.HeldError {
	t.Helper()
	return kvtest.Held(t, p.Round, ttl)
}

// told fails unless the party has had exactly these notices since the last call.
func (p *party) told(t testing.TB, kinds ...rounds.NoticeKind) {
	t.Helper()
	if len(p.notices) != len(kinds) {
		t.Errorf("notices %v, want kinds %v", p.notices, kinds)
	}
	for i, n := range p.notices {
		if i < len(kinds) && n.Kind != kinds[i] {
			t.Errorf("notice %v, want kind %v", n, kinds[i])
		}
	}
	p.notices = nil
}

func lost(t testing.TB, err error, holder string, term uint64) {
	t.Helper()
	e, ok := errors.AsType[*rounds.LostError](err)
	if !ok || e.Record.Holder != holder || e.Record.Term != term {
		t.Errorf("got %v, want a LostError: %q has term %d", err, holder, term)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func current(t testing.TB, kv rounds.KV) rounds.Record {
	t.Helper()
	rec, err := rounds.Current(t.Context(), kv, name)
	ok(t, err)
	return rec
}

// overwrite writes a record that no process would write.
func overwrite(m *memkv.KV, rec rounds.Record) {
	rec.Run = "another"
	m.Overwrite(recordKey, rec.Encode())
}

// A faultyKV makes its n-th call from now fail, before or after it takes effect.
type faultyKV struct {
	rounds.KV
	n      int
	after  bool
	failed bool
	before func(op string, ctx context.Context) // if not nil, is called before each call
}

var errLost = errors.New("the connection was lost")

func call[R any](k *faultyKV, ctx context.Context, op string, f func() (R, error)) (R, error) {
	if k.before != nil {
		k.before(op, ctx)
	}
	k.n--
	var none R
	switch {
	case k.n == 0 && k.after:
		k.failed = true
		f()
		return none, errLost
	case k.n == 0:
		k.failed = true
		return none, errLost
	}
	return f()
}

func (k *faultyKV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	return call(k, ctx, "get", func() (rounds.Entry, error) { return k.KV.Get(ctx, key) })
}

func (k *faultyKV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return call(k, ctx, "create", func() (uint64, error) { return k.KV.Create(ctx, key, value) })
}

func (k *faultyKV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return call(k, ctx, "update", func() (uint64, error) { return k.KV.Update(ctx, key, value, rev) })
}

// A movingKV makes somebody move the pointer before each of our first writes.
type movingKV struct {
	inner *memkv.KV
	move  func()
	left  int
}

func (k *movingKV) kv() *faultyKV {
	return &faultyKV{KV: k.inner, before: func(op string, _ context.Context) {
		if op != "get" && k.left > 0 {
			k.left--
			k.move()
		}
	}}
}
