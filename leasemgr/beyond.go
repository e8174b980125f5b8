package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Behind lines of their own there may be other networks whose peers fetch the share. A source that has all of it has a
// line, too, and each piece need leave it once. So a peer with neighbours asks such a source first for the pieces whose lot is its
// own among all that fetch, wherever they are. The rest of its part it leaves to those others as long as any such source has a
// lease, and then as long as they bring beyondFactor times what all these sources could: soon as much
// as they, or their lines are too thin. Nobody is relied on for longer.
//
// What is asked for before a source is measured lies on the line before all else: of many
// sources, and for all neighbours, that can be the whole share. So beyond the line such a source
// is asked for a first piece only while no other is.
//
// On one machine no line is between a source and those that fetch. What it could send says little, as all share the
// cores; so there, too, each asks it first for its own pieces, and hereFactor of that is enough for hereFor.
const (
	beyondFactor = 0.5
	probeFor     = instant(time.Second) // after which a source that sends nothing keeps no other waiting

	hereFactor = 0.1
	hereFor    = instant(500 * time.Millisecond)
	hereCrowd  = 6 // so many others are a crowd: the source itself sends them elsewhere
)

// probes reports whether a source beyond the line that was not measured has a lease, and is not silent.
func (m *Manager) probes() bool {
	for _, o := range m.sources {
		if o != nil && !o.near() && !o.measured && o.head != 0 && m.clock.at < m.leases[o.head].seen+probeFor {
			return true
		}
	}
	return false
}

// ourPartOfAll is the next piece for a source that has the whole share, whose lot is ours among all that fetch, of whom
// some are neighbours. If there is none, s.left says whether the rest of our part is left to others.
func (m *Manager) ourPartOfAll(s *source, neighbours int) (p uint32, rank int, ok bool) {
	if m.clock.at < m.reliance.alone {
		return 0, 0, false
	}
	m.lots = m.lots[:0]
	for _, o := range m.sources {
		if o != nil && o != s && m.fetches(o) {
			m.lots = append(m.lots, o.lots)
		}
	}
	if len(m.lots) == neighbours {
		return 0, 0, false
	}
	return m.divided(s, m.fedFromBeyond)
}

// divided is the next piece for a source that has the whole share, whose lot is ours and none of m.lots. If there is
// none, s.left says whether the rest is left to others: as long as such a source is busy that is not far slower, or we
// are fed.
func (m *Manager) divided(s *source, fed func() bool) (p uint32, rank int, ok bool) {
	if p, rank, ok = m.rarest(s, m.lots, true); ok {
		return p, rank, ok
	}
	if s.left = m.busyWhole(s) || fed(); !s.left {
		m.reliance.fed, m.reliance.alone = 0, m.clock.at+nearAgain
	}
	return 0, 0, false
}

// busyWhole reports whether a source that has the whole share and is not far slower than s has a lease.
func (m *Manager) busyWhole(s *source) bool {
	for _, o := range m.sources {
		if o != nil && o.count > 0 && o.have.n == m.space.n && !o.farSlower(s) {
			return true
		}
	}
	return false
}

// here reports whether a source is on this machine.
func (s *source) here() bool { return 0 < s.away && s.away <= peers.SameMachine }

// ourPartHere is ourPartOfAll for a source on this machine, among those that fetch here.
func (m *Manager) ourPartHere(s *source) (p uint32, rank int, ok bool) {
	if m.self == "" || !s.here() || m.clock.at < m.reliance.alone {
		return 0, 0, false
	}
	m.lots = m.lots[:0]
	for _, o := range m.sources {
		if o != nil && o.here() && m.fetches(o) {
			m.lots = append(m.lots, o.lots)
		}
	}
	if n := len(m.lots); n == 0 || n >= hereCrowd {
		return 0, 0, false
	}
	return m.divided(s, func() bool { return m.fedHere(s) })
}

// fedHere reports whether others bring enough beside a source on this machine.
func (m *Manager) fedHere(s *source) bool {
	factor := hereFactor
	if m.stage(hereFor) {
		factor = 1
	}
	return m.fromParts.sofar(m.clock.at) >= factor*max(s.rate, leastRate)
}

// stage reports whether the rest of our part has been left to others for so long.
func (m *Manager) stage(long instant) bool {
	r := &m.reliance
	if r.fed == 0 {
		r.fed = m.clock.at
	}
	return m.clock.at >= r.fed+long
}

// fedFromBeyond reports whether the peers beyond the line that miss some of the share bring enough of it.
func (m *Manager) fedFromBeyond() bool {
	could, factor := 0.0, beyondFactor
	for _, o := range m.sources {
		if o != nil && o.measured && o.have.n == m.space.n {
			could += o.rate
		}
	}
	if m.stage(instant(flowMemory)) {
		factor = 1
	}
	return could > 0 && m.fromBeyond.now(m.clock.at) >= factor*max(could, leastRate)
}
