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
