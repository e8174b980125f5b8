package store_test

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A disk that fails while a target is looked at does not make the target another one: nothing would be tried again then.
func TestATargetThatCannotBeReadNowDoesNotCountAsAnother(t *testing.T) {
	r := newRig(t, tree{"a/one": random(10), "big": random(2 * share.MinPiece)})
	d := storetest.New(1 << 30)
	if _, err := r.fetch(d.FS(), 1); err != nil {
		t.Fatal(err)
	}
	for name, wanted := range map[string][]bool{"whole": nil, "part": only(r.m, "big")} {
		for _, kind := range []string{"readdir", "lstat", "open", "stat", "read", "sub"} {
			d.Fault = func(op storetest.Op) error {
				if op.Kind == kind && (op.Name == "stuff/big" || op.Name == "stuff/a") {
					return errDisk
				}
				return nil
			}
			p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Wanted: wanted, Workers: 1})
			d.Fault = nil
			if err == nil {
				check(t, p.Close())
			} else if errors.Is(err, share.ErrExists) {
				t.Errorf("%s, %s fails: %v", name, kind, err)
			}
		}
	}
}
