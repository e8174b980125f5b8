package share

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/multiformats/go-multiaddr"
)

// The second version of tickets folds what the first repeats. It is the digest of
// the share ID, followed by parts: a secret; and for each peer its key, its ports, and
// after a port the hosts that have it. A part begins with a byte: its kind, and
// in the lower four bits more about it. docs/formats.md has the table.
const (
	partPeer   = 0x10 // roles; a key
	partPort   = 0x20 // transports; a port
	partIP4    = 0x40 // how many; the addresses
	partIP6    = 0x60 // how many; the addresses
	partName   = 0x70 // which of names; its length, a name
	partOther  = 0x80 // 0; its length, a multiaddr
	partSecret = 0x90 // 0; a secret
)

// Roles of a peer.
const (
	roleSource = 1 << iota
	roleRelay
	roleBeacon
	roleAll = roleSource | roleRelay | roleBeacon
)

// Transports of a port.
const (
	viaTCP = 1 << iota
	viaQUIC
	viaAll = viaTCP | viaQUIC
)

const (
	keySize   = 32
	portSize  = 2
	maxPeers  = 8   // of a folded ticket
	maxHosts  = 16  // ... IP addresses and names, each port of one counted separately, and other addresses
	maxText   = 255 // bytes of a name, and of another address
	maxRepeat = 15  // what the lower four bits can count
)

// Heads of the components of multiaddrs: codes as varints, and the length of a peer ID.
var (
	headIP4  = []byte{multiaddr.P_IP4}
	headIP6  = []byte{multiaddr.P_IP6}
	headTCP  = []byte{multiaddr.P_TCP}
	headUDP  = multiaddr.CodeToVarint(multiaddr.P_UDP)
	tailQUIC = multiaddr.CodeToVarint(multiaddr.P_QUIC_V1)
	// headPeer comes before an Ed25519 key: the peer's ID is an identity multihash of
	// a protobuf message.
	headPeer = append(multiaddr.CodeToVarint(multiaddr.P_P2P), 38, 0x00, 36, 0x08, 1, 0x12, keySize)
	// names are the protocols of names, by the lower four bits of their parts.
	names = map[byte]int{0: multiaddr.P_DNS, 4: multiaddr.P_DNS4, 6: multiaddr.P_DNS6}
)

// folding is all that a ticket says of one peer.
type folding struct {
	key    []byte
	roles  byte
	ways   []way
	others [][]byte // multiaddrs without the peer's ID
}

// way is a port of an IP address or a name.
type way struct {
	part byte // of the host, without the count
	host string
	port string
	via  byte
}

// fold returns the folded form of t; false if t has none: it holds a peer whose key is
// not an Ed25519 key, or too much.
func (t Ticket) fold() ([]byte, bool) {
	var all []*folding
	for i, list := range [][]multiaddr.Multiaddr{t.Peers, t.Relays, t.Beacons} {
		for _, a := range list {
			key, ok := keyOf(a)
			if !ok {
				return nil, false
			}
			at := slices.IndexFunc(all, func(p *folding) bool { return bytes.Equal(p.key, key) })
			if at < 0 {
				at, all = len(all), append(all, &folding{key: key})
			}
			all[at].roles |= 1 << i
			all[at].add(a[:len(a)-1])
		}
	}
	out := slices.Clone(t.ID.digest[:])
	if t.Secret != nil {
		out = append(append(out, partSecret), t.Secret[:]...)
	}
	hosts := 0
	for _, p := range all {
		hosts += len(p.ways) + len(p.others)
		out = p.append(out)
	}
	long := slices.ContainsFunc(all, (*folding).tooLong)
	return out, !long && len(all) <= maxPeers && hosts <= maxHosts
}

// keyOf is the key in the ID at the end of an address; false if there is none.
func keyOf(a multiaddr.Multiaddr) ([]byte, bool) {
	if len(a) == 0 {
		return nil, false
	}
	key, ok := bytes.CutPrefix(a[len(a)-1].Bytes(), headPeer)
	return key, ok && len(key) == keySize
}

// add adds an address, from which the ID was taken, unless it is there already.
func (p *folding) add(a multiaddr.Multiaddr) {
	if len(a) == 0 {
		return // the peer is named without one
	}
	w, ok := wayOf(a)
	if !ok {
		if !slices.ContainsFunc(p.others, func(b []byte) bool { return bytes.Equal(a.Bytes(), b) }) {
			p.others = append(p.others, a.Bytes())
		}
		return
	}
	for i := range p.ways {
		if same := &p.ways[i]; same.part == w.part && same.host == w.host && same.port == w.port {
			same.via |= w.via
			return
		}
	}
	p.ways = append(p.ways, w)
}

// wayOf takes an address apart; false if it has no form that folds.
func wayOf(a multiaddr.Multiaddr) (w way, ok bool) {
	switch {
	case len(a) == 2 && a[1].Code() == multiaddr.P_TCP:
		w.via = viaTCP
	case len(a) == 3 && a[1].Code() == multiaddr.P_UDP && a[2].Code() == multiaddr.P_QUIC_V1:
		w.via = viaQUIC
	default:
		return w, false
	}
	w.host, w.port = string(a[0].RawValue()), string(a[1].RawValue())
	switch code := a[0].Code(); code {
	case multiaddr.P_IP4:
		w.part = partIP4
	case multiaddr.P_IP6:
		w.part = partIP6
	default:
		for bits, c := range names {
			if c == code {
				w.part = partName | bits
			}
		}
	}
	return w, w.part != 0
}

func (p *folding) tooLong() bool {
	return slices.ContainsFunc(p.ways, func(w way) bool { return len(w.host) > maxText }) ||
		slices.ContainsFunc(p.others, func(b []byte) bool { return len(b) > maxText })
}

// append appends the parts of a peer: ports in the order of their first hosts, and
// behind each its hosts, IPv4, IPv6, and names.
func (p *folding) append(out []byte) []byte {
	out = append(append(out, partPeer|p.roles), p.key...)
	for ways := slices.Clone(p.ways); len(ways) > 0; {
		port, via := ways[0].port, ways[0].via
		out = append(append(out, partPort|via), port...)
		var here []way
		ways = slices.DeleteFunc(ways, func(w way) bool {
			if w.port != port || w.via != via {
				return false
			}
			here = append(here, w)
			return true
		})
		slices.SortStableFunc(here, func(a, b way) int { return cmp.Compare(a.part, b.part) })
		for len(here) > 0 {
			out, here = appendHosts(out, here)
		}
	}
	for _, b := range p.others {
		out = append(append(out, partOther, byte(len(b))), b...)
	}
	return out
}

// appendHosts appends one part, with the first of the hosts and those like it.
func appendHosts(out []byte, hosts []way) ([]byte, []way) {
	part, n := hosts[0].part, 1
	if part&0xf0 == partName {
		out = append(out, part, byte(len(hosts[0].host)))
	} else {
		for n < min(len(hosts), maxRepeat) && hosts[n].part == part {
			n++
		}
		out = append(out, part|byte(n))
	}
	for _, w := range hosts[:n] {
		out = append(out, w.host...)
	}
	return out, hosts[n:]
}

// unfolding reads a folded ticket.
type unfolding struct {
	b     []byte
	err   error
	t     Ticket
	self  []byte // component with the ID of the peer that parts are about; nil: none yet
	roles byte
	bare  bool // it has no address yet
	port  []byte
	via   byte // 0: no port yet
}

// unfold reads what fold made, and nothing else.
func unfold(b []byte) (Ticket, error) {
	u := &unfolding{b: b}
	copy(u.t.ID.digest[:], u.take(len(u.t.ID.digest)))
	for u.err == nil && len(u.b) > 0 {
		head := u.take(1)[0]
		u.part(head&0xf0, head&0x0f)
	}
	u.endPeer()
	if u.err != nil {
		return Ticket{}, u.err
	}
	if again, ok := u.t.fold(); !ok || !bytes.Equal(again, b) {
		return Ticket{}, errNotCanonical
	}
	return u.t, nil
}

// take returns the next n bytes; zeros, and an error, if there are fewer.
func (u *unfolding) take(n int) []byte {
	if len(u.b) < n {
		u.fail(errors.New("garbled: it ends early"))
		return make([]byte, n)
	}
	b := u.b[:n]
	u.b = u.b[n:]
	return b
}

// takeText returns the next text, which comes after its length.
func (u *unfolding) takeText() []byte { return u.take(int(u.take(1)[0])) }

func (u *unfolding) fail(err error) {
	if u.err == nil {
		u.err = err
	}
}

// part reads what follows the first byte of a part.
func (u *unfolding) part(kind, more byte) {
	switch {
	case kind == partSecret && more == 0:
		u.t.Secret = (*Secret)(u.take(len(Secret{})))
	case kind == partPeer && more > 0 && more <= roleAll:
		u.endPeer()
		u.self = slices.Concat(headPeer, u.take(keySize))
		u.roles, u.bare, u.via = more, true, 0
	case u.self != nil && kind == partPort && more > 0 && more <= viaAll:
		u.port, u.via = u.take(portSize), more
	case u.self != nil && kind == partOther && more == 0:
		u.address(u.takeText())
	case u.via != 0 && kind == partIP4 && more > 0:
		for ; more > 0; more-- {
			u.host(headIP4, u.take(4))
		}
	case u.via != 0 && kind == partIP6 && more > 0:
		for ; more > 0; more-- {
			u.host(headIP6, u.take(16))
		}
	case u.via != 0 && kind == partName && names[more] != 0:
		name := u.takeText()
		u.host(append(multiaddr.CodeToVarint(names[more]), byte(len(name))), name)
	case kind == partPort && more > 0 && more <= viaAll, kind == partOther && more == 0,
		(kind == partIP4 || kind == partIP6) && more > 0, kind == partName && names[more] != 0:
		u.fail(errNotCanonical) // in the wrong place
	default:
		u.fail(fmt.Errorf("%w of this program: this one does not know its part %#02x; please update", ErrLater, kind|more))
	}
}

// host adds the addresses of a host.
func (u *unfolding) host(head, host []byte) {
	if u.via&viaTCP != 0 {
		u.address(head, host, headTCP, u.port)
	}
	if u.via&viaQUIC != 0 {
		u.address(head, host, headUDP, u.port, tailQUIC)
	}
}

// endPeer ends the parts about a peer. One without an address is named by its ID.
func (u *unfolding) endPeer() {
	if u.self != nil && u.bare {
		u.address()
	}
}

// address adds an address of the peer, from its bytes, to the lists of its roles.
func (u *unfolding) address(parts ...[]byte) {
	if u.err != nil {
		return
	}
	a, err := multiaddr.NewMultiaddrBytes(append(slices.Concat(parts...), u.self...))
	if err != nil {
		u.fail(fmt.Errorf("garbled: %w", err))
		return
	}
	u.bare = false
	for i, list := range []*[]multiaddr.Multiaddr{&u.t.Peers, &u.t.Relays, &u.t.Beacons} {
		if u.roles&(1<<i) != 0 {
			*list = append(*list, a)
		}
	}
}
