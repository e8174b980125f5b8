package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// photos is a share of two folders and a file, which a node serves.
func photos(t *testing.T) (src, ticket string) {
	src = filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "docs", "1")
	file(t, "two", src, "photos", "2")
	file(t, "three", src, "3")
	a := begun(t, t.TempDir())
	return src, added(t, a, api.Add{Paths: []string{src}}).Ticket
}

// What its owner has of a share is his, though it is exactly what the share has, if the node was asked for another part of it.
func TestRemoveLeavesThePartThatWasNotFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	for _, forgotten := range []bool{false, true} {
		to := t.TempDir()
		mine := file(t, "two", to, "tree", "photos", "2")
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
		if forgotten { // what was put in its place
			must(t, os.Remove(filepath.Join(to, "tree.partial", "placed")))
		}
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		same(t, mine, "two")
		if _, err := os.Stat(filepath.Join(to, "tree", "docs")); err == nil || !strings.Contains(r.Kept, "did not make") {
			t.Errorf("removed: %v; %s; %v", r.Data, r.Kept, err)
		}
	}
}

// removedWhileShut fetches a share into to, and removes its data while nobody may change what a folder in to has.
func removedWhileShut(t *testing.T, b *Daemon, ticket, shut string) (to string, r api.Removed) {
	t.Helper()
	to = t.TempDir()
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
	must(t, os.Chmod(filepath.Join(to, shut), 0o500))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	must(t, os.Chmod(filepath.Join(to, shut), 0o700))
	return to, r
}

// What may not be removed is not said to be another's.
func TestRemoveSaysWhatMayNotBeRemoved(t *testing.T) {
	t.Parallel()
	if os.Getuid() <= 0 { // root removes all
		t.Skip("only for a user with a user ID that is not root")
	}
	_, ticket := photos(t)
	b := begun(t, t.TempDir())
	for _, shut := range []string{".", "tree", "tree/docs"} {
		to, r := removedWhileShut(t, b, ticket, shut)
		if !strings.HasPrefix(r.Kept, filepath.Join(to, "tree")) || !strings.HasSuffix(r.Kept, " cannot be removed: permission denied") {
			t.Errorf("%s: removed: %v; %s", shut, r.Data, r.Kept)
		}
	}
}

// Folders that may not be removed are not called files that others made.
func TestRemoveSaysWhichFolderMayNotBeRemoved(t *testing.T) {
	t.Parallel()
	if os.Getuid() <= 0 { // root removes all
		t.Skip("only for a user with a user ID that is not root")
	}
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "docs", "1")
	must(t, os.MkdirAll(filepath.Join(src, "void", "in"), 0o700))
	a := begun(t, t.TempDir())
	ticket := added(t, a, api.Add{Paths: []string{src}}).Ticket
	b := begun(t, t.TempDir())
	for shut, stays := range map[string]string{"tree": "tree/void", "tree/void": "tree/void/in"} {
		to, r := removedWhileShut(t, b, ticket, shut)
		if r.Kept != filepath.Join(to, stays)+" cannot be removed: permission denied" {
			t.Errorf("%s: removed: %v; %s", shut, r.Data, r.Kept)
		}
	}
}

// The same, if he chooses that part too, later.
func TestRemoveLeavesWhatWasThereWhenMoreWasChosen(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	to := t.TempDir()
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
	mine := file(t, "two", to, "tree", "photos", "2")
	set(t, b, got.ID, api.Set{Only: &[]string{}})
	until(t, b, got.ID, "all here", func(e api.Entry) bool { return e.State == api.Served && e.Files == 3 })
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	same(t, mine, "two")
	if _, err := os.Stat(filepath.Join(to, "tree", "docs")); err == nil || !strings.Contains(r.Kept, "did not make") {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}

// What was fetched and is not chosen any more is still the node's, also if all was here before less was chosen, or it was fetched through a symlink.
func TestRemoveTakesWhatIsNotChosenAnyMore(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for _, only := range [][]string{nil, {"docs", "photos"}} {
		to, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
		must(t, os.Symlink(to, link))
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: link, Only: only}).ID, "here", in(api.Served))
		set(t, b, got.ID, api.Set{Only: &[]string{"photos"}})
		until(t, b, got.ID, "a part", func(e api.Entry) bool { return e.State == api.Served && e.Files == 1 })
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if list, err := os.ReadDir(to); err != nil || len(list) > 0 {
			t.Errorf("%v: removed %v, and left %v (%v): %s", only, r.Data, list, err, r.Kept)
		}
	}
}

// A file or a symlink in the place of a folder of the share is its owner's.
func TestRemoveLeavesWhatTookThePlaceOfAFolder(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
	must(t, os.RemoveAll(filepath.Join(got.Path, "docs")))
	mine := file(t, "mine", got.Path, "docs")
	must(t, os.Rename(filepath.Join(got.Path, "photos"), filepath.Join(got.Path, "moved")))
	must(t, os.Symlink("moved", filepath.Join(got.Path, "photos")))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	same(t, mine, "mine")
	same(t, filepath.Join(got.Path, "photos", "2"), "two")
	if len(r.Data) != 1 {
		t.Errorf("removed: %v", r.Data)
	}
}

// Nor does a symlink to where its owner has moved all of it go.
func TestRemoveLeavesALinkToWhereAllWasMoved(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
	moved := filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(got.Path, moved))
	must(t, os.Symlink(moved, got.Path))
	mine := file(t, "mine", moved, "docs", "mine")
	_, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	same(t, mine, "mine")
	if _, err := os.Lstat(got.Path); err != nil {
		t.Error(err)
	}
}

// Nor what lies where a symlink leads that took its place, or that of a folder above it: that may be an older copy, which is its owner's.
func TestRemoveLeavesWhatALinkLeadsTo(t *testing.T) {
	t.Parallel()
	src, ticket := photos(t)
	for _, above := range []bool{false, true} {
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		mine, at := filepath.Join(t.TempDir(), "mine"), got.Path
		if must(t, os.CopyFS(filepath.Join(mine, "tree"), os.DirFS(src))); above {
			at = filepath.Dir(at)
		} else {
			mine = filepath.Join(mine, "tree")
		}
		must(t, os.RemoveAll(at))
		must(t, os.Symlink(mine, at))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		same(t, filepath.Join(got.Path, "photos", "2"), "two")
		if len(r.Data) > 0 || !strings.Contains(r.Kept, "link") {
			t.Errorf("removed: %v; %s", r.Data, r.Kept)
		}
	}
}

// An empty folder of its owner stays, though a symlink that took the place of one of the share leads to it.
func TestRemoveLeavesAnEmptyFolderBehindALink(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "docs", "inner", "1")
	file(t, "two", src, "2")
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: added(t, a, api.Add{Paths: []string{src}}).Ticket}).ID, "here", in(api.Served))
	must(t, os.RemoveAll(filepath.Join(got.Path, "docs")))
	mine := filepath.Join(got.Path, "mine", "inner")
	must(t, os.MkdirAll(mine, 0o700))
	must(t, os.Symlink("mine", filepath.Join(got.Path, "docs")))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Lstat(mine); err != nil {
		t.Errorf("removed: %v; %s; %v", r.Data, r.Kept, err)
	}
}

// What another entry serves stays, by whatever way it is served: through a link, or as a part of a folder above.
func TestRemoveLeavesWhatAnotherEntryServes(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for how, path := range map[string]func(dir, link string) string{
		"through a link": func(_, link string) string { return filepath.Join(link, "tree", "photos") },
		"from above":     func(dir, _ string) string { return dir },
		"both":           func(_, link string) string { return link },
	} {
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		dir, link := filepath.Dir(got.Path), filepath.Join(t.TempDir(), "link")
		must(t, os.Symlink(dir, link))
		until(t, b, added(t, b, api.Add{Paths: []string{path(dir, link)}}).ID, "served", in(api.Served))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if same(t, filepath.Join(got.Path, "photos", "2"), "two"); !strings.Contains(r.Kept, "too") {
			t.Errorf("%s: removed: %v; %s", how, r.Data, r.Kept)
		}
	}
}

// The same, if the other entry is being fetched there, through a link.
func TestRemoveLeavesWhatAFetchThroughALinkHas(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "common", src, "common")
	file(t, "one", src, "version")
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	to, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(to, link))
	one := added(t, a, api.Add{Paths: []string{src}})
	first := until(t, b, added(t, b, api.Add{Ticket: one.Ticket, Dir: to}).ID, "here", in(api.Served))
	_, err := a.Remove(t.Context(), one.ID, false)
	must(t, err)
	file(t, large(2), src, "version")
	two := added(t, a, api.Add{Paths: []string{src}})
	a.node.SetUploadRate(1)
	until(t, b, added(t, b, api.Add{Ticket: two.Ticket, Dir: link, Repair: true}).ID, "begun", func(e api.Entry) bool { return e.Files > 0 })
	r, err := b.Remove(t.Context(), first.ID, true)
	must(t, err)
	if same(t, filepath.Join(to, "tree", "common"), "common"); !strings.Contains(r.Kept, "too") {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}

// asThere is what the files of a share at a path look like now, as if a node had just put them there.
func asThere(t *testing.T, at string, m *share.Manifest) map[int]vfs.Stamp {
	made := map[int]vfs.Stamp{}
	for i, f := range m.Entries() {
		path := filepath.Join(at, f.Path)
		if m.Single() {
			path = at
		}
		d, err := vfs.Dir(filepath.Dir(path))
		must(t, err)
		info, err := d.Lstat(filepath.Base(path))
		must(t, err)
		must(t, d.Close())
		made[i] = info.Stamp()
	}
	return made
}

// While the files are read, which may take long, each may be replaced by another, even an older one.
func TestRemoveLeavesWhatCameWhileItRead(t *testing.T) {
	t.Parallel()
	src, _ := photos(t)
	was, err := store.Import(t.Context(), src, store.ImportOptions{})
	must(t, err)
	was.Tree.Close()
	single, err := store.Import(t.Context(), filepath.Join(src, "docs", "1"), store.ImportOptions{})
	must(t, err)
	single.Tree.Close()
	older := func(path string) {
		mine := file(t, "mine", t.TempDir(), "mine")
		must(t, os.Chtimes(mine, time.Time{}, time.Unix(1e9, 0)))
		must(t, os.Rename(mine, path))
	}
	for _, all := range []bool{true, false} {
		to, m, path := filepath.Join(t.TempDir(), "tree"), was.Manifest, "docs/1"
		must(t, os.CopyFS(to, os.DirFS(src)))
		e := catalog.Entry{Status: catalog.Status{Path: to}}
		if !all {
			m, e.Path = single.Manifest, filepath.Join(to, path)
		}
		imp, err := store.Import(t.Context(), e.Path, store.ImportOptions{})
		must(t, err)
		defer imp.Tree.Close()
		made := asThere(t, e.Path, m)
		older(filepath.Join(to, path))
		gone, kept := removeMade(e, m, made, imp)
		same(t, filepath.Join(to, path), "mine")
		if want := map[bool]int{true: 2}[all]; len(gone) != want || !strings.Contains(kept, "stay") {
			t.Errorf("removed: %v; %s", gone, kept)
		}
	}
}

// What its owner has fetched of a share by himself is his, if the node then fetches another part of it to the same place.
func TestRemoveLeavesThePartThatAnotherFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	to := t.TempDir()
	a := begun(t, t.TempDir())
	until(t, a, added(t, a, api.Add{Ticket: ticket, Dir: to, Only: []string{"photos"}}).ID, "here", in(api.Served))
	must(t, a.Close())
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	same(t, filepath.Join(to, "tree", "photos", "2"), "two")
	if !strings.Contains(r.Kept, "before") {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}

// What has no bytes was there before as well.
func TestRemoveLeavesEmptyFilesAndLinksThatWereThere(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "1")
	file(t, "", src, "none")
	must(t, os.Symlink("1", filepath.Join(src, "link")))
	a := begun(t, t.TempDir())
	ticket := added(t, a, api.Add{Paths: []string{src}}).Ticket
	for _, link := range []bool{false, true} {
		to := t.TempDir()
		must(t, os.Mkdir(filepath.Join(to, "tree"), 0o700))
		mine := filepath.Join(to, "tree", "none")
		if link {
			mine = filepath.Join(to, "tree", "link")
			must(t, os.Symlink("1", mine))
		} else {
			file(t, "", mine)
		}
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Repair: true}).ID, "here", in(api.Served))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if _, err := os.Lstat(mine); err != nil {
			t.Errorf("link: %v: removed %v; %s: %v", link, r.Data, r.Kept, err)
		}
	}
}

// What its owner puts in a place for which something is still to come is his, also if he has removed NAME.partial.
func TestRemoveLeavesWhatWasPutThereWhileItWasFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, strings.Repeat("one ", 1<<18), src, "docs", "1")
	file(t, "two", src, "photos", "2")
	a := begun(t, t.TempDir())
	ticket := added(t, a, api.Add{Paths: []string{src}}).Ticket
	for _, c := range []struct {
		first, only []string // the part that is here before, and what is then chosen
		forgotten   bool
	}{
		{nil, nil, false}, {nil, []string{"docs", "photos"}, false}, {nil, nil, true}, {nil, []string{"docs", "photos"}, true},
		{[]string{"photos"}, []string{}, true},
	} {
		to := t.TempDir()
		b := begun(t, t.TempDir())
		add := api.Add{Ticket: ticket, Dir: to, Only: c.only}
		if c.first != nil {
			add.Only = c.first
			e := until(t, b, added(t, b, add).ID, "a part", in(api.Served))
			a.node.SetUploadRate(1)
			set(t, b, e.ID, api.Set{Only: &c.only})
		} else {
			a.node.SetUploadRate(1)
			added(t, b, add)
		}
		e := until(t, b, 1, "begun", func(e api.Entry) bool { return e.Files == 2 })
		set(t, b, e.ID, paused(true))
		until(t, b, e.ID, "paused", in(api.Paused))
		if c.forgotten {
			must(t, os.RemoveAll(filepath.Join(to, "tree.partial")))
		}
		must(t, os.RemoveAll(filepath.Join(to, "tree")))
		must(t, os.CopyFS(to, os.DirFS(filepath.Dir(src))))
		a.node.SetUploadRate(0)
		set(t, b, e.ID, paused(false))
		until(t, b, e.ID, "here", in(api.Served))
		r, err := b.Remove(t.Context(), e.ID, true)
		must(t, err)
		if same(t, filepath.Join(to, "tree", "photos", "2"), "two"); r.Kept == "" {
			t.Errorf("%+v: removed: %v; %s", c, r.Data, r.Kept)
		}
	}
}

// So is what he has put in the place of what was fetched and then not chosen any more, also if he chooses it again, or has removed NAME.partial.
func TestRemoveLeavesWhatWasPutWhereItWasNotChosen(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for _, forgotten := range []bool{false, true} {
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		set(t, b, got.ID, api.Set{Only: &[]string{"docs"}})
		until(t, b, got.ID, "a part", func(e api.Entry) bool { return e.State == api.Served && e.Files == 1 })
		must(t, os.RemoveAll(filepath.Join(got.Path, "photos")))
		mine := file(t, "two", got.Path, "photos", "2")
		if forgotten {
			must(t, os.RemoveAll(got.Path+".partial"))
		}
		set(t, b, got.ID, api.Set{Only: &[]string{}})
		until(t, b, got.ID, "all here", func(e api.Entry) bool { return e.State == api.Served && e.Files == 3 })
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if same(t, mine, "two"); !strings.Contains(r.Kept, "did not make") {
			t.Errorf("removed: %v; %s", r.Data, r.Kept)
		}
	}
}

// What was fetched stays the node's when it is looked at again: after a restart, for a repair, or because less is chosen.
func TestRemoveTakesWhatWasLookedAtAgain(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for _, less := range []bool{false, true} {
		dir := t.TempDir()
		b := begun(t, dir)
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		if less {
			set(t, b, got.ID, api.Set{Only: &[]string{"docs"}})
			until(t, b, got.ID, "a part", func(e api.Entry) bool { return e.State == api.Served && e.Files == 1 })
		}
		must(t, b.Close())
		b = begun(t, dir)
		until(t, b, got.ID, "here again", in(api.Served))
		set(t, b, got.ID, api.Set{Repair: true})
		until(t, b, got.ID, "repaired", func(e api.Entry) bool { return e.State == api.Served && !b.all()[0].entry().Repair })
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if _, err := os.Stat(filepath.Join(got.Path, "docs")); err == nil || strings.Contains(r.Kept, "before") {
			t.Errorf("less: %v: removed: %v; %s", less, r.Data, r.Kept)
		}
	}
}

// What was there before stays, though the catalog could not be written when that was seen, as on a disk that was full for a moment: the next
// write makes that good, also if its owner has asked for something else in between.
func TestRemoveLeavesWhatWasThereThoughThatWasNotWritten(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, strings.Repeat("one ", 1<<18), src, "docs", "1")
	file(t, "two", src, "photos", "2")
	file(t, "three", src, "3")
	a := begun(t, t.TempDir())
	ticket := added(t, a, api.Add{Paths: []string{src}}).Ticket
	for _, asked := range []bool{false, true} {
		to, dir := t.TempDir(), t.TempDir()
		mine := file(t, "two", to, "tree", "photos", "2")
		a.node.SetUploadRate(1)
		b := begun(t, dir)
		execCatalog(t, dir, `CREATE TRIGGER full BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
		e := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs", "photos"}}).ID, "begun", func(e api.Entry) bool { return e.Files > 0 })
		if execCatalog(t, dir, `DROP TRIGGER full`); asked {
			hour := "1h"
			set(t, b, e.ID, api.Set{SeedTime: &hour})
		}
		a.node.SetUploadRate(0)
		until(t, b, e.ID, "here", in(api.Served))
		if row, err := b.db.Get(t.Context(), catalog.ID(e.ID)); err != nil || !row.Found {
			t.Errorf("the catalog has %+v, %v", row.Status, err)
		}
		r, err := b.Remove(t.Context(), e.ID, true)
		must(t, err)
		if same(t, mine, "two"); !strings.Contains(r.Kept, "before") {
			t.Errorf("removed: %v; %s", r.Data, r.Kept)
		}
	}
}

// What is gone, or cannot be looked at, is said as it is.
func TestRemoveSaysWhatItCouldNotLookAt(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for want, spoil := range map[string]func(at string) error{
		"there is nothing at %s any more, so nothing was removed there": os.RemoveAll,
		"nothing in %s was removed, because some of it cannot be read; remove it by hand. What cannot be read:\n  \"s\": it is a socket, and only files, folders and symlinks can be shared": aSocket,
	} {
		to := t.TempDir()
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
		at := filepath.Join(to, "tree")
		must(t, spoil(at))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if want := fmt.Sprintf(want, at); r.Kept != want || len(r.Data) > 0 {
			t.Errorf("removed: %v; %s, want %s", r.Data, r.Kept, want)
		}
	}
}

// That one file vanished from a folder while it was read does not mean that nothing is there.
func TestOneFileThatVanishedIsNotAll(t *testing.T) {
	at := t.TempDir()
	err := &store.ProblemsError{Problems: []store.Problem{{Path: "a", Err: &fs.PathError{Op: "open", Path: "a", Err: fs.ErrNotExist}}}, Count: 1}
	if got, want := unlooked(at, err), fmt.Sprintf("nothing in %s was removed, because some of it cannot be read; remove it by hand. What cannot be read:\n  \"a\": ", at); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// aSocket is left by a program that listened in a folder.
func aSocket(dir string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s")})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// What another node has fetched of the share into the same place, while this one did not run or was paused, is not this one's.
func TestRemoveLeavesWhatAnotherFetchedMeanwhile(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, only := range [][]string{{"photos"}, nil} {
		_, ticket := photos(t)
		to, dir := t.TempDir(), t.TempDir()
		b := begun(t, dir)
		got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
		must(t, b.Close())
		c := begun(t, t.TempDir())
		until(t, c, added(t, c, api.Add{Ticket: ticket, Dir: to, Only: only}).ID, "here", in(api.Served))
		must(t, c.Close())
		b = begun(t, dir)
		until(t, b, got.ID, "here", in(api.Served))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		t.Logf("only %q: removed: %v; %s", only, r.Data, r.Kept)
		same(t, filepath.Join(to, "tree", "photos", "2"), "two")
		if _, err := os.Stat(filepath.Join(to, "tree", "docs", "1")); only != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error("what this node has fetched:", err)
		}
		if _, err := os.Stat(filepath.Join(to, "tree.partial")); only != nil && err != nil {
			t.Error("what the other one remembers:", err)
		}
	}
}

// A part of a share that was edited in its place is not said to be served once a peer has asked for it in vain.
func TestAPartThatWasEditedIsNotSaidToBeServed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	to := t.TempDir()
	b, c := begun(t, t.TempDir()), begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
	file(t, "edited, and longer", to, "tree", "docs", "1")
	of := added(t, c, api.Add{Ticket: got.Share, Peers: b.node.Addrs(), Only: []string{"docs"}})
	until(t, c, of.ID, "refused", func(e api.Entry) bool {
		return e.State == api.Failed || e.State == api.Waiting && e.Reason != "" && e.Reason != "it is about to begin"
	})
	e, _ := c.Entry(t.Context(), of.ID)
	t.Log(e.State, e.Reason)
	e = until(t, b, got.ID, "failed", in(api.Failed))
	if !strings.Contains(e.Reason, "epair the entry") {
		t.Error(e.Reason)
	}
	same(t, filepath.Join(to, "tree", "docs", "1"), "edited, and longer")
}
