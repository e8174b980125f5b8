package memkv_test

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/memkv"
)

func TestMemory(t *testing.T) {
	m := memkv.New()
	kvtest.Run(t, kvtest.Engine{Open: func(testing.TB, string) rounds.KV { return m }})
}

func TestACopyIsRestored(t *testing.T) {
	m, ctx := memkv.New(), t.Context()
	rev, err := m.Create(ctx, "a", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	restore := m.Copy()
	for range 2 {
		m.Overwrite("a", []byte("new"))
		m.Overwrite("b", nil)
		restore()
		if e, err := m.Get(ctx, "a"); err != nil || e.Rev != rev || string(e.Value) != "old" {
			t.Errorf("%+v, %v", e, err)
		}
		if _, err := m.Get(ctx, "b"); !errors.Is(err, rounds.ErrNotFound) {
			t.Errorf("what is not in the copy: %v", err)
		}
	}
	if next, err := m.Update(ctx, "a", []byte("next"), rev); err != nil || next != rev+1 {
		t.Errorf("revision %d after %d: %v", next, rev, err)
	}
}
