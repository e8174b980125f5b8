package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// Two versions of a share in one place: what both have still belongs to the later one.
func TestRemoveLeavesWhatAnotherEntryHas(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, large(1), src, "common")
	file(t, "one", src, "version")
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	one := added(t, a, api.Add{Paths: []string{src}})
	first := added(t, b, api.Add{Ticket: one.Ticket})
	first = until(t, b, first.ID, "here", in(api.Served))
	must(t, func() error { _, err := a.Remove(t.Context(), one.ID, false); return err }())
	file(t, "two, longer", src, "version")
	two := added(t, a, api.Add{Paths: []string{src}})
	second := added(t, b, api.Add{Ticket: two.Ticket, Repair: true})
	second = until(t, b, second.ID, "here", in(api.Served))
	if second.Path != first.Path {
		t.Fatalf("%s and %s", first.Path, second.Path)
	}
	r, err := b.Remove(t.Context(), first.ID, true)
	t.Logf("removed: %v; %s; %v", r.Data, r.Kept, err)
	same(t, filepath.Join(second.Path, "common"), large(1))
}

// What was fetched is not served any more once its entry has gone, whatever else is being read.
func TestARemovedEntryIsNotServed(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		node := func(name string) *Daemon {
			return simulated(t, net.Add(bubble.NodeConfig{Name: name}), filepath.Join(dir, name), Settings{})
		}
		a, b, c := node("a"), node("b"), node("c")
		defer func() { must(t, errors.Join(a.Close(), b.Close(), c.Close())) }()
		for range imports { // as if large folders were being read
			b.reads <- struct{}{}
		}
		one := added(t, a, api.Add{Paths: []string{filepath.Dir(file(t, large(1), dir, "tree", "f"))}})
		got := added(t, b, api.Add{Ticket: one.Ticket})
		got = until(t, b, got.ID, "here", func(e api.Entry) bool { return e.Done != nil })
		synctest.Wait() // until it waits to be read again
		ticket := b.node.Ticket(b.keepers[1].entry().Share)
		_, err := b.Remove(t.Context(), got.ID, false)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.node.Manifest(ctx, ticket, nil); err == nil {
			t.Error("it is served still")
		}
	})
}

func TestASocketTakesThePlaceOfNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := file(t, "mine", t.TempDir(), "notes")
	d := begun(t, dir, func(c *Config) { c.Socket = mine })
	if l, err := d.Listen(); err == nil {
		defer l.close()
		t.Error("it listens there")
	}
	same(t, mine, "mine")
}

// One of two paths with the same content stands for both, until either changes.
func TestAPathThatAnotherStandsForMayChange(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	one, two := file(t, large(1), dir, "1", "f"), file(t, large(1), dir, "2", "f")
	d := begun(t, t.TempDir())
	if d.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	a := added(t, d, api.Add{Paths: []string{one}})
	b := added(t, d, api.Add{Paths: []string{two}})
	for i, e := range []api.Entry{a, b} {
		file(t, large(byte(2+i)), []string{one, two}[i])
		until(t, d, e.ID, "another version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share && x.Reason == "" })
	}
	until(t, d, a.ID, "served", func(e api.Entry) bool { return e.State == api.Served && e.Reason == "" })
}

func TestTheKeyOfTheNodeIsNotShared(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	d := begun(t, filepath.Join(top, "state"))
	file(t, "x", top, "x")
	e := added(t, d, api.Add{Paths: []string{top}})
	files, err := d.Files(t.Context(), e.ID)
	must(t, err)
	if len(files) != 1 || files[0].Path != "x" {
		t.Errorf("shared: %+v", files)
	}
	if e, err := d.Add(t.Context(), api.Add{Paths: []string{filepath.Join(top, "state")}}); err == nil {
		t.Errorf("the state directory: %+v", e)
	}
}

// A selection made while a fetch begins is the one fetched, even if it selects everything.
func TestAChoiceWhileAFetchBeginsIsNotLost(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "x")
	file(t, "two", src, "y")
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{src}})
	for _, only := range [][]string{{"y"}, {}} {
		b := begun(t, t.TempDir(), func(c *Config) { c.Fetches = 1 })
		var other waiting
		b.queue.enter(&other, 0)
		got := added(t, b, api.Add{Ticket: served.Ticket, Only: []string{"x"}})
		k, err := b.keeper(got.ID)
		must(t, err)
		k.telling.Lock() // what would report its turn is held up
		b.queue.leave(&other)
		for look, state := time.NewTicker(time.Millisecond), ""; state != api.Fetching; <-look.C {
			k.mu.Lock()
			state = k.state
			k.mu.Unlock()
		}
		must(t, k.set(t.Context(), func(w *catalog.Wish) error { w.Only = only; return nil }))
		k.telling.Unlock()
		path := until(t, b, got.ID, "here", in(api.Served)).Path
		if b, err := os.ReadFile(filepath.Join(path, "y")); string(b) != "two" {
			t.Errorf("chosen %q: y is not here: %v; %+v", only, err, k.view())
		}
	}
}

// A depot fetches all of a share from the node that asks for the hold: one that chose a part is refused.
func TestAPartOfAShareIsNotHeld(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "x")
	file(t, "two", src, "y")
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{src}})
	got := added(t, b, api.Add{Ticket: served.Ticket, Only: []string{"x"}})
	until(t, b, got.ID, "here", in(api.Served))
	if _, err := b.Hold(t.Context(), api.Hold{Entry: got.ID, Depots: []string{"nowhere"}}); err == nil || !strings.Contains(err.Error(), "not whole here, as only some") {
		t.Error(err)
	}
	_, err := a.Set(t.Context(), served.ID, api.Set{Paused: new(true)})
	must(t, err)
	if _, err := a.Hold(t.Context(), api.Hold{Entry: served.ID, Depots: []string{"nowhere"}}); err == nil || !strings.Contains(err.Error(), "is paused") {
		t.Errorf("of what is paused: %v", err)
	}
}

// A copy of what an entry has fetched so far is not reported as removed with it.
func TestWhatStaysIsNotCalledRemoved(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	from := slow(t)
	b := begun(t, t.TempDir())
	got := added(t, b, api.Add{Ticket: from.Ticket})
	got = until(t, b, got.ID, "known", func(e api.Entry) bool { return e.Verified > 0 })
	set(t, b, got.ID, paused(true))
	at := filepath.Join(got.Dir, "f.partial")
	mine := filepath.Join(got.Dir, "a copy.partial")
	must(t, os.CopyFS(mine, os.DirFS(at)))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Stat(mine); err != nil || len(r.Data) != 1 || r.Data[0] != at {
		t.Errorf("%v; removed: %v; %s", err, r.Data, r.Kept)
	}
}
