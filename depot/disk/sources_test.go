package disk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Each peer that holds a share says where it is; however many say so, the word of the first few and of the last one counts.
func TestNobodyCrowdsOutTheSourcesOfOthers(t *testing.T) {
	r, _ := ready(t)
	id := share.IDOf([]byte("x"))
	if err := writeWhole(r, id, nil); err != nil {
		t.Fatal(err)
	}
	say := func(by peers.ID, names ...peers.ID) {
		t.Helper()
		var from []peers.Addr
		for _, n := range names {
			from = append(from, peers.Addr{ID: n, By: by})
		}
		if err := r.SaveSources(id, by, from); err != nil {
			t.Fatal(err)
		}
	}
	are := func(want ...string) {
		t.Helper()
		var got []string
		for _, a := range r.Sources(id) {
			got = append(got, fmt.Sprintf("%s:%s", a.By, a.ID))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	say("a", "a", "mirror")
	say("b", "b", "mirror") // perhaps at a place where nothing is
	are("a:a", "a:mirror", "b:b", "b:mirror")
	say("a", "a")
	are("a:a", "b:b", "b:mirror")
	for _, x := range "cdefghijk" {
		say(peers.ID(x), peers.ID(x))
	}
	are("a:a", "b:b", "b:mirror", "c:c", "d:d", "e:e", "f:f", "g:g", "k:k")
	say("k", "other")
	say("a")
	are("b:b", "b:mirror", "c:c", "d:d", "e:e", "f:f", "g:g", "k:other")
}
