package leasemgr

import (
	"math/bits"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// sortEvery is how old the order of rarity may get while grants are rare.
const sortEvery = instant(250 * time.Millisecond)

// Manager hands out the piece leases of one transfer.
type Manager struct {
	cfg      Config
	layout   Geometry
	space    *space
	seed     uint64
	onDemand bool // only what readers will read soon is leased
	clock    clock

	// The plan: what is to be fetched, and what state it is in. A piece of the
	// plan is verified, or held, or in the pool.
	plan     bitmap
	urgent   [levels]bitmap // pieces of level High and Low; nil while there are none
	verified bitmap
	begun    bitmap
	held     []uint32 // by piece: its first lease, zero if none
	pool     pool
	total    int   // pieces of the plan
	bytes    int64 // of the plan
	have     int   // verified pieces of the plan
	leased   int   // pieces with a lease

	leases  []lease // [0] is not used
	free    []uint32
	epoch   uint64
	counter uint64

	sources []*source // by index; nil where free
	byID    map[peers.ID]uint32
	gaps    []uint32
	serial  uint64
	alarms  alarms
	shunned []shun
	readers []reader

	rarity       rarity
	fulls        int  // sources that have the whole share and are not banned
	parts        int  // ... a part of it
	unsorted     bool // the layers of class zero may hold what a partial source has
	sortedAt     instant
	sortedGrants uint64
	gen          uint64
	log          []ranked

	paused   string
	hedged   int64 // bytes of pieces that are held twice
	grants   uint64
	stats    Stats
	watched  bool // what goes wrong is noted
	all      bool // ... and every grant and every end
	journal  []LeaseEvent
	todo     Todo
	returned []uint32 // pieces wanted again since the last settle
	asleep   bitmap   // sources that were refused, by index
	sleepers int
	wake     []uint32
	draws    uint64
	turn     int
	retryAt  instant  // when the last refused source may try to hedge
	offered  []uint32 // pieces that came back, while not all waiting sources have been told
	offerAt  instant  // when more are told
	offers   int      // how many are told then

	flow       flow // of sources that are not to be spared
	fromParts  flow // of sources that miss some of the share
	fromNear   flow // of neighbours
	fromBeyond flow // of sources that miss some of the share, and are not neighbours

	reliance reliance // on neighbours

	self    peers.ID
	ownLots uint64   // see lotsOf
	lots    []uint64 // of rivals, kept for reuse

	offerTurn uint32 // the source with which that goes on
}

// Stats counts what a Manager did. All numbers only grow.
type Stats struct {
	Granted  uint64 // leases, hedges and takeovers included
	Hedged   uint64 // leases on a piece another source held
	Taken    uint64 // leases taken from an overdue holder for a faster source
	Finished uint64 // leases that ended with their piece, through their source
	Failed   uint64
	Expired  uint64
	Revoked  uint64
	// HedgedBytes is the size of all hedges granted: what they could have
	// fetched twice at most.
	HedgedBytes int64
	// Duplicate is how many bytes hedges did fetch twice, at most: of the two
	// holders of a piece the smaller progress. It never exceeds the bound that
	// Config.HedgeShare and HedgeFloor set.
	Duplicate int64
}

// source is a peer we fetch from.
type source struct {
	id     peers.ID
	serial uint64 // no other source of this manager has it, then or now
	lots   uint64 // see lotsOf
	have   haves
	told   bool    // whether it has said what it has
	lacks  bool    // it was asked for a piece that it says it has, and did not have it; it said of none since that it got it
	grew   instant // when it last said that it has more than before, or has nothing yet; 0: never
	relied bool    // it was asked for our part alone at the last check
	left   bool    // what is wanted of it was left to others at the last check
	cursor cursor

	head, tail uint32 // its leases, in the order of grants
	count      int    // of its leases
	pending    int64  // bytes still to come on them
	queued     uint64 // bytes of all leases ever
	base       instant
	excused    instant // when it last said that it is busy, and nobody else could be asked
	busySince  instant // when the queue was last empty
	busyGot    int64   // bytes that came in since
	alarm      instant // deadline of head
	slot       int

	line     peers.ID      // that it shares with others; "": nothing is known of that
	away     time.Duration // round trip of its connection; 0: not known
	measured bool
	rate     float64 // bytes per second
	lap      lap
	trip     time.Duration
	score    float64
	banned   bool
	waiting  Why // why it was refused last; 0 when it was not, or was woken
	shunned  []uint32
	deferred map[uint32]instant // pieces it gave to others, and until when
	recallAt instant            // when the first of them may be asked for again
	spareAt  instant            // it sent us elsewhere: since
	spareTo  instant            // ... and is to be spared until
	recalled bool               // asked again for all of it, because others bring nothing
}

// New starts the leases of a transfer.
func New(cfg Config, plan Plan, now time.Time) *Manager {
	sp := newSpace(plan.Layout.Pieces())
	m := &Manager{
		cfg:      cfg.withDefaults(),
		layout:   plan.Layout,
		space:    sp,
		seed:     plan.Seed,
		self:     plan.Self,
		ownLots:  lotsOf(plan.Self),
		onDemand: plan.OnDemand,
		clock:    clock{wall: now},
		plan:     make(bitmap, sp.words),
		verified: make(bitmap, sp.words),
		begun:    make(bitmap, sp.words),
		held:     make([]uint32, sp.n),
		pool:     pool{sp: sp, wanted: make(bitmap, sp.words)},
		leases:   make([]lease, 1),
		epoch:    plan.Epoch,
		byID:     map[peers.ID]uint32{},
	}
	all, wanted, verified := haves{n: sp.n}, sp.parse(plan.Wanted), sp.parse(plan.Verified)
	if plan.Wanted == nil {
		wanted = all
	}
	for w := range sp.words {
		m.plan[w] = wanted.word(w, sp)
		m.verified[w] = verified.word(w, sp)
	}
	m.bytes = plan.Layout.Bytes()
	if wanted.n != sp.n {
		m.bytes = 0
		for p := range m.plan.all() {
			m.bytes += int64(m.layout.PieceLen(share.Piece(p)))
		}
	}
	m.recount()
	m.sort()
	return m
}

// recount rebuilds the pool and the counts from plan, verified and held.
func (m *Manager) recount() {
	m.total, m.have, m.pool.count = m.plan.count(), 0, 0
	for w := range m.plan {
		got := m.plan[w] & m.verified[w]
		open := m.plan[w] &^ m.verified[w]
		for x := open; x != 0; x &= x - 1 {
			if i := bits.TrailingZeros64(x); m.held[w*64+i] != 0 {
				open &^= 1 << i
			}
		}
		m.pool.wanted[w] = open
		m.have += bits.OnesCount64(got)
		m.pool.count += bits.OnesCount64(open)
	}
}

// AddSource makes a peer a source that has nothing yet. An existing source stays as
// it is.
func (m *Manager) AddSource(id peers.ID, now time.Time) {
	m.clock.tick(now)
	if _, ok := m.byID[id]; ok {
		return
	}
	m.serial++
	s := &source{id: id, serial: m.serial, lots: lotsOf(id), score: 1}
	i := uint32(len(m.sources))
	if n := len(m.gaps); n > 0 {
		i, m.gaps = m.gaps[n-1], m.gaps[:n-1]
		m.sources[i] = s
	} else {
		m.sources = append(m.sources, s)
		if int(i) >= len(m.asleep)*64 {
			m.asleep = append(m.asleep, 0)
		}
	}
	m.byID[id] = i
}

// RemoveSource returns all leases of a source that is gone. Nobody is blamed.
// They are not listed: there is nobody to tell.
func (m *Manager) RemoveSource(id peers.ID, now time.Time) Todo {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok {
		return m.settle()
	}
	s := m.sources[i]
	m.roused(i)
	m.uncount(s)
	s.have = haves{}
	for s.head != 0 {
		m.end(s.head, revoked)
	}
	m.wake = slices.DeleteFunc(m.wake, func(j uint32) bool { return j == i })
	delete(m.byID, id)
	m.sources[i] = nil
	m.gaps = append(m.gaps, i)
	m.relentAll()
	return m.settle()
}

// Acquire leases up to max pieces to a source. With fewer than max it also says
// why there are no more; the source is then named in a later Todo.Wake, or may
// ask again at Refusal.Until.
func (m *Manager) Acquire(id peers.ID, max int, now time.Time) ([]Lease, Refusal) {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok {
		return nil, Refusal{Reason: UnknownSource, Never: true}
	}
	if max <= 0 {
		return nil, Refusal{}
	}
	s := m.sources[i]
	m.roused(i)
	if no := m.barred(s); no.Reason != 0 {
		return nil, m.refuse(i, no)
	}
	m.freshen()
	m.recall(s)
	var out []Lease
	for len(out) < max {
		at, no := m.grant(i)
		if at == 0 {
			return out, m.refuse(i, no)
		}
		out = append(out, m.public(at))
	}
	return out, Refusal{}
}

// barred returns why a source gets nothing at all, if so.
func (m *Manager) barred(s *source) Refusal {
	switch {
	case m.have == m.total:
		return Refusal{Reason: AllVerified, Never: true}
	case s.banned:
		return Refusal{Reason: IsBanned}
	case m.paused != "":
		return Refusal{Reason: IsPaused}
	}
	return Refusal{}
}

// grant leases one piece to a source, or says why not.
func (m *Manager) grant(i uint32) (uint32, Refusal) {
	s := m.sources[i]
	if !m.room(s, 1) {
		return 0, Refusal{Reason: AtCapacity}
	}
	if at := m.rescue(i); at != 0 {
		return at, Refusal{}
	}
	p, rank, ok := m.choose(s)
	if !ok {
		return m.hedge(i)
	}
	if !m.room(s, int64(m.layout.PieceLen(share.Piece(p)))) {
		return 0, Refusal{Reason: AtCapacity}
	}
	at := m.lease(i, p, rank)
	if m.awaited(p) {
		m.hurry(at)
	}
	return at, Refusal{}
}

// lease gives the wanted piece p to a source.
func (m *Manager) lease(i, p uint32, rank int) uint32 {
	m.pool.remove(p, rank)
	at := m.newLease(i, p, false)
	m.held[p] = at
	m.leased++
	m.grants++
	return at
}

// Progress says that n bytes of p came in under a lease. It extends deadlines, also with 0.
func (m *Manager) Progress(id peers.ID, p share.Piece, token share.Token, n int, now time.Time) Todo {
	m.clock.tick(now)
	at := m.live(id, p, token)
	if at == 0 || n < 0 {
		return m.settle()
	}
	l := &m.leases[at]
	s := m.sources[l.source]
	got := min(uint32(min(int64(n), int64(l.length))), l.length-l.got)
	l.got += got
	l.seen = m.clock.at
	s.pending -= int64(got)
	s.busyGot += int64(got)
	if got > 0 {
		s.lap.add(got, m.clock.at, int64(m.cfg.TakeoverFactor*share.BlockSize))
		m.begun.set(l.piece) // it is leased, so it has no rank to change
	}
	m.flows(s, got)
	if s.head == at {
		s.base = m.clock.at
		m.setAlarm(l.source)
	}
	if got > 0 {
		m.freed(l.source)
	}
	return m.settle()
}

// Fail ends a lease without its piece.
func (m *Manager) Fail(id peers.ID, p share.Piece, token share.Token, why Reason, now time.Time) Todo {
	return m.fail(id, p, token, why, 0, now)
}

func (m *Manager) fail(id peers.ID, p share.Piece, token share.Token, why Reason, retry time.Duration, now time.Time) Todo {
	m.clock.tick(now)
	at := m.live(id, p, token)
	if at == 0 {
		return m.settle()
	}
	i, moved := m.leases[at].source, m.leases[at].moved
	m.record(at, Failed, why)
	m.end(at, failed)
	if moved { // it took it from another
		m.shun(i, uint32(p))
	}
	switch why {
	case BadData, Missed:
		m.shun(i, uint32(p))
	case NotFound:
		m.sources[i].lacks = true
		m.lose(m.sources[i], uint32(p))
	case Elsewhere:
		m.elsewhere(m.sources[i], uint32(p), retry)
	}
	return m.settle()
}

// Verified completes a piece, whoever sent it, and ends all leases on it. The
// tokens are those of the leases under which its blocks came: such a lease is
// listed in Todo.Finished, any other in Todo.Revoked.
func (m *Manager) Verified(p share.Piece, now time.Time, credited ...share.Token) Todo {
	m.clock.tick(now)
	if int64(p) >= int64(m.space.n) || m.verified.has(uint32(p)) {
		return m.settle()
	}
	q := uint32(p)
	if m.pool.wanted.has(q) {
		m.pool.remove(q, m.pool.rankOf(q))
	}
	m.verified.set(q)
	m.begun.clear(q)
	if m.plan.has(q) {
		m.have++
		m.todo.Done = m.have == m.total
	}
	for at := m.held[q]; at != 0; at = m.held[q] {
		m.complete(at, credited)
	}
	return m.settle()
}

// complete ends a lease whose piece is verified.
func (m *Manager) complete(at uint32, credited []share.Token) {
	l := &m.leases[at]
	switch {
	case slices.Contains(credited, l.token):
		m.todo.Finished = append(m.todo.Finished, m.public(at))
		m.end(at, finished)
	case len(credited) == 0 && l.twin == 0:
		m.todo.Revoked = append(m.todo.Revoked, m.public(at))
		m.end(at, alone)
	default:
		m.revoke(at)
	}
}

// Unverified makes a verified piece wanted again: its data was lost or damaged.
func (m *Manager) Unverified(p share.Piece, now time.Time) Todo {
	m.clock.tick(now)
	if int64(p) >= int64(m.space.n) || !m.verified.has(uint32(p)) {
		return m.settle()
	}
	m.verified.clear(uint32(p))
	if m.plan.has(uint32(p)) {
		m.have--
		m.want(uint32(p))
	}
	return m.settle()
}

// Counts are the pieces of the plan in each state.
func (m *Manager) Counts() (wanted, leased, verified int) {
	return m.pool.count, m.leased, m.have
}

// Done says whether every piece of the plan is verified.
func (m *Manager) Done() bool { return m.have == m.total }

// Stats are the counts so far.
func (m *Manager) Stats() Stats { return m.stats }

// Pause stops all grants; why appears in refusals and explanations, for example
// "disk full: need 3 GiB, have 1 GiB". Existing leases stay.
func (m *Manager) Pause(why string) {
	if why == "" {
		why = "paused"
	}
	m.paused = why
}

// Resume ends Pause.
func (m *Manager) Resume(now time.Time) Todo {
	m.clock.tick(now)
	m.paused = ""
	m.rouseAll(func(s *source) bool { return s.waiting == IsPaused })
	return m.settle()
}
