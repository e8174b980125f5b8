package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
)

// mount puts a disk with a file at a folder. It needs root.
func mount(t *testing.T, dir, content string) {
	t.Helper()
	if err := syscall.Mount("fetcher", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("NOT TESTED: a mount needs root:", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) }) // fails if it is not mounted any more
	file(t, content, dir, "film")
}

// A disk at, in or above what is served is missed also if there are other files, or some where it is mounted; and by nobody once a link leads
// elsewhere, or the disk is back.
func TestADiskThatIsMissedIsNoNewVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, serve string }{{"", ""}, {"in/it", ""}, {"", "films"}} {
		t.Run(filepath.Join("at", c.at, "serve", c.serve), func(t *testing.T) {
			t.Parallel()
			dir, top := t.TempDir(), t.TempDir()
			disk, serve, link := filepath.Join(top, c.at), filepath.Join(top, c.serve), filepath.Join(t.TempDir(), "link")
			file(t, "stray", disk, "film")
			file(t, "stray", serve, "stray")
			must(t, os.Symlink(serve, link))
			mount(t, disk, "film")
			file(t, "more", serve, "more")
			d, e := holding(t, dir, link)
			isAway := func() {
				t.Helper()
				set(t, d, e.ID, api.Set{Rescan: true})
				v := until(t, d, e.ID, "looked at", func(v api.Entry) bool { return v.State == api.Missing || v.State == api.Served && v.Share != e.Share })
				if v.State != api.Missing || !strings.HasPrefix(v.Reason, "nothing is mounted at "+disk+", ") {
					t.Errorf("%s: %s", v.State, v.Reason)
				}
				isHeld(t, d, e.Share)
			}
			must(t, syscall.Unmount(disk, syscall.MNT_DETACH))
			isAway()
			must(t, d.Close())
			d = begun(t, dir)
			isAway()
			mount(t, disk, "film")
			file(t, "more", serve, "more")
			set(t, d, e.ID, api.Set{Rescan: true})
			if v := until(t, d, e.ID, "back", in(api.Served)); v.Share != e.Share {
				t.Errorf("it is another version: %v", v)
			}
			must(t, syscall.Unmount(disk, syscall.MNT_DETACH))
			isAway()
			must(t, os.Remove(link))
			must(t, os.Symlink(filepath.Dir(file(t, "other", t.TempDir(), "other")), link))
			set(t, d, e.ID, api.Set{Rescan: true})
			until(t, d, e.ID, "what the link leads to", func(v api.Entry) bool { return v.State == api.Served && v.Share != e.Share })
		})
	}
}

// A part that was fetched to a disk is missed also if there is something in its place while that is not mounted.
func TestAPartOnADiskThatIsMissedIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	dir, disk := t.TempDir(), t.TempDir()
	stray := file(t, "stray", disk, "tree", "stray")
	mount(t, disk, "film")
	d := begun(t, dir)
	e := added(t, d, api.Add{Ticket: ticket, Dir: disk, Only: []string{"docs", "photos"}})
	until(t, d, e.ID, "here", in(api.Served))
	must(t, d.Close())
	must(t, syscall.Unmount(disk, syscall.MNT_DETACH))
	d = begun(t, dir)
	v := until(t, d, e.ID, "looked at", func(v api.Entry) bool { return v.State == api.Served || v.State == api.Missing })
	if v.State != api.Missing || !strings.HasPrefix(v.Reason, "nothing is mounted at "+disk+", ") {
		t.Errorf("%s: %s", v.State, v.Reason)
	}
	if all, err := os.ReadDir(filepath.Dir(stray)); err != nil || len(all) != 1 {
		t.Errorf("something was fetched: %v, %v", all, err)
	}
}

// A fetch to a disk that is not mounted any more waits for it, and begins nothing below its mount point.
func TestAFetchWaitsForItsDisk(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := t.TempDir()
	rig.WriteRandom(t, filepath.Join(src, "film"), 300_000, 1)
	from := begun(t, t.TempDir())
	ticket := added(t, from, api.Add{Paths: []string{src}, Name: "tree"}).Ticket
	dir, disk := t.TempDir(), t.TempDir()
	mount(t, disk, "film")
	into := filepath.Join(disk, "in")
	d := begun(t, dir)
	e := added(t, d, api.Add{Ticket: ticket, Dir: into, LimitDown: 20_000})
	until(t, d, e.ID, "begun", func(v api.Entry) bool { return v.Verified > 0 })
	must(t, d.Close())
	must(t, syscall.Unmount(disk, syscall.MNT_DETACH))
	d = begun(t, dir)
	v := until(t, d, e.ID, "looked at", func(v api.Entry) bool { return v.State == api.Missing || v.Sources > 0 })
	if !strings.HasPrefix(v.Reason, "nothing is mounted at "+disk+", ") {
		t.Errorf("%s: %s", v.State, v.Reason)
	}
	if all, err := os.ReadDir(disk); err != nil || len(all) > 0 {
		t.Errorf("something was begun: %v, %v", all, err)
	}
	mount(t, disk, "film")
	set(t, d, e.ID, api.Set{Rescan: true, LimitDown: new(int64)})
	until(t, d, e.ID, "here", in(api.Served))
}

// What another entry serves stays, also if it is served by a name that no link explains: below a second mount of the same folder.
func TestRemoveLeavesWhatASecondMountServes(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for how, part := range map[string]string{"it": "tree", "a part": "tree/photos", "from above": ""} {
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		again := t.TempDir()
		if err := syscall.Mount(filepath.Dir(got.Path), again, "", syscall.MS_BIND, ""); err != nil {
			t.Skip("NOT TESTED: a mount needs root:", err)
		}
		t.Cleanup(func() { syscall.Unmount(again, syscall.MNT_DETACH) })
		until(t, b, added(t, b, api.Add{Paths: []string{filepath.Join(again, part)}}).ID, "served", in(api.Served))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if same(t, filepath.Join(got.Path, "photos", "2"), "two"); !strings.Contains(r.Kept, "too") {
			t.Errorf("%s: removed: %v; %s", how, r.Data, r.Kept)
		}
	}
}

// A folder that is watched takes the name of another that is, by a mount: neither is watched any more after that, and the node goes on.
func TestAFolderThatTookTheNameOfAnotherIsWatchedNoLonger(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	file(t, "one", top, "p", "f")
	file(t, "two", top, "q", "f")
	h, err := newWatch(func(catalog.ID, bool) {})
	must(t, err)
	defer h.close()
	h.set(1, []string{top})
	if err := syscall.Mount(filepath.Join(top, "q"), filepath.Join(top, "p"), "", syscall.MS_BIND, ""); err != nil {
		t.Skip("NOT TESTED: a mount needs root:", err)
	}
	t.Cleanup(func() { syscall.Unmount(filepath.Join(top, "p"), syscall.MNT_DETACH) })
	h.set(1, []string{top})
	if h.remove(1); len(h.dirs) > 0 {
		t.Error(h.dirs)
	}
}
