package store_test

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A folder that was copied to where capitals do not count has one file for two of the share: it has the name of the first, and the bytes of
// the second. It is that, and a repair does not replace it by the first, whose name it has; nor is the share whole then.
func TestARepairDoesNotReplaceAFileThatHasTheNameOfAnother(t *testing.T) {
	r := newRig(t, tree{"File": random(10), "file": random(10), "x": "x"})
	d := storetest.New(1 << 30)
	d.FoldCase = true
	check(t, d.FS().Mkdir("stuff"))
	for name, b := range map[string]string{"File": r.tree["file"], "x": "x"} {
		f, err := d.FS().Create("stuff/"+name, false)
		check(t, err)
		_, err = f.WriteAt([]byte(b), 0)
		check(t, err)
		check(t, f.Close())
	}
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Repair: true})
	if err == nil {
		if err = copyWanted(p, r.im.Tree, nil); err == nil {
			_, err = p.Finish(t.Context())
		}
		check(t, p.Close())
	}
	if !errors.Is(err, share.ErrPath) && !errors.Is(err, share.ErrExists) {
		t.Errorf("two files of one name are repaired: %v", err)
	}
	if b, err := content(d.FS(), "stuff/file"); string(b) != r.tree["file"] {
		t.Errorf("a file of the share was replaced by another of it (%v)", err)
	}
}
