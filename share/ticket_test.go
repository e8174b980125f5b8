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
		if got.ID != want.ID || got.String() != s || !slices.EqualFunc(got.Peers, want.Peers, multiaddr.Multiaddr.Equal) {
			t.Fatalf("%v became %v", want, got)
		}
	})
}

func TestTicketBodyIsCanonicalDAGCBOR(t *testing.T) {
	nb := basicnode.Prototype.Any.NewBuilder()
	body := exampleTicket(t).encode()
	if err := dagcbor.Decode(nb, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := dagcbor.Encode(nb.Build(), &out); err != nil || !bytes.Equal(out.Bytes(), body) {
		t.Errorf("%v: go-ipld-prime writes %x, and we %x", err, out.Bytes(), body)
	}
}

func TestTicketHasPublicAddressesFirstThoseOfTheMachineLastAndAtMostEight(t *testing.T) {
	at := func(where string) string { return where + "/p2p/" + examplePeer }
	given := []string{at("/ip4/127.0.0.1/tcp/1")}
	for i := range 6 {
		given = append(given, at(fmt.Sprintf("/ip4/10.0.0.%d/tcp/1", i)))
	}
	given = append(given, at("/ip6/::1/tcp/1"), at("/ip6/fe80::1/tcp/1"))
	public := []string{at("/ip4/1.1.1.1/tcp/1"), at("/dns4/example.com/tcp/1"), at("/ip6/2606:4700::1/udp/1/quic-v1")}
	given = append(append(given, public...), public...)
	ticket, err := NewTicket(IDOf(nil), addrs(given...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range ticket.Peers {
		got = append(got, p.String())
	}
	if want := append(slices.Clone(public), given[1:6]...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTicketStaysBelowFourKiB(t *testing.T) {
	var given []string
	for i := range 8 {
		given = append(given, fmt.Sprintf("/dns4/%d%s.example.com/tcp/1/p2p/%s", i, strings.Repeat("a", 600), examplePeer))
	}
	ticket, err := NewTicket(IDOf(nil), addrs(given...))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(ticket.Peers); n < 1 || n >= 8 || len(ticket.String()) > MaxTicket {
		t.Errorf("%d peers in %d characters", n, len(ticket.String()))
	}
	if _, err := ParseTicket(ticket.String()); err != nil {
		t.Error(err)
	}
}

func TestTicketNeedsAnIDAndPeersWithTheirs(t *testing.T) {
	if _, err := NewTicket(ID{}, nil); !errors.Is(err, ErrTicket) {
		t.Errorf("no ID: %v", err)
	}
	for _, a := range []string{"/ip4/1.2.3.4/tcp/1", "/p2p/" + examplePeer, examplePublic + "/p2p-circuit"} {
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
	s := exampleTicket(t).String()
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

// sealed is the ticket of any body, with its checksum.
func sealed(body []byte) string {
	sum := blake3.Sum256(body)
	return ticketPrefix + ticketBase32.EncodeToString(append(slices.Clip(body), sum[:checksumSize]...))
}

func TestWrongTicketsAreToldApart(t *testing.T) {
	ticket := exampleTicket(t)
	s, body := ticket.String(), ticket.encode()
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
	if got, err := ParseTicket(sealed(whole(1, peer))); err != nil || len(got.Peers) != 1 {
		t.Fatalf("the test is wrong: %v", err)
	}
	for name, c := range map[string]struct{ s, says string }{
		"nothing":              {"", "it is empty"},
		"white space":          {" \n", "it is empty"},
		"something else":       {"hello", `does not begin with "share"`},
		"a share ID":           {ticket.ID.String(), `does not begin with "share"`},
		"a foreign letter":     {"\u017fhare" + s[5:], `does not begin with "share"`}, // a long s, whose capital is S
		"a Kelvin sign":        {s[:9] + "\u212a" + s[10:], "mistyped"},
		"a 1 for an l":         {s[:20] + "1" + s[21:], "mistyped: '1', its character 21,"},
		"no text":              {s[:20] + "\xff" + s[21:], "mistyped"},
		"a typo":               {s[:60] + "a" + s[61:], "mistyped: its checksum does not match"},
		"5 KiB":                {"share" + strings.Repeat("a", 5<<10), "at most 4096"},
		"1 MiB of space":       {"share" + strings.Repeat(" ", 1<<20) + s[5:], "cut short"},
		"a later version":      {sealed(whole(2)), "made by a later version (2)"},
		"a later, odd version": {sealed(object(2).num("v", 3).raw("zz", 0xf6)), "made by a later version (3)"},
		"version 0":            {sealed(whole(0)), "no version 0"},
		"no version":           {sealed(object(0)), "garbled"},
		"a body of text":       {sealed([]byte("hello")), "garbled"},
		"an empty body":        {sealed(nil), "garbled"},
		"a list":               {sealed([]byte{0x80}), "garbled"},
		"no ID":                {sealed(object(2).num("v", 1).list("peers", 0)), "garbled"},
		"a number for an ID":   {sealed(object(3).num("v", 1).num("id", 1).list("peers", 0)), "garbled"},
		"another CID":          {sealed(link(object(3).num("v", 1), cid.NewCidV1(cid.Raw, multihash.Multihash(ticket.ID.Bytes()[2:])).Bytes()).list("peers", 0)), "garbled"},
		"the zero ID":          {sealed(link(object(3).num("v", 1), ID{}.Bytes()).list("peers", 0)), "garbled: no share ID"},
		"no peers":             {sealed(link(object(2).num("v", 1), ticket.ID.Bytes())), "garbled"},
		"peers in a text":      {sealed(link(object(3).num("v", 1), ticket.ID.Bytes()).str("peers", "p")), "garbled"},
		"a text for a peer":    {sealed(link(object(3).num("v", 1), ticket.ID.Bytes()).list("peers", 1).text("p")), "garbled"},
		"nine peers":           {sealed(whole(1, slices.Repeat([]string{peer}, 9)...)), "at most 8 addresses"},
		"no address":           {sealed(whole(1, "hello")), "garbled"},
		"an address of nobody": {sealed(whole(1, string(multiaddr.StringCast("/ip4/1.2.3.4/tcp/1").Bytes()))), "does not end in /p2p/"},
		"an unknown key":       {sealed(append(link(object(4).num("v", 1), ticket.ID.Bytes()).list("peers", 0).text("zzzzzz"), 1)), `does not know its field "zzzzzz"; please update`},
		"keys out of order":    {sealed(link(object(3), ticket.ID.Bytes()).num("v", 1).list("peers", 0)), "not in canonical form"},
		"more behind":          {sealed(append(slices.Clip(body), 0)), "garbled"},
		"a deep nest":          {sealed(bytes.Repeat([]byte{0x81}, 1000)), "garbled"},
		"a list of 2^60":       {sealed(link(object(3).num("v", 1), ticket.ID.Bytes()).list("peers", 1<<60)), "garbled"},
	} {
		got, err := ParseTicket(c.s)
		if !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.says)
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
		"":               "it is empty",
		"photos":         "neither a ticket, which begins with",
		"sha":            "cut short",
		id.String()[:40]: "no whole share ID: that has 59 characters, and this 40",
		raw:              `is a CID, but not of a share`,
		"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPBdG": `is a CID, but not of a share`,
		strings.Repeat("b", 1000):                        "1000 characters beginning with",
	} {
		if got, err := Parse(s); !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v; want %q", s, got, err, says)
		}
	}
}

func TestTicketHasOneText(t *testing.T) {
	// Its last character may have bits that decode to nothing.
	s := exampleTicket(t).String()
	for _, c := range "abcdefghijklmnopqrstuvwxyz234567" {
		other := s[:len(s)-1] + string(c)
		if got, err := ParseTicket(other); other != s && err == nil {
			t.Errorf("%v is also %s", got, other)
		}
	}
}

func FuzzParseTicket(f *testing.F) {
	f.Add(exampleTicket(f).String())
	f.Add("share")
	f.Add(sealed(object(1).num("v", 2)))
	f.Add(sealed(bytes.Repeat([]byte{0x81}, 100)))
	f.Fuzz(func(t *testing.T, s string) {
		ticket, err := ParseTicket(s)
		if err != nil {
			if !errors.Is(err, ErrTicket) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		if ticket.String() != strings.ToLower(strings.Join(strings.Fields(s), "")) || ticket.ID.IsZero() {
			t.Fatalf("%q became %q", s, ticket)
		}
		if again, err := NewTicket(ticket.ID, ticket.Peers); err != nil || len(again.Peers) > len(ticket.Peers) {
			t.Fatalf("made again, %v: %v", again, err)
		}
	})
}

// FuzzTicketBody seals what the fuzzer makes, so that it comes past the checksum.
func FuzzTicketBody(f *testing.F) {
	f.Add(exampleTicket(f).encode())
	f.Add([]byte(object(1).num("v", 2)))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := sealed(body)
		if ticket, err := ParseTicket(s); err == nil && ticket.String() != s {
			t.Fatalf("%x became %v", body, ticket)
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
		if again, err := ParseID(id.String()); !id.IsZero() && (err != nil || again != id) {
			t.Fatalf("%v became %v, %v", id, again, err)
		}
	})
}
