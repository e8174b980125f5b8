package store_test

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// Where capitals do not count, folders of the share that fall together are refused, at the first of the second; and so is one that somebody
// has given other capitals, in which nothing of the share would be found again. Else the fetch would begin again and again.
func TestFoldersThatFallTogetherDoNotEndlesslyBeginAgain(t *testing.T) {
	for name, x := range map[string]struct {
		tree   tree
		rename bool
	}{
		"two folders": {tree: tree{"D/a": random(10), "d/b": random(10)}},
		"renamed":     {tree: tree{"d/b": random(10), "x": random(10)}, rename: true},
	} {
		r := newRig(t, x.tree)
		d := storetest.New(1 << 30)
		d.FoldCase = true
		for again := range 2 {
			p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
			check(t, err)
			err = copyPiece(p, r.im.Tree, 0, 1)
			if err == nil {
				err = copyPiece(p, r.im.Tree, 1, 1)
			}
			if wrong := again == 1 || !x.rename; errors.Is(err, share.ErrPath) != wrong {
				t.Errorf("%s: %v", name, err)
			}
			p.Sync()
			d.Kill()
			if x.rename && again == 0 {
				check(t, d.FS().Move("stuff.partial/data/d", "stuff.partial/data/e"))
				check(t, d.FS().Move("stuff.partial/data/e", "stuff.partial/data/D"))
			}
		}
	}
}
