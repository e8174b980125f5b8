package disk

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

var errSick = errors.New("structure needs cleaning")

// sick is a folder of which some names cannot be opened or looked at.
type sick struct {
	vfs.FS
	fails *func(name string) bool
}

func (s sick) Open(name string) (vfs.File, error) {
	if (*s.fails)(name) {
		return nil, errSick
	}
	return s.FS.Open(name)
}

func (s sick) Lstat(name string) (vfs.Info, error) {
	if (*s.fails)(name) {
		return vfs.Info{}, errSick
	}
	return s.FS.Lstat(name)
}

// A file that the disk cannot read is damage of that file. If the disk reads nothing at all, nobody knows of damage.
func TestAFileThatCannotBeReadIsLostAndADiskThatIsAwayLosesNothing(t *testing.T) {
	dir, fails := t.TempDir(), func(string) bool { return false }
	r := New(func() (vfs.FS, error) {
		d, err := vfs.PrivateDir(dir)
		return sick{d, &fails}, err
	}, func() string { return "d" })
	if err := r.Ready(t.Context(), &book{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	m, _ := kept(t, r, dir)
	all := func(int) bool { return false }
	look := func() (bad, scrubbed int, err error) {
		seen, err := r.Look(m.ID())
		set := share.NewSet(m.Layout().Pieces())
		_, err2 := r.Scrub(m, 0, set, all)
		if err == nil && seen.Bad != nil {
			bad = seen.Bad.Count()
		}
		return bad, set.Count(), errors.Join(err, err2)
	}
	fails = func(name string) bool { return strings.HasSuffix(name, "/d/b") }
	if bad, scrubbed, err := look(); bad != 1 || scrubbed != 1 || err != nil {
		t.Error("one file:", bad, scrubbed, err)
	}
	fails = func(name string) bool {
		return strings.HasSuffix(name, "/data/x") || strings.Contains(name, "/data/x/")
	}
	if seen, err := r.Look(m.ID()); err != nil || seen.Whole || seen.Bad.Count() != m.Layout().Pieces() {
		t.Errorf("its folder: %+v, %v", seen, err)
	}
	fails = func(string) bool { return true }
	if bad, scrubbed, err := look(); bad != 0 || scrubbed != 0 || !errors.Is(err, ErrAway) {
		t.Error("all of the disk:", bad, scrubbed, err)
	}
	reads := 0
	fails = func(string) bool { reads++; return reads > 1 } // it goes away as soon as it was seen to be there
	set := share.NewSet(m.Layout().Pieces())
	if _, err := r.Scrub(m, 0, set, all); set.Count() != 0 || !errors.Is(err, ErrAway) {
		t.Error("all of the disk meanwhile:", set.Count(), err)
	}
	fails = func(name string) bool { return strings.HasSuffix(name, "/manifest") }
	if _, err := r.Manifest(m.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("its list of files:", err)
	}
	if seen, err := r.Look(m.ID()); err != nil || seen.Manifest != nil || seen.Gone {
		t.Errorf("its list of files: %+v, %v", seen, err)
	}
}
