package dht

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	p2pnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-msgio"
	"google.golang.org/protobuf/proto"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// One node in the table never answers questions. Sixteen shares that nobody has are looked for; one that somebody has
// is found soon all the same.
func TestSharesThatNobodyHasDoNotKeepOneFromBeingFound(t *testing.T) {
	t.Parallel()
	spy, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	spy.SetStreamHandler("/fetcher/kad/1.0.0", func(s p2pnet.Stream) {
		defer s.Close()
		in, out := msgio.NewVarintReader(s), msgio.NewVarintWriter(s)
		for {
			b, err := in.ReadMsg()
			if err != nil {
				return
			}
			var m pb.Message
			if proto.Unmarshal(b, &m) != nil {
				return
			}
			if m.GetType() != pb.Message_FIND_NODE {
				continue // no answer
			}
			b, _ = proto.Marshal(&pb.Message{Type: m.Type, Key: m.Key})
			if out.WriteMsg(b) != nil {
				return
			}
		}
	})
	server, _ := open(t, Config{})
	entry := []string{server.Addrs()[0], spy.Addrs()[0].String() + "/p2p/" + spy.ID().String()}
	src, _ := open(t, Config{Entry: entry[:1]})
	id := shared(t, src, "public", 2)
	_, d := open(t, Config{Entry: entry, Quiet: true})
	<-d.ready
	until(t, "both are in the table", func() bool { return d.table.RoutingTable().Size() >= 2 })
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
