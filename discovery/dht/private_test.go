package dht

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
)

// A node that takes part in no table, and has a private share, is a source of one that serves the table.
// That one does not tell strangers where it is; least of all at addresses that it would not itself believe.
func TestANodeOutsideTheTableIsToldToNobody(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for what, first := range map[string]bool{"by one that came in at a near address": false, "by one that believes public addresses alone": true} {
		t.Run(what, func(t *testing.T) {
			friend, fd := open(t, Config{}) // no nearer address than a public one is believed
			entry := friend.Addrs()[:1]
			if !first {
				friend, fd = open(t, Config{Entry: entry})
			}
			<-fd.ready
			src, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { src.Close() })
			s, err := src.Share(t.Context(), someFile(t, "private"), fetcher.ShareOptions{Visible: fetcher.Private})
			if err != nil {
				t.Fatal(err)
			}
			f, err := friend.Fetch(t.Context(), s.Ticket(), fetcher.FetchOptions{Dir: t.TempDir(), Keep: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, sd := open(t, Config{Entry: entry})
			<-sd.ready
			until(t, "the stranger is in the table", func() bool { return sd.table.Load().RoutingTable().Size() > 0 })
			id, err := peer.Decode(string(src.ID()))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if at, err := sd.table.Load().FindPeer(t.Context(), id); err == nil {
					t.Fatalf("the table says that a node outside it is at %v", at.Addrs)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}
