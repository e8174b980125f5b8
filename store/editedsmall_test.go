package store_test

import (
	"bytes"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// A file that was fetched, and then edited by somebody, is not removed after a kill: it is moved aside, also if it was
// whole after one write, whose end was not noted yet. What nobody edited is ours.
func TestAFileEditedBeforeAKillIsNotRemoved(t *testing.T) {
	const tiny, small, words = 3 << 10, 9 << 10, "what somebody wrote here, and has nowhere else"
	for name, x := range map[string]struct {
		size int
		edit int64 // where; -1: no edit
	}{
		"a small file":              {small, 100},
		"the end of a small file":   {small, small},
		"a large file":              {300 << 10, 100},
		"a small file, not edited":  {small, -1},
		"a large file, not edited":  {300 << 10, -1},
		"a small file made to grow": {small, 1 << 40},
		"a file of a page":          {tiny, 100},
		"the end of one":            {tiny, tiny},
		"a page, not edited":        {tiny, -1},
	} {
		r := newRig(t, tree{"a": random(x.size), "b": random(small) + "b"})
		d := storetest.New(1 << 60)
		open := func() *store.Partial {
			p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Workers: 1})
			check(t, err)
			return p
		}
		check(t, copyPiece(open(), r.im.Tree, 0, 1)) // block by block: the large file is not whole after one write
		if x.edit >= 0 {
			f, err := d.FS().Edit("stuff.partial/data/a")
			check(t, err)
			f.WriteAt([]byte(words), x.edit)
		}
		d.Kill()
		p := open()
		if x.edit < 0 {
			if len(p.Aside()) > 0 {
				t.Errorf("%s was moved to %q", name, p.Aside())
			}
			p.Close()
			continue
		}
		if len(p.Aside()) != 1 {
			t.Fatalf("%s: aside is %q", name, p.Aside())
		}
		if x.edit < 1<<30 {
			b, err := vfs.ReadFile(d.FS(), p.Aside()[0], 1<<20)
			if !bytes.Contains(b, []byte(words)) {
				t.Errorf("%s: the edit is gone: %v", name, err)
			}
		}
		p.Close()
	}
}
