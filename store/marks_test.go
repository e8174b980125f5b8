package store_test

import (
	"fmt"
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// The marks of small files are written together, and are there before a kill can matter: what was
// noted or synced is not hashed again.
func TestMarksOfSmallFilesAreWrittenTogether(t *testing.T) {
	testrig.Slow(t)
	t.Parallel()
	tr := tree{}
	for i := range 700 { // the last is noted when its mark has not been written for others yet
		tr[fmt.Sprintf("%03d", i)] = random(9<<10) + fmt.Sprint(i)
	}
	r := newRig(t, tr)
	pieces := share.Piece(r.m.Layout().Pieces())
	for what, sync := range map[string]bool{"noted": false, "synced": true} {
		d := storetest.New(1 << 30)
		writes := 0
		d.Fault = func(op storetest.Op) error {
			if op.Kind == "write" && strings.HasSuffix(op.Name, ".partial/marks") {
				writes++
			}
			return nil
		}
		p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Workers: 1})
		check(t, err)
		for piece := range pieces {
			check(t, copyPiece(p, r.im.Tree, piece, 16))
		}
		if sync {
			_, err := p.Sync()
			check(t, err)
		}
		if most := int(pieces) + 20; writes < int(pieces) || writes > most {
			t.Errorf("%s: %d writes of marks, and one of each file and a few together are %d", what, writes, most)
		}
		d.Kill()
		p, err = store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Workers: 1})
		check(t, err)
		if n := p.Verified().Count(); n < 256 || sync && n < int(pieces) {
			t.Errorf("%s: %d pieces are here of %d", what, n, pieces)
		}
		_, err = p.Sync() // what is in doubt is hashed
		check(t, err)
		if n := store.HashedAgain(p); n != 0 {
			t.Errorf("%s: %d bytes were hashed again", what, n)
		}
		if aside := p.Aside(); len(aside) > 0 {
			t.Errorf("%s: set aside: %v", what, aside)
		}
		check(t, p.Close())
	}
}
