package dht

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/ipfs/go-datastore"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// invented is a peer that does not exist: an ID with some key.
func invented(i int) peer.ID {
	return peer.ID(binary.BigEndian.AppendUint64(append([]byte{0, 36, 8, 1, 18, 32}, make([]byte, 24)...), uint64(i)))
}

// at is addresses as a message of the table has them.
func at(n int, format string) (out [][]byte) {
	for i := range n {
		out = append(out, ma.StringCast(fmt.Sprintf(format, i>>8&255, i&255)).Bytes())
	}
	return out
}

// Somebody in the table answers with 100 peers that have the share, the first with 10,000 addresses on the
// asker's own network, and 100 nodes that are said to know more. It is believed of few peers and few addresses, none of
// them nearer than the way into the table, and of those only so many are remembered.
func TestAnAnswerIsBelievedWithinBounds(t *testing.T) {
	t.Parallel()
	const many = 100
	var all []*pb.Message_Peer
	for i := range many {
		all = append(all, &pb.Message_Peer{Id: []byte(invented(i)), Addrs: append(at(20, "/ip4/8.8.%d.%d/tcp/4001"), at(5, "/ip4/192.168.%d.%d/tcp/4001")...)})
	}
	all[0].Addrs = append(at(10_000, "/ip4/192.168.%d.%d/tcp/4001"), all[0].Addrs...)
	entry := newSpy(t, func(m *pb.Message) *pb.Message {
		a := nothing(m)
		if a.CloserPeers = all; m.GetType() == pb.Message_GET_PROVIDERS {
			a.ProviderPeers = all
		}
		return a
	})
	n, d := open(t, Config{Entry: []string{entry}, Quiet: true})
	<-d.ready
	until(t, "it is in the table", func() bool { return d.table.Load().RoutingTable().Size() > 0 })
	d.near.Store(share.Anywhere) // as if the way in had a public address
	var mu sync.Mutex
	var told []peers.Addr
	defer d.Find(share.IDOf([]byte("x")), nil, func(_ peers.Via, a peers.Addr) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, a)
	})()
	until(t, "the answer is passed on", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) >= providers-1 // of the first peer perhaps no address is believed
	})
	mu.Lock()
	defer mu.Unlock()
	for _, a := range told {
		if len(a.Addrs) > maxAddrs || strings.Contains(fmt.Sprint(a.Addrs), "192.168.") {
			t.Fatalf("%d addresses are believed: %v", len(a.Addrs), a.Addrs)
		}
	}
	known := d.table.Load().Host().Peerstore()
	for i := range many {
		if got := known.Addrs(invented(i)); len(got) > maxAddrs || strings.Contains(fmt.Sprint(got), "192.168.") {
			t.Fatalf("%d addresses are remembered: %v", len(got), got)
		}
	}
	if n.Way(peers.ID(invented(0).String())) != fetcher.Unconnected {
		t.Error("a peer is connected that does not exist")
	}
}

// Many say that they have one share: a node remembers some of them, and answers with no more.
func TestARecordOfOneShareHasItsBound(t *testing.T) {
	t.Parallel()
	_, d := open(t, Config{})
	<-d.ready
	store, key := d.table.Load().ProviderStore(), keyOf(share.IDOf([]byte("x"))).Hash()
	other := keyOf(share.IDOf([]byte("y"))).Hash()
	for _, k := range [][]byte{key, other} { // they are asked for, and might be kept at hand
		if err := store.AddProvider(t.Context(), k, peer.AddrInfo{ID: invented(9999)}); err != nil {
			t.Fatal(err)
		}
		if got, err := store.GetProviders(t.Context(), k); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
	}
	const many = 450
	var addrs []ma.Multiaddr
	for _, b := range at(100, "/ip4/127.0.%d.%d/tcp/4001") {
		addrs = append(addrs, ma.Cast(b))
	}
	for i := range many {
		if err := store.AddProvider(t.Context(), key, peer.AddrInfo{ID: invented(i), Addrs: addrs}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.GetProviders(t.Context(), key)
	const buffered = 320 // what the library has not written yet
	if err != nil || len(got) > maxOfKey+buffered || len(got) < maxOfKey {
		t.Errorf("%d are remembered: %v", len(got), err)
	}
	for _, p := range got {
		if len(p.Addrs) > maxAddrs {
			t.Fatalf("%d addresses of one", len(p.Addrs))
		}
	}
	if got, err := store.GetProviders(t.Context(), other); err != nil || len(got) != 1 {
		t.Errorf("of another share %d are remembered: %v", len(got), err)
	}
	s := newShelf(1000, 3)
	for i := range 10 {
		if err := s.Put(t.Context(), datastore.NewKey(fmt.Sprint("/providers/one/", i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if s.len() != 3 {
		t.Errorf("%d of one share", s.len())
	}
}

// A node that others could not reach answers nobody, and begins to when it gets an address at which they can: what
// it was told before is still there when it loses that again.
func TestANodeAnswersOthersWhileTheyCanReachIt(t *testing.T) {
	t.Parallel()
	entry, _ := nodes(t, 1)
	var mu sync.Mutex
	var addrs []string
	reached := func(is bool) {
		mu.Lock()
		defer mu.Unlock()
		if addrs = nil; is {
			addrs = []string{"/ip4/127.0.0.1/tcp/4001"}
		}
	}
	d, err := New(Config{Entry: entry})
	if err != nil {
		t.Fatal(err)
	}
	n, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Discovery: moving{d, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return addrs
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	<-d.ready
	serves := func() bool {
		for _, p := range d.table.Load().Host().Mux().Protocols() {
			if p == d.speaks() {
				return true
			}
		}
		return false
	}
	until(t, "it is in the table", func() bool { return d.table.Load().RoutingTable().Size() > 0 })
	if serves() {
		t.Error("it answers others, who cannot reach it")
	}
	for _, is := range []bool{true, false, true} {
		reached(is)
		until(t, fmt.Sprintf("it serves: %v", is), func() bool { d.Changed(); return serves() == is })
	}
}

// moving is a DHT of a node whose addresses change.
type moving struct {
	*DHT
	addrs func() []string
}

func (m moving) Start(n fetcher.Local) {
	n.Addrs = m.addrs
	m.DHT.Start(n)
}

// A node that was named as the way into the table, and is not there, is named to the user, once.
func TestAWayInThatIsDeadIsNamed(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	var mu sync.Mutex
	dead, too := invented(1), invented(2)
	_, d := open(t, Config{Entry: []string{"/ip4/127.0.0.1/tcp/9/p2p/" + dead.String(), "/ip4/127.0.0.1/tcp/9/p2p/" + too.String()}, Quiet: true, Logger: slog.New(slog.NewTextHandler(locked{&mu, &said}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	until(t, "it is named", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(said.String(), peers.ID(dead.String()).Short()+" (refused") && strings.Contains(said.String(), "), "+peers.ID(too.String()).Short()+" (")
	})
	if s := d.Away(); !strings.Contains(s, peers.ID(dead.String()).Short()+" (refused") {
		t.Errorf("it is away as %q", s)
	}
}

type locked struct {
	mu *sync.Mutex
	to *strings.Builder
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// Strangers who enter something name as many addresses as this node remembers, each for an hour. Some of them make way for new ones: whoever
// enters a share afterwards is named with where it is, and the nodes that a question leads to can be asked.
func TestStrangersDoNotTakeTheRoomForAddressesOfOthers(t *testing.T) {
	t.Parallel()
	_, d := open(t, Config{})
	<-d.ready
	store, known := d.table.Load().ProviderStore(), d.table.Load().Host().Peerstore()
	var addrs []ma.Multiaddr
	for _, b := range at(maxAddrs, "/ip4/127.0.%d.%d/tcp/4001") {
		addrs = append(addrs, ma.Cast(b))
	}
	const strangers = maxNamed / maxAddrs
	for i := range strangers {
		key := keyOf(share.IDOf(fmt.Append(nil, i))).Hash()
		if err := store.AddProvider(t.Context(), key, peer.AddrInfo{ID: invented(i), Addrs: addrs}); err != nil {
			t.Fatal(err)
		}
	}
	key := keyOf(share.IDOf([]byte("x"))).Hash()
	if err := store.AddProvider(t.Context(), key, peer.AddrInfo{ID: invented(strangers), Addrs: addrs[:1]}); err != nil {
		t.Fatal(err)
	}
	if got, err := store.GetProviders(t.Context(), key); err != nil || len(got) != 1 || len(got[0].Addrs) != 1 {
		t.Errorf("who has the share is named as %v: %v", got, err)
	}
	known.AddAddrs(invented(strangers+1), addrs[:1], peerstore.TempAddrTTL)
	if got := known.Addrs(invented(strangers + 1)); len(got) != 1 {
		t.Errorf("a node to be asked is said to be at %v", got)
	}
}
