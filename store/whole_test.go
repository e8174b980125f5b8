package store_test

import (
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/wire"
)

// A node that has fetched some files of a share, and serves them on, does not say that it has every piece.
func TestAFinishedSelectionIsNotWhole(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	wanted := only(im.Manifest, "big")
	p := openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{Wanted: wanted})
	o := store.NewOffers()
	t.Cleanup(o.Close)
	o.Add(p)
	if err := copyWanted(p, im.Tree, wanted); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	lacks := 0
	for q := range im.Manifest.Layout().Pieces() {
		if _, r := o.Check(im.Manifest.ID(), share.Piece(q), 0, 1); r.Status == wire.NotFound {
			lacks++
		}
	}
	if _, r := o.Manifest(im.Manifest.ID()); r.Whole && lacks > 0 {
		t.Errorf("it says that it has every piece, and lacks %d of %d", lacks, im.Manifest.Layout().Pieces())
	}
}
