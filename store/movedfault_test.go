package store_test

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A disk that fails while it is looked whether folders were moved does not make another program of it that moved them.
func TestAFolderThatCannotBeLookedAtWasNotMoved(t *testing.T) {
	r := newRig(t, tree{"a": random(10), "b": random(20), "c": random(30)})
	for _, at := range []string{"stuff.partial", "stuff.partial/data", "stuff"} {
		d := storetest.New(1 << 30)
		if at == "stuff" { // into which more is fetched
			p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Wanted: only(r.m, "a")})
			check(t, err)
			check(t, copyWanted(p, r.im.Tree, only(r.m, "a")))
			_, err = p.Finish(t.Context())
			check(t, err)
			check(t, p.Close())
		}
		p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
		check(t, err)
		check(t, copyWanted(p, r.im.Tree, nil))
		d.Fault = func(op storetest.Op) error {
			if op.Kind == "lstat" && op.Name == at {
				return errDisk
			}
			return nil
		}
		if _, err = p.Finish(t.Context()); errors.Is(err, share.ErrChanged) || errors.Is(err, share.ErrExists) {
			t.Errorf("%s: %v", at, err)
		}
		d.Fault = nil
		if _, err := p.Finish(t.Context()); err != nil {
			t.Errorf("%s, then: %v", at, err)
		}
		check(t, p.Close())
	}
}
