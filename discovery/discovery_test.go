package discovery

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func ids(n int) (out []share.ID) {
	for i := range n {
		out = append(out, share.IDOf(fmt.Append(nil, i)))
	}
	return out
}

func TestARecordReadsAsItWasWritten(t *testing.T) {
	addrs := []string{"/ip4/192.0.2.1/tcp/4001", "/ip4/192.0.2.1/udp/4001/quic-v1", "/ip6/2001:db8::1/tcp/4001"}
	for _, n := range []int{0, 1, keysInString, keysInString + 1, keysInRecord, keysInRecord + 1, MaxShares} {
		all := ids(n)
		var keys []key
		for _, r := range records("peer", addrs, all) {
			text := r.text()
			got, ok := parse(text)
			if !ok || !reflect.DeepEqual(got, r) {
				t.Fatalf("%d shares: %v reads as %v, %v", n, r, got, ok)
			}
			keys = append(keys, r.keys...)
			size := 0
			for _, s := range text {
				if size += 1 + len(s); len(s) > maxString {
					t.Errorf("%d shares: a string of %d bytes", n, len(s))
				}
			}
			if size > 1200 {
				t.Errorf("%d shares: a record of %d bytes does not fit into a packet", n, size)
			}
		}
		if len(keys) != n {
			t.Errorf("%d shares: %d keys", n, len(keys))
		}
	}
}

func TestOnlyTheNewestOfTooManySharesAreAnnounced(t *testing.T) {
	all := ids(MaxShares + 5)
	rs := records("peer", nil, all)
	if len(rs) != maxRecords || rs[0].keys[0] != keyOf(all[5]) {
		t.Errorf("%d records, and the first is not that of the sixth share", len(rs))
	}
}

func TestAnAnnouncementTellsNoShareID(t *testing.T) {
	all := ids(40)
	for _, r := range records("peer", []string{"/ip4/192.0.2.1/tcp/1"}, all) {
		text := strings.Join(r.text(), " ")
		for _, id := range all {
			if strings.Contains(text, id.String()) || strings.Contains(text, string(id.Bytes()[4:])) {
				t.Fatal("it has the ID of a share in it")
			}
		}
	}
}

func TestOnlyWhatOthersCanDialIsAnnounced(t *testing.T) {
	got := reachable([]string{"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip4/192.168.1.5/tcp/1/p2p/x", "/dns4/example.org/tcp/1/p2p/x", "/ip6/::1/tcp/1/p2p/x",
		"/ip4/192.168.1.5/tcp/1/p2p/x", "/ip4/192.0.2.1/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN/p2p-circuit/p2p/x", "nonsense"})
	if want := []string{"/ip4/192.168.1.5/tcp/1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// finds is what a find was told, by peer.
type finds []peers.Addr

func (f *finds) found(_ peers.Via, a peers.Addr) { *f = append(*f, a) }

func (f *finds) take() (out []string) {
	for _, a := range *f {
		out = append(out, fmt.Sprint(a.ID, " at ", a.Addrs))
	}
	*f = nil
	return out
}

func TestWhatIsHeardIsTold(t *testing.T) {
	now := time.Unix(1e9, 0)
	x, y := share.IDOf([]byte("x")), share.IDOf([]byte("y"))
	tb := newTable()
	tb.hear("1", record{peer: "has", addrs: []string{"a"}, keys: []key{keyOf(x)}}, now)
	tb.hear("2", record{peer: "known", addrs: []string{"b"}}, now)
	var told finds
	f := &find{key: keyOf(x), peers: []peers.ID{"known"}, found: told.found}
	tb.begin(f, now)
	got := told.take()
	slices.Sort(got)
	if want := []string{"has at [a]", "known at [b]"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	tb.hear("3", record{peer: "other", keys: []key{keyOf(y)}}, now)
	tb.hear("4", record{peer: "later", keys: []key{keyOf(y), keyOf(x)}}, now)
	if got := told.take(); !slices.Equal(got, []string{"later at []"}) {
		t.Errorf("told %v", got)
	}
	tb.end(f)
	tb.hear("5", record{peer: "late", keys: []key{keyOf(x)}}, now)
	if got := told.take(); got != nil {
		t.Errorf("told %v after the end", got)
	}
	tb.begin(f, now.Add(lasts))
	if got := told.take(); got != nil {
		t.Errorf("told %v, which is too old", got)
	}
}

func TestTooMuchThatIsHeardIsForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	tb := newTable()
	for i := range 3 * maxHeard {
		tb.hear(fmt.Sprint(i), record{peer: peers.ID(fmt.Sprint(i))}, now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(tb.heard) != maxHeard {
		t.Errorf("%d are remembered, want %d", len(tb.heard), maxHeard)
	}
	if _, ok := tb.heard[fmt.Sprint(3*maxHeard-1)]; !ok {
		t.Error("the newest is forgotten")
	}
}

// Strings that this version does not know are ignored, in the longest record too.
func TestStringsThatAreNotKnownAreIgnored(t *testing.T) {
	want := record{peer: "peer", addrs: []string{"/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.2/tcp/1", "/ip4/192.0.2.3/tcp/1", "/ip4/192.0.2.4/tcp/1", "/ip4/192.0.2.5/tcp/1", "/ip4/192.0.2.6/tcp/1"}}
	for _, id := range ids(keysInRecord) {
		want.keys = append(want.keys, keyOf(id))
	}
	if got, ok := parse(append(want.text(), "new=1")); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("it reads as %v, %v", got, ok)
	}
}

func FuzzParse(f *testing.F) {
	for _, r := range records("12D3KooW", []string{"/ip4/192.0.2.1/tcp/1"}, ids(100)) {
		f.Add(strings.Join(r.text(), "\x00"))
	}
	f.Add("id=\x00k=====")
	f.Add("k=AAAA\x00id=x")
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := parse(strings.Split(s, "\x00"))
		if !ok {
			return
		}
		if len(r.addrs) > maxAddrs || len(r.keys) > keysInRecord+maxString/keyText || r.peer == "" {
			t.Errorf("%d addresses, %d keys, peer %q", len(r.addrs), len(r.keys), r.peer)
		}
	})
}

// A node is one neighbour, however many announcements it takes, until they are too old.
func TestNeighboursAreWhoIsHeard(t *testing.T) {
	tab, now := newTable(), time.Unix(1e9, 0)
	for i, r := range records("b", []string{"/ip4/192.0.2.1/tcp/1"}, ids(keysInRecord+1)) {
		tab.hear(fmt.Sprint("b", i), r, now)
	}
	tab.hear("a", records("a", nil, nil)[0], now.Add(time.Second))
	want := []Neighbour{{ID: "a"}, {ID: "b", Addrs: []string{"/ip4/192.0.2.1/tcp/1"}, Shares: keysInRecord + 1}}
	if got := tab.neighbours(now.Add(lasts - 1)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got := tab.neighbours(now.Add(lasts)); !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("after a while: %v", got)
	}
}

// A node announces itself anew, under another meaningless name, whenever its shares or addresses change; what it had announced
// before is still remembered for a while. It is one neighbour, with each share once, at the addresses of its last announcement.
func TestANeighbourThatAnnouncesItselfAnewIsCountedOnce(t *testing.T) {
	tab, now := newTable(), time.Unix(1e9, 0)
	const many = 16 // each is to be right, whatever the order of a map
	var want []Neighbour
	for i := range many {
		id := peers.ID(fmt.Sprint("peer", 10+i))
		tab.hear(fmt.Sprint(i, "old"), records(id, []string{"/ip4/192.0.2.1/tcp/1"}, ids(5))[0], now)
		tab.hear(fmt.Sprint(i, "new"), records(id, []string{"/ip4/192.0.2.2/tcp/1"}, ids(6))[0], now.Add(time.Second))
		want = append(want, Neighbour{ID: id, Addrs: []string{"/ip4/192.0.2.2/tcp/1"}, Shares: 6})
	}
	if got := tab.neighbours(now.Add(2 * time.Second)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A machine has many addresses: public ones, and those of bridges to containers and virtual machines, each for TCP and for QUIC, in the order in which a
// node lists its own. Its announcements name that of the network on which they are heard.
func TestAMachineWithManyAddressesIsFoundOnItsNetwork(t *testing.T) {
	both := func(hosts ...string) (out []string) {
		for _, h := range hosts {
			out = append(out, h+"/tcp/4001/p2p/x", h+"/udp/4001/quic-v1/p2p/x")
		}
		return out
	}
	for what, addrs := range map[string][]string{
		"bridges": both("/ip4/172.17.0.1", "/ip4/172.18.0.1", "/ip4/172.19.0.1", "/ip4/192.168.1.5"),
		"public":  both("/ip4/203.0.114.7", "/ip6/2001:470:1::5", "/ip6/2001:470:1::a1b2", "/ip4/192.168.1.5"),
	} {
		found := false
		for _, r := range records("x", reachable(addrs), nil) {
			found = found || strings.Contains(strings.Join(r.text(), " "), "a=/ip4/192.168.1.5/")
		}
		if !found {
			t.Errorf("%s: the address on the local network is not announced", what)
		}
	}
}
