package beacon

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// TTL is how long an announcement lasts.
const TTL = 30 * time.Minute

// What a beacon remembers at most. A record says that one peer has one share; with what
// belongs to it, it takes up to 400 bytes, and a peer up to 700.
const (
	maxRecords  = 1 << 16
	maxPeers    = 1 << 14
	ofPeer      = 1 << 10 // records
	ofShare     = 256     // ...
	ofBlock     = 1 << 13 // ... of one block of addresses
	ofBlockHere = 32      // ... of one share
)

// How often a beacon may be asked. Each key of an announcement counts.
const (
	peerKeys, peerKeysAtOnce   = 16, 2 * ofPeer // a second
	blockKeys, blockKeysAtOnce = 256, 2 * ofBlock
	peerSeeks, peerSeeksAtOnce = 1, 64
	blockSeeks, blockSeekAtOne = 32, 512
)

// Refusal is why something was not remembered; the numbers are those of formats.md.
type Refusal uint8

// The refusals.
const (
	NoAddress Refusal = 1 + iota // none of the sender's addresses is one where it was seen
	Full                         // there are too many records of it, or of its block
	TooOften                     // it announced too often
)

// Table is what a beacon remembers. Its zero value is not usable: see New.
type Table struct {
	rng     *rand.Rand
	shares  map[share.Hash]*shelf
	peers   map[peers.ID]*announcer
	blocks  map[string]*block
	biggest blockHeap
	records int
	oldest  *record // the first to be forgotten
	newest  *record

	keysOf, keysFrom   *peers.Allowance // by peer, by block
	seeksOf, seeksFrom *peers.Allowance
}

// shelf is the peers that have one share.
type shelf struct {
	key     share.Hash
	cells   []cell // none is empty
	records int
}

// cell is the peers of one block on a shelf.
type cell struct {
	block   *block
	records []*record
}

// block is a block of addresses.
type block struct {
	net     string
	peers   int
	records []*record
	at      int // in Table.biggest
}

// announcer is a peer that has announced something.
type announcer struct {
	id      peers.ID
	addrs   []string
	reach   int  // of the addresses, all of one host
	placed  bool // the beacon leads to it, as its relay
	block   *block
	records []*record
}

// record says that a peer has a share.
type record struct {
	shelf         *shelf
	of            *announcer
	until         time.Time
	before, after *record // by age
	inBlock       int     // in block.records
	inPeer        int     // in announcer.records
}

// New returns an empty table, whose random choices come from seed.
func New(seed uint64) *Table {
	return &Table{rng: rand.New(rand.NewPCG(seed, 0x626561636f6e)), shares: map[share.Hash]*shelf{}, peers: map[peers.ID]*announcer{}, blocks: map[string]*block{},
		keysOf: peers.NewAllowance(peerKeys, peerKeysAtOnce), keysFrom: peers.NewAllowance(blockKeys, blockKeysAtOnce),
		seeksOf: peers.NewAllowance(peerSeeks, peerSeeksAtOnce), seeksFrom: peers.NewAllowance(blockSeeks, blockSeekAtOne)}
}

// Stats is how much a table remembers.
type Stats struct {
	Peers   int `json:"peers"`   // that have announced something
	Shares  int `json:"shares"`  // that somebody has
	Records int `json:"records"` // each of one peer and one share
}

// Stats returns how much the table remembers.
func (t *Table) Stats(now time.Time) Stats {
	t.forget(now)
	return Stats{len(t.peers), len(t.shares), t.records}
}

// Announce remembers that a peer has some shares. at is the other end of its connection, and
// addrs are the addresses at which it says that it can be reached; placed says that it has a place at
// the beacon, which is a relay too. refused says why not all are
// remembered, 0 that they are; the peer may announce again after retry.
func (t *Table) Announce(id peers.ID, at peers.Endpoint, addrs []peers.Endpoint, placed bool, keys []share.Hash, now time.Time) (refused Refusal, retry time.Duration) {
	t.forget(now)
	here := slices.DeleteFunc(slices.Clone(addrs), func(a peers.Endpoint) bool { return a.Host != at.Host })
	here = peers.Named(here, at.Reach)
	if len(here) == 0 && !placed {
		return NoAddress, TTL / 2
	}
	if wait := often(t.keysFrom, t.keysOf, at.Net, id, len(keys), now); wait > 0 {
		return TooOften, wait
	}
	a := t.announcer(id, at.Net)
	if a == nil {
		return Full, TTL / 2
	}
	a.addrs, a.reach, a.placed = peers.Addrs(here), at.Reach, placed
	for _, k := range keys {
		if !t.remember(a, k, now) {
			refused, retry = Full, TTL/2
		}
	}
	t.drop(a)
	return refused, retry
}

// often is how long a peer of a block has to wait, which takes nothing; 0: it takes cost. What
// a peer may not have itself is not taken from its neighbours.
func often(from, of *peers.Allowance, net string, id peers.ID, cost int, now time.Time) time.Duration {
	if wait := of.Wait(id, cost, now); wait > 0 {
		return wait
	}
	if wait := from.Take(peers.ID(net), cost, now); wait > 0 {
		return wait
	}
	return of.Take(id, cost, now)
}

// Withdraw forgets that a peer has some shares.
func (t *Table) Withdraw(id peers.ID, keys []share.Hash, now time.Time) {
	t.forget(now)
	a := t.peers[id]
	if a == nil {
		return
	}
	for _, k := range keys {
		if s := t.shares[k]; s != nil {
			if r := s.of(a); r != nil {
				t.remove(r)
			}
		}
	}
}

// forget forgets what is too old.
func (t *Table) forget(now time.Time) {
	for t.oldest != nil && !now.Before(t.oldest.until) {
		t.remove(t.oldest)
	}
}

// announcer returns the announcer for a peer of a block; nil: there is no room for it. A peer
// that comes from a different block than before is a new one.
func (t *Table) announcer(id peers.ID, net string) *announcer {
	if a := t.peers[id]; a != nil {
		if a.block.net == net {
			return a
		}
		t.empty(a)
	}
	b := t.blocks[net]
	if len(t.peers) >= maxPeers {
		if len(t.biggest) == 0 || t.biggest[0] == b {
			return nil
		}
		t.empty(t.draw(t.biggest[0].records).of)
	}
	if b == nil {
		b = &block{net: net}
		t.blocks[net] = b
		heap.Push(&t.biggest, b)
	}
	b.peers++
	a := &announcer{id: id, block: b}
	t.peers[id] = a
	return a
}

// remember notes that a peer has a share; false: there is no room for it.
func (t *Table) remember(a *announcer, k share.Hash, now time.Time) bool {
	s := t.shares[k]
	if s != nil {
		if r := s.of(a); r != nil {
			t.unlink(r)
			t.link(r, now)
			return true
		}
	}
	if len(a.records) >= ofPeer || len(a.block.records) >= ofBlock {
		return false
	}
	if t.records >= maxRecords {
		if t.biggest[0] == a.block {
			return false
		}
		t.remove(t.draw(t.biggest[0].records))
		s = t.shares[k] // the removed record may have been its last
	}
	if s == nil {
		s = &shelf{key: k}
		t.shares[k] = s
	}
	t.makeRoom(s, a.block)
	r := &record{shelf: s, of: a, inBlock: len(a.block.records), inPeer: len(a.records)}
	c := s.cell(a.block)
	if c == nil {
		s.cells = append(s.cells, cell{block: a.block})
		c = &s.cells[len(s.cells)-1]
	}
	c.records = append(c.records, r)
	a.block.records = append(a.block.records, r)
	a.records = append(a.records, r)
	heap.Fix(&t.biggest, a.block.at)
	s.records++
	t.records++
	t.link(r, now)
	return true
}

// makeRoom removes a record of a share if there is no room for another of a block: one of the
// same block, or of the block that has most.
func (t *Table) makeRoom(s *shelf, b *block) {
	from := s.cell(b)
	if from == nil || len(from.records) < ofBlockHere {
		if s.records < ofShare {
			return
		}
		for i := range s.cells {
			if c := &s.cells[i]; from == nil || len(c.records) > len(from.records) {
				from = c
			}
		}
	}
	r := t.draw(from.records)
	t.take(r)
	t.drop(r.of)
}

// draw returns one of some records at random.
func (t *Table) draw(all []*record) *record { return all[t.rng.IntN(len(all))] }

// of is the record of a peer; nil: there is none.
func (s *shelf) of(a *announcer) *record {
	if c := s.cell(a.block); c != nil {
		for _, r := range c.records {
			if r.of == a {
				return r
			}
		}
	}
	return nil
}

func (s *shelf) cell(b *block) *cell {
	if i := slices.IndexFunc(s.cells, func(c cell) bool { return c.block == b }); i >= 0 {
		return &s.cells[i]
	}
	return nil
}

// remove forgets a record, and what it leaves empty.
func (t *Table) remove(r *record) {
	t.take(r)
	if r.shelf.records == 0 {
		delete(t.shares, r.shelf.key)
	}
	t.drop(r.of)
}

// take forgets a record, but neither its share nor its peer.
func (t *Table) take(r *record) {
	t.unlink(r)
	a, b, s := r.of, r.of.block, r.shelf
	i := slices.IndexFunc(s.cells, func(c cell) bool { return c.block == b })
	c := &s.cells[i]
	j := slices.Index(c.records, r)
	if c.records = swapOut(c.records, j, nil); len(c.records) == 0 {
		last := len(s.cells) - 1
		s.cells[i] = s.cells[last]
		s.cells[last] = cell{}
		s.cells = s.cells[:last]
	}
	b.records = swapOut(b.records, r.inBlock, func(r *record, i int) { r.inBlock = i })
	a.records = swapOut(a.records, r.inPeer, func(r *record, i int) { r.inPeer = i })
	heap.Fix(&t.biggest, b.at)
	s.records--
	t.records--
}

// swapOut takes a record out of a list, where the last takes its place; moved is told of that.
func swapOut(all []*record, i int, moved func(*record, int)) []*record {
	last := len(all) - 1
	if all[i] = all[last]; moved != nil {
		moved(all[i], i)
	}
	all[last] = nil
	return all[:last]
}

// empty forgets a peer and what it has.
func (t *Table) empty(a *announcer) {
	for len(a.records) > 0 {
		t.remove(a.records[len(a.records)-1])
	}
	t.drop(a)
}

// drop forgets a peer that has nothing, and its block if that has no other.
func (t *Table) drop(a *announcer) {
	if len(a.records) > 0 || t.peers[a.id] != a {
		return
	}
	delete(t.peers, a.id)
	b := a.block
	if b.peers--; b.peers == 0 {
		heap.Remove(&t.biggest, b.at)
		delete(t.blocks, b.net)
	}
}

func (t *Table) link(r *record, now time.Time) {
	r.until, r.before, r.after = now.Add(TTL), t.newest, nil
	if t.newest == nil {
		t.oldest = r
	} else {
		t.newest.after = r
	}
	t.newest = r
}

func (t *Table) unlink(r *record) {
	if r.before == nil {
		t.oldest = r.after
	} else {
		r.before.after = r.after
	}
	if r.after == nil {
		t.newest = r.before
	} else {
		r.after.before = r.before
	}
}

// blockHeap has the block with most records on top.
type blockHeap []*block

func (h blockHeap) Len() int           { return len(h) }
func (h blockHeap) Less(i, j int) bool { return len(h[i].records) > len(h[j].records) }
func (h blockHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *blockHeap) Push(x any)        { b := x.(*block); b.at = len(*h); *h = append(*h, b) }
func (h *blockHeap) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return b
}
