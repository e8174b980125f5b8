package share

import (
	"bytes"
	"cmp"
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

// MaxTicket is the maximum number of characters of a ticket.
const MaxTicket = 4 << 10

const (
	ticketPrefix = "share"
	checksumSize = 4
	maxAddrsV1   = 8
	foldedKey    = "x" // of the folded form in the body of a ticket of version 2
)

var ticketBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Ticket is a share ID and where to find it. Each of its addresses ends in /p2p/ID,
// and may be nothing else if there is a relay to the peer.
type Ticket struct {
	ID      ID
	Peers   []multiaddr.Multiaddr // of sources
	Relays  []multiaddr.Multiaddr // of nodes through which each source can be reached
	Beacons []multiaddr.Multiaddr // of nodes that know who else has the share
	Secret  *Secret               // that sources ask for; nil: none
}

// Secret is what a ticket proves to a source with.
type Secret [16]byte

// NewTicket makes the ticket of a share. Of addrs, each ending in /p2p/ID with an
// Ed25519 key in the ID, it keeps the best, in the order of their reach and then as
// given: those of four IPv4 and two IPv6 addresses and of two names. Loopback addresses
// are not kept, unless there is nothing else. Of addresses that lead through
// relays, two are kept, and others of the same relay and host.
func NewTicket(id ID, addrs []multiaddr.Multiaddr) (Ticket, error) {
	if id.IsZero() {
		return Ticket{}, fmt.Errorf("%w: no share ID", ErrTicket)
	}
	for _, a := range addrs {
		if _, ok := keyOf(a); !ok || len(a) < 2 {
			return Ticket{}, fmt.Errorf("%w: the address %q does not end in /p2p/ and the ID of a peer with an Ed25519 key", ErrTicket, a)
		}
	}
	addrs, relays := parted(addrs)
	slices.SortStableFunc(addrs, func(a, b multiaddr.Multiaddr) int {
		return Reach(a) - Reach(b)
	})
	t := Ticket{ID: id}
	left := map[int]int{multiaddr.P_IP4: 4, multiaddr.P_IP6: 2, 0: 2}
	kept := map[string]bool{}
	for _, a := range addrs {
		if len(t.Peers) > 0 && Reach(t.Peers[0]) < SameMachine && Reach(a) == SameMachine {
			break
		}
		kind, host := a[0].Code(), string(a[0].Bytes())
		if kind != multiaddr.P_IP4 && kind != multiaddr.P_IP6 {
			kind = 0
		}
		if !kept[host] && left[kind] == 0 || multiaddr.Contains(t.Peers, a) {
			continue
		}
		more := t
		more.Peers = append(t.Peers, a)
		if _, ok := more.fold(); !ok {
			continue
		}
		if t = more; !kept[host] {
			kept[host] = true
			left[kind]--
		}
	}
	for _, a := range relays {
		more := t
		if len(t.Peers) == 0 {
			more.Peers = append(more.Peers, a.self.Multiaddr())
		}
		more.Relays = append(t.Relays, a.relay)
		if _, ok := more.fold(); ok && (len(t.Relays) < maxRelays || isBeside(a.relay, t.Relays)) {
			t = more
		}
	}
	return t, nil
}

// AtBeacons returns the ticket with a secret, and beacons that know by it who else has the
// share: multiaddrs, each ending in /p2p/ID with an Ed25519 key in the ID. Those for
// which there is no room are left out; if none fits, so is the secret.
func (t Ticket) AtBeacons(secret *Secret, beacons []multiaddr.Multiaddr) Ticket {
	for _, b := range beacons {
		more := t
		more.Secret, more.Beacons = secret, append(slices.Clip(t.Beacons), b)
		if _, ok := more.fold(); ok && (len(t.Beacons) < maxBeacons || isBeside(b, t.Beacons)) && !multiaddr.Contains(t.Beacons, b) {
			t = more
		}
	}
	return t
}

// maxBeacons is how many addresses of beacons AtBeacons adds, besides others of the same hosts.
const maxBeacons = 2

// maxRelays is how many addresses of relays NewTicket keeps.
const maxRelays = 2

// isBeside says whether an address has the same host and peer as one of a list.
func isBeside(a multiaddr.Multiaddr, list []multiaddr.Multiaddr) bool {
	return slices.ContainsFunc(list, func(b multiaddr.Multiaddr) bool {
		return a[0].Equal(&b[0]) && a[len(a)-1].Equal(&b[len(b)-1])
	})
}

// via is a relay, and the peer that is reached through it.
type via struct {
	relay multiaddr.Multiaddr
	self  *multiaddr.Component
}

// parted returns a copy of the addresses that lead to a peer directly, and the relays of the others.
func parted(addrs []multiaddr.Multiaddr) (direct []multiaddr.Multiaddr, relays []via) {
	for _, a := range addrs {
		relay, behind := multiaddr.SplitFunc(a, func(c multiaddr.Component) bool { return c.Code() == multiaddr.P_CIRCUIT })
		if _, ok := keyOf(relay); len(behind) > 0 && ok && len(relay) > 1 {
			relays = append(relays, via{relay, &a[len(a)-1]})
		} else if len(behind) == 0 {
			direct = append(direct, a)
		}
	}
	return direct, relays
}

// ParseAddr reads a multiaddr. The error says what is wrong, without the text itself.
func ParseAddr(s string) (multiaddr.Multiaddr, error) {
	a, err := multiaddr.NewMultiaddr(s)
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), `": `) // behind the address, which the library has changed
		return nil, errors.New(cmp.Or(why, err.Error()))
	}
	return a, nil
}

// The values of Reach: from how far an address can be dialled.
const (
	Anywhere = iota
	SameNetwork
	SameMachine
	Nowhere // no address
)

// Where a router translates (NAT64) or tunnels (6to4), an address of IPv6 leads to the one of IPv4 in it.
var (
	nat64      = []byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}
	nat64Local = []byte{0, 0x64, 0xff, 0x9b, 0, 1} // each network decides where it leads
	sixToFour  = []byte{0x20, 0x02}
)

// LeadsTo returns the address of IPv4 to which one of IPv6 leads everywhere; nil: there is none.
func LeadsTo(ip []byte) []byte {
	switch {
	case bytes.HasPrefix(ip, nat64):
		return ip[len(nat64):]
	case bytes.HasPrefix(ip, sixToFour) && len(ip) == 16:
		return ip[len(sixToFour):][:4]
	}
	return nil
}

// Reach returns from how far an address can be dialled.
func Reach(a multiaddr.Multiaddr) int {
	ip, err := manet.ToIP(a)
	if err == nil && bytes.HasPrefix(ip, nat64Local) {
		return SameNetwork
	}
	if to := LeadsTo(ip); to != nil {
		a, _ = manet.FromIP(to)
	}
	switch {
	case manet.IsPublicAddr(a):
		return Anywhere
	case manet.IsIPLoopback(a):
		return SameMachine
	}
	return SameNetwork
}

// Farthest returns from how far the best of some multiaddrs can be dialled: of those that lead through relays,
// or of the others. It is Nowhere if there is none.
func Farthest(addrs []string, relayed bool) (reach int) {
	reach = Nowhere
	for _, s := range addrs {
		a, err := multiaddr.NewMultiaddr(s)
		if err != nil {
			continue
		}
		if _, err := a.ValueForProtocol(multiaddr.P_CIRCUIT); (err == nil) == relayed {
			reach = min(reach, Reach(a))
		}
	}
	return reach
}

// String returns the ticket as people copy it: the inverse of ParseTicket for a ticket that
// NewTicket or ParseTicket made. It is of version 2, unless it was read from one of
// version 1 and holds what only that can say. Without a share ID there is none.
func (t Ticket) String() string {
	if t.ID.IsZero() {
		return ""
	}
	return seal(t.encode())
}

// seal is the text of a body.
func seal(body []byte) string {
	sum := blake3.Sum256(body)
	return ticketPrefix + ticketBase32.EncodeToString(append(slices.Clip(body), sum[:checksumSize]...))
}

// encode is the canonical DAG-CBOR of t: {v: 2, x: bytes}.
func (t Ticket) encode() []byte {
	folded, ok := t.fold()
	if !ok {
		return t.encodeV1()
	}
	b := appendHead(nil, cborMap, 2)
	b = appendHead(appendKey(b, "v"), cborUint, 2)
	return append(appendHead(appendKey(b, foldedKey), cborBytes, uint64(len(folded))), folded...)
}

// encodeV1 is t as version 1 had it: {v: 1, id: link, peers: [bytes...]}.
func (t Ticket) encodeV1() []byte {
	b := appendHead(nil, cborMap, 3)
	b = appendHead(appendKey(b, "v"), cborUint, 1)
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

// ParseTicket reads a ticket, in capitals or not, and with white space that
// mail programs and terminals insert. The error wraps ErrTicket and says whether
// the ticket was cut, in which case it wraps ErrCut, mistyped, or made by a later version, in which case it wraps ErrLater.
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

// inLowerCase changes only ASCII letters: other alphabets have letters that would
// become letters of base32.
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
			return Ticket{}, fmt.Errorf("mistyped: %q, at position %d, cannot be in a ticket", c, len(ticketPrefix)+i+1)
		}
	}
	raw, err := ticketBase32.DecodeString(text)
	if err != nil || len(raw) < checksumSize {
		return Ticket{}, ErrCut // each character is valid, so their number is wrong
	}
	body := raw[:len(raw)-checksumSize]
	if sum := blake3.Sum256(body); !bytes.Equal(sum[:checksumSize], raw[len(body):]) {
		if cut(raw) {
			return Ticket{}, ErrCut
		}
		return Ticket{}, errors.New("mistyped: its checksum does not match; copy the whole of it again")
	}
	// Base32 leaves up to four bits over, and package base32 accepts any value of them.
	switch whole := seal(body); {
	case len(s) > len(whole):
		return Ticket{}, errors.New("mistyped: it has a letter too many at its end; copy the whole of it again")
	case s != whole:
		return Ticket{}, errors.New("mistyped: its last letter is not the right one; copy the whole of it again")
	}
	return decodeTicket(body)
}

// errNotCanonical says that the bytes are not those that would be written, so that a share had two tickets.
var errNotCanonical = errors.New("garbled: it is not written as tickets are; ask for another")

// ErrLater says that a ticket is whole, and made by a later version of this program.
var ErrLater = errors.New("made by a later version")

// ErrCut says that the end of a ticket is missing.
var ErrCut = errors.New("cut short: its end is missing; copy the whole of it")

// cut says whether raw, whose checksum is wrong, ends before it should.
func cut(raw []byte) bool {
	r := bytes.NewReader(raw)
	nb := basicnode.Prototype.Any.NewBuilder()
	opts := dagcbor.DecodeOptions{AllowLinks: true, DontParseBeyondEnd: true, AllocationBudget: 16 * MaxTicket, MaxDepth: 8}
	_ = opts.Decode(nb, r) // what is wrong with it does not matter here
	return r.Len() < checksumSize
}

// decodeTicket reads the body of a ticket whose checksum matches, so that anything
// wrong in it was wrong when it was made.
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
	case v == 1:
		return decodeV1(n, body)
	case v == 2:
		return decodeV2(n, body)
	case v > 2:
		return Ticket{}, fmt.Errorf("%w of this program: the ticket has version %d, and this one knows versions 1 and 2; please update", ErrLater, v)
	}
	return Ticket{}, fmt.Errorf("garbled: there is no version %d of tickets", v)
}

func decodeV1(n datamodel.Node, body []byte) (t Ticket, err error) {
	if err := knownKeys(n, "v", "id", "peers"); err != nil {
		return Ticket{}, err
	}
	if t.ID, err = idAt(n, "id"); err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	if t.Peers, err = peersAt(n, "peers"); err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	if !bytes.Equal(t.encodeV1(), body) {
		return Ticket{}, errNotCanonical
	}
	return t, nil
}

func decodeV2(n datamodel.Node, body []byte) (Ticket, error) {
	if err := knownKeys(n, "v", foldedKey); err != nil {
		return Ticket{}, err
	}
	x, err := n.LookupByString(foldedKey)
	if err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	folded, err := x.AsBytes()
	if err != nil {
		return Ticket{}, fmt.Errorf("garbled: %w", err)
	}
	t, err := unfold(folded)
	if err == nil && !bytes.Equal(t.encode(), body) {
		err = errNotCanonical
	}
	if err == nil && t.ID.IsZero() {
		err = errors.New("garbled: no share ID")
	}
	if err != nil {
		return Ticket{}, err
	}
	return t, nil
}

// knownKeys refuses a ticket with keys that this program would ignore.
func knownKeys(n datamodel.Node, known ...string) error {
	for it := n.MapIterator(); it != nil && !it.Done(); {
		k, _, err := it.Next()
		if err != nil {
			return fmt.Errorf("garbled: %w", err)
		}
		if key, _ := k.AsString(); !slices.Contains(known, key) {
			return fmt.Errorf("%w of this program: this one does not know its field %.40q; please update", ErrLater, key)
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
		return ID{}, errors.New("a link that is not a CID")
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
	if list.Kind() != datamodel.Kind_List || list.Length() > maxAddrsV1 {
		return nil, fmt.Errorf("its list of addresses is missing, or has more than %d", maxAddrsV1)
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
		if len(a) < 2 || a[len(a)-1].Code() != multiaddr.P_P2P {
			return nil, fmt.Errorf("the address %q does not end in /p2p/ and a peer ID", a)
		}
		out = append(out, a)
	}
	return out, nil
}
