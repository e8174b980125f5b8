package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// A change beside a served path, in the same folder, is no reason to read it again.
func TestOnlyWhatIsServedIsWatched(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	served := filepath.Dir(file(t, "x", dir, "served", "f"))
	told := false
	h := watching(nil, func(catalog.ID, bool) { told = true })
	h.paths[7] = []string{served}
	for _, at := range []string{dir, served} {
		h.hears(7, at, folderID{path: at})
	}
	m, err := share.NewManifest("a", []share.Entry{{Path: "a", Kind: share.Dir}})
	must(t, err)
	file(t, string(m.Bytes()), served, "a.partial", "manifest")
	file(t, "x", served, "c.partial", "f")
	file(t, "x", served, "b.partial")
	for name, want := range map[string]bool{filepath.Join(served, "a.partial"): false, filepath.Join(served, "b.partial"): true, filepath.Join(served, "c.partial"): true, "": true, dir: true, served: true, filepath.Join(served, "f"): true, filepath.Join(served, "new"): true,
		filepath.Join(dir, "other"): false, filepath.Join(dir, "served-too"): false, filepath.Join(dir, "serv"): false} {
		told = false
		h.tell(name, false)
		if told != want {
			t.Errorf("%q: told: %v", name, told)
		}
	}
	chmod := false
	h.changed = func(_ catalog.ID, is bool) { chmod = is }
	for name, want := range map[string]bool{served: false, filepath.Join(served, "f"): true} { // with a mode, a folder loses what is in it
		if h.tell(name, true); chmod != want {
			t.Errorf("%q: it is only a mode: %v", name, chmod)
		}
	}
}

// What changes later in a folder that was made, or got its name, while it was served is noticed as well.
func TestAChangeInANewFolderIsNoticed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, renamed := range []bool{false, true} {
		src := t.TempDir()
		file(t, "one", src, "old", "f")
		d := begun(t, t.TempDir())
		e := added(t, d, api.Add{Paths: []string{src}})
		if d.watch == nil {
			t.Skip("this system does not tell of changes")
		}
		if renamed {
			must(t, os.Rename(filepath.Join(src, "old"), filepath.Join(src, "new")))
		} else {
			file(t, "two", src, "new", "f")
		}
		now := until(t, d, e.ID, "a new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
		file(t, "three", src, "new", "g")
		until(t, d, e.ID, "another version", func(x api.Entry) bool { return x.State == api.Served && x.Share != now.Share })
	}
}

// What changes in a folder while it is looked for what else is to be watched is noticed: what came back just before its entry waits for it.
func TestAChangeIsNoticedWhileFoldersAreLookedFor(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for n := range 300 {
		must(t, os.MkdirAll(filepath.Join(src, fmt.Sprint(n)), 0o700))
	}
	told := make(chan bool, 1)
	h, err := newWatch(func(catalog.ID, bool) {
		select {
		case told <- true:
		default:
		}
	})
	must(t, err)
	if h == nil {
		t.Skip("this system does not tell of changes")
	}
	defer h.close()
	h.set(7, []string{src})
	for n := range 300 {
		var again sync.WaitGroup
		again.Go(func() { h.set(7, []string{src}) })
		file(t, "back", src, fmt.Sprint(n), "f")
		select {
		case <-told:
		case <-time.After(5 * time.Second):
			t.Fatalf("nobody heard of file %d", n)
		}
		again.Wait()
		for len(told) > 0 {
			<-told
		}
	}
}

// What is fetched into a folder that is served does not end what is served of it, nor is it part of that before it is whole.
func TestAFetchIntoAServedFolderDoesNotDisturbIt(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a, d, src := begun(t, t.TempDir()), begun(t, t.TempDir()), t.TempDir()
	from := added(t, a, api.Add{Paths: []string{file(t, strings.Repeat("0123456789abcdef", 1<<18), t.TempDir(), "big")}})
	file(t, "one", src, "f")
	e := added(t, d, api.Add{Paths: []string{src}})
	if d.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	into := added(t, d, api.Add{Ticket: from.Ticket, Dir: src, LimitDown: 100_000})
	until(t, d, into.ID, "under way", func(x api.Entry) bool { return x.State == api.Fetching && x.Verified > 0 })
	file(t, "two", src, "g")
	now := until(t, d, e.ID, "another version", func(x api.Entry) bool { return x.State == api.Failed || x.Share != e.Share })
	if now.State != api.Served {
		t.Errorf("while a fetch into it goes on, it is %s: %s", now.State, now.Reason)
	}
	paused := true
	_, err := d.Set(t.Context(), into.ID, api.Set{Paused: &paused})
	must(t, err)
	_, err = d.Set(t.Context(), e.ID, api.Set{Rescan: true})
	must(t, err)
	now = until(t, d, e.ID, "served", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	files, err := d.Files(t.Context(), now.ID)
	must(t, err)
	for _, f := range files {
		if strings.HasPrefix(f.Path, "big.partial/") {
			t.Errorf("it serves %s", f.Path)
		}
	}
}

// A path that is a link is served anew when it leads elsewhere.
func TestALinkThatLeadsElsewhereIsNoticed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	top := t.TempDir()
	file(t, "one", top, "first", "f")
	file(t, "second", top, "second", "f")
	current, next := filepath.Join(top, "current"), filepath.Join(top, "next")
	must(t, os.Symlink("first", current))
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{current}})
	if d.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	must(t, os.Symlink("second", next))
	must(t, os.Rename(next, current))
	until(t, d, e.ID, "a new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
}
