package leasemgr

import "github.com/piecelease/fetcher/share"

// cursor is how far a source has got through the wanted pieces in order of rank.
// Below rank, and within it behind pos, there is nothing for the source, except pieces
// that came back since: those are in the manager's log, from where they move to extra.
type cursor struct {
	gen    uint64 // of the ranks it walks through
	rank   int
	start  uint32 // where the walk through the rank began
	pos    uint32 // where it goes on
	lapped bool   // it passed the last piece and goes on from the first to start
	walks  bool   // start, pos and lapped belong to rank

	run      int    // pieces until the next lot is drawn, in a swarm
	spot     uint32 // where the run is
	spotRank int
	strays   bool // the run is at spot, not at pos

	logPos int // entries of the log it has seen
	extra  []ranked
}

// maxExtra is how many returned pieces a source remembers; with more it starts
// over.
const maxExtra = 64

// ranked is a piece that became wanted with a rank.
type ranked struct {
	piece uint32
	rank  uint16
}

// want makes p wanted.
func (m *Manager) want(p uint32) {
	rank := m.rank(p)
	m.pool.add(p, rank)
	m.returned = append(m.returned, p)
	m.note(p, rank)
}

// note tells all cursors that p is in a rank they may have passed.
func (m *Manager) note(p uint32, rank int) {
	if len(m.log) >= max(256, m.space.words) {
		m.restart()
	}
	m.log = append(m.log, ranked{p, uint16(rank)})
}

// restart makes every cursor start over.
func (m *Manager) restart() {
	m.gen++
	m.log = m.log[:0]
}

// rank is the present rank of a wanted piece.
func (m *Manager) rank(p uint32) int {
	base := m.level(p) * perLevel
	if m.begun.has(p) {
		return base
	}
	return base + 1 + classOf(m.rarity.of(p))
}

// freshen sorts the wanted pieces by rarity again if that changed and enough
// happened since the last time to pay for it.
func (m *Manager) freshen() {
	words := m.space.words
	if !m.rarity.stale || words > 16 && m.grants-m.sortedGrants < uint64(words) && m.clock.at < m.sortedAt+sortEvery {
		return
	}
	m.sort()
}

// sort gives every wanted piece its rank.
func (m *Manager) sort() {
	m.rarity.stale, m.unsorted = false, false
	m.sortedAt, m.sortedGrants = m.clock.at, m.grants
	m.restart()
	q := &m.pool
	q.empty()
	for w, x := range q.wanted {
		if x == 0 {
			continue
		}
		for level, mask := range m.levelMasks(w) {
			m.sortWord(w, x&mask, level*perLevel)
		}
	}
}

func (m *Manager) sortWord(w int, x uint64, base int) {
	if y := x & m.begun[w]; y != 0 {
		m.pool.put(base, w, y)
		x &^= y
	}
	m.rarity.split(w, x, func(class int, pieces uint64) {
		m.pool.put(base+1+class, w, pieces)
	})
}

// choose is the piece a source should fetch next, with its rank.
func (m *Manager) choose(s *source) (p uint32, rank int, ok bool) {
	s.left = false
	if s.have.n == 0 || m.pool.count == 0 {
		return 0, 0, false
	}
	if m.onDemand {
		return m.nearest(s)
	}
	if m.spared(s) {
		return m.onlyHere(s)
	}
	lots := m.neighbours(s)
	switch s.relied = len(lots) > 0 && m.relies(s); {
	case s.relied:
		p, rank, ok = m.ourPart(s, lots)
	case s.have.n == m.space.n:
		p, rank, ok = m.rarestOfAll(s)
	default:
		p, rank, ok = m.rarestOfSome(s)
	}
	if len(m.readers) > 0 {
		if q, r, found := m.nearest(s); found && (!ok || r/perLevel <= rank/perLevel) {
			return q, r, true
		}
	}
	return p, rank, ok
}

// rarestOfAll is the next piece for a source that has the whole share: first one that
// is ours to ask for, and not another peer's that fetches the share.
func (m *Manager) rarestOfAll(s *source) (p uint32, rank int, ok bool) {
	if p, rank, ok = m.ourPartHere(s); ok || s.left {
		return p, rank, ok
	}
	if rivals := m.rivals(s); len(rivals) > 0 {
		fed := m.fed(s)
		p, rank, ok = m.rarest(s, rivals, fed)
		if s.left = fed && !ok; ok || fed {
			return p, rank, ok
		}
	}
	return m.rarest(s, nil, false)
}

// rarest is the next piece for such a source, without those left to rivals: any of the
// lowest rank will do, so there is nothing to remember but where to go on. Urgent or begun
// pieces are left to nobody; and unless the rivals are relied on, no piece of ours goes
// before one of higher priority.
func (m *Manager) rarest(s *source, rivals []uint64, relied bool) (uint32, int, bool) {
	c, tries, level := &s.cursor, mostTries, 0
	for r := m.pool.first(0); r >= 0; r = m.pool.first(r + 1) {
		if r/perLevel > level && tries < mostTries && !relied {
			break
		}
		level = r / perLevel
		l, n, rivals := m.pool.layers[r], uint32(m.space.n), rivals
		if level == 0 || r%perLevel == 0 {
			rivals = nil
		}
		if m.jumps(s, l, r) {
			c.pos = c.spot
		} else if c.rank != r || !c.walks {
			c.pos = m.lot(s, r)
		}
		c.rank, c.walks = r, true
		p, ok := m.ourNext(s, l, c.pos, n, rivals, &tries)
		if !ok {
			p, ok = m.ourNext(s, l, 0, c.pos, rivals, &tries)
		}
		if ok {
			c.pos = p
			return p, r, true
		}
	}
	return 0, 0, false
}

// rarestOfSome is the next piece for a source that has part of the share.
func (m *Manager) rarestOfSome(s *source) (uint32, int, bool) {
	c := &s.cursor
	m.catchUp(s)
	p, ok := m.walk(s)
	best := c.rank
	kept := c.extra[:0]
	var back ranked
	found := false
	for _, e := range c.extra {
		if !m.pool.in(e.piece, int(e.rank)) || !s.have.has(e.piece, m.space.n) {
			continue
		}
		kept = append(kept, e)
		if int(e.rank) <= best && (!found || e.rank < back.rank) && !s.shuns(e.piece) && !s.defers(e.piece) {
			back, found = e, true
		}
	}
	c.extra = kept
	if found {
		return back.piece, int(back.rank), true
	}
	return p, best, ok
}

// catchUp reads what is new in the log.
func (m *Manager) catchUp(s *source) {
	c := &s.cursor
	if c.gen != m.gen {
		*c = cursor{gen: m.gen, logPos: len(m.log), extra: c.extra[:0]}
	}
	for ; c.logPos < len(m.log); c.logPos++ {
		if e := m.log[c.logPos]; s.have.has(e.piece, m.space.n) {
			m.remember(s, e)
		}
	}
}

// remember notes a piece the cursor may have passed.
func (m *Manager) remember(s *source, e ranked) {
	c := &s.cursor
	if int(e.rank) > c.rank {
		return // still ahead
	}
	if len(c.extra) == maxExtra {
		*c = cursor{gen: c.gen, logPos: c.logPos, extra: c.extra[:0]}
		return
	}
	c.extra = append(c.extra, e)
}

// walk moves the cursor to the next wanted piece the source has.
func (m *Manager) walk(s *source) (uint32, bool) {
	c, n := &s.cursor, uint32(m.space.n)
	for r := m.pool.first(c.rank); r >= 0; r = m.pool.first(r + 1) {
		if r%perLevel == 1 && !m.unsorted {
			continue // a rank of pieces that no such source has
		}
		if r != c.rank || !c.walks {
			c.rank, c.start, c.lapped, c.walks = r, m.lot(s, r), false, true
			c.pos = c.start
		}
		l := m.pool.layers[r]
		if p, ok := m.strayed(s, l, r); ok {
			return p, true
		}
		if !c.lapped {
			if p, ok := m.nextOf(s, l, c.pos, n); ok {
				c.pos = p
				return p, true
			}
			c.lapped, c.pos = true, 0
		}
		if p, ok := m.nextOf(s, l, c.pos, c.start); ok {
			c.pos = p
			return p, true
		}
		c.pos = c.start
	}
	c.rank, c.walks = ranks, false
	return 0, false
}

// nextOf is layer.next without the pieces the source is not asked for again yet.
func (m *Manager) nextOf(s *source, l *layer, from, to uint32) (uint32, bool) {
	p, ok := l.next(&s.have, m.space, from, to)
	for ok && (s.shuns(p) || s.defers(p)) {
		p, ok = l.next(&s.have, m.space, p+1, to)
	}
	return p, ok
}

// Peers of a swarm that walk through the same layer in the same order end up side by
// side, and then all ask the one source of the next piece for it at the same time. So
// in a swarm every source's walk is cut into runs: a run begins at a place drawn by
// lot, and is shorter the fewer pieces there are. If no source has just part of the
// share there is no swarm, and walking in order suits disks better.
const (
	longestRun = 64  // pieces
	runShare   = 256 // a run is at most one in this many of a layer's pieces
)

// jumps reports whether a run begins, and draws where.
func (m *Manager) jumps(s *source, l *layer, rank int) bool {
	c := &s.cursor
	if m.rarity.count == 0 {
		return false
	}
	if c.run > 0 && c.spotRank == rank {
		c.run--
		return false
	}
	m.draws++
	c.spot = uint32(mix(m.seed^mix(m.draws)) % uint64(m.space.n))
	c.spotRank, c.strays = rank, true
	c.run = min(l.count/runShare, longestRun-1)
	return true
}

// strayWords is how far from its lot, in words, a run of a source that has part of the
// share looks for a piece. If there is none, the source walks on where it was for the
// length of a run.
const strayWords = 8

// strayed is the next piece of a run, for a source that has part of the share. It
// leaves the walk, which must not miss a piece, where it is.
func (m *Manager) strayed(s *source, l *layer, rank int) (uint32, bool) {
	c := &s.cursor
	if !m.jumps(s, l, rank) && (!c.strays || m.rarity.count == 0) {
		return 0, false
	}
	p, ok := m.nextOf(s, l, c.spot, min(uint32(m.space.n), (c.spot/64+strayWords)*64))
	c.spot, c.strays = p, ok
	return p, ok
}

// lot draws where a source begins its walk through a rank.
func (m *Manager) lot(s *source, rank int) uint32 {
	return uint32(mix(m.seed^mix(s.serial<<16^uint64(rank)^m.gen<<40)) % uint64(m.space.n))
}

// mix scrambles 64 bits (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// may reports whether a source could be granted p, leaving aside room.
func (m *Manager) may(s *source, p uint32) bool {
	return s.have.has(p, m.space.n) && !s.shuns(p) && !s.defers(p)
}

// Begun says that some blocks of p are verified, so that p is leased before untouched
// pieces. Progress implies it too.
func (m *Manager) Begun(p share.Piece) {
	if int64(p) >= int64(m.space.n) || m.begun.has(uint32(p)) {
		return
	}
	m.begun.set(uint32(p))
	if m.pool.wanted.has(uint32(p)) {
		m.rerank(uint32(p))
	}
}

// rerank moves a wanted piece to the rank that it has now.
func (m *Manager) rerank(p uint32) {
	m.pool.remove(p, m.pool.rankOf(p))
	rank := m.rank(p)
	m.pool.add(p, rank)
	m.note(p, rank)
}
