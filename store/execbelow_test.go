package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// execBelow is a folder in which sub is a disk that is known to have no permissions: no file can be executed there.
type execBelow struct{ vfs.FS }

func (d execBelow) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	switch {
	case err != nil:
		return nil, err
	case name == "sub" || strings.HasSuffix(name, "/sub"):
		return fixedExec{FS: sub, told: true}, nil
	}
	return execBelow{sub}, nil
}

// What lies on a disk without permissions that is mounted below the target is the share, though the disk of the target keeps
// executable bits.
func TestWhatIsOnADiskWithoutPermissionsBelowTheTargetIsTheShare(t *testing.T) {
	x := newMended(t, tree{"top": "here", "sub/run*": "#!"})
	x.must(os.Chmod(x.path("sub/run"), 0o666))
	dir, err := vfs.Dir(x.dir)
	x.must(err)
	defer dir.Close()
	for name, wanted := range map[string][]bool{"whole": nil, "part": only(x.im.Manifest, "sub/run")} {
		for _, repair := range []bool{false, true} {
			p, err := store.OpenPartialIn(t.Context(), execBelow{dir}, x.im.Manifest, store.PartialOptions{Wanted: wanted, Repair: repair})
			if err != nil {
				t.Errorf("%s, repair %v: %v", name, repair, err)
				continue
			}
			if _, done := p.Done(); !done {
				t.Errorf("%s, repair %v: it is not the share, and %q is to be replaced", name, repair, p.Replaces())
			}
			check(t, p.Close())
		}
	}
}
