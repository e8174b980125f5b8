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

// A store that an operator has emptied, or restored with SQLite's own tools while it is watched, has other revisions: its watchers
// are told, or see what it has from then on.
func TestAWatchOfAStoreThatWentBackEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kv")
	kv, err := sqlitekv.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	for _, key := range []string{"a", "b", "c"} {
		if _, err := kv.Create(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	seen, done := make(chan []rounds.Entry, 10), make(chan error, 1)
	go func() { done <- kv.Watch(ctx, "c", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteTransient(c, "DELETE FROM entries", nil), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(t.Context(), "c", []byte("y")); err != nil {
		t.Fatal(err)
	}
	select {
	case es := <-seen:
		if len(es) != 1 || string(es[0].Value) != "y" {
			t.Errorf("saw %+v", es)
		}
	case err := <-done:
		if !errors.Is(err, rounds.ErrBack) {
			t.Errorf("it takes what the store had for what it has: %v", err)
		}
	}
}

// Between two looks of a watcher a store is restored as it was before, and then written to more often than it was since. The watcher
// is told all the same that what it saw is no more.
func TestAWatchOfAStoreThatWentBackAndOnEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kv")
	kv, err := sqlitekv.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	for _, key := range []string{"share.a", "share.b"} {
		if _, err := kv.Create(t.Context(), key, []byte("before")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kv.Update(t.Context(), "share.a", []byte("after"), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	seen, done := make(chan []rounds.Entry, 10), make(chan error, 1)
	go func() { done <- kv.Watch(ctx, "share.", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteScript(c, `UPDATE entries SET rev = 1, value = x'6265666f7265' WHERE key = 'share.a';
			INSERT INTO entries (rev, key, value) VALUES (3, 'status.m', x'00'), (4, 'status.n', x'00')`, nil), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case es := <-seen:
		if len(es) != 1 || string(es[0].Value) != "before" {
			t.Errorf("saw %+v", es)
		}
	case err := <-done:
		if !errors.Is(err, rounds.ErrBack) {
			t.Errorf("it takes what the store had for what it has: %v", err)
		}
	}
}
