package rounds_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
)

func newPointer(t *testing.T, kv rounds.KV) *rounds.Pointer {
	t.Helper()
	p, err := rounds.NewPointer(kv, name)
	ok(t, err)
	return p
}

func stale(t *testing.T, err error, current rounds.Target) {
	t.Helper()
	if e, ok := errors.AsType[*rounds.StaleError](err); !ok || e.Current != current {
		t.Errorf("got %v; want a StaleError: it is %+v", err, current)
	}
}

// Invariant 57.
func TestInvariant57ThePointerMovesForwardOnly(t *testing.T) {
	m := memkv.New()
	p := newPointer(t, m)
	if _, err := p.Get(t.Context()); !errors.Is(err, rounds.ErrNever) {
		t.Errorf("got %v", err)
	}
	for _, step := range []struct {
		to    rounds.Target
		moves bool
	}{
		{rounds.Target{Term: 5, Seq: 0, Value: "a"}, true},
		{rounds.Target{Term: 5, Seq: 0, Value: "a"}, true}, // the same again
		{rounds.Target{Term: 5, Seq: 0, Value: "b"}, false},
		{rounds.Target{Term: 4, Seq: 9, Value: "late"}, false},
		{rounds.Target{Term: 5, Seq: 7, Value: "c"}, true},
		{rounds.Target{Term: 5, Seq: 6, Value: "late"}, false},
		{rounds.Target{Term: 6, Seq: 0, Value: "d"}, true},
		{rounds.Target{Term: 5, Seq: 8, Value: "late"}, false},
	} {
		before, _ := p.Get(t.Context())
		err := p.Publish(t.Context(), step.to)
		if step.moves {
			ok(t, err)
			before = step.to
		} else {
			stale(t, err, before)
		}
		if is, err := p.Get(t.Context()); err != nil || is != before {
			t.Errorf("after %+v it is %+v, %v", step.to, is, err)
		}
	}
}

func TestALateHoldersPublishIsRefused(t *testing.T) {
	m := memkv.New()
	a, b := job(t, m, "a"), job(t, m, "b")
	late := a.free(t, time.Hour, 1)
	b.Pass(time.Hour)
	g := b.free(t, time.Hour, 2)
	p := newPointer(t, m)
	ok(t, p.Publish(t.Context(), rounds.Target{Term: g.Term(), Value: "new"}))
	stale(t, p.Publish(t.Context(), rounds.Target{Term: late.Term(), Value: "old"}), rounds.Target{Term: 2, Value: "new"})

	// Nor does damage let it back.
	m.Overwrite(pointerKey, []byte("garbage"))
	if _, err := p.Get(t.Context()); !errors.Is(err, rounds.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	stale(t, p.Publish(t.Context(), rounds.Target{Term: late.Term(), Value: "old"}), rounds.Target{Term: 2})
	ok(t, p.Publish(t.Context(), rounds.Target{Term: g.Term(), Value: "new"}))
}

// Whether a damaged pointer may be replaced depends on the round's record: one that cannot be read now lets nobody back.
func TestADamagedPointerIsNotReplacedWhileTheRecordCannotBeRead(t *testing.T) {
	m := memkv.New()
	a, b := job(t, m, "a"), job(t, m, "b")
	late := a.free(t, time.Hour, 1)
	b.Pass(time.Hour)
	b.free(t, time.Hour, 2)
	m.Overwrite(pointerKey, []byte("garbage"))
	p := newPointer(t, &faultyKV{KV: m, n: 2}) // the pointer is read, the record is not
	if err := p.Publish(t.Context(), rounds.Target{Term: late.Term(), Value: "old"}); err == nil {
		is, err := newPointer(t, m).Get(t.Context())
		t.Errorf("a holder of term 1 has moved the pointer to %+v, %v, though the round has term 2", is, err)
	}
}

// Somebody else moves the pointer between our read and our write.
func TestPublishIsRetriedAndBounded(t *testing.T) {
	m := memkv.New()
	others := uint64(0)
	kv := &movingKV{inner: m, move: func() {
		others++
		ok(t, newPointer(t, m).Publish(t.Context(), rounds.Target{Term: 1, Seq: others, Value: "other"}))
	}}
	kv.left = 5
	ok(t, newPointer(t, kv.kv()).Publish(t.Context(), rounds.Target{Term: 2, Value: "ours"}))
	kv.left = 5
	stale(t, newPointer(t, kv.kv()).Publish(t.Context(), rounds.Target{Term: 1, Seq: 3, Value: "late"}), rounds.Target{Term: 2, Value: "ours"})

	// It moves beyond ours.
	m = memkv.New()
	ok(t, newPointer(t, m).Publish(t.Context(), rounds.Target{Term: 1, Value: "first"}))
	later := rounds.Target{Term: 5, Value: "later"}
	kv = &movingKV{inner: m, left: 1, move: func() { ok(t, newPointer(t, m).Publish(t.Context(), later)) }}
	stale(t, newPointer(t, kv.kv()).Publish(t.Context(), rounds.Target{Term: 3, Value: "late"}), later)
	if is, err := newPointer(t, m).Get(t.Context()); err != nil || is != later {
		t.Errorf("it is %+v, %v", is, err)
	}
}

func TestTargetsHaveBounds(t *testing.T) {
	p := newPointer(t, memkv.New())
	for _, bad := range []rounds.Target{
		{Term: 0, Value: "x"}, {Term: 1 << 63, Value: "x"}, {Term: 1}, {Term: 1, Value: strings.Repeat("x", 5000)}, {Term: 1, Value: "\xff"},
	} {
		if p.Publish(t.Context(), bad) == nil {
			t.Errorf("published %.50s", fmt.Sprint(bad))
		}
	}
	if _, err := rounds.NewPointer(memkv.New(), "a b"); err == nil {
		t.Error("a pointer of a bad name")
	}
}
