package store_test

import (
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// What is not wanted keeps nothing from being fetched, though this system could not hold the name of the file, or of a folder above it.
func TestNamesThatAreNotWantedAreInNobodysWay(t *testing.T) {
	long := strings.Repeat("n", 300)
	for _, path := range []string{long, long + "/b", "a/" + long + "/b"} {
		m, err := share.NewManifest("stuff/", []share.Entry{{Path: "0", Root: share.EmptyRoot}, {Path: path, Root: share.EmptyRoot}})
		check(t, err)
		p, err := store.OpenPartial(t.Context(), t.TempDir(), m, store.PartialOptions{Wanted: []bool{true, false}})
		if err != nil {
			t.Errorf("%.20s...: %.200v", path, err)
			continue
		}
		_, err = p.Finish(t.Context())
		check(t, err)
		check(t, p.Close())
	}
}
