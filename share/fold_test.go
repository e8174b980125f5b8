package share

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"
	"pgregory.net/rapid"
)

const rsaPeer = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"

// sameAddrs reports whether two lists have the same addresses, in any order.
func sameAddrs(a, b []multiaddr.Multiaddr) bool {
	in := func(all []multiaddr.Multiaddr) func(multiaddr.Multiaddr) bool {
		return func(x multiaddr.Multiaddr) bool { return !multiaddr.Contains(all, x) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

func sameTicket(a, b Ticket) bool {
	sameSecret := a.Secret == b.Secret || a.Secret != nil && b.Secret != nil && *a.Secret == *b.Secret
	return a.ID == b.ID && sameSecret && sameAddrs(a.Peers, b.Peers) && sameAddrs(a.Relays, b.Relays) && sameAddrs(a.Beacons, b.Beacons)
}

func TestTicketsAreShort(t *testing.T) {
	both := func(peer string, hosts ...string) (out []multiaddr.Multiaddr) {
		for _, h := range hosts {
			out = append(out, addrs(h+"/tcp/4001/p2p/"+peer, h+"/udp/4001/quic-v1/p2p/"+peer)...)
		}
		return out
	}
	four := []string{"/ip4/203.0.113.7", "/ip4/192.168.178.34", "/ip6/2001:db8:1234:5678:9abc:def0:1234:5678", "/ip6/fd00:1234:5678:9abc:def0:1234:5678:9abc"}
	direct, err := NewTicket(example(t).ID(), both(examplePeer, four...))
	if err != nil || len(direct.Peers) != 8 {
		t.Fatal(len(direct.Peers), err)
	}
	relayed := direct
	relayed.Relays = both(peerOf(1), "/ip4/198.51.100.20")
	all := relayed
	all.Beacons, all.Secret = relayed.Relays, &Secret{1}
	six, err := NewTicket(example(t).ID(), both(examplePeer, append(four, "/ip4/10.1.2.3", "/ip4/172.17.0.1", "/ip4/172.18.0.1")...))
	if err != nil || len(six.Peers) != 12 {
		t.Fatal(len(six.Peers), err)
	}
	for _, c := range []struct {
		name   string
		ticket Ticket
		most   int
	}{
		{"two IPv4 and two IPv6 addresses", direct, 201},
		{"four and two", six, 214},
		{"two and two, and a relay", relayed, 266},
		{"... that is a beacon, and a secret", all, 294},
	} {
		s := c.ticket.String()
		if got, err := ParseTicket(s); err != nil || !sameTicket(got, c.ticket) || len(s) > c.most {
			t.Errorf("%s: %d characters, want %d at most; %v", c.name, len(s), c.most, err)
		}
	}
}

// randomTicket has addresses of every kind, few hosts and ports of each, so that many are equal.
func randomTicket(t *rapid.T) Ticket {
	addr := rapid.Custom(func(t *rapid.T) multiaddr.Multiaddr {
		host := rapid.SampledFrom([]string{"/ip4/1.2.3.4", "/ip4/10.0.0.1", "/ip6/2001:db8::1", "/ip6/fd00::1", "/dns/a", "/dns4/a", "/dns6/b", "/ip6zone/x/ip6/fe80::1"})
		way := rapid.SampledFrom([]string{"/tcp/%d", "/udp/%d/quic-v1", "/tcp/%d/ws"})
		where := host.Draw(t, "host") + fmt.Sprintf(way.Draw(t, "way"), rapid.IntRange(1, 2).Draw(t, "port"))
		if rapid.IntRange(0, 9).Draw(t, "bare") == 0 {
			where = ""
		}
		return addrs(where + "/p2p/" + peerOf(byte(rapid.IntRange(1, 3).Draw(t, "peer"))))[0]
	})
	list := func(name string) []multiaddr.Multiaddr { return rapid.SliceOfN(addr, 0, 5).Draw(t, name) }
	ticket := Ticket{ID: IDOf([]byte{1}), Peers: list("peers"), Relays: list("relays"), Beacons: list("beacons")}
	if rapid.Bool().Draw(t, "secret") {
		ticket.Secret = &Secret{7}
	}
	return ticket
}

// Folding loses nothing: no address is lost, and one is added only where a peer has several
// roles, because it then has all of its addresses in each. Folding the result again changes
// nothing.
func TestFoldedTicketsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := randomTicket(t)
		folded, ok := want.fold()
		if !ok {
			t.Fatalf("not folded: %v", want)
		}
		got, err := unfold(folded)
		if err != nil {
			t.Fatalf("%x of %v: %v", folded, want, err)
		}
		for _, lists := range [][2][]multiaddr.Multiaddr{{want.Peers, got.Peers}, {want.Relays, got.Relays}, {want.Beacons, got.Beacons}} {
			for _, a := range lists[0] {
				if len(a) > 1 && !multiaddr.Contains(lists[1], a) {
					t.Fatalf("%v is lost of %v", a, want)
				}
			}
			for _, a := range lists[1] {
				if !multiaddr.Contains(slices.Concat(want.Peers, want.Relays, want.Beacons), a) {
					t.Fatalf("%v came of %v", a, want)
				}
			}
		}
		if again, ok := got.fold(); !ok || !bytes.Equal(again, folded) {
			t.Fatalf("%x, and then %x", folded, again)
		}
	})
}

// A ticket of version 1 may hold what cannot be folded; it is printed as it was.
func TestWhatCannotBeFoldedStaysAsItWas(t *testing.T) {
	var many []string
	for i := range 8 {
		many = append(many, fmt.Sprintf("/dns4/%d%s/tcp/1/p2p/%s", i, strings.Repeat("a", 255), examplePeer))
	}
	for name, peers := range map[string][]string{
		"another kind of key": {"/ip4/1.2.3.4/tcp/1/p2p/" + rsaPeer, examplePublic},
		"long names":          many,
	} {
		s := seal(Ticket{ID: example(t).ID(), Peers: addrs(peers...)}.encodeV1())
		if got, err := ParseTicket(s); err != nil || got.String() != s || len(got.Peers) != len(peers) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestWrongFoldedTicketsAreToldApart(t *testing.T) {
	digest := example(t).ID().Bytes()[4:]
	join := func(parts ...string) []byte {
		out := slices.Clone(digest)
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	peer := func(roles byte, b byte) string {
		return string([]byte{partPeer | roles}) + strings.Repeat(string(b), keySize)
	}
	const port, ip, both = "\x23\x0f\xa1", "\x41\x01\x02\x03\x04", "\x42\x01\x02\x03\x04\x05\x06\x07\x08"
	if got, err := unfold(join(peer(1, 7), port, ip)); err != nil || len(got.Peers) != 2 {
		t.Fatalf("the test is wrong: %v, %v", got, err)
	}
	sixteen := join(peer(1, 7), port, "\x4f"+distinct(15), "\x41last")
	if got, err := unfold(sixteen); err != nil || len(got.Peers) != 32 {
		t.Errorf("sixteen addresses: %v, %v", got, err)
	}
	const later, canonical, short = "made by a later version", "not written as tickets are", "it ends early"
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"nothing":                     {nil, short},
		"half a digest":               {digest[:16], short},
		"half a key":                  {join(peer(1, 7)[:9]), short},
		"half a port":                 {join(peer(1, 7), port[:2]), short},
		"half an address":             {join(peer(1, 7), port, ip[:3]), short},
		"one of two addresses":        {join(peer(1, 7), port, both[:5]), short},
		"a name without its end":      {join(peer(1, 7), port, "\x74\x05exa"), short},
		"half a secret":               {join("\x90secret"), short},
		"a part nobody knows":         {join("\xa0"), later},
		"a role nobody knows":         {join(peer(8, 7)), later},
		"no role":                     {join(peer(0, 7)), later},
		"a transport nobody knows":    {join(peer(1, 7), "\x24\x0f\xa1", ip), later},
		"a name nobody knows":         {join(peer(1, 7), port, "\x75\x01a"), later},
		"a secret of another kind":    {join("\x91" + strings.Repeat("s", 16)), later},
		"a port of nobody":            {join(port, ip), canonical},
		"an address without a port":   {join(peer(1, 7), ip), canonical},
		"a port of another peer":      {join(peer(1, 7), port, ip, peer(1, 8), ip), canonical},
		"a name without a port":       {join(peer(1, 7), "\x74\x01a"), canonical},
		"another address of nobody":   {join("\x80\x01a"), canonical},
		"no addresses in a part":      {join(peer(1, 7), port, "\x40"), later},
		"a port without an address":   {join(peer(1, 7), port), canonical},
		"an empty name":               {join(peer(1, 7), port, "\x74\x00"), "garbled"},
		"a name with a slash":         {join(peer(1, 7), port, "\x74\x03a/b"), "garbled"},
		"another address, of nothing": {join(peer(1, 7), "\x80\x00"), canonical},
		"another address, of rubbish": {join(peer(1, 7), "\x80\x03\xff\xff\xff"), "garbled"},
		"another address that folds":  {join(peer(1, 7), "\x80\x08\x04\x01\x02\x03\x04\x06\x0f\xa1"), canonical},
		"another address without end": {join(peer(1, 7), "\x80\x02\x36\x29"), canonical}, // a name of 41 bytes, for which the ID would do
		"two parts for one":           {join(peer(1, 7), port, ip, "\x41\x05\x06\x07\x08"), canonical},
		"IPv6 before IPv4":            {join(peer(1, 7), port, "\x61"+strings.Repeat("6", 16), ip), canonical},
		"an address twice":            {join(peer(1, 7), port, "\x42\x01\x02\x03\x04\x01\x02\x03\x04"), canonical},
		"a transport apart":           {join(peer(1, 7), "\x21\x0f\xa1", ip, "\x22\x0f\xa1", ip), canonical},
		"a peer twice":                {join(peer(1, 7), peer(1, 7)), canonical},
		"a relay before a source":     {join(peer(2, 8), peer(1, 7)), canonical},
		"a secret at the end":         {join(peer(1, 7), "\x90"+strings.Repeat("s", 16)), canonical},
		"nine peers":                  {join(peer(1, 1), peer(1, 2), peer(1, 3), peer(1, 4), peer(1, 5), peer(1, 6), peer(1, 7), peer(1, 8), peer(1, 9)), canonical},
		"many addresses":              {join(peer(1, 7), port, "\x4f"+distinct(15), "\x42lastmore"), canonical},
	} {
		if got, err := unfold(c.b); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.says)
		}
	}
	zero := object(2).num("v", 2)
	zero = append(zero.text("x").head(cborBytes, 32), make([]byte, 32)...)
	for name, c := range map[string]struct {
		body []byte
		says string
	}{
		"no share":           {zero, "no share ID"},
		"nothing folded":     {object(1).num("v", 2), "garbled"},
		"a text":             {object(2).num("v", 2).str("x", "hello"), "garbled"},
		"a key nobody knows": {append(object(3).num("v", 2).text("x").head(cborBytes, 32), append(slices.Clone(digest), cbor(nil).text("zz").head(cborUint, 1)...)...), `does not know its field "zz"`},
		"keys out of order":  {append(append(object(2).text("x").head(cborBytes, 32), digest...), cbor(nil).num("v", 2)...), "not written as tickets are"},
		"a longer head":      {append(append(object(2).num("v", 2).text("x"), 0x59, 0, 32), digest...), "garbled"},
	} {
		if got, err := ParseTicket(seal(c.body)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.says)
		}
	}
}

// distinct is n IPv4 addresses.
func distinct(n int) string {
	var out []byte
	for i := range n {
		out = append(out, 1, 2, 3, byte(i))
	}
	return string(out)
}
