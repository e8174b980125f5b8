package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// holding begins a node that has a depot keep what is at a path.
func holding(t *testing.T, dir, path string) (*Daemon, api.Entry) {
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	d := begun(t, dir)
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e9})
	must(t, err)
	e := added(t, d, api.Add{Paths: []string{path}, Name: "disk"})
	_, err = d.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: depot.node.Addrs()[:1]})
	must(t, err)
	return d, e
}

// isHeld waits until depots are to keep a version of an entry and nothing else.
func isHeld(t *testing.T, d *Daemon, id string) {
	t.Helper()
	stands(t, d, "holds of "+id, func(all []api.StandingHold) bool {
		return len(all) > 0 && all[0].Share == id && !all[0].Earlier && !all[0].Ending
	})
}

// A hold is for the time when the files are lost. Of a disk that is not mounted an empty folder is left: that is no new version, which depots
// would follow. New files are one.
func TestADiskThatIsAwayLeavesWhatDepotsKeep(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, mount := t.TempDir(), t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "film")
	file(t, "film", mount, "films", "film")
	d, e := holding(t, dir, mount)
	must(t, os.Rename(filepath.Join(mount, "films", "film"), elsewhere))
	isAway := func() {
		t.Helper()
		v := until(t, d, e.ID, "looked at", func(v api.Entry) bool { return v.State == api.Missing || v.State == api.Served && v.Share != e.Share })
		if v.State != api.Missing || !strings.HasPrefix(v.Reason, "it had 1 file, and has none now: ") {
			t.Errorf("%s: %s", v.State, v.Reason)
		}
		isHeld(t, d, e.Share)
	}
	isAway()
	must(t, d.Close())
	d = begun(t, dir)
	isAway()
	must(t, os.Rename(elsewhere, filepath.Join(mount, "films", "film")))
	if v := until(t, d, e.ID, "back", in(api.Served)); v.Share != e.Share {
		t.Errorf("it is another version: %v", v)
	}
	must(t, os.Remove(filepath.Join(mount, "films", "film")))
	file(t, "song", mount, "song")
	v := until(t, d, e.ID, "another version", func(v api.Entry) bool { return v.State == api.Served && v.Share != e.Share })
	stands(t, d, "the new version", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].Share == v.Share })
}

// What was fetched and is gone is missing until it is back, also if it is a part of a share, or a fleet's: it is not fetched again below the mount point of a disk
// that is away.
func TestWhatWasKeptOnADiskThatIsAwayIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	_, ticket := photos(t)
	a, dir := begun(t, t.TempDir(), inFleet(fleet)), t.TempDir()
	d := begun(t, dir, inFleet(fleet))
	part := added(t, d, api.Add{Ticket: ticket, Only: []string{"docs", "photos"}})
	_, err := a.AddToFleet(t.Context(), added(t, a, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}}).Ticket)
	must(t, err)
	for _, e := range entriesOf(t, d, 2) {
		until(t, d, e.ID, "here", in(api.Served))
	}
	must(t, d.Close())
	must(t, os.Rename(filepath.Join(dir, "in"), filepath.Join(dir, "away")))
	d = begun(t, dir, inFleet(fleet))
	for _, e := range entriesOf(t, d, 2) {
		until(t, d, e.ID, "missing", in(api.Missing))
	}
	if _, err := os.Stat(filepath.Join(dir, "in")); err == nil {
		t.Error("something was fetched again")
	}
	must(t, os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "in")))
	for _, e := range entriesOf(t, d, 2) {
		set(t, d, e.ID, api.Set{Rescan: true})
		until(t, d, e.ID, "back", in(api.Served))
	}
	must(t, os.RemoveAll(filepath.Join(dir, "in", "tree")))
	set(t, d, part.ID, api.Set{Rescan: true})
	until(t, d, part.ID, "missing", in(api.Missing))
	set(t, d, part.ID, api.Set{Repair: true})
	v := until(t, d, part.ID, "fetched again, as its owner wants", in(api.Served))
	same(t, filepath.Join(v.Path, "docs", "1"), "one")
}
