package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
)

// The last event of an entry has its present state, whoever publishes it and when: a reader of the
// events is never left with an old state.
func TestTheLastEventIsTheLatest(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	d := begun(t, t.TempDir())
	k := &record{d: d, id: 7}
	for i := range 3000 {
		cursor := d.Feed().From("")
		var all sync.WaitGroup
		for range 8 {
			all.Go(k.tell)
		}
		all.Go(func() { k.show([]string{api.Fetching, api.Paused}[i%2], "") })
		all.Wait()
		var last api.Event
		for e, ok, _, _ := cursor.Next(); ok; e, ok, _, _ = cursor.Next() {
			last = e
		}
		if want := k.view().State; last.Entry == nil || last.Entry.State != want {
			t.Fatalf("the last event says %+v, and it is %s", last.Entry, want)
		}
	}
}

// An entry here is as the catalog has it: nobody changes it in the catalog between another caller's
// change there and here.
func TestWhatIsKnownOfAnEntryIsWhatTheCatalogHas(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	d := begun(t, t.TempDir())
	e, err := d.db.Add(t.Context(), time.Now(), catalog.Wish{Paths: []string{t.TempDir()}})
	must(t, err)
	k := newKeeper(d, e)
	alone := func() {
		if k.writing.TryLock() {
			t.Error("somebody else may change it meanwhile")
		}
	}
	var all sync.WaitGroup
	for j := range 20 {
		all.Go(func() { k.note(func(s *catalog.Status) { alone(); s.Why = fmt.Sprint(j) }) })
		all.Go(func() {
			if err := k.set(t.Context(), func(w *catalog.Wish) error { alone(); w.Priority = j%3 - 1; return nil }); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			d.mu.Lock()
			d.keepers[e.ID] = k
			d.mu.Unlock()
			d.tally.credit(e.ID, 1)
			d.flush(t.Context())
		})
	}
	all.Wait()
	d.mu.Lock()
	delete(d.keepers, e.ID) // its keeper does not run
	d.mu.Unlock()
	kept, err := d.db.Get(t.Context(), e.ID)
	must(t, err)
	if got := k.entry(); !reflect.DeepEqual(got, kept) || kept.Sent != 20 {
		t.Errorf("here %+v\nand in the catalog %+v", got, kept)
	}
}

// Whoever asks for it, and however often, an entry is removed once: also if nobody waits for that any more.
func TestAnEntryIsRemovedOnce(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	paused := true
	e := added(t, d, api.Add{Paths: []string{file(t, "x", t.TempDir(), "f")}})
	_, err := d.Set(t.Context(), e.ID, api.Set{Paused: &paused})
	must(t, err)
	k, err := d.keeper(e.ID)
	must(t, err)
	cursor := d.feed.From("")

	k.stop() // as a removal does that cannot be written
	d.mu.Lock()
	again := d.keep(k.entry(), nil)
	d.mu.Unlock()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	results := make(chan error, 2)
	for range cap(results) {
		go func() { _, err := d.remove(gone, k, false); results <- err }()
	}
	one, two := <-results, <-results
	if one == nil {
		one, two = two, one
	}
	if two != nil || !errors.Is(one, api.ErrNoEntry) {
		t.Errorf("removed twice: %v, %v", two, one)
	}
	select {
	case <-again.done:
	default:
		t.Error("a keeper of a removed entry runs")
	}
	removed := 0
	for v, ok, _, _ := cursor.Next(); ok; v, ok, _, _ = cursor.Next() {
		if v.Type == "removed" {
			removed++
		}
	}
	if removed != 1 {
		t.Errorf("it was said to be removed %d times", removed)
	}
}

// Who changes an entry while another removes it is told that there is none.
func TestAnEntryThatIsBeingRemovedIsNotChanged(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	d, paused := begun(t, t.TempDir()), true
	e := added(t, d, api.Add{Paths: []string{file(t, "x", t.TempDir(), "f")}})
	_, err := d.db.Remove(t.Context(), catalog.ID(e.ID)) // as a removal does first
	must(t, err)
	if _, err := d.Set(t.Context(), e.ID, api.Set{Paused: &paused}); !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("changed: %v", err)
	}
}
