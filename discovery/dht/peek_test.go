package dht

import (
	"bytes"
	"sync"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher"
)

// Somebody in the table writes down what it is asked. Of a private share that is fetched by a ticket, whose
// source answers, it learns neither who has it nor that it is fetched.
func TestAStrangerInTheTableLearnsNothingOfAPrivateFetch(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	type asked struct {
		what string
		key  []byte
	}
	var all []asked
	entry := []string{newSpy(t, func(m *pb.Message) *pb.Message {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, asked{m.GetType().String(), bytes.Clone(m.GetKey())})
		return nothing(m)
	})}
	src, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	path := someFile(t, "private")
	s, err := src.Share(t.Context(), path, fetcher.ShareOptions{Visible: fetcher.Private})
	if err != nil {
		t.Fatal(err)
	}
	n, d := open(t, Config{Entry: entry, Quiet: true})
	<-d.ready
	until(t, "it is in the table", func() bool { return d.table.Load().RoutingTable().Size() > 0 })
	f, err := n.Fetch(t.Context(), s.Ticket(), fetcher.FetchOptions{Dir: t.TempDir(), Keep: true, Visible: fetcher.Private})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	id, _ := peer.Decode(string(src.ID()))
	mu.Lock()
	defer mu.Unlock()
	for _, x := range all {
		switch {
		case string(x.key) == string(id):
			t.Errorf("%s: it is told in clear that this node looks for %s, the source in a private ticket", x.what, src.ID())
		case bytes.Equal(x.key, keyOf(s.ID()).Hash()):
			t.Logf("%s: and that it looks for the key of the share", x.what)
		}
	}
}
