package dht

import (
	"fmt"
	"sync/atomic"
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
	server, _ := open(t, Config{})
	entry := []string{server.Addrs()[0], silent}
	src, _ := open(t, Config{Entry: entry[:1]})
	id := shared(t, src, "public", 2)
	_, d := open(t, Config{Entry: entry, Quiet: true})
	<-d.ready
	until(t, "both are in the table", func() bool { return d.table.Load().RoutingTable().Size() >= 2 })
	time.Sleep(2 * time.Second) // the share is entered
	for i := range 16 {
		defer d.Find(share.IDOf([]byte(fmt.Sprint(i))), nil, func(peers.Via, peers.Addr) {})()
	}
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	var found atomic.Bool
	defer d.Find(id, nil, func(peers.Via, peers.Addr) { found.Store(true) })()
	for !found.Load() && time.Since(begun) < 70*time.Second {
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v (found: %v)", took, found.Load())
	} else {
		t.Logf("it took %v", took)
	}
}
