package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
)

func set(t testing.TB, d *Daemon, id int64, s api.Set) api.Entry {
	t.Helper()
	e, err := d.Set(t.Context(), id, s)
	must(t, err)
	return e
}

func paused(is bool) api.Set { return api.Set{Paused: &is} }

// slow starts a daemon that serves a share of several pieces, and takes long to send it.
func slow(t testing.TB) api.Entry {
	d := begun(t, t.TempDir(), func(c *Config) { c.Up = 1 << 20 })
	return added(t, d, api.Add{Paths: []string{file(t, large(1)+large(2)+large(3), t.TempDir(), "f")}})
}

func TestAPauseDoesNotWaitForAnImport(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	at := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(at, nil, 0o600))
	if err := os.Truncate(at, 1<<40); err != nil { // too large to be read in the time of a test
		t.Skip(err)
	}
	d := begun(t, t.TempDir())
	k, err := d.added(t.Context(), catalog.Wish{Paths: []string{at}})
	must(t, err)
	id := int64(k.id)
	until(t, d, id, "reading", func(e api.Entry) bool { return strings.HasPrefix(e.Reason, "reading") })
	if e := set(t, d, id, paused(true)); e.State != api.Paused {
		t.Errorf("paused: %+v", e)
	}
	for range imports { // every turn to import is taken
		d.reads <- struct{}{}
	}
	if e := set(t, d, id, paused(false)); e.State != api.Opening {
		t.Errorf("resumed: %+v", e)
	}
	if e := set(t, d, id, paused(true)); e.State != api.Paused {
		t.Errorf("paused again: %+v", e)
	}
	must(t, os.Truncate(at, 5))
	for range imports {
		<-d.reads
	}
	set(t, d, id, paused(false))
	until(t, d, id, "served", in(api.Served))
}

func TestWhatIsPausedShowsHowFarItIs(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	ticket, dir := slow(t).Ticket, t.TempDir()
	d := begun(t, dir)
	e := added(t, d, api.Add{Ticket: ticket})
	until(t, d, e.ID, "under way", func(e api.Entry) bool { return e.Verified > 0 })
	e = set(t, d, e.ID, paused(true))
	if e.State != api.Paused || e.Verified == 0 || e.Verified > e.Bytes {
		t.Errorf("paused: %+v", e)
	}
	must(t, d.Close())
	d = begun(t, dir)
	if e, err := d.Entry(t.Context(), e.ID); err != nil || e.State != api.Paused || e.Verified == 0 {
		t.Errorf("after a restart: %+v, %v", e, err)
	}
}

func TestRemoveTakesWhatIsNotWhole(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	ticket := slow(t).Ticket
	d := begun(t, t.TempDir())
	for _, foreign := range []bool{false, true} {
		to := t.TempDir()
		partial := filepath.Join(to, "f.partial")
		e := added(t, d, api.Add{Ticket: ticket, Dir: to})
		until(t, d, e.ID, "under way", func(e api.Entry) bool { return e.Verified > 0 })
		if foreign {
			file(t, "mine", partial, "mine")
		}
		r, err := d.Remove(t.Context(), e.ID, true)
		must(t, err)
		switch _, err := os.Stat(partial); {
		case foreign:
			same(t, filepath.Join(partial, "mine"), "mine")
			if len(r.Data) > 0 || !strings.Contains(r.Kept, "did not make") {
				t.Errorf("with a file of its owner: %+v", r)
			}
			if _, err := os.Stat(filepath.Join(partial, "data")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was fetched is still there: %v", err)
			}
		case !errors.Is(err, fs.ErrNotExist) || len(r.Data) != 1 || r.Data[0] != partial || r.Kept != "":
			t.Errorf("removed: %+v, %v", r, err)
		}
	}
}

func TestAFetchedEntryIsLookedAtAndRepairedWhenItsOwnerSaysSo(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}})
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "here", in(api.Served))
	file(t, large(1)[:1<<20]+"x"+large(1)[1<<20+1:], got.Path)
	set(t, b, got.ID, api.Set{Rescan: true})
	until(t, b, got.ID, "missing, with what to do", func(e api.Entry) bool { // at first perhaps because it changed while it was read
		return e.State == api.Missing && strings.Contains(e.Reason, "repair the entry with fetcher set")
	})
	set(t, b, got.ID, api.Set{Repair: true})
	until(t, b, got.ID, "here again", in(api.Served))
	same(t, got.Path, large(1))
	if e, err := b.db.Get(t.Context(), catalog.ID(got.ID)); err != nil || e.Repair {
		t.Errorf("it would be repaired again: %+v, %v", e, err)
	}
	if _, err := a.Set(t.Context(), served.ID, api.Set{Repair: true}); !errors.Is(err, api.ErrRequest) {
		t.Errorf("what is served: %v", err)
	}
	for says, bad := range map[string]string{"or move away what is there and rescan the entry": file(t, "x", t.TempDir(), "f"), "Once that is mended, rescan the entry": filepath.Dir(file(t, "x", t.TempDir(), "f", "g"))} {
		c := begun(t, t.TempDir())
		got := until(t, c, added(t, c, api.Add{Ticket: served.Ticket, Dir: filepath.Dir(bad)}).ID, "failed", in(api.Failed))
		if !strings.Contains(got.Reason, says) {
			t.Errorf("%q does not say %q", got.Reason, says)
		}
		must(t, os.RemoveAll(bad))
		set(t, c, got.ID, api.Set{Rescan: true})
		until(t, c, got.ID, "here", in(api.Served))
	}
}

// Even if the folders above it went, and the next rescan is far away.
func TestAPathThatComesBackIsNoticed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, away := t.TempDir(), t.TempDir()
	at := file(t, "one", src, "a", "b", "tree", "f")
	d := begun(t, t.TempDir())
	if d.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	served := added(t, d, api.Add{Paths: []string{filepath.Dir(at)}})
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "here", in(api.Served))
	type moved struct {
		d     *Daemon
		id    int64
		moved string
	}
	all := []moved{{d, served.ID, filepath.Join(src, "a")}, {b, got.ID, got.Path}}
	target, links := filepath.Dir(file(t, "two", src, "target", "f")), t.TempDir()
	if os.Symlink(target, filepath.Join(links, "to")) == nil {
		must(t, os.Symlink("to", filepath.Join(links, "again")))
		linked := added(t, d, api.Add{Paths: []string{filepath.Join(links, "again")}})
		all = append(all, moved{d, linked.ID, target})
	}
	for _, x := range all {
		to := filepath.Join(away, filepath.Base(x.moved))
		must(t, os.Rename(x.moved, to))
		set(t, x.d, x.id, api.Set{Rescan: true})
		gone := until(t, x.d, x.id, "missing", in(api.Missing))
		if link := x.moved == target; strings.Contains(gone.Reason, "leads nowhere") != link || link && !strings.Contains(gone.Reason, "there is no ") {
			t.Errorf("missing: %q", gone.Reason)
		}
		if e := set(t, x.d, x.id, paused(true)); e.Reason != "" {
			t.Errorf("paused, it is not served when it is back: %q", e.Reason)
		}
		set(t, x.d, x.id, paused(false))
		until(t, x.d, x.id, "missing again", in(api.Missing))
		must(t, os.Rename(to, x.moved))
		if x.id == served.ID && x.d == d {
			if _, err := d.Hold(t.Context(), api.Hold{Entry: x.id, Depots: []string{"nobody"}}); err == nil || strings.Contains(err.Error(), "not whole") {
				t.Errorf("what is back is to be held: %v", err)
			}
		}
		until(t, x.d, x.id, "back", in(api.Served))
	}
}

func TestAShareIsAddedOnceBeforeItIsKnownToo(t *testing.T) {
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	ticket := served.Ticket
	if _, err := a.Add(t.Context(), api.Add{Ticket: ticket}); !errors.Is(err, api.ErrHave) || !strings.Contains(err.Error(), "of this node itself, for entry 1; another machine") {
		t.Errorf("its own ticket: %v", err)
	}
	if err := a.fetchable(catalog.Wish{Source: ticket, Fleet: true}); !errors.Is(err, api.ErrHave) || !strings.Contains(err.Error(), "fetcher fleet remove") {
		t.Errorf("its own ticket on the list of its fleet: %v", err)
	}
	added(t, a, api.Add{Paths: []string{file(t, "other", t.TempDir(), "f")}})
	_, err := a.Remove(t.Context(), served.ID, false)
	must(t, err)
	if _, err := a.Add(t.Context(), api.Add{Ticket: ticket}); !errors.Is(err, api.ErrRequest) || !strings.Contains(err.Error(), "any more; name a peer that has it") {
		t.Errorf("its own ticket, once it was removed: %v", err)
	}
	must(t, a.Close()) // so that it does not know the share
	b := begun(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e := added(t, b, api.Add{Ticket: ticket, Paused: true})
	for _, dir := range []string{"", t.TempDir()} {
		if _, err := b.Add(ctx, api.Add{Ticket: ticket, Dir: dir}); !errors.Is(err, api.ErrHave) || !strings.Contains(err.Error(), "entry 1") {
			t.Errorf("again into %q: %v", dir, err)
		}
	}
	if all, _ := b.Entries(ctx); len(all) != 1 || all[0].ID != e.ID {
		t.Errorf("%+v", all)
	}
}

// However often a program writes, the files are read when it has finished, or after a while.
func TestFilesAreReadWhenNothingWritesToThem(t *testing.T) {
	for _, c := range []struct{ writes, want time.Duration }{{3 * time.Second, 5 * time.Second}, {time.Minute, 20 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(&Daemon{life: t.Context()}, catalog.Entry{})
			began := time.Now()
			var writer sync.WaitGroup
			writer.Go(func() {
				for time.Since(began) < c.writes {
					k.touch()
					time.Sleep(10 * time.Millisecond)
				}
			})
			defer writer.Wait()
			k.pause()
			if after := time.Since(began).Round(time.Second); after != c.want {
				t.Errorf("written to for %v: they are read after %v, not %v", c.writes, after, c.want)
			}
		})
	}
}

// A pause takes effect while the files are still written to.
func TestAPauseDoesNotWaitForWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(&Daemon{life: t.Context()}, catalog.Entry{})
		k.poke() // because of something else
		began := time.Now()
		time.AfterFunc(time.Second, func() {
			k.mu.Lock()
			k.e.Paused = true
			k.mu.Unlock()
			k.poke()
		})
		k.pause()
		if after := time.Since(began); after != time.Second || len(k.wake) != 1 {
			t.Errorf("after %v; woken afterwards: %d", after, len(k.wake))
		}
	})
}
