package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// Where names of different case are the same, a share with two such names cannot be: neither of files, nor of folders, which would become one.
func TestNamesThatDifferInCaseAreToldWhereTheyAreTheSame(t *testing.T) {
	for name, tr := range map[string]tree{
		"files":   {"Name": "one", "name": "two"},
		"folders": {"Dir/a": "one", "dir/b": "two"},
	} {
		src := filepath.Join(t.TempDir(), "stuff")
		tr.make(t, src)
		im := importDir(t, src, store.ImportOptions{})
		at, _ := testrig.ExFAT(t)
		p := openPart(t, at, im.Manifest, store.PartialOptions{})
		var err error
		for piece := range share.Piece(2) {
			err = errors.Join(err, copyPiece(p, im.Tree, piece, 1))
		}
		_, e := p.Finish(t.Context())
		if err = errors.Join(err, e); !errors.Is(err, share.ErrPath) {
			t.Errorf("%s: %v, want %v", name, err, share.ErrPath)
		}
	}
}
