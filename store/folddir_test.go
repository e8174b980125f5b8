package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// Two folders that a file system treats as one are refused, or hold what belongs into both: also after a kill, when
// all of it is found below one of the names.
func TestFoldersThatFallTogetherDoNotEndlesslyBeginAgain(t *testing.T) {
	r := newRig(t, tree{"D/a": random(10), "d/b": random(3 * share.MinPiece)})
	d := storetest.New(1 << 30)
	d.FoldCase = true
	open := func() *store.Partial {
		p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{})
		check(t, err)
		return p
	}
	p := open()
	for piece := range share.Piece(2) {
		if err := copyPiece(p, r.im.Tree, piece, 1); errors.Is(err, share.ErrPath) {
			return
		}
	}
	p.Sync()
	d.Kill()
	var err error
	for range 3 { // whoever is told that a file was replaced opens it again
		p = open()
		for piece := range share.FullSet(r.m.Layout().Pieces()).Minus(p.Verified()).All() {
			if e := copyPiece(p, r.im.Tree, piece, 1); e != nil {
				err = e
			}
		}
		if _, e := p.Finish(t.Context()); e == nil || errors.Is(err, share.ErrPath) {
			return
		}
		check(t, p.Close())
	}
	t.Errorf("it never ends: %v", err)
}
