package fleet

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what a Member is told of its sources.

// SourceUp is told that a pool fetches from a source.
func (m *Member) SourceUp(id peers.ID, pool Port, now time.Time) {
	m.now = now
	if f := m.fellows[id]; f != nil {
		f.down = false
	} else if id != m.cfg.Coordinator {
		if src := m.byID[id]; src != nil { // it has another pool now
			m.close(src)
		}
		src := &origin{id: id, pool: pool, held: map[share.Piece]*hold{}}
		m.byID[id] = src
		m.order = append(m.order, src)
		m.then(Send{pool, Watch{}})
	}
	m.then(Forward{})
}

// SourceHas is told all that a source has; nil: it is not connected.
func (m *Member) SourceHas(id peers.ID, have *share.Set, now time.Time) {
	m.now = now
	src := m.byID[id]
	if src == nil {
		m.then(Forward{})
		return
	}
	was := src.have
	src.have = have
	for p := range src.held {
		if src.have == nil || !src.have.Has(p) {
			delete(src.held, p)
		}
	}
	switch {
	case src.have == nil && was != nil: // its leases return
		m.down(src)
		m.unask(src)
	case src.have != nil:
		m.announce(src)
	}
	m.govern(src)
}

// SourceHasMore is told new pieces of a source. Those of a source outside the fleet count for nothing until it has said what it has, which
// it does whenever it is connected.
func (m *Member) SourceHasMore(id peers.ID, pieces []share.Piece, now time.Time) {
	m.now = now
	src := m.byID[id]
	if src == nil {
		m.then(Forward{})
		return
	} else if src.have == nil {
		return
	}
	var fresh []share.Piece
	for _, p := range pieces {
		if src.have.Add(p) && m.wants(p) {
			fresh = append(fresh, p)
		}
	}
	for part := range slices.Chunk(fresh, wire.MaxHave) {
		m.tellSeat(wire.SourceHasMore{Share: m.cfg.Share, Source: src.id, Pieces: part})
	}
	if m.alone {
		m.then(Forward{})
	}
}

// SourceDown is told that nothing more is fetched from a source.
func (m *Member) SourceDown(id peers.ID, now time.Time) {
	m.now = now
	if src := m.byID[id]; src != nil {
		m.close(src)
	} else if f := m.fellows[id]; f != nil && !f.down {
		f.down = true
		m.tellSeat(wire.SourceDown{Share: m.cfg.Share, Source: id, Member: true})
	}
	m.then(Forward{})
}

// Ended is told that a pool has ended without notice; the lease manager knows.
func (m *Member) Ended(pool Port, now time.Time) {
	m.now = now
	for _, src := range m.order {
		if src.pool == pool {
			m.close(src)
			return
		}
	}
}

// SetPriorities is told what is selected from now on; the coordinator leases only
// that.
func (m *Member) SetPriorities(runs []leasemgr.Run, now time.Time) {
	m.now = now
	m.then(Forward{})
	changed := false
	for _, r := range runs {
		for p := r.First; p < r.First+share.Piece(r.N); p++ {
			if skip := r.Priority == leasemgr.Skip; skip == m.wants(p) {
				changed = true
				m.choose(p, !skip)
			}
		}
	}
	if !changed {
		return
	}
	for _, src := range m.order {
		m.announce(src)
		m.giveBack(src, slices.DeleteFunc(src.pieces(), func(p share.Piece) bool { return m.wants(p) }), leasemgr.GaveBack)
	}
}
