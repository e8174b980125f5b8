package simnet

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Behaviour is how a node that is not honest treats others. Underneath runs the
// real program; only what leaves the node, or enters it, is changed. The zero
// Behaviour is honest.
type Behaviour struct {
	Name string // for the timeline

	// Block may change the blocks of a run that is sent to a peer, and Proof the block
	// hashes.
	Block func(to peers.ID, p share.Piece, first share.Block, data []byte, rng *rand.Rand)
	Proof func(to peers.ID, p share.Piece, values []share.Hash, rng *rand.Rand)
	// Frame may replace a message that is sent to a peer, by any number of others.
	Frame func(to peers.ID, frame []byte, rng *rand.Rand) [][]byte
	// Claims makes it announce every piece of what it seeds, though it has none of them.
	Claims bool
	// MuteAfter makes it answer no more requests once it has sent this many
	// bytes; negative: from the beginning.
	MuteAfter int64
	// Rate bounds each stream of what it sends, in bytes per second; 0 is no bound.
	Rate float64
	// Deaf makes it read none of the replies to its requests.
	Deaf bool
	// Flood is how many messages it sends to each connected peer per second.
	Flood int
	// Dishonest says that it may be blamed although nothing above is set: what
	// it has, or what it asks for, is wrong.
	Dishonest bool

	rng *rand.Rand
}

// String is what a node does, for a timeline.
func (b Behaviour) String() string { return cmp.Or(b.Name, "is honest") }

// honest says that nothing it sends is wrong. A slow or silent node may be honest.
func (b *Behaviour) honest() bool {
	return b.Block == nil && b.Proof == nil && b.Frame == nil && !b.Claims && b.Flood == 0 && !b.Deaf && !b.Dishonest
}

func (b *Behaviour) mute(x *Node) bool { return b.MuteAfter != 0 && x.served() >= b.MuteAfter }

func (b *Behaviour) frames(to peers.ID, f []byte) [][]byte {
	if b.Frame == nil {
		return [][]byte{f}
	}
	return b.Frame(to, f, b.rng)
}

// Liar changes one bit in a share of the runs that it sends, from the beginning.
func Liar(often float64) Behaviour {
	return Behaviour{Name: "lies in blocks", Block: func(_ peers.ID, _ share.Piece, _ share.Block, data []byte, rng *rand.Rand) {
		if rng.Float64() < often {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
		}
	}}
}

// LateLiar is honest for this many runs, and then lies in every one.
func LateLiar(runs int) Behaviour {
	return Behaviour{Name: "lies later", Block: func(_ peers.ID, _ share.Piece, _ share.Block, data []byte, rng *rand.Rand) {
		if runs--; runs < 0 {
			data[0] ^= 1
		}
	}}
}

// Shuffler sends right blocks in wrong places.
func Shuffler() Behaviour {
	return Behaviour{Name: "shuffles blocks", Block: func(_ peers.ID, _ share.Piece, _ share.Block, data []byte, _ *rand.Rand) {
		if len(data) >= 2*share.BlockSize {
			a, b := data[:share.BlockSize], data[share.BlockSize:2*share.BlockSize]
			for i := range a {
				a[i], b[i] = b[i], a[i]
			}
			return
		}
		data[0] ^= 1
	}}
}

// ProofLiar sends wrong block hashes.
func ProofLiar() Behaviour {
	return Behaviour{Name: "lies in proofs", Proof: func(_ peers.ID, _ share.Piece, values []share.Hash, rng *rand.Rand) {
		values[rng.IntN(len(values))][0] ^= 1
	}}
}

// Claimer announces everything and has nothing.
func Claimer() Behaviour { return Behaviour{Name: "claims to have everything", Claims: true} }

// Mute accepts connections and subscriptions and never answers a request once it
// has sent this many bytes; 0 is from the beginning.
func Mute(after int64) Behaviour {
	if after == 0 {
		return Behaviour{Name: "stays mute", MuteAfter: -1}
	}
	return Behaviour{Name: "falls silent", MuteAfter: after}
}

// Trickle sends at most this many bytes per second on a stream.
func Trickle(rate float64) Behaviour { return Behaviour{Name: "trickles", Rate: rate} }

// Deaf asks, and reads none of the replies.
func Deaf() Behaviour { return Behaviour{Name: "reads no replies", Deaf: true} }

// Flooder sends every peer this many useless messages per second.
func Flooder(perSecond int) Behaviour { return Behaviour{Name: "floods", Flood: perSecond} }

// bending is a behaviour that replaces its program's payloads with those of
// other, where that returns one.
func bending(name string, other func(e *wire.Envelope) error) Behaviour {
	return Behaviour{Name: name, Frame: func(_ peers.ID, f []byte, _ *rand.Rand) [][]byte {
		if e, err := wire.ParseEnvelope(f); err == nil && other(&e) == nil {
			f = wire.AppendEnvelope(nil, e)
		}
		return [][]byte{f}
	}}
}

// MapLiar sends have-maps of a wrong length, as if of another share.
func MapLiar() Behaviour {
	return bending("lies in have-maps", func(e *wire.Envelope) error { return fillMap(e, 9) })
}

// Boaster claims in its have-maps to have everything: to all, or only to the
// coordinator of its fleet.
func Boaster(toAll bool) Behaviour {
	return bending("claims to have everything", func(e *wire.Envelope) error {
		if !toAll && e.To == "" {
			return nil
		}
		return fillMap(e, 0)
	})
}

// fillMap has a have-map say that all pieces are there, and this many more.
func fillMap(e *wire.Envelope, more int) error {
	if e.Type != wire.TypeHaveMap {
		return nil
	}
	m, err := wire.Parse[wire.HaveMap](e.Payload)
	n := m.Pieces + more
	e.Payload = wire.Append(nil, wire.HaveMap{Share: m.Share, Pieces: n, Bits: share.FullSet(n).Bytes()})
	return err
}

// Slanderer is a member of a fleet that tells its coordinator, in place of what it got
// from others, that no other member has any of the first pieces of the share.
func Slanderer(pieces int) Behaviour {
	lacks := wire.SourceDown{Member: true}
	for p := range share.Piece(min(pieces, wire.MaxHave)) {
		lacks.Pieces = append(lacks.Pieces, p)
	}
	return bending("slanders", func(e *wire.Envelope) error {
		if e.Type != wire.TypeHave || e.To == "" {
			return nil
		}
		m, err := wire.Parse[wire.Have](e.Payload)
		lacks.Share = m.Share
		e.Type, e.Payload = wire.TypeSourceDown, wire.Append(nil, lacks)
		return err
	})
}

// Upstart is a member of a fleet, self, that claims to coordinate in a term.
func Upstart(self peers.ID, term uint64) Behaviour {
	return bending("claims a term of its own", func(e *wire.Envelope) error {
		if e.Type != wire.TypeFleetTerm {
			return nil
		}
		m, err := wire.Parse[wire.FleetTerm](e.Payload)
		m.Term, m.Coordinator = term, peers.Addr{ID: self, Addrs: []string{"/sim"}}
		e.Payload = wire.Append(nil, m)
		return err
	})
}

// Namer names peers that do not exist, as many as one message may hold. Their IDs
// have the same ending.
func Namer() Behaviour {
	return naming("names invented peers", func(named []peers.Addr) []peers.Addr {
		for len(named) < wire.MaxChildren {
			named = append(named, peers.Addr{ID: peers.ID(string(rune('A'+len(named)%26)) + "12D3KooWinvented"), Addrs: []string{"/sim"}})
		}
		return named
	})
}

// nowhere is an address at which there is nobody.
const nowhere = "/ip4/2.0.0.1/udp/4001/quic-v1"

// Misplacer names its children, but at wrong addresses.
func Misplacer() Behaviour {
	return naming("names peers at wrong addresses", func(named []peers.Addr) []peers.Addr {
		for i := range named {
			named[i].Addrs = []string{nowhere}
		}
		return named
	})
}

// naming is a behaviour that names other peers than its program does.
func naming(name string, others func(named []peers.Addr) []peers.Addr) Behaviour {
	return Behaviour{Name: name, Frame: func(_ peers.ID, f []byte, rng *rand.Rand) [][]byte {
		e, err := wire.ParseEnvelope(f)
		if err != nil || e.Type != wire.TypeSubscribeResult {
			return [][]byte{f}
		}
		m, err := wire.Parse[wire.SubscribeResult](e.Payload)
		if err != nil {
			return [][]byte{f}
		}
		m.Children = others(m.Children)
		e.Payload = wire.Append(nil, m)
		return [][]byte{wire.AppendEnvelope(nil, e)}
	}}
}

// Introducer is a beacon that answers whoever asks with these peers, whatever they have, and with
// others that do not exist.
func Introducer(them ...peers.ID) Behaviour {
	return Behaviour{Name: "introduces whom it likes", Frame: func(_ peers.ID, f []byte, _ *rand.Rand) [][]byte {
		e, err := wire.ParseEnvelope(f)
		if err != nil || e.Type != wire.TypeFound {
			return [][]byte{f}
		}
		m, err := wire.Parse[wire.Found](e.Payload)
		if err != nil {
			return [][]byte{f}
		}
		m.Peers = nil
		for _, id := range them {
			m.Peers = append(m.Peers, peers.Addr{ID: id, Addrs: []string{"/sim"}})
		}
		for i := range wire.MaxIntroduced - len(them) {
			m.Peers = append(m.Peers, peers.Addr{ID: peers.ID(string(rune('A'+i)) + "12D3KooWinvented"), Addrs: []string{nowhere}})
		}
		e.Payload = wire.Append(nil, m)
		return [][]byte{wire.AppendEnvelope(nil, e)}
	}}
}

// Interposer is a beacon that passes on what two say to each other by a code, as if it had said it itself.
func Interposer() Behaviour {
	return Behaviour{Name: "passes on words as its own", Frame: func(_ peers.ID, f []byte, _ *rand.Rand) [][]byte {
		e, err := wire.ParseEnvelope(f)
		if err != nil || e.Type != wire.TypeHeard {
			return [][]byte{f}
		}
		m, err := wire.Parse[wire.Heard](e.Payload)
		if err != nil || m.From == "" {
			return [][]byte{f}
		}
		m.From = "12D3KooWinterposed"
		e.Payload = wire.Append(nil, m)
		return [][]byte{wire.AppendEnvelope(nil, e)}
	}}
}

// Oversize now and then sends frames that are too long.
func Oversize() Behaviour {
	return Behaviour{Name: "sends oversize frames", Frame: func(_ peers.ID, f []byte, rng *rand.Rand) [][]byte {
		if rng.IntN(4) == 0 {
			return [][]byte{f, make([]byte, wire.MaxMessage+1)}
		}
		return [][]byte{f}
	}}
}

// Garbler changes bytes of some of the messages that it sends.
func Garbler(often float64) Behaviour {
	return Behaviour{Name: "garbles messages", Frame: func(_ peers.ID, f []byte, rng *rand.Rand) [][]byte {
		if len(f) > 0 && rng.Float64() < often {
			f = append([]byte(nil), f...)
			f[rng.IntN(len(f))] ^= byte(1 + rng.IntN(255))
		}
		return [][]byte{f}
	}}
}

// Junk are useless messages, as a Flooder sends them.
func Junk() [][]byte {
	return [][]byte{
		wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindTell, To: "seeder", Type: 999, Payload: make([]byte, 500)}),
		wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindTell, To: "nobody", Type: wire.TypeHave, Payload: []byte{1}}),
		wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindTell, To: "seeder", Type: wire.TypeUnsubscribe, Payload: wire.Append(nil, wire.Unsubscribe{Share: share.IDOf([]byte("junk"))})}),
	}
}

// flood sends junk while the node lives.
func (x *Node) flood() {
	n, life := x.net, x.life
	if x.acts.Flood == 0 {
		return
	}
	junk := Junk()
	n.Every(100*time.Millisecond, func() bool {
		if x.life != life {
			return false
		}
		for _, y := range n.nodes {
			c := n.conns[pair(x.id, y.id)]
			if y == x || c == nil || !c.believes(x) {
				continue
			}
			for i := range x.acts.Flood / 10 {
				x.sendFrame(c, y.id, junk[i%len(junk)])
			}
		}
		return true
	})
}

// dishonest is what a node serves to a peer, bent by its behaviour.
type dishonest struct {
	x  *Node
	to peers.ID
}

func (d dishonest) Manifest(id share.ID) ([]byte, wire.Reply) { return d.x.offers.Manifest(id) }

func (d dishonest) Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply) {
	values, r := d.x.offers.Proof(id, p)
	if lie := d.x.acts.Proof; lie != nil && r.Status == wire.OK {
		values = append([]share.Hash(nil), values...)
		lie(d.to, p, values, d.x.acts.rng)
	}
	return values, r
}

func (d dishonest) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	k, r := d.x.offers.ReadRun(id, p, first, n, dst)
	if lie := d.x.acts.Block; lie != nil && r.Status == wire.OK {
		lie(d.to, p, first, dst[:k], d.x.acts.rng)
	}
	return k, r
}
