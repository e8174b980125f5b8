package actors

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A swarm has nodes of real actors in one World. Only the links are models:
// they have latency and a rate, and decide nothing. What is requested, admitted,
// served and believed is decided by the actors at both ends.
type swarm struct {
	t     testing.TB
	w     *system.World
	nodes map[peers.ID]*simNode
	order []*simNode
}

// simNode is one node of a swarm, with a disk in memory.
type simNode struct {
	roundTrip time.Duration // of every connection, as the connection reports it
	sw        *swarm
	id        peers.ID
	program   *Program
	rate      float64                             // bytes per second of its uplink
	free      time.Duration                       // when its uplink is idle
	shares    map[share.ID]*memTarget             // what it can serve
	catalog   simCatalog                          // what it says it has
	down      bool                                // accepts nothing
	denies    bool                                // refuses every request for a piece
	denial    wire.Reason                         // ... for this reason
	shuts     *wire.Reply                         // what it answers to whoever asks for a list of files; nil: the list
	bends     func(frame []byte) []byte           // changes the messages it sends; nil: none
	fails     error                               // ends every connection to it; nil: they work
	mute      bool                                // accepts, and never answers a request
	corrupt   func(p share.Piece, b []byte)       // changes the blocks it sends
	forge     func(p share.Piece, v []share.Hash) // ... and to the proofs
	loses     int                                 // once it has more pieces than that, its disk loses what is not durable
	opened    []*simLink                          // links it has opened, in order
	full      bool                                // its disk takes no more
	filled    bool                                // ... though it says that it has room
	blind     bool                                // ... and cannot say how much is free
	slow      bool                                // never comes to the end of a list of files
	whole     bool                                // says with its manifests that it has every piece
	busy      time.Duration                       // tells peers that ask for a list of files to come back after this; 0: serves them
	finishing func(context.Context) error         // called before a share is finished; nil: all is well
	closing   func()                              // called when its disk is closed; may be nil
	refuses   bool                                // its connections take no messages
	rewrite   func(frame []byte) []byte           // what it sends instead of a message; nil: the message itself
	events    []Event
	end       *Ended
	in, out   map[peers.ID]int64
	addrs     []string          // where it says that it is; nil: anywhere
	met       map[peers.ID]bool // connected to
	listed    time.Duration     // when the last manifest arrived
	known     *share.Manifest   // a manifest that need not be asked for
	beacons   []Meeting         // beacons to ask for sources
	asked     int64             // bytes asked for on links
	inbound   []*simLink        // links of others that are up, or were
}

const simLatency = 10 * time.Millisecond

func newSwarm(t testing.TB, seed uint64) *swarm {
	if rig.Raced {
		t.Skip("a world is one goroutine")
	}
	s := &swarm{t: t, w: system.NewWorld(seed), nodes: map[peers.ID]*simNode{}}
	s.w.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	t.Cleanup(func() {
		for _, n := range s.order {
			if n.program == nil {
				continue
			}
			if err := n.program.Close(context.Background()); err != nil {
				t.Error("close:", err)
			}
		}
	})
	return s
}

// add adds a node with an uplink of rate bytes per second.
func (sw *swarm) add(name string, rate float64, change ...func(*Deps)) *simNode {
	n := &simNode{sw: sw, id: peers.ID(name), rate: rate, roundTrip: 2 * simLatency, shares: map[share.ID]*memTarget{}, catalog: simCatalog{}, in: map[peers.ID]int64{}, out: map[peers.ID]int64{}, met: map[peers.ID]bool{}}
	d := Deps{Runtime: sw.w.Runtime(name), Network: n, Catalog: n.catalog}
	for _, f := range change {
		f(&d)
	}
	sw.nodes[n.id] = n
	sw.order = append(sw.order, n)
	n.program = Start(d)
	return n
}

// seed gives a node a whole share.
func (n *simNode) seed(m *share.Manifest, content []byte) *simNode {
	target := newMemTarget(n, m)
	target.fill(content)
	n.shares[m.ID()] = target
	n.offer(m.ID(), m.Layout().Pieces(), nil)
	return n
}

// offer makes a node say that it has some pieces of a share; have is nil for all of them.
func (n *simNode) offer(id share.ID, pieces int, have *share.Set) {
	n.catalog[id] = simOffer{pieces: pieces, have: have}
	n.program.Offer(id)
}

// simCatalog is what a simNode says it has.
type simCatalog map[share.ID]simOffer

type simOffer struct {
	pieces int
	have   *share.Set // nil: all of it
	coming bool       // not yet, but soon
}

func (c simCatalog) Offered(id share.ID, _ peers.ID) (int, wire.Reply) {
	switch o := c[id]; {
	case o.coming:
		return 0, wire.Reply{Status: wire.Busy, Retry: 250 * time.Millisecond}
	case o.pieces == 0:
		return 0, wire.Reply{Status: wire.NotFound}
	default:
		return o.pieces, wire.Reply{}
	}
}

func (c simCatalog) Bits(id share.ID) []byte {
	switch o := c[id]; {
	case o.pieces == 0:
		return nil
	case o.have == nil:
		return share.FullSet(o.pieces).Bytes()
	default:
		return o.have.Bytes()
	}
}

func (c simCatalog) Whole(id share.ID) (bytes int64, yes bool) {
	return int64(c[id].pieces) * share.MinPiece, c[id].pieces > 0 && c[id].have == nil
}

// fetch starts a transfer.
func (n *simNode) fetch(id share.ID, from ...*simNode) {
	n.fetchWith(id, TransferConfig{Verifiers: 2}, from...)
}

func (n *simNode) fetchWith(id share.ID, cfg TransferConfig, from ...*simNode) {
	n.sw.t.Helper()
	n.fetchSome(id, cfg, nil, from...)
}

// fetchSome fetches what choose selects; nil: everything.
// firstFile chooses the first file of a testFolder.
func firstFile(e share.Entry) leasemgr.Priority {
	if e.Path == "00" {
		return leasemgr.Normal
	}
	return leasemgr.Skip
}

func (n *simNode) fetchSome(id share.ID, cfg TransferConfig, choose func(share.Entry) leasemgr.Priority, from ...*simNode) {
	n.sw.t.Helper()
	var addrs []peers.Addr
	for _, f := range from {
		addrs = append(addrs, peers.Addr{ID: f.id})
	}
	m := FetchShare{Handle: Handle{Share: id}, Sources: addrs, Beacons: n.beacons, Manifest: n.known, Disk: memDisk{n}, Config: cfg, Notify: func(e Event) {
		n.events = append(n.events, e)
		if end, ok := e.(Ended); ok {
			n.end = &end
		}
	}}
	if choose != nil {
		m.Select = func(m *share.Manifest) (out []leasemgr.Priority, err error) {
			for _, e := range m.Entries() {
				out = append(out, choose(e))
			}
			return out, nil
		}
	}
	if err := n.program.Fetch(context.Background(), m); err != nil {
		n.sw.t.Fatal(err)
	}
}

// run runs until every one of nodes has ended, for at most d of the world's time.
func (sw *swarm) run(d time.Duration, nodes ...*simNode) {
	sw.t.Helper()
	done := func() bool {
		for _, n := range nodes {
			if n.end == nil {
				return false
			}
		}
		return true
	}
	if !sw.w.RunUntil(done, d) {
		for _, n := range nodes {
			if n.end == nil {
				p, err := n.program.Progress(context.Background(), Handle{Share: n.onlyShare()})
				sw.t.Errorf("%s has not ended after %v: %+v %v", n.id, d, p, err)
			}
		}
		sw.t.FailNow()
	}
}

func (n *simNode) onlyShare() (id share.ID) {
	for id = range n.shares {
	}
	return id
}

// complete fails the test unless the node has the whole share.
func (n *simNode) complete(content []byte) {
	n.sw.t.Helper()
	switch {
	case n.end == nil || n.end.Err != nil:
		n.sw.t.Errorf("%s ended with %+v", n.id, n.end)
	case !n.shares[n.end.Last.Share].holds(content):
		n.sw.t.Errorf("%s has other bytes", n.id)
	}
}

// testShare is a share of one file of n seeded bytes, which must not be changed:
// all tests and all their seeds use the same.
func testShare(t testing.TB, n int) (*share.Manifest, []byte) {
	t.Helper()
	made, ok := testShares[n]
	if !ok {
		made.content = seeded(n)
		var pieces []hashedPiece
		for off := 0; off < n; off += share.MinPiece {
			pieces = append(pieces, hashed(spot{off, min(share.MinPiece, n-off), int64(off), n <= share.MinPiece}))
		}
		made.manifest = oneFile(t, "file", int64(n), pieces)
		testShares[n] = made
	}
	return made.manifest, made.content
}

// oneFile is the manifest of a file of these pieces.
func oneFile(t testing.TB, name string, size int64, pieces []hashedPiece) *share.Manifest {
	t.Helper()
	var values []share.Hash
	var blocks [][]share.Hash
	for _, p := range pieces {
		values, blocks = append(values, p.value), append(blocks, p.blocks)
	}
	e := share.Entry{Path: name, Size: size, Root: share.FileRoot(values), PieceExp: share.PieceExp(size)}
	if len(values) > 1 {
		e.Pieces = values
	}
	m, err := share.NewManifest(name, []share.Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	blockHashes[m.ID()] = blocks
	return m
}

// seeded is the first n bytes of a stream.
func seeded(n int) []byte {
	if had := len(stream); n > had {
		stream = slices.Grow(stream, n-had)[:n]
		streams.Read(stream[had:])
	}
	return stream[:n:n]
}

// spot is a piece of the stream, from byte at, and the place in a file where it stands: only is a
// file of one piece.
type spot struct {
	at, n int
	off   int64
	only  bool
}

type hashedPiece struct {
	blocks []share.Hash
	value  share.Hash
}

func hashed(s spot) hashedPiece {
	h, ok := hashedPieces[s]
	if !ok {
		h.blocks, h.value = share.HashPiece(nil, seeded(s.at + s.n)[s.at:], s.off, s.only)
		hashedPieces[s] = h
	}
	return h
}

// What was made and hashed once. No test of this package runs in parallel with another.
var (
	stream       = make([]byte, 0, 160<<20)
	streams      = rand.NewChaCha8([32]byte{1})
	hashedPieces = map[spot]hashedPiece{}
	testShares   = map[int]madeShare{}
	blockHashes  = map[share.ID][][]share.Hash{}
)

type madeShare struct {
	manifest *share.Manifest
	content  []byte
}

// ---- the network of a node ----

func (n *simNode) Self() peers.ID { return n.id }
func (n *simNode) Addrs() []string {
	if n.addrs != nil {
		return n.addrs
	}
	return []string{"/sim"}
}

// Endpoints knows addresses that name their reach or port; anybody can dial all others, but those over relays.
func (n *simNode) Endpoints(addrs []string) (out []peers.Endpoint) {
	for _, a := range addrs {
		if strings.Contains(a, peers.ThroughNamer) {
			continue
		}
		p := peers.Endpoint{Addr: a, Port: 4001}
		fmt.Sscanf(a, "reach %d", &p.Reach)
		fmt.Sscanf(a, "port %d", &p.Port)
		fmt.Sscanf(a, "host %s", &p.Host)
		out = append(out, p)
	}
	return out
}

// Where puts names with the same part before the slash in one network and location, near if it is called so.
func (n *simNode) Where(id peers.ID) (p peers.Endpoint, connected bool) {
	p.Net, _, _ = strings.Cut(string(id), "/")
	p.Location = p.Net
	if p.Net == "near" {
		p.Reach = 1
	}
	return p, n.met[id] || n.sw.nodes[id] != nil && n.sw.nodes[id].met[n.id]
}

func (n *simNode) Send(to peers.ID, frame []byte) bool {
	if other := n.sw.nodes[to]; n.refuses || other == nil || other.down {
		return false
	}
	if n.rewrite != nil {
		frame = n.rewrite(frame)
	}
	if n.bends != nil {
		frame = n.bends(frame)
	}
	n.count(to, len(frame))
	return n.sw.w.Outbox(n.id).Send(to, frame)
}

func (n *simNode) AddrsFor(peers.ID) []string { return n.Addrs() }

func (n *simNode) RoundTrip(peers.ID) time.Duration { return n.roundTrip }

func (n *simNode) Traffic(id peers.ID) (in, out int64) { return n.in[id], n.out[id] }

func (n *simNode) count(to peers.ID, bytes int) {
	n.out[to] += int64(bytes)
	n.sw.nodes[to].in[n.id] += int64(bytes)
}

func (n *simNode) FetchManifest(from peers.Addr, id share.ID, _ bool, limit int, _ func(bytes, size int), done func([]byte, wire.Reply, error)) (cancel func()) {
	return n.sw.w.After(4*simLatency, func() {
		other := n.sw.nodes[from.ID]
		switch {
		case other == nil || other.down:
			done(nil, wire.Reply{}, fmt.Errorf("dial: %w", peers.ErrUnreachable))
		case other.fails != nil:
			done(nil, wire.Reply{}, other.fails)
		case other.slow:
		case other.shuts != nil:
			done(nil, *other.shuts, nil)
		case other.busy > 0:
			done(nil, wire.Reply{Status: wire.Busy, Retry: other.busy}, nil)
		case other.shares[id] == nil:
			done(nil, wire.Reply{Status: wire.NotFound}, nil)
		default:
			n.met[from.ID], n.listed = true, n.sw.w.Elapsed()
			done(other.shares[id].m.Bytes(), wire.Reply{Whole: other.whole}, nil)
		}
	})
}

func (n *simNode) Open(to peers.Addr, id share.ID, _ *share.Layout, k Sink) Link {
	l := &simLink{from: n, to: n.sw.nodes[to.ID], share: id, sink: k, open: map[uint64]bool{}}
	n.opened = append(n.opened, l)
	dial := 4 * simLatency
	if n.met[to.ID] {
		dial = 0 // the connection exists, and a stream needs no answer to begin
	}
	n.sw.w.After(dial, func() {
		switch {
		case l.closed:
		case l.to == nil || l.to.down:
			l.closed = true
			k.Down(fmt.Errorf("dial: %w", peers.ErrUnreachable))
		case l.to.fails != nil:
			l.closed = true
			k.Down(l.to.fails)
		default:
			n.met[to.ID] = true
			l.to.inbound = append(l.to.inbound, l)
			k.Up(2 * simLatency)
		}
	})
	return l
}

// simLink carries requests one way and blocks the other. It is a queue with a
// rate, no more: the other node's Seeder admits, and its disk answers.
type simLink struct {
	from, to *simNode
	share    share.ID
	sink     Sink
	open     map[uint64]bool
	closed   bool
}

func (l *simLink) Request(r wire.PieceRequest) bool {
	if l.closed {
		return false
	}
	l.open[r.ID] = true
	l.from.asked += int64(r.Count) * share.BlockSize
	l.from.sw.w.After(simLatency, func() { l.arrive(r) })
	return true
}

func (l *simLink) Cancel(req uint64) { delete(l.open, req) }

func (l *simLink) Close() { l.closed = true }

// later runs f at the asker after the latency, if the request has not been withdrawn.
func (l *simLink) later(d time.Duration, req uint64, f func()) {
	l.from.sw.w.After(d+simLatency, func() {
		if !l.closed && l.open[req] {
			f()
		}
	})
}

// arrive handles a request at the other node.
func (l *simLink) arrive(r wire.PieceRequest) {
	if l.to.mute || l.to.down {
		return
	}
	target := l.to.shares[l.share]
	p := share.Piece(r.Piece)
	if l.to.denies {
		l.later(0, r.ID, func() { l.sink.Status(r.ID, wire.Reply{Status: wire.Refused, Reason: l.to.denial}) })
		return
	}
	if target == nil || !target.have.Has(p) {
		l.later(0, r.ID, func() { l.sink.Status(r.ID, wire.Reply{Status: wire.NotFound}) })
		return
	}
	span := target.m.Layout().RunSpan(p, share.Block(r.First), int(r.Count))
	l.to.program.Request(AdmitRequest{Child: l.from.id, Share: l.share, Piece: p, Bytes: span.Len, Pressed: r.Pressed, Reply: func(a Admission) {
		if a.Reply.Status != wire.OK {
			l.later(0, r.ID, func() { l.sink.Status(r.ID, a.Reply) })
			return
		}
		l.serve(r, target, a.Job)
	}})
}

func (l *simLink) serve(r wire.PieceRequest, target *memTarget, job peers.Job) {
	w, p := l.from.sw.w, share.Piece(r.Piece)
	l.to.free = max(l.to.free, w.Elapsed())
	if r.Proof {
		values := append([]share.Hash(nil), target.values[p]...)
		if l.to.forge != nil {
			l.to.forge(p, values)
		}
		l.later(l.to.free-w.Elapsed(), r.ID, func() { l.sink.Proof(r.ID, values) })
	}
	for first, left := int(r.First), int(r.Count); left > 0; {
		n := min(left, wire.MaxRun/share.BlockSize)
		span := target.m.Layout().RunSpan(p, share.Block(first), n)
		off := span.Offset - target.m.Layout().PieceSpan(p).Offset
		data := append([]byte(nil), target.data[p][off:off+int64(span.Len)]...)
		if l.to.corrupt != nil {
			l.to.corrupt(p, data)
		}
		l.to.free += time.Duration(float64(span.Len) / l.to.rate * float64(time.Second))
		l.to.count(l.from.id, span.Len)
		at := share.Block(first)
		l.later(l.to.free-w.Elapsed(), r.ID, func() { l.sink.Blocks(r.ID, at, data, func() {}) })
		first, left = first+n, left-n
	}
	l.later(l.to.free-w.Elapsed(), r.ID, func() { l.sink.Finished(r.ID); delete(l.open, r.ID) })
	w.After(l.to.free-w.Elapsed(), func() { l.to.program.Served(job, target.m.Layout().RunSpan(p, share.Block(r.First), int(r.Count)).Len) })
}

// ---- the disk of a node ----

type memDisk struct{ n *simNode }

func (d memDisk) Open(_ context.Context, m *share.Manifest, wanted []bool) (Target, error) {
	t := d.n.shares[m.ID()]
	if t == nil {
		t = newMemTarget(d.n, m)
		d.n.shares[m.ID()] = t
	}
	t.epoch++
	t.wanted = wanted
	t.have = t.durable.Clone() // a crash forgets the rest
	d.n.catalog[m.ID()] = simOffer{pieces: m.Layout().Pieces(), have: t.have}
	return t, nil
}

// memTarget keeps a share in memory; durable is what a crash leaves.
type memTarget struct {
	n       *simNode
	m       *share.Manifest
	data    [][]byte
	values  [][]share.Hash
	have    *share.Set
	durable *share.Set
	epoch   uint64
	closed  bool
	wanted  []bool
}

func newMemTarget(n *simNode, m *share.Manifest) *memTarget {
	k := m.Layout().Pieces()
	return &memTarget{n: n, m: m, data: make([][]byte, k), values: make([][]share.Hash, k), have: share.NewSet(k), durable: share.NewSet(k)}
}

func (t *memTarget) fill(content []byte) {
	for p := range share.Piece(t.m.Layout().Pieces()) {
		n := t.m.Layout().PieceLen(p)
		t.data[p], content = content[:n], content[n:]
		t.have.Add(p)
		t.durable.Add(p)
	}
	t.hash()
}

// hash finds the hashes of the blocks of a whole share.
func (t *memTarget) hash() {
	if known := blockHashes[t.m.ID()]; known != nil {
		copy(t.values, known)
		return
	}
	for p, b := range t.data {
		s := t.m.Layout().PieceSpan(share.Piece(p))
		_, pieces := t.m.Layout().PiecesOf(s.Entry)
		t.values[p], _ = share.HashPiece(nil, b, s.Offset, pieces == 1)
	}
	blockHashes[t.m.ID()] = slices.Clone(t.values)
}

// holds reports whether the share is here with this content.
func (t *memTarget) holds(content []byte) bool {
	for _, d := range t.data {
		rest, ok := bytes.CutPrefix(content, d)
		if !ok {
			return false
		}
		content = rest
	}
	return len(content) == 0
}

func (t *memTarget) Done() (string, bool) { return "", false }
func (t *memTarget) Select(wanted []bool) { t.wanted = wanted }
func (t *memTarget) Verified() *share.Set { return t.have.Clone() }
func (t *memTarget) Epoch() uint64        { return t.epoch }
func (t *memTarget) Need() (bytes, free int64) {
	switch {
	case t.n.full:
		return 1, 0
	case t.n.blind:
		return 1, -1
	}
	return 1, 1
}

func (t *memTarget) Write(p share.Piece, first share.Block, data []byte) error {
	if t.n.full || t.n.filled {
		return fmt.Errorf("write: %w", share.ErrDiskFull)
	}
	if t.data[p] == nil {
		t.data[p] = make([]byte, t.m.Layout().PieceLen(p))
	}
	copy(t.data[p][int(first)*share.BlockSize:], data)
	return nil
}

func (t *memTarget) Complete(p share.Piece, values []share.Hash) {
	t.values[p] = append([]share.Hash(nil), values...)
	t.have.Add(p)
}

// lostPieces plays the part of store's SyncError.
type lostPieces []share.Piece

func (l lostPieces) Error() string             { return fmt.Sprint("lost pieces ", []share.Piece(l)) }
func (l lostPieces) LostPieces() []share.Piece { return l }

func (t *memTarget) Sync() (durable int, err error) {
	if n := t.n.loses; n > 0 && t.have.Count() > n {
		t.n.loses = 0
		t.have = t.durable.Clone()
		return 0, lostPieces{0}
	}
	t.durable = t.have.Clone()
	return t.durable.Count(), nil
}

func (t *memTarget) Finishing() string { return "" }

func (t *memTarget) Finish(ctx context.Context) (string, error) {
	if f := t.n.finishing; f != nil {
		if err := f(ctx); err != nil {
			return "", err
		}
	}
	_, err := t.Sync()
	return "/" + string(t.n.id), err
}

func (t *memTarget) Close() error {
	t.closed = true
	if f := t.n.closing; f != nil {
		f()
	}
	_, err := t.Sync()
	return err
}
