package dht

import (
	"testing"

	"github.com/libp2p/go-libp2p"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	p2pnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-msgio"
	"google.golang.org/protobuf/proto"
)

// newSpy is somebody in the table, whose answers are those of answer: nil is none. It returns how others
// come in by it.
func newSpy(t *testing.T, answer func(asked *pb.Message) *pb.Message) (entry string) {
	t.Helper()
	spy, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spy.Close() })
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
			a := answer(&m)
			if a == nil {
				continue
			}
			if b, err = proto.Marshal(a); err != nil || out.WriteMsg(b) != nil {
				return
			}
		}
	})
	return spy.Addrs()[0].String() + "/p2p/" + spy.ID().String()
}

// nothing is the answer of somebody who knows nobody.
func nothing(m *pb.Message) *pb.Message { return &pb.Message{Type: m.Type, Key: m.Key} }
