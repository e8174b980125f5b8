package share

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/ipld/go-ipld-prime/codec/dagcbor"
	"github.com/ipld/go-ipld-prime/node/basicnode"
	"github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"
	"lukechampine.com/blake3"
	"pgregory.net/rapid"
)

const examplePeer = "12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"

func TestIDSurvivesItsTextAndItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := IDOf(rapid.SliceOf(rapid.Byte()).Draw(t, "manifest"))
		if got, err := ParseID(id.String()); err != nil || got != id {
			t.Fatalf("%v became %v, %v", id, got, err)
		}
		if got, err := IDFromBytes(id.Bytes()); err != nil || got != id {
			t.Fatalf("%v became %v, %v", id, got, err)
		}
		if !strings.HasSuffix(id.String(), id.Short()) || len(id.Short()) != 8 || id.IsZero() {
			t.Fatalf("%v is %q in short", id, id.Short())
		}
	})
}

func TestIDIsTheCIDOfTheManifest(t *testing.T) {
	m := example(t)
	sum := blake3.Sum256(m.Bytes())
	mh, err := multihash.Encode(sum[:], multihash.BLAKE3)
	if err != nil {
		t.Fatal(err)
	}
	c := cid.NewCidV1(cid.DagCBOR, mh)
	if m.ID().String() != c.String() || !bytes.Equal(m.ID().Bytes(), c.Bytes()) {
		t.Errorf("%v, %x; the CID is %v, %x", m.ID(), m.ID().Bytes(), c, c.Bytes())
	}
	base58, err := c.StringOfBase('z')
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseID(base58); err != nil || got != m.ID() {
		t.Errorf("in base58: %v, %v", got, err)
	}
}

func TestZeroIDNamesNothing(t *testing.T) {
	if id := (ID{}); !id.IsZero() || id.String() != "" || id.Short() != "" {
		t.Errorf("%q, %q", id, id.Short())
	}
}

func TestOtherCIDsAreNoShareIDs(t *testing.T) {
	sum := func(code uint64, size int) multihash.Multihash {
		mh, err := multihash.Encode(make([]byte, size), code)
		if err != nil {
			t.Fatal(err)
		}
		return mh
	}
	for name, s := range map[string]string{
		"nothing":         "",
		"no CID":          "hello",
		"a long text":     strings.Repeat("b", 1000),
		"version 0":       cid.NewCidV0(sum(multihash.SHA2_256, 32)).String(),
		"another codec":   cid.NewCidV1(cid.Raw, sum(multihash.BLAKE3, 32)).String(),
		"another hash":    cid.NewCidV1(cid.DagCBOR, sum(multihash.SHA2_256, 32)).String(),
		"another length":  cid.NewCidV1(cid.DagCBOR, sum(multihash.BLAKE3, 20)).String(),
		"only zeros":      cid.NewCidV1(cid.DagCBOR, sum(multihash.BLAKE3, 32)).String(),
		"one letter less": example(t).ID().String()[:58],
		"one letter more": example(t).ID().String() + "a",
		"a ticket":        exampleTicket(t).String(),
	} {
		if id, err := ParseID(s); !errors.Is(err, ErrTicket) {
			t.Errorf("%s: %v, %v", name, id, err)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 36), example(t).ID().Bytes()[:35], append(example(t).ID().Bytes(), 0)} {
		if id, err := IDFromBytes(b); !errors.Is(err, ErrTicket) {
			t.Errorf("%x: %v, %v", b, id, err)
		}
	}
}

func TestTicketSurvivesItsText(t *testing.T) {
	addr := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("/ip4/%d.%d.0.1/tcp/%d/p2p/%s",
			rapid.IntRange(1, 223).Draw(t, "a"), rapid.IntRange(0, 255).Draw(t, "b"), rapid.IntRange(1, 65535).Draw(t, "port"), examplePeer)
	})
	rapid.Check(t, func(t *rapid.T) {
		want, err := NewTicket(IDOf([]byte{1}), addrs(rapid.SliceOfN(addr, 0, 12).Draw(t, "addresses")...))
		if err != nil {
			t.Fatal(err)
		}
		s := want.String()
		got, err := ParseTicket(rapid.SampledFrom([]string{"", " ", "\n\t "}).Draw(t, "before") + s + "\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != want.ID || got.String() != s || !sameAddrs(got.Peers, want.Peers) {
			t.Fatalf("%v became %v", want, got)
		}
	})
}

func TestTicketBodyIsCanonicalDAGCBOR(t *testing.T) {
	for _, body := range [][]byte{exampleTicket(t).encode(), exampleTicket(t).encodeV1()} {
		nb := basicnode.Prototype.Any.NewBuilder()
		if err := dagcbor.Decode(nb, bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := dagcbor.Encode(nb.Build(), &out); err != nil || !bytes.Equal(out.Bytes(), body) {
			t.Errorf("%v: go-ipld-prime writes %x, and we %x", err, out.Bytes(), body)
		}
	}
}

// bothTexts are the example in both versions.
func bothTexts(t testing.TB) []string {
	return []string{seal(exampleTicket(t).encodeV1()), exampleTicket(t).String()}
}

func TestTicketHasTheBestOfEachKindOfAddress(t *testing.T) {
	at := func(where ...string) (out []string) {
		for _, a := range where {
			out = append(out, a+"/p2p/"+examplePeer)
		}
		return out
	}
	loopback := at("/ip4/127.0.0.1/tcp/1", "/ip6/::1/tcp/1")
	private := at("/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.1/udp/1/quic-v1", "/ip4/10.0.0.2/tcp/1", "/ip4/10.0.0.3/tcp/1", "/ip6/fd00::1/tcp/1")
	public := at("/ip6/2606:4700::1/udp/1/quic-v1", "/ip6/2606:4700::2/udp/1/quic-v1", "/ip4/1.1.1.1/tcp/1", "/ip4/1.1.1.2/tcp/1",
		"/dns4/example.com/tcp/1", "/ip4/1.1.1.2/tcp/443/tls/http/ws", "/dns/example.org/tcp/1", "/dns6/example.net/tcp/1")
	for name, c := range map[string]struct{ given, want []string }{
		"everything":              {slices.Concat(loopback, private, public, public), slices.Concat(public[:7], private[:3])},
		"private":                 {slices.Concat(loopback, private), private},
		"loopback":                {loopback, loopback},
		"a name that is too long": {slices.Concat(at("/dns4/"+strings.Repeat("a", 300)+"/tcp/1"), public[:1]), public[:1]},
	} {
		ticket, err := NewTicket(IDOf(nil), addrs(c.given...))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range ticket.Peers {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	var many []string
	for port := range 30 {
		many = append(many, at(fmt.Sprintf("/ip4/1.1.1.1/tcp/%d", 1+port))...)
	}
	ticket, err := NewTicket(IDOf(nil), addrs(many...))
	if err != nil || len(ticket.Peers) != maxHosts {
		t.Errorf("%d of 30 ports: %v", len(ticket.Peers), err)
	}
}

func TestTicketNeedsAnIDAndPeersWithTheirs(t *testing.T) {
	if _, err := NewTicket(ID{}, nil); !errors.Is(err, ErrTicket) {
		t.Errorf("no ID: %v", err)
	}
	for _, a := range []string{"/ip4/1.2.3.4/tcp/1", "/p2p/" + examplePeer, examplePublic + "/p2p-circuit", "/ip4/1.2.3.4/tcp/1/p2p/" + rsaPeer} {
		if _, err := NewTicket(IDOf(nil), addrs(a)); !errors.Is(err, ErrTicket) {
			t.Errorf("%s: %v", a, err)
		}
	}
	if _, err := NewTicket(IDOf(nil), []multiaddr.Multiaddr{nil}); !errors.Is(err, ErrTicket) {
		t.Errorf("no address: %v", err)
	}
	if _, err := NewTicket(IDOf(nil), nil); err != nil {
		t.Errorf("a ticket without peers: %v", err)
	}
	if s := (Ticket{}).String(); s != "" {
		t.Errorf("the zero ticket is %q", s)
	}
}

func TestCutTicketIsCalledCut(t *testing.T) {
	for _, s := range bothTexts(t) {
		for n := range len(s) {
			_, err := ParseTicket(s[:n])
			want := "cut short"
			if n == 0 {
				want = "empty"
			}
			if !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), want) {
				t.Errorf("%d of %d characters: %v", n, len(s), err)
			}
		}
	}
}

func TestMistypedTicketIsNeverRead(t *testing.T) {
	s := exampleTicket(t).String()
	for i := range len(s) {
		for _, c := range "a7b" {
			typo := s[:i] + string(c) + s[i+1:]
			if typo == s {
				continue
			}
			if got, err := ParseTicket(typo); !errors.Is(err, ErrTicket) {
				t.Errorf("with %q for its character %d: %v, %v", c, i, got, err)
			}
		}
		if i > 0 && i < len(s)-1 && s[i] != s[i+1] {
			swapped := s[:i] + s[i+1:i+2] + s[i:i+1] + s[i+2:]
			if got, err := ParseTicket(swapped); !errors.Is(err, ErrTicket) {
				t.Errorf("with characters %d and %d swapped: %v, %v", i, i+1, got, err)
			}
		}
	}
}

func TestWrongTicketsAreToldApart(t *testing.T) {
	ticket := exampleTicket(t)
	body := ticket.encodeV1()
	s := seal(body)
	link := func(b cbor, cid []byte) cbor {
		return append(append(b.text("id"), 0xd8, 42).head(cborBytes, uint64(1+len(cid))), append([]byte{0}, cid...)...)
	}
	whole := func(v uint64, peers ...string) cbor {
		b := link(object(3).num("v", v), ticket.ID.Bytes()).list("peers", uint64(len(peers)))
		for _, p := range peers {
			b = append(b.head(cborBytes, uint64(len(p))), p...)
		}
		return b
	}
	peer := string(ticket.Peers[0].Bytes())
	if got, err := ParseTicket(seal(whole(1, peer))); err != nil || len(got.Peers) != 1 {
		t.Fatalf("the test is wrong: %v", err)
	}
	for name, c := range map[string]struct{ s, says string }{
		"nothing":              {"", "it is empty"},
		"white space":          {" \n", "it is empty"},
		"something else":       {"hello", `does not begin with "share"`},
		"a share ID":           {ticket.ID.String(), `does not begin with "share"`},
		"a foreign letter":     {"\u017fhare" + s[5:], `does not begin with "share"`}, // a long s, whose capital is S
		"a Kelvin sign":        {s[:9] + "\u212a" + s[10:], "mistyped"},
		"a 1 for an l":         {s[:20] + "1" + s[21:], "mistyped: '1', at position 21,"},
		"no text":              {s[:20] + "\xff" + s[21:], "mistyped"},
		"a typo":               {s[:60] + "a" + s[61:], "mistyped: its checksum does not match"},
		"5 KiB":                {"share" + strings.Repeat("a", 5<<10), "at most 4096"},
		"1 MiB of space":       {"share" + strings.Repeat(" ", 1<<20) + s[5:], "cut short"},
		"a later version":      {seal(whole(3)), "made by a later version of this program: the ticket has version 3, and"},
		"a later, odd version": {seal(object(2).num("v", 4).raw("zz", 0xf6)), "made by a later version of this program: the ticket has version 4, and"},
		"version 0":            {seal(whole(0)), "no version 0"},
		"no version":           {seal(object(0)), "garbled"},
		"a body of text":       {seal([]byte("hello")), "garbled"},
		"an empty body":        {seal(nil), "garbled"},
		"a list":               {seal([]byte{0x80}), "garbled"},
		"no ID":                {seal(object(2).num("v", 1).list("peers", 0)), "garbled"},
		"a number for an ID":   {seal(object(3).num("v", 1).num("id", 1).list("peers", 0)), "garbled"},
		"another CID":          {seal(link(object(3).num("v", 1), cid.NewCidV1(cid.Raw, multihash.Multihash(ticket.ID.Bytes()[2:])).Bytes()).list("peers", 0)), "garbled"},
		"the zero ID":          {seal(link(object(3).num("v", 1), ID{}.Bytes()).list("peers", 0)), "garbled: no share ID"},
		"no peers":             {seal(link(object(2).num("v", 1), ticket.ID.Bytes())), "garbled"},
		"peers in a text":      {seal(link(object(3).num("v", 1), ticket.ID.Bytes()).str("peers", "p")), "garbled"},
		"a text for a peer":    {seal(link(object(3).num("v", 1), ticket.ID.Bytes()).list("peers", 1).text("p")), "garbled"},
		"nine peers":           {seal(whole(1, slices.Repeat([]string{peer}, 9)...)), "garbled: its list of addresses is missing, or has more than 8"},
		"no address":           {seal(whole(1, "hello")), "garbled"},
		"an address of nobody": {seal(whole(1, string(multiaddr.StringCast("/ip4/1.2.3.4/tcp/1").Bytes()))), "does not end in /p2p/"},
		"an unknown key":       {seal(append(link(object(4).num("v", 1), ticket.ID.Bytes()).list("peers", 0).text("zzzzzz"), 1)), `does not know its field "zzzzzz"; please update`},
		"keys out of order":    {seal(link(object(3), ticket.ID.Bytes()).num("v", 1).list("peers", 0)), "not written as tickets are; ask for another"},
		"more behind":          {seal(append(slices.Clip(body), 0)), "garbled"},
		"a deep nest":          {seal(bytes.Repeat([]byte{0x81}, 1000)), "garbled"},
		"a list of 2^60":       {seal(link(object(3).num("v", 1), ticket.ID.Bytes()).list("peers", 1<<60)), "garbled"},
	} {
		got, err := ParseTicket(c.s)
		if !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.says)
		}
	}
}

// Base32 leaves bits over at its end, which the checksum does not cover.
func TestTheEndOfATicketIsAsItWasMade(t *testing.T) {
	said := map[string]bool{}
	for n := range 5 { // each number of letters at the end
		whole := seal(append(exampleTicket(t).encodeV1(), make([]byte, n)...))
		for _, end := range "abcdefghijklmnopqrstuvwxyz234567" {
			for _, text := range []string{whole + string(end), whole[:len(whole)-1] + string(end)} {
				if _, err := ParseTicket(text); err != nil {
					said[err.Error()] = true
				}
			}
		}
	}
	for _, want := range []string{"it has a letter too many at its end", "its last letter is not the right one"} {
		if want = ErrTicket.Error() + ": mistyped: " + want + "; copy the whole of it again"; !said[want] {
			t.Errorf("nothing is %q, but %v", want, said)
		}
	}
}

func TestTicketIsReadHoweverItWasCopied(t *testing.T) {
	want := exampleTicket(t)
	s := want.String()
	var wrapped strings.Builder
	for i := 0; i < len(s); i += 76 {
		wrapped.WriteString("  " + s[i:min(i+76, len(s))] + "\r\n")
	}
	for name, text := range map[string]string{
		"in capitals": strings.ToUpper(s), "one capital": s[:9] + strings.ToUpper(s[9:10]) + s[10:], "as a sentence": "S" + s[1:],
		"over lines": wrapped.String(), "a character a line": strings.Join(strings.Split(s, ""), "\n"), "a no-break space": s[:9] + "\u00a0" + s[9:],
	} {
		if got, err := ParseTicket(text); err != nil || got.String() != s {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if got, err := Parse(text); err != nil || got.String() != s {
			t.Errorf("%s, as anything: %v, %v", name, got, err)
		}
	}
	id := want.ID.String()
	if got, err := Parse(" " + id[:30] + "\n" + id[30:]); err != nil || got.ID != want.ID || got.Peers != nil {
		t.Errorf("an ID: %v, %v", got, err)
	}
}

func TestParseSaysWhatATextIs(t *testing.T) {
	id := exampleTicket(t).ID
	raw := cid.NewCidV1(cid.Raw, multihash.Multihash(id.Bytes()[2:])).String()
	for s, says := range map[string]string{
		"":                     "it is empty",
		"photos":               "neither a ticket, which begins with",
		"sha":                  "cut short",
		id.String()[:40]:       "not a whole share ID: that has 59 characters, and this has 40",
		id.String()[:58] + "1": "is mistyped: a share ID has only the letters a to z and the digits 2 to 7",
		id.String() + "é":      "too long for a share ID: that has 59 characters, and this has 60",
		raw:                    `is a CID, but not that of a share`,
		"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPBdG": `is a CID, but not that of a share`,
		strings.Repeat("b", 1000):                        "1000 characters beginning with",
	} {
		if got, err := Parse(s); !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v; want %q", s, got, err, says)
		}
	}
}

func TestTicketHasOneText(t *testing.T) {
	// Its last character may have bits that decode to nothing.
	for _, s := range bothTexts(t) {
		for _, c := range "abcdefghijklmnopqrstuvwxyz234567" {
			other := s[:len(s)-1] + string(c)
			if got, err := ParseTicket(other); other != s && err == nil {
				t.Errorf("%v is also %s", got, other)
			}
		}
	}
}

// checkRead checks what must be true of a ticket that was read.
func checkRead(t *testing.T, s string, ticket Ticket) {
	again, err := ParseTicket(ticket.String())
	if err != nil || ticket.ID.IsZero() || !sameTicket(again, ticket) {
		t.Fatalf("%q became %v, and that %v, %v", s, ticket, again, err)
	}
	if folded, ok := ticket.fold(); ok {
		if again, err := unfold(folded); err != nil || !sameTicket(again, ticket) {
			t.Fatalf("%q, folded and unfolded, is %v, %v", s, again, err)
		}
	}
}

func FuzzParseTicket(f *testing.F) {
	for _, s := range bothTexts(f) {
		f.Add(s)
	}
	f.Add("share")
	f.Add(seal(object(1).num("v", 2)))
	f.Add(seal(bytes.Repeat([]byte{0x81}, 100)))
	f.Fuzz(func(t *testing.T, s string) {
		ticket, err := ParseTicket(s)
		if err != nil {
			if !errors.Is(err, ErrTicket) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		checkRead(t, s, ticket)
	})
}

// FuzzTicketBody adds a valid checksum to what the fuzzer makes.
func FuzzTicketBody(f *testing.F) {
	f.Add(exampleTicket(f).encode())
	f.Add(exampleTicket(f).encodeV1())
	f.Add(fullTicket(f).encode())
	f.Add([]byte(object(1).num("v", 2)))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := seal(body)
		if ticket, err := ParseTicket(s); err == nil {
			checkRead(t, s, ticket)
		}
	})
}

// FuzzFolded adds no frame to what the fuzzer makes.
func FuzzFolded(f *testing.F) {
	for _, ticket := range []Ticket{exampleTicket(f), fullTicket(f)} {
		folded, _ := ticket.fold()
		f.Add(folded)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ticket, err := unfold(b)
		if err != nil {
			return
		}
		if again, ok := ticket.fold(); !ok || !bytes.Equal(again, b) {
			t.Fatalf("%x became %v, and that %x", b, ticket, again)
		}
	})
}

func FuzzParseID(f *testing.F) {
	f.Add(example(f).ID().String())
	f.Add("bafyr4i")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if !errors.Is(err, ErrTicket) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		if again, err := ParseID(id.String()); err != nil || again != id {
			t.Fatalf("%v became %v, %v", id, again, err)
		}
	})
}

const exampleRelay = "12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7rxaQLmS9rZAA"

// relayed are addresses that lead to the example's peer through relays.
func relayed(relays ...string) (out []multiaddr.Multiaddr) {
	for _, r := range relays {
		out = append(out, multiaddr.StringCast(r+"/p2p/"+exampleRelay+"/p2p-circuit/p2p/"+examplePeer))
	}
	return out
}

func TestATicketNamesRelays(t *testing.T) {
	direct := multiaddr.StringCast("/ip4/10.0.0.1/tcp/4001/p2p/" + examplePeer)
	relays := relayed("/ip4/1.2.3.4/tcp/4001", "/ip4/1.2.3.4/udp/4001/quic-v1", "/dns4/relay.example.org/tcp/4001", "/ip4/1.2.3.5/tcp/4001")
	ticket, err := NewTicket(IDOf(nil), append(relays, direct))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(ticket.Peers) != fmt.Sprint([]multiaddr.Multiaddr{direct}) {
		t.Error("peers", ticket.Peers)
	}
	want := fmt.Sprintf("[/ip4/1.2.3.4/tcp/4001/p2p/%[1]s /ip4/1.2.3.4/udp/4001/quic-v1/p2p/%[1]s]", exampleRelay)
	if fmt.Sprint(ticket.Relays) != want {
		t.Error("relays", ticket.Relays, "want", want)
	}
	again, err := ParseTicket(ticket.String())
	if err != nil || fmt.Sprint(again) != fmt.Sprint(ticket) {
		t.Error(again, err)
	}
	alone, err := NewTicket(IDOf(nil), relays[:1])
	if err != nil || fmt.Sprint(alone.Peers) != "[/p2p/"+examplePeer+"]" || len(alone.Relays) != 1 {
		t.Error("nothing but a relay:", alone, err)
	}
	if again, err := ParseTicket(alone.String()); err != nil || fmt.Sprint(again) != fmt.Sprint(alone) {
		t.Error(again, err)
	}
}
