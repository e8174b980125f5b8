package dht

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	ma "github.com/multiformats/go-multiaddr"
	"lukechampine.com/blake3"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// open is a node with a DHT of its own kind, on this machine.
func open(t *testing.T, cfg Config) (*fetcher.Node, *DHT) {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Discovery: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return n, d
}

// nodes makes a table of some nodes; all come in through the first.
func nodes(t *testing.T, size int) (entry []string, all []*DHT) {
	for range size {
		n, d := open(t, Config{Entry: entry})
		if all = append(all, d); entry == nil {
			entry = n.Addrs()[:1]
		}
	}
	return entry, all
}

// remembered is how many records of a share some nodes remember for others.
func remembered(t *testing.T, all []*DHT, id share.ID) (n int) {
	for _, d := range all {
		<-d.ready
		got, err := d.table.Load().ProviderStore().GetProviders(t.Context(), keyOf(id).Hash())
		if err != nil {
			t.Fatal(err)
		}
		n += len(got)
	}
	return n
}

func shared(t *testing.T, n *fetcher.Node, name string, v fetcher.Visibility) share.ID {
	t.Helper()
	s, err := n.Share(t.Context(), someFile(t, name), fetcher.ShareOptions{Visible: v})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 30 s:", what)
		}
	}
}

func someFile(t *testing.T, name string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Repeat(name, 1<<16)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func fetch(t *testing.T, n *fetcher.Node, ticketOrID, want string) *fetcher.Transfer {
	t.Helper()
	dir := t.TempDir()
	f, err := n.Fetch(t.Context(), ticketOrID, fetcher.FetchOptions{Dir: dir, Keep: true, Visible: fetcher.Public})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, filepath.Base(want)))
	if original, _ := os.ReadFile(want); err != nil || !bytes.Equal(got, original) {
		t.Fatalf("%d bytes that are not the file: %v", len(got), err)
	}
	return f
}

// bucket is how many nodes remember a record.
const bucket = 20

// A public share is found by its ID alone; when its source has gone, by the ticket that it gave
// out, at a peer that has fetched it. All know no more than one node in the table.
func TestAPublicShareIsFoundByItsID(t *testing.T) {
	t.Parallel()
	size, err := strconv.Atoi(cmp.Or(os.Getenv("DHT_NODES"), "5"))
	if err != nil {
		t.Fatal(err)
	}
	entry, all := nodes(t, size)
	source, _ := open(t, Config{Entry: entry})
	path := someFile(t, "public")
	s, err := source.Share(t.Context(), path, fetcher.ShareOptions{Visible: fetcher.Public})
	if err != nil {
		t.Fatal(err)
	}
	second, _ := open(t, Config{Entry: entry})
	f := fetch(t, second, s.ID().String(), path)
	found := false
	for _, x := range f.Progress().Sources {
		found = found || x.Peer == source.ID() && x.Via.String() == "dht"
	}
	if !found {
		t.Errorf("found otherwise: %+v", f.Progress().Sources)
	}
	ticket := s.Ticket()
	until(t, "most of those that are to know of both do", func() bool { return remembered(t, all, s.ID()) > min(len(all), bucket)*3/2 })
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	third, _ := open(t, Config{Entry: entry})
	fetch(t, third, ticket, path)
}

// What is private, or for the local network, is entered nowhere; what was public and is not any
// more is not entered again.
func TestOnlyWhatIsPublicIsEntered(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	entry, all := nodes(t, 3)
	n, _ := open(t, Config{Entry: entry})
	quiet, _ := open(t, Config{Entry: entry, Quiet: true})
	private, lan := shared(t, n, "private", fetcher.Private), shared(t, n, "lan", fetcher.VisibleLAN)
	unsaid := shared(t, quiet, "quiet", fetcher.Public)
	public := shared(t, n, "public", fetcher.Public)
	until(t, "all remember it", func() bool { return remembered(t, all, public) == len(all) })
	for _, id := range []share.ID{private, lan, unsaid} {
		if got := remembered(t, all, id); got != 0 {
			t.Errorf("%d nodes know who has %s", got, id)
		}
	}
	if err := n.SetVisible(private, fetcher.Public); err != nil {
		t.Fatal(err)
	}
	until(t, "all remember the other", func() bool { return remembered(t, all, private) == len(all) })
}

func TestAnEntryThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "x", "/ip4/192.0.2.1/tcp/4001", "192.0.2.1:4001"} {
		if _, err := New(Config{Entry: []string{bad}}); err == nil || !strings.Contains(err.Error(), "/p2p/") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAShelfHoldsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	s := newShelf(10, 10)
	key := func(i int) datastore.Key { return datastore.NewKey(fmt.Sprint("/providers/", i%7, "/", i)) }
	found := func(prefix string) (n int) {
		t.Helper()
		res, err := s.Query(t.Context(), query.Query{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		all, err := res.Rest()
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for i := range 100 {
		if err := s.Put(t.Context(), key(i), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if has, err := s.Has(t.Context(), key(i)); !has || err != nil {
			t.Fatalf("the newest is not there: %v", err)
		}
		if want := min(i+1, 10); s.len() != want {
			t.Fatalf("%d records, want %d", s.len(), want)
		}
		some := 0
		for k := range 7 {
			some += found(fmt.Sprint("/providers/", k))
		}
		if all := found("/providers/"); all != s.len() || some != all {
			t.Fatalf("%d and %d of %d are found", all, some, s.len())
		}
	}
	for i := range 100 {
		if err := s.Delete(t.Context(), key(i)); err != nil {
			t.Fatal(err)
		}
	}
	if s.len() != 0 || len(s.all) != 0 || len(s.under) != 0 {
		t.Errorf("%d, %d and %d are left", s.len(), len(s.all), len(s.under))
	}
}

// Others compute the key from docs/formats.md.
func TestTheKeyIsWhatTheFormatSays(t *testing.T) {
	t.Parallel()
	id := share.IDOf([]byte("a manifest"))
	sum := blake3.Sum256(append([]byte("fetcher dht 1 "), id.Bytes()...))
	if got, want := []byte(keyOf(id).Hash()), append([]byte{0x1e, 0x20}, sum[:]...); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestWhatPeopleSayOfTheTable(t *testing.T) {
	t.Parallel()
	node := "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWQmqjg66gDTAdCMV7th7UgzvMtxbZANfGQFjGeauZVakE"
	for _, x := range []struct {
		said string
		want Config
		ok   bool
	}{
		{"own", Config{}, true},
		{"public", Config{Public: true}, true},
		{node, Config{Entry: []string{node}}, true},
		{"own " + node, Config{Entry: []string{node}}, true},
		{"public " + node, Config{}, false},
		{"public own", Config{}, false},
		{"off", Config{}, false},
	} {
		got, err := Parse(strings.Fields(x.said))
		if (err == nil) != x.ok || x.ok && !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, %v", x.said, got, err)
		}
	}
}

// An address nearer than the way into the table is not believed, whoever names it.
func TestNoNearerAddressIsBelieved(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]int{
		"/ip4/8.8.8.8/tcp/4001":   1,
		"/ip4/10.0.0.1/tcp/4001":  2,
		"/ip4/127.0.0.1/tcp/4001": 3,
	} {
		d, err := New(Config{Entry: []string{entry + "/p2p/12D3KooWQmqjg66gDTAdCMV7th7UgzvMtxbZANfGQFjGeauZVakE"}})
		if err != nil {
			t.Fatal(err)
		}
		var all []ma.Multiaddr
		for _, s := range []string{"/ip4/1.1.1.1/tcp/4001", "/ip4/192.168.1.1/tcp/4001", "/ip4/127.0.0.1/tcp/4001"} {
			all = append(all, ma.StringCast(s))
		}
		if got := d.believed(all); len(got) != want {
			t.Errorf("from %s: %v", entry, got)
		}
	}
}
