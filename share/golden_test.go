package share

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; a format that is out in the world must not change")

// golden compares got with testdata/name, or puts it there.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// example is the share that docs/formats.md explains.
func example(t testing.TB) *Manifest {
	big := hashFile("big", pattern(MinPiece+1), minPieceExp).entry
	run := hashFile("bin/run", []byte("hello\n"), minPieceExp).entry
	run.Exec = true
	m, err := NewManifest("demo", []Entry{
		{Path: "nothing", Kind: Dir},
		{Path: "latest", Kind: Symlink, Target: "bin/run"},
		hashFile("zero", nil, minPieceExp).entry,
		run,
		big,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	examplePublic  = "/ip4/1.2.3.4/tcp/4001/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"
	examplePrivate = "/ip4/192.168.1.5/udp/4001/quic-v1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"
)

func exampleTicket(t testing.TB) Ticket {
	ticket, err := NewTicket(example(t).ID(), addrs(examplePrivate, examplePublic))
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// fullTicket has one of everything that a ticket of version 2 can hold: a source
// with ports and hosts of all kinds, one that can be reached only through a relay, a relay, a node
// that is relay and beacon, and a secret.
func fullTicket(t testing.TB) Ticket {
	at := func(peer string, where ...string) (out []multiaddr.Multiaddr) {
		for _, a := range where {
			out = append(out, addrs(a+"/p2p/"+peer)...)
		}
		return out
	}
	relay, both := at(peerOf(2), "/ip4/5.6.7.8/tcp/443"), at(peerOf(3), "/dns/relay.example.org/udp/4001/quic-v1")
	ticket := Ticket{
		ID: example(t).ID(),
		Peers: append(at(examplePeer, "/ip4/1.2.3.4/tcp/4001", "/ip4/1.2.3.4/udp/4001/quic-v1", "/ip4/192.168.1.5/tcp/4001", "/ip4/192.168.1.5/udp/4001/quic-v1",
			"/ip6/2001:db8::5/tcp/4001", "/ip6/2001:db8::5/udp/4001/quic-v1", "/dns4/example.org/tcp/4002", "/ip4/1.2.3.4/tcp/443/tls/ws"), at(peerOf(1), "")...),
		Relays:  append(relay, both...),
		Beacons: both,
		Secret:  &Secret{},
	}
	for i := range ticket.Secret {
		ticket.Secret[i] = byte(i)
	}
	return ticket
}

// peerOf returns the ID of the peer whose Ed25519 key is this byte 32 times.
func peerOf(b byte) string {
	a, err := multiaddr.NewMultiaddrBytes(append(slices.Clip(headPeer), bytes.Repeat([]byte{b}, keySize)...))
	if err != nil {
		panic(err)
	}
	return a[0].Value()
}

func addrs(texts ...string) []multiaddr.Multiaddr {
	var out []multiaddr.Multiaddr
	for _, s := range texts {
		out = append(out, multiaddr.StringCast(s))
	}
	return out
}

// lines formats b in hexadecimal, 32 bytes a line.
func lines(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(32, len(b))
		out.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return out.String()
}

func TestManifestIsAsPromised(t *testing.T) {
	m := example(t)
	golden(t, "manifest.golden", lines(m.Bytes()))
	golden(t, "id.golden", m.ID().String()+"\n")
}

func TestTicketIsAsPromised(t *testing.T) {
	golden(t, "ticket.golden", seal(exampleTicket(t).encodeV1())+"\n")
	golden(t, "ticket.v2.golden", exampleTicket(t).String()+"\n")
	golden(t, "ticket.v2.full.golden", fullTicket(t).String()+"\n")
}

func TestGoldenFilesAreRead(t *testing.T) {
	m, err := DecodeManifest(unhex(t, read(t, "testdata/manifest.golden")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Ticket{"ticket": exampleTicket(t), "ticket.v2": exampleTicket(t), "ticket.v2.full": fullTicket(t)} {
		if got, err := ParseTicket(read(t, "testdata/"+name+".golden")); err != nil || !sameTicket(got, want) || got.ID != m.ID() {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	id, err := ParseID(strings.TrimSpace(read(t, "testdata/id.golden")))
	if err != nil {
		t.Fatal(err)
	}
	if id != m.ID() {
		t.Errorf("the manifest is of %v, the ID is %v", m.ID(), id)
	}
}

// TestDocumentShowsTheGoldenFiles reads the examples of docs/formats.md: code
// blocks marked hex, each line bytes and then a comment, and the texts.
func TestDocumentShowsTheGoldenFiles(t *testing.T) {
	doc := read(t, "../docs/formats.md")
	section := func(title string) string {
		_, rest, ok := strings.Cut(doc, "\n## "+title+"\n")
		if !ok {
			t.Fatalf("no section %q", title)
		}
		text, _, _ := strings.Cut(rest, "\n## ")
		return text
	}
	blocks := func(title string) (out []string) {
		for _, m := range regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllStringSubmatch(section(title), -1) {
			var digits strings.Builder
			for line := range strings.Lines(m[1]) {
				code, _, _ := strings.Cut(line, "#")
				digits.WriteString(code)
			}
			out = append(out, lines(unhex(t, digits.String())))
		}
		return out
	}
	m, ticket := example(t), exampleTicket(t)
	if got := blocks("3 Manifest"); !slices.Equal(got, []string{read(t, "testdata/manifest.golden")}) {
		t.Errorf("the manifest is there as\n%s\nit is\n%s", got, lines(m.Bytes()))
	}
	if got, want := blocks("5 Ticket"), []string{lines(fullTicket(t).encode()), lines(ticket.encodeV1())}; !slices.Equal(got, want) {
		t.Errorf("the bodies of tickets are there as\n%s\nthey are\n%s", got, want)
	}
	if !strings.Contains(section("4 Share ID"), "\n"+m.ID().String()+"\n") {
		t.Errorf("the share ID is not there: %v", m.ID())
	}
	if !strings.Contains(section("4 Share ID"), hex.EncodeToString(m.ID().Bytes())) {
		t.Errorf("the share ID is not there in hexadecimal: %x", m.ID().Bytes())
	}
	big, two := hashFile("big", pattern(MinPiece+1), minPieceExp), hashFile("two", pattern(2*BlockSize), minPieceExp)
	for name, want := range map[string]Hash{
		"block 0": big.proofs[0][0], "block 1": big.proofs[0][1], "block 15": big.proofs[0][15],
		"the fold of two blocks": value(fold(big.proofs[0][:2]), false), "two blocks as a file": two.entry.Root,
		"piece 0": big.entry.Pieces[0], "piece 1": big.entry.Pieces[1], "the root": big.entry.Root, "the empty root": EmptyRoot,
	} {
		if !strings.Contains(section("2 Hash tree"), hex.EncodeToString(want[:])) {
			t.Errorf("%s is not there: %x", name, want[:])
		}
	}
	text := strings.Join(strings.Fields(section("5 Ticket")), "")
	for _, s := range []string{fullTicket(t).String(), seal(ticket.encodeV1())} {
		if !strings.Contains(text, "```text"+s+"```") {
			t.Errorf("the ticket is not there: %v", s)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
