package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// A viewer watches a key, and knows the latest revisions.
type viewer struct {
	news chan []rounds.Entry
	done chan error
	view map[string]rounds.Entry
}

// newViewer begins to watch and returns after the first call of f.
func newViewer(t testing.TB, kv rounds.KV, key string) *viewer {
	v := &viewer{news: make(chan []rounds.Entry, 1000), done: make(chan error, 1), view: map[string]rounds.Entry{}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { v.done <- kv.Watch(ctx, key, func(es []rounds.Entry) { v.news <- slices.Clone(es) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-v.done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch %s ended: %v", key, err)
		}
	})
	v.next(t)
	return v
}

func (v *viewer) next(t testing.TB) {
	t.Helper()
	select {
	case es := <-v.news:
		for _, e := range es {
			if e.Rev <= v.view[e.Key].Rev {
				t.Errorf("%s: revision %d came after %d", e.Key, e.Rev, v.view[e.Key].Rev)
			}
			v.view[e.Key] = e
		}
	case err := <-v.done:
		v.done <- err
		t.Fatalf("the watch has ended: %v", err)
	case <-time.After(long):
		t.Fatal("nothing came")
	}
}

// until waits until the viewer knows these revisions.
func (v *viewer) until(t testing.TB, want ...rounds.Entry) {
	t.Helper()
	for _, e := range want {
		for v.view[e.Key].Rev < e.Rev {
			v.next(t)
		}
		if got := v.view[e.Key]; got.Rev != e.Rev || string(got.Value) != string(e.Value) {
			t.Errorf("the watch says that %s is %q at %d, and it is %q at %d", e.Key, got.Value, got.Rev, e.Value, e.Rev)
		}
	}
	if len(v.view) != len(want) {
		t.Errorf("the watch named %d keys, not %d", len(v.view), len(want))
	}
}

func watch(t *testing.T, e Engine) {
	kv, other := e.open(t), e.open(t)
	ctx := within(t, long)
	base := newKey()
	entry := func(key, value string) rounds.Entry {
		return rounds.Entry{Key: key, Value: []byte(value), Rev: create(t, other, key, value)}
	}
	none := newViewer(t, kv, base+".")
	none.until(t)
	one, below, beside := entry(base, "one"), entry(base+".a", "a"), entry(base+"x", "beside")
	all, single := newViewer(t, kv, base+"."), newViewer(t, kv, base)
	all.until(t, below)
	single.until(t, one)
	deeper := entry(base+".a.b", "deeper")
	for _, v := range []*viewer{none, all} {
		v.until(t, below, deeper)
	}
	newViewer(t, kv, base+"x").until(t, beside)
	for _, old := range []*rounds.Entry{&one, &deeper} {
		rev, err := other.Delete(ctx, old.Key, old.Rev)
		if err != nil {
			t.Fatal(err)
		}
		old.Rev, old.Value = rev, nil
	}
	single.until(t, one)
	all.until(t, below, deeper)
	newViewer(t, kv, base).until(t, one) // a tombstone from the start
}

// watchWhileOthersWrite has clients write while watches begin: none may miss what is
// written between its first reading and the rest.
func watchWhileOthersWrite(t *testing.T, e Engine) {
	base := newKey()
	const writers, writes = 3, 15
	last := make([]rounds.Entry, writers)
	var wg sync.WaitGroup
	for i := range writers {
		kv := e.open(t)
		wg.Go(func() { last[i] = writeOften(t, kv, fmt.Sprintf("%s.w%d", base, i), writes) })
	}
	kv := e.open(t)
	var viewers []*viewer
	for range 3 {
		viewers = append(viewers, newViewer(t, kv, base+"."))
	}
	wg.Wait()
	for _, v := range viewers {
		v.until(t, last...)
	}
}

// writeOften writes a key n times and returns the last revision.
func writeOften(t testing.TB, kv rounds.KV, key string, n int) rounds.Entry {
	e := rounds.Entry{Key: key}
	for i := range n {
		e.Value = fmt.Appendf(nil, "%s %d", key, i)
		var err error
		if e.Rev == 0 {
			e.Rev, err = kv.Create(within(t, long), key, e.Value)
		} else {
			e.Rev, err = kv.Update(within(t, long), key, e.Value, e.Rev)
		}
		if err != nil {
			t.Error(err)
			return e
		}
	}
	return e
}

// watchWithoutGaps loses the watcher's connection in every way while others write.
func watchWithoutGaps(t *testing.T, e Engine) {
	if e.Addr == "" {
		t.Skip("no connection that could be lost")
	}
	for _, loss := range []Loss{Requests, Answers, Connections} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			t.Parallel()
			kv, key := e.open(t), newKey()
			link := NewLink(t, e.Addr)
			v := newViewer(t, e.Open(t, link.Addr), key+".")
			before := writeOften(t, kv, key+".before", 3)
			v.until(t, before)
			link.Lose(loss)
			during := writeOften(t, kv, key+".during", 3)
			before.Value = []byte("changed")
			rev, err := kv.Update(within(t, long), before.Key, before.Value, before.Rev)
			if err != nil {
				t.Fatal(err)
			}
			before.Rev = rev
			link.Lose(Nothing)
			after := writeOften(t, kv, key+".after", 3)
			v.until(t, before, during, after)
		})
	}
}
