package store_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/store"
)

// A file that is wanted only once the transfer runs, and lies at its place as it is in the share, is taken as it is, as if it had been wanted
// from the start; and so is one that is put there meanwhile. One that differs is left as it is, and could be repaired.
func TestWhatIsWantedLaterAndThereIsTakenAsItIs(t *testing.T) {
	for _, x := range []struct {
		now, later string // what is at b, when the transfer begins and before it ends
		err        error
	}{
		{"right", "right", nil},
		{"", "right", nil},
		{"wrong", "wrong", store.ErrRepairable},
		{"longer", "longer", store.ErrRepairable},
	} {
		r := newMended(t, tree{"a": random(10), "b": "right"})
		r.must(os.Remove(r.path("a")))
		r.must(os.Remove(r.path("b")))
		put := func(content string) {
			if content != "" {
				r.must(os.WriteFile(r.path("b"), []byte(content), 0o666))
			}
		}
		put(x.now)
		p, err := store.OpenPartial(t.Context(), r.dir, r.im.Manifest, store.PartialOptions{Wanted: only(r.im.Manifest, "a")})
		r.must(err)
		p.Select(nil)
		copyAll(t, p, r.im.Tree)
		put(x.later)
		_, err = p.Finish(t.Context())
		if got := made(p); !errors.Is(err, x.err) || slices.Contains(got, "b") {
			t.Errorf("%q, then %q: %v, made %v", x.now, x.later, err, got)
		}
		if got, err := os.ReadFile(r.path("b")); string(got) != x.later {
			t.Errorf("%q was replaced by %q (%v)", x.later, got, err)
		}
		if err == nil {
			r.check()
		}
		r.must(p.Close())
	}
}
