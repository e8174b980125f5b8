package store_test

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/store"
)

// A file that is wanted only once the transfer runs, and lies at its place as it is in the share, is taken as it is, as if it had been wanted
// from the start.
func TestWhatIsWantedLaterAndThereIsTakenAsItIs(t *testing.T) {
	x := newMended(t, tree{"a": random(10), "b": random(10)})
	x.must(os.Remove(x.path("a")))
	p, err := store.OpenPartial(t.Context(), x.dir, x.im.Manifest, store.PartialOptions{Wanted: only(x.im.Manifest, "a")})
	x.must(err)
	defer p.Close()
	p.Select(nil)
	copyAll(t, p, x.im.Tree)
	if _, err := p.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.check()
}
