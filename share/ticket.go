package share

import (
	"bytes"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/ipfs/go-cid"
	"github.com/ipld/go-ipld-prime/codec/dagcbor"
	"github.com/ipld/go-ipld-prime/datamodel"
	cidlink "github.com/ipld/go-ipld-prime/linking/cid"
	"github.com/ipld/go-ipld-prime/node/basicnode"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"lukechampine.com/blake3"
)

// Limits of a ticket.
const (
	MaxTicket      = 4 << 10 // characters
	MaxTicketPeers = 8       // addresses
)

const (
	ticketPrefix  = "share"
	ticketVersion = 1
	checksumSize  = 4
)

var ticketBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Ticket is a share ID and where to find it.
type Ticket struct {
	ID    ID
	Peers []multiaddr.Multiaddr // each ends in /p2p/ID
}

// NewTicket makes the ticket of a share. Of addrs, each ending in /p2p/ID, it
// keeps those that fit: without duplicates, public ones first, then in the order
// given, at most MaxTicketPeers and MaxTicket.
func NewTicket(id ID, addrs []multiaddr.Multiaddr) (Ticket, error) {
	if id.IsZero() {
		return Ticket{}, fmt.Errorf("%w: no share ID", ErrTicket)
	}
	t := Ticket{ID: id}
	for _, a := range addrs {
		if !endsInPeer(a) {
			return Ticket{}, fmt.Errorf("%w: the address %q does not end in /p2p/ and a peer ID", ErrTicket, a)
		}
		if !multiaddr.Contains(t.Peers, a) {
			t.Peers = append(t.Peers, a)
		}
	}
	slices.SortStableFunc(t.Peers, func(a, b multiaddr.Multiaddr) int {
		return Reach(a) - Reach(b)
	})
	t.Peers = t.Peers[:min(len(t.Peers), MaxTicketPeers)]
	for len(t.String()) > MaxTicket {
		t.Peers = t.Peers[:len(t.Peers)-1]
	}
	return t, nil
}

// Reach is from how far an address can be dialled: 0 from anywhere, 1 from the same
// network, 2 from the same machine.
func Reach(a multiaddr.Multiaddr) int {
	switch {
	case manet.IsPublicAddr(a):
		return 0
	case manet.IsIPLoopback(a):
		return 2
	}
	return 1
}

func endsInPeer(a multiaddr.Multiaddr) bool {
	return len(a) > 1 && a[len(a)-1].Code() == multiaddr.P_P2P
}

// String is the ticket as people copy it: ParseTicket's inverse for a ticket
// that NewTicket or ParseTicket made. Without a share ID there is none.
func (t Ticket) String() string {
	if t.ID.IsZero() {
		return ""
	}
	b := t.encode()
	sum := blake3.Sum256(b)
	return ticketPrefix + ticketBase32.EncodeToString(append(b, sum[:checksumSize]...))
}

// encode is the canonical DAG-CBOR of t: {v: 1, id: link, peers: [bytes...]}.
func (t Ticket) encode() []byte {
	b := appendHead(nil, cborMap, 3)
	b = appendHead(appendKey(b, "v"), cborUint, ticketVersion)
	b = append(appendKey(b, "id"), 0xd8, 42) // the tag of a link
	b = append(appendHead(b, cborBytes, uint64(1+len(t.ID.Bytes()))), 0)
	b = append(b, t.ID.Bytes()...)
	b = appendHead(appendKey(b, "peers"), cborList, uint64(len(t.Peers)))
	for _, p := range t.Peers {
		b = append(appendHead(b, cborBytes, uint64(len(p.Bytes()))), p.Bytes()...)
	}
	return b
}

// Parse reads a ticket, or a share ID as a ticket without addresses. The error
// wraps ErrTicket, and ErrCut if more text could make it one.
func Parse(s string) (Ticket, error) {
	s = asWritten(s)
	if t := inLowerCase(s); strings.HasPrefix(t, ticketPrefix) || strings.HasPrefix(ticketPrefix, t) {
		return ParseTicket(s)
	}
	id, err := ParseID(s)
	return Ticket{ID: id}, err
}

// ParseTicket reads a ticket, in capitals or not, and with white space in it as
// mail programs and terminals put there. The error wraps ErrTicket and says whether
// it was cut, in which case it wraps ErrCut, mistyped, or made by a later version.
func ParseTicket(s string) (Ticket, error) {
	t, err := parseTicket(inLowerCase(asWritten(s)))
	if err != nil {
		return Ticket{}, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	return t, nil
}

// maxWritten bounds the characters of a ticket with the white space in it.
const maxWritten = 4 * MaxTicket

// asWritten is s without white space. If it is too long for a ticket, so is what
// is returned.
func asWritten(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, s[:min(len(s), maxWritten)])
}

// inLowerCase changes ASCII letters alone: other alphabets have letters that would
// become some of base32.
func inLowerCase(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
}

// parseTicket reads a ticket in lower case, without white space.
func parseTicket(s string) (Ticket, error) {
	switch {
	case s == "":
		return Ticket{}, errors.New("it is empty")
	case len(s) > MaxTicket:
		return Ticket{}, fmt.Errorf("it has %d characters, and a ticket at most %d", len(s), MaxTicket)
	case strings.HasPrefix(ticketPrefix, s):
		return Ticket{}, ErrCut
	case !strings.HasPrefix(s, ticketPrefix):
		return Ticket{}, fmt.Errorf("it does not begin with %q", ticketPrefix)
	}
	text := s[len(ticketPrefix):]
	for i, c := range text {
		switch {
		case c >= 'a' && c <= 'z' || c >= '2' && c <= '7':
		default:
			return Ticket{}, fmt.Errorf("mistyped: %q, its character %d, is in no ticket", c, len(ticketPrefix)+i+1)
		}
	}
	raw, err := ticketBase32.DecodeString(text)
	if err != nil || len(raw) < checksumSize {
		return Ticket{}, ErrCut // each character is good, so it is their number
	}
	body := raw[:len(raw)-checksumSize]
	if sum := blake3.Sum256(body); !bytes.Equal(sum[:checksumSize], raw[len(body):]) {
		if cut(raw) {
			return Ticket{}, ErrCut
		}
		return Ticket{}, errors.New("mistyped: its checksum does not match")
	}
	t, err := decodeTicket(body)
	if err != nil {
		return Ticket{}, err
	}
	// Base32 leaves up to four bits over, and base32 has no opinion on their value.
	if t.String() != s {
		return Ticket{}, errors.New("garbled: not in canonical form")
	}
	return t, nil
}

// ErrCut says that the end of a ticket is missing.
var ErrCut = errors.New("cut short: its end is missing")

// cut says whether raw, whose checksum is wrong, ends before it should.
func cut(raw []byte) bool {
	r := bytes.NewReader(raw)
	nb := basicnode.Prototype.Any.NewBuilder()
	opts := dagcbor.DecodeOptions{AllowLinks: true, DontParseBeyondEnd: true, AllocationBudget: 16 * MaxTicket, MaxDepth: 8}
	_ = opts.Decode(nb, r) // what is wrong in it is not the question
	return r.Len() < checksumSize
}

// decodeTicket reads the body of a ticket whose checksum matches, so that what
// is wrong in it was made wrong.
func decodeTicket(body []byte) (Ticket, error) {
	nb := basicnode.Prototype.Any.NewBuilder()
	opts := dagcbor.DecodeOptions{AllowLinks: true, AllocationBudget: 16 * MaxTicket, MaxDepth: 8}
	if err := opts.Decode(nb, bytes.NewReader(body)); err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	n := nb.Build()
	v, err := intAt(n, "v")
	switch {
	case err != nil:
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	case v > ticketVersion:
		return Ticket{}, fmt.Errorf("made by a later version (%d) of this program, which knows tickets of version %d: please update", v, ticketVersion)
	case v != ticketVersion:
		return Ticket{}, fmt.Errorf("garbled: there is no version %d of tickets", v)
	}
	if err := knownKeys(n); err != nil {
		return Ticket{}, err
	}
	var t Ticket
	if t.ID, err = idAt(n, "id"); err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	if t.Peers, err = peersAt(n, "peers"); err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	if !bytes.Equal(t.encode(), body) {
		return Ticket{}, errors.New("garbled: not in canonical form")
	}
	return t, nil
}

// knownKeys refuses a ticket that says what this program would not heed.
func knownKeys(n datamodel.Node) error {
	for it := n.MapIterator(); it != nil && !it.Done(); {
		k, _, err := it.Next()
		if err != nil {
			return fmt.Errorf("garbled: %w", err)
		}
		switch key, _ := k.AsString(); key {
		case "v", "id", "peers":
		default:
			return fmt.Errorf("made by a later version of this program: this one does not know its field %.40q; please update", key)
		}
	}
	return nil
}

func intAt(n datamodel.Node, key string) (int64, error) {
	v, err := n.LookupByString(key)
	if err != nil {
		return 0, err
	}
	return v.AsInt()
}

func idAt(n datamodel.Node, key string) (ID, error) {
	v, err := n.LookupByString(key)
	if err != nil {
		return ID{}, err
	}
	l, err := v.AsLink()
	if err != nil {
		return ID{}, err
	}
	link, ok := l.(cidlink.Link)
	if !ok || link.Cid == cid.Undef {
		return ID{}, errors.New("a link that is no CID")
	}
	id, err := IDFromBytes(link.Cid.Bytes())
	if err == nil && id.IsZero() {
		return ID{}, errors.New("no share ID")
	}
	return id, err
}

func peersAt(n datamodel.Node, key string) ([]multiaddr.Multiaddr, error) {
	list, err := n.LookupByString(key)
	if err != nil {
		return nil, err
	}
	if list.Kind() != datamodel.Kind_List || list.Length() > MaxTicketPeers {
		return nil, fmt.Errorf("no list of at most %d addresses", MaxTicketPeers)
	}
	var out []multiaddr.Multiaddr
	for i := range list.Length() {
		v, err := list.LookupByIndex(i)
		if err != nil {
			return nil, err
		}
		b, err := v.AsBytes()
		if err != nil {
			return nil, err
		}
		a, err := multiaddr.NewMultiaddrBytes(b)
		if err != nil {
			return nil, err
		}
		if !endsInPeer(a) {
			return nil, fmt.Errorf("the address %q does not end in /p2p/ and a peer ID", a)
		}
		out = append(out, a)
	}
	return out, nil
}
