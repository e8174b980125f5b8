package store_test

import (
	"os"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/store"
)

// Two wrong files that are one file with two names, as programs make that look for files that are equal, are both replaced: that the
// first is, changes the other no more than the time of its last link.
func TestWrongFilesThatAreLinkedAreRepaired(t *testing.T) {
	x := newMended(t, tree{"a": "the same", "b": "the same", "c": "another"})
	x.write("a", "different")
	x.must(os.Remove(x.path("b")))
	x.must(os.Link(x.path("a"), x.path("b")))
	p, err := x.open(store.PartialOptions{})
	x.must(err)
	if got := p.Replaces(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatal(got)
	}
	copyAll(t, p, x.im.Tree)
	if _, err := p.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.must(p.Close())
	x.check()
}
