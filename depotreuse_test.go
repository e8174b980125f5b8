package fetcher_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
)

// Of an edited folder a depot fetches what has changed, and takes the rest from the version that it has; of what another
// account holds it takes nothing.
func TestOfAnEditTheDepotFetchesWhatHasChanged(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	k := newKeeper(t)
	owner, other := client(t), client(t)
	k.account(owner, 1<<30)
	k.account(other, 1<<30)
	const size = 12 << 20
	dir := folderOf(t, map[string]int{"film": size, "notes": 70_000, "empty": 0})
	arrives := func(n int) int64 {
		before, _ := k.node.Traffic()
		who := owner
		if n == 3 {
			who = other
		}
		s := k.hold(who, dir, 10*day)
		k.until(s.ID(), depot.Stable)
		after, _ := k.node.Traffic()
		seen, err := k.root.Look(s.ID())
		k.ok(err)
		if !seen.Whole || seen.Bad.Count() > 0 {
			t.Errorf("version %d is not whole: %+v", n, seen)
		}
		return after - before
	}
	if n := arrives(1); n < size {
		t.Errorf("the first version took %d bytes of %d", n, size)
	}
	edit := func(at int64) {
		f, err := os.OpenFile(filepath.Join(dir, "film"), os.O_RDWR, 0)
		k.ok(err)
		_, err = f.WriteAt([]byte("a new word"), at)
		k.ok(err)
		k.ok(f.Close())
	}
	edit(size / 2)
	k.ok(os.Rename(filepath.Join(dir, "notes"), filepath.Join(dir, "letters")))
	k.ok(os.WriteFile(filepath.Join(dir, "more"), make([]byte, 5_000), 0o600))
	n := arrives(2)
	if t.Logf("an edit of ten bytes and a new file of 5,000 took %d bytes of %d", n, size); n > 3<<20 {
		t.Error("that is more than the pieces that have changed")
	}
	edit(size / 4)
	if n := arrives(3); n < size {
		t.Errorf("what another account holds is taken for an account that has nothing: %d bytes", n)
	}
}
