package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// An Engine is a kind of store to test.
type Engine struct {
	// Open connects another client to the store, for as long as the test runs.
	Open func(t testing.TB, addr string) rounds.KV

	// Addr is where the store's server listens, for Open. It is empty for a store
	// without a server; then the tests about lost connections are left out.
	Addr string
}

// Run tests an engine. All tests share one store, which may hold other keys.
func Run(t *testing.T, e Engine) {
	e = e.mutated()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Engine)
	}{
		{"CreateOnly", createOnly},
		{"CompareAndSet", compareAndSet},
		{"Tombstones", tombstones},
		{"Revisions", revisions},
		{"Bounds", bounds},
		{"Context", contexts},
		{"Watch", watch},
		{"WatchWhileOthersWrite", watchWhileOthersWrite},
		{"WatchWithoutGaps", watchWithoutGaps},
		{"LostConnection", lostConnection},
		{"Linearizable", linearizable},
		{"Rounds", overEngine},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, e)
		})
	}
}

var keys atomic.Uint64

// newKey returns a key that no other test has.
func newKey() string { return fmt.Sprintf("test.k%d", keys.Add(1)) }

func (e Engine) open(t testing.TB) rounds.KV { return e.Open(t, e.Addr) }

// long is more time than any answered call takes.
var long = 30 * time.Second

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func create(t testing.TB, kv rounds.KV, key, value string) uint64 {
	t.Helper()
	rev, err := kv.Create(within(t, long), key, []byte(value))
	if err != nil || rev == 0 {
		t.Fatalf("create %s: revision %d, %v", key, rev, err)
	}
	return rev
}

// has fails unless a key has that value and revision; revision 0 means that it has none.
func has(t testing.TB, kv rounds.KV, key, value string, rev uint64) {
	t.Helper()
	e, err := kv.Get(within(t, long), key)
	if rev == 0 {
		if !errors.Is(err, rounds.ErrNotFound) {
			t.Errorf("get %s: %q, %v; want none", key, e.Value, err)
		}
		return
	}
	if err != nil || string(e.Value) != value || e.Rev != rev || e.Key != key {
		t.Errorf("get %s: %s %q at %d, %v; want %q at %d", key, e.Key, e.Value, e.Rev, err, value, rev)
	}
}

func wants(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v; want: %v", what, got, want)
	}
}

// race runs f in n clients at once and returns how many succeeded; all others must return
// want.
func race(t *testing.T, e Engine, n int, want error, f func(rounds.KV, int) error) int {
	t.Helper()
	var wg sync.WaitGroup
	var won atomic.Int32
	for i := range n {
		kv := e.open(t)
		wg.Go(func() {
			if err := f(kv, i); err == nil {
				won.Add(1)
			} else if !errors.Is(err, want) {
				t.Errorf("client %d: %v; want: %v", i, err, want)
			}
		})
	}
	wg.Wait()
	return int(won.Load())
}

func createOnly(t *testing.T, e Engine) {
	kv, key := e.open(t), newKey()
	has(t, kv, key, "", 0)
	n := race(t, e, 6, rounds.ErrExists, func(kv rounds.KV, i int) error {
		_, err := kv.Create(within(t, long), key, []byte(fmt.Sprint(i)))
		return err
	})
	if n != 1 {
		t.Errorf("%d clients created the key", n)
	}
	first, err := kv.Get(within(t, long), key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kv.Create(within(t, long), key, []byte("again"))
	wants(t, "create again", err, rounds.ErrExists)
	has(t, kv, key, string(first.Value), first.Rev)
}

func compareAndSet(t *testing.T, e Engine) {
	kv, key := e.open(t), newKey()
	ctx := within(t, long)
	_, err := kv.Update(ctx, key, []byte("x"), 1)
	wants(t, "update of no key", err, rounds.ErrConflict)
	_, err = kv.Update(ctx, key, []byte("x"), 0)
	wants(t, "update of no key, revision 0", err, rounds.ErrConflict)
	_, err = kv.Delete(ctx, key, 0)
	wants(t, "delete of no key, revision 0", err, rounds.ErrConflict)
	has(t, kv, key, "", 0)

	old := create(t, kv, key, "one")
	rev, err := kv.Update(ctx, key, []byte("two"), old)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []uint64{0, old, rev + 1, 1 << 62} {
		_, err := kv.Update(ctx, key, []byte("x"), wrong)
		wants(t, fmt.Sprintf("update of revision %d, not %d", wrong, rev), err, rounds.ErrConflict)
		_, err = kv.Delete(ctx, key, wrong)
		wants(t, fmt.Sprintf("delete of revision %d, not %d", wrong, rev), err, rounds.ErrConflict)
	}
	has(t, kv, key, "two", rev)

	n := race(t, e, 6, rounds.ErrConflict, func(kv rounds.KV, i int) error {
		if i%2 == 0 {
			_, err := kv.Delete(within(t, long), key, rev)
			return err
		}
		_, err := kv.Update(within(t, long), key, []byte(fmt.Sprint(i)), rev)
		return err
	})
	if n != 1 {
		t.Errorf("%d clients replaced the same revision", n)
	}
}

func tombstones(t *testing.T, e Engine) {
	kv, other, key := e.open(t), e.open(t), newKey()
	ctx := within(t, long)
	rev := create(t, kv, key, "one")
	dead, err := kv.Delete(ctx, key, rev)
	if err != nil || dead <= rev {
		t.Fatalf("delete of revision %d: %d, %v", rev, dead, err)
	}
	has(t, kv, key, "", dead)
	has(t, other, key, "", dead)
	_, err = other.Create(ctx, key, []byte("two"))
	wants(t, "create over a tombstone", err, rounds.ErrExists)
	_, err = other.Update(ctx, key, []byte("two"), rev)
	wants(t, "update of what was deleted", err, rounds.ErrConflict)
	again, err := other.Delete(ctx, key, dead)
	if err != nil {
		t.Fatalf("delete of a tombstone: %v", err)
	}
	alive, err := other.Update(ctx, key, []byte("two"), again)
	if err != nil || alive <= again {
		t.Fatalf("update of a tombstone: %d, %v", alive, err)
	}
	has(t, kv, key, "two", alive)
}

func revisions(t *testing.T, e Engine) {
	kvs := []rounds.KV{e.open(t), e.open(t)}
	ctx := within(t, long)
	a, b := newKey(), newKey()
	last := create(t, kvs[0], a, "a")
	at := map[string]uint64{a: last, b: create(t, kvs[1], b, "b")}
	last = at[b]
	for i := range 10 {
		key := []string{a, b}[i%2]
		rev, err := kvs[i/2%2].Update(ctx, key, []byte(fmt.Sprint(i)), at[key])
		if err != nil || rev <= last {
			t.Fatalf("revision %d after %d: %v", rev, last, err)
		}
		at[key], last = rev, rev
	}
}

func bounds(t *testing.T, e Engine) {
	kv := e.open(t)
	ctx := within(t, long)
	key := newKey()
	full := make([]byte, rounds.MaxValue)
	for i := range full {
		full[i] = byte(i)
	}
	rev, err := kv.Create(ctx, key, full)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(ctx, key); err != nil || !bytes.Equal(e.Value, full) {
		t.Errorf("a value of all bytes: %d bytes, %v", len(e.Value), err)
	}
	_, err = kv.Update(ctx, key, append(full, 0), rev)
	wants(t, "update with a large value", err, rounds.ErrTooLarge)
	fresh := newKey()
	_, err = kv.Create(ctx, fresh, append(full, 0))
	wants(t, "create with a large value", err, rounds.ErrTooLarge)
	if _, err := kv.Create(ctx, fresh, nil); err == nil {
		t.Error("an empty value was created, which would be a tombstone")
	}
	if _, err := kv.Update(ctx, key, nil, rev); err == nil {
		t.Error("an empty value was written, which would be a tombstone")
	}
	has(t, kv, fresh, "", 0)
	has(t, kv, key, string(full), rev)

	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "a b", "a*", "a>", "a/b", "ä", "a\x00", strings.Repeat("k", 201)} {
		_, err := kv.Create(ctx, bad, []byte("x"))
		wants(t, fmt.Sprintf("create %q", bad), err, rounds.ErrKey)
		_, err = kv.Update(ctx, bad, []byte("x"), 1)
		wants(t, fmt.Sprintf("update %q", bad), err, rounds.ErrKey)
		_, err = kv.Delete(ctx, bad, 1)
		wants(t, fmt.Sprintf("delete %q", bad), err, rounds.ErrKey)
		_, err = kv.Get(ctx, bad)
		wants(t, fmt.Sprintf("get %q", bad), err, rounds.ErrKey)
		if bad != "a." {
			wants(t, fmt.Sprintf("watch %q", bad), kv.Watch(ctx, bad, func([]rounds.Entry) {}), rounds.ErrKey)
		}
	}
	create(t, kv, newKey()+"."+strings.Repeat("k", 150)+"_-AZ09", "x")
}

func contexts(t *testing.T, e Engine) {
	kv, key := e.open(t), newKey()
	rev := create(t, kv, key, "one")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := newKey()
	_, err := kv.Get(over, key)
	wants(t, "get", err, context.Canceled)
	_, err = kv.Create(over, fresh, []byte("x"))
	wants(t, "create", err, context.Canceled)
	_, err = kv.Update(over, key, []byte("x"), rev)
	wants(t, "update", err, context.Canceled)
	_, err = kv.Delete(over, key, rev)
	wants(t, "delete", err, context.Canceled)
	wants(t, "watch", kv.Watch(over, key, func([]rounds.Entry) {}), context.Canceled)
	has(t, kv, key, "one", rev)
	has(t, kv, fresh, "", 0)
}

// lostConnection loses the connection in each call: the call ends with an error that does
// not claim to know what happened, and reading the key again tells.
func lostConnection(t *testing.T, e Engine) {
	if e.Addr == "" {
		t.Skip("no connection that could be lost")
	}
	calls := map[string]func(ctx context.Context, kv rounds.KV, key string, rev uint64) error{
		"Get": func(ctx context.Context, kv rounds.KV, key string, _ uint64) error {
			_, err := kv.Get(ctx, key)
			return err
		},
		"Create": func(ctx context.Context, kv rounds.KV, key string, _ uint64) error {
			_, err := kv.Create(ctx, key+".new", []byte("new"))
			return err
		},
		"Update": func(ctx context.Context, kv rounds.KV, key string, rev uint64) error {
			_, err := kv.Update(ctx, key, []byte("new"), rev)
			return err
		},
		"Delete": func(ctx context.Context, kv rounds.KV, key string, rev uint64) error {
			_, err := kv.Delete(ctx, key, rev)
			return err
		},
	}
	for name, call := range calls {
		for loss, happens := range map[Loss]bool{Requests: false, Answers: name != "Get", Connections: false} {
			t.Run(fmt.Sprint(name, loss), func(t *testing.T) {
				t.Parallel()
				direct, key := e.open(t), newKey()
				rev := create(t, direct, key, "old")
				link := NewLink(t, e.Addr)
				kv := e.Open(t, link.Addr)
				has(t, kv, key, "old", rev)
				link.Lose(loss)
				was := rev
				if name == "Create" {
					was = 0
				}
				var happened func() bool
				if happens {
					happened = func() bool { return latest(t, direct, name, key).Rev != was }
				}
				err := givenUp(t, happened, func(ctx context.Context) error { return call(ctx, kv, key, rev) })
				for _, known := range []error{nil, rounds.ErrConflict, rounds.ErrExists, rounds.ErrNotFound} {
					if errors.Is(err, known) {
						t.Errorf("a lost call returned: %v", err)
					}
				}
				link.Lose(Nothing)
				a, b := latest(t, direct, name, key), latest(t, kv, name, key)
				if a.Rev != b.Rev || string(a.Value) != string(b.Value) {
					t.Errorf("clients do not agree: %q at %d, %q at %d", a.Value, a.Rev, b.Value, b.Rev)
				}
				if happened := a.Rev != was; happened != happens {
					t.Errorf("the lost call took effect: %v, and should: %v", happened, happens)
				}
			})
		}
	}
}

// latest reads back the key that a call was about.
func latest(t testing.TB, kv rounds.KV, call, key string) rounds.Entry {
	if call == "Create" {
		key += ".new"
	}
	e, err := kv.Get(within(t, long), key)
	if err != nil && !errors.Is(err, rounds.ErrNotFound) {
		t.Errorf("reading back: %v", err)
	}
	return e
}

// givenUp makes a call that gets no answer, and cancels it once it has taken effect; if it
// cannot take effect, after a while.
func givenUp(t testing.TB, happened func() bool, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	for n := 0; happened != nil && !happened() || happened == nil && n < 50; n++ {
		select {
		case err := <-done:
			return err
		case <-time.After(2 * time.Millisecond):
		}
	}
	cancel()
	return <-done
}
