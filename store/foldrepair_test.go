package store_test

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A file of the share that a file system takes for another of the share is not replaced by that, though a repair is asked for, nor is
// the share done then.
func TestARepairDoesNotReplaceOneFileOfTheShareByAnother(t *testing.T) {
	r := newRig(t, tree{"File": random(10), "file": random(10), "x": "x"})
	for name, wanted := range map[string][]bool{"whole": nil, "both": only(r.m, "File", "file"), "the other": only(r.m, "file")} {
		d := storetest.New(1 << 30)
		d.FoldCase = true
		p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Wanted: only(r.m, "File")})
		check(t, err)
		check(t, copyWanted(p, r.im.Tree, only(r.m, "File")))
		_, err = p.Finish(t.Context())
		check(t, err)
		check(t, p.Close())
		p, err = store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Wanted: wanted, Repair: true})
		if err == nil {
			if err = copyWanted(p, r.im.Tree, wanted); err == nil {
				_, err = p.Finish(t.Context())
			}
			check(t, p.Close())
		}
		if !errors.Is(err, share.ErrPath) && !errors.Is(err, share.ErrExists) {
			t.Errorf("%s: two files of one name are repaired: %v", name, err)
		}
		if b, err := content(d.FS(), "stuff/File"); string(b) != r.tree["File"] {
			t.Errorf("%s: a file of the share was replaced by another of it (%v)", name, err)
		}
	}
}
