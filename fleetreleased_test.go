package fetcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// The list has room for 64 releases of a share. It keeps those written down last, also if the clock of a member was ahead that wrote some of
// those before: a release that it does not say the members that are away do not carry out.
func TestTheListSaysWhatWasReleasedLast(t *testing.T) {
	t.Parallel()
	const depot = peers.ID("12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")
	s, id := FleetStore{KV: memkv.New(), Secret: "the secret of a fleet"}, share.IDOf([]byte("film"))
	const at = "/ip4/192.0.2.1/tcp/1/p2p/" + string(depot)
	l := ListedShare{Ticket: id.String(), Kept: &ListedHold{Depots: []string{at}}, Released: map[peers.ID]time.Time{}}
	for i := range MaxListedDepots {
		l.Released[peers.ID(fmt.Sprint("depot", i))] = time.Now().Add(time.Hour)
	}
	if err := s.put(t.Context(), listKey+id.String(), l); err != nil {
		t.Fatal(err)
	}
	now, err := s.Keep(t.Context(), id, func(*ListedHold) *ListedHold { return nil })
	if err != nil || now.Kept != nil {
		t.Fatalf("%+v, %v", now, err)
	}
	if _, ok := now.Released[depot]; !ok || len(now.Released) != MaxListedDepots {
		t.Errorf("of %d releases, that one is not said: %v", len(now.Released), !ok)
	}
}
