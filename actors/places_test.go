package actors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/peers"
)

func TestAddressesOfASourceAreBoundedAndTriedInTurn(t *testing.T) {
	p := places{{"first"}}
	for i := range 10 {
		if addrs := []string{fmt.Sprint(i)}; !p.also(addrs) || p.also(addrs) {
			t.Error(i, "is not new once")
		}
	}
	var tried []string
	for i := range 2 * maxPlaces {
		tried = append(tried, p.try(i)[0])
	}
	if want := []string{"first", "7", "8", "9", "first", "7", "8", "9"}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

func TestEachPeerHasOneWordOnWhereAnotherIs(t *testing.T) {
	w := &search{known: map[peers.ID][]naming{}}
	said := func(by peers.ID, addrs ...string) bool { return w.news(peers.Addr{ID: "x", Addrs: addrs}, by) }
	switch {
	case !said("liar", "wrong"):
		t.Error("what the first says is no news")
	case said("liar", "wrong too"):
		t.Error("it was heard a second time")
	case said("friend", "wrong"):
		t.Error("what was said before is news")
	case !said("honest", "right"):
		t.Error("what another says is no news")
	}
	for i := range 100 {
		said(peers.ID(fmt.Sprint(i)), make([]string, 100)...)
		said(peers.ID(fmt.Sprint(i)), fmt.Sprint(i))
	}
	if n := len(w.known["x"]); n > maxNamers {
		t.Errorf("%d are remembered", n)
	}
	for _, n := range w.known["x"] {
		if len(n.addrs) > maxAddrs {
			t.Errorf("%d addresses of one", len(n.addrs))
		}
	}
}
