package sqlitekv_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/sqlitekv"
)

// watched is a store in a file, and a watch of it.
type watched struct {
	*testing.T
	path string
	kv   *sqlitekv.KV
	seen chan []rounds.Entry
	done chan error
}

func storeWith(t *testing.T, value string, keys ...string) *watched {
	t.Helper()
	w := &watched{T: t, path: filepath.Join(t.TempDir(), "kv"), seen: make(chan []rounds.Entry, 10), done: make(chan error, 1)}
	kv, err := sqlitekv.Open(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	for _, key := range keys {
		if _, err := kv.Create(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	w.kv = kv
	return w
}

// watch begins to watch a key, for at most d.
func (w *watched) watch(d time.Duration, key string) {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.Cleanup(cancel)
	go func() { w.done <- w.kv.Watch(ctx, key, func(es []rounds.Entry) { w.seen <- es }) }()
	<-w.seen
}

// script changes the file as SQLite's own tools do.
func (w *watched) script(sql string) {
	w.Helper()
	c, err := sqlite.OpenConn(w.path, sqlite.OpenReadWrite)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteScript(c, sql, nil), c.Close())
	}
	if err != nil {
		w.Fatal(err)
	}
}

// ends checks that the watch says that the store went back, or sees the value that it has now.
func (w *watched) ends(value string) {
	w.Helper()
	select {
	case es := <-w.seen:
		if len(es) != 1 || string(es[0].Value) != value {
			w.Errorf("saw %+v", es)
		}
	case err := <-w.done:
		if !errors.Is(err, rounds.ErrBack) {
			w.Errorf("it takes what the store had for what it has: %v", err)
		}
	}
}

// A store that an operator has emptied, or restored with SQLite's own tools while it is watched, has other revisions: its watchers
// are told, or see what it has from then on.
func TestAWatchOfAStoreThatWentBackEnds(t *testing.T) {
	t.Parallel()
	w := storeWith(t, "x", "a", "b", "c")
	w.watch(5*time.Second, "c")
	w.script("DELETE FROM entries")
	if _, err := w.kv.Create(t.Context(), "c", []byte("y")); err != nil {
		t.Fatal(err)
	}
	w.ends("y")
}

// Between two looks of a watcher a store is restored as it was before, and then written to more often than it was since. The watcher
// is told all the same that what it saw is no more.
func TestAWatchOfAStoreThatWentBackAndOnEnds(t *testing.T) {
	t.Parallel()
	w := storeWith(t, "before", "share.a", "share.b")
	if _, err := w.kv.Update(t.Context(), "share.a", []byte("after"), 1); err != nil {
		t.Fatal(err)
	}
	w.watch(2*time.Second, "share.")
	w.script(`UPDATE entries SET rev = 1, value = x'6265666f7265' WHERE key = 'share.a';
			INSERT INTO entries (rev, key, value) VALUES (3, 'status.m', x'00'), (4, 'status.n', x'00')`)
	w.ends("before")
}
