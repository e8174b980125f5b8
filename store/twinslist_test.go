package store_test

import (
	"fmt"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A share of which all folders have names that differ in nothing but capitals costs no listing of all folders for each of them, where
// that matters and half of them are wanted, or where it does not: whoever makes the share decides how many there are.
func TestManyNamesThatFallTogetherCostNoListingForEach(t *testing.T) {
	const pairs = 500
	var entries []share.Entry
	for i := range pairs {
		entries = append(entries, share.Entry{Path: fmt.Sprintf("A%04d/f", i), Root: share.EmptyRoot}, share.Entry{Path: fmt.Sprintf("a%04d/f", i), Root: share.EmptyRoot})
	}
	m, err := share.NewManifest("stuff/", entries)
	check(t, err)
	half := make([]bool, m.Len())
	for i, e := range m.Entries() {
		half[i] = e.Path[0] == 'A'
	}
	for what, wanted := range map[string][]bool{"all": nil, "half": half} {
		d := storetest.New(1 << 30)
		d.FoldCase = wanted != nil
		lists := 0
		d.Fault = func(op storetest.Op) error {
			if op.Kind == "readdir" && (op.Name == "stuff" || op.Name == "stuff.partial/data") {
				lists++
			}
			return nil
		}
		for range 2 {
			p, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{Wanted: wanted})
			check(t, err)
			_, err = p.Finish(t.Context())
			check(t, err)
			check(t, p.Close())
		}
		if lists > 10 {
			t.Errorf("%s: to fetch %d folders twice, the one above was listed %d times", what, 2*pairs, lists)
		}
	}
}
