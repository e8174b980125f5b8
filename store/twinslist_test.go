package store_test

import (
	"fmt"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A share of which all folders have names that differ in nothing but capitals costs no listing of all folders for each of them: whoever
// makes the share decides how many there are.
func TestManyNamesThatFallTogetherCostNoListingForEach(t *testing.T) {
	const pairs = 500
	var entries []share.Entry
	for i := range pairs {
		entries = append(entries, share.Entry{Path: fmt.Sprintf("A%04d/f", i), Root: share.EmptyRoot}, share.Entry{Path: fmt.Sprintf("a%04d/f", i), Root: share.EmptyRoot})
	}
	m, err := share.NewManifest("stuff/", entries)
	check(t, err)
	d := storetest.New(1 << 30)
	lists := 0
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "readdir" {
			lists++
		}
		return nil
	}
	p, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{})
	check(t, err)
	_, err = p.Finish(t.Context())
	check(t, err)
	check(t, p.Close())
	if lists > pairs/10 {
		t.Errorf("to fetch %d folders, folders were listed %d times", 2*pairs, lists)
	}
}
