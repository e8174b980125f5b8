package dht

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// One node in the table never answers questions. Sixteen shares that nobody has are looked for; one that somebody has
// is found soon all the same.
func TestSharesThatNobodyHasDoNotKeepOneFromBeingFound(t *testing.T) {
	t.Parallel()
	silent := newSpy(t, func(m *pb.Message) *pb.Message {
		if m.GetType() != pb.Message_FIND_NODE {
			return nil
		}
		return nothing(m)
	})
	server, table := open(t, Config{})
	entry := []string{server.Addrs()[0], silent}
	src, _ := open(t, Config{Entry: entry[:1]})
	id := shared(t, src, "public", 2)
	_, d := open(t, Config{Entry: entry, Quiet: true})
	<-d.ready
	until(t, "both are in the table", func() bool { return d.table.Load().RoutingTable().Size() >= 2 })
	until(t, "the share is entered", func() bool { return remembered(t, []*DHT{table}, id) == 1 })
	for i := range 16 {
		defer d.Find(share.IDOf([]byte(fmt.Sprint(i))), nil, func(peers.Via, peers.Addr) {})()
	}
	until(t, "no other question is let in", func() bool { return len(d.turns) == cap(d.turns) })
	found := make(chan struct{}, 1)
	defer d.Find(id, nil, func(peers.Via, peers.Addr) {
		select {
		case found <- struct{}{}:
		default:
		}
	})()
	select {
	case <-found:
	case <-time.After(15 * time.Second): // if they kept their turns until the spy is given up, it would be 20
		t.Error("not within 15 s")
	}
}
