package leasemgr

import "time"

// Behind lines of their own there may be other networks whose peers fetch the share. A source that has all of it has a
// line, too, and each piece need leave it once. So a peer with neighbours asks such a source first for the pieces whose lot is its
// own among all that fetch, wherever they are. The rest of its part it leaves to those others as long as any such source has a
// lease, and then as long as they bring beyondFactor times what all these sources could: soon as much
// as they, or their lines are too thin. Nobody is relied on for longer.
//
// What is asked for before a source is measured lies on the line before all else: of many
// sources, and for all neighbours, that can be the whole share. So beyond the line such a source
// is asked for a first piece only while no other is.
const (
	beyondFactor = 0.5
	probeFor     = instant(time.Second) // after which a source that sends nothing keeps no other waiting
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
	if p, rank, ok = m.rarest(s, m.lots, true); ok {
		return p, rank, ok
	}
	if s.left = m.busyWhole() || m.fedFromBeyond(); !s.left {
		m.reliance.fed, m.reliance.alone = 0, m.clock.at+nearAgain
	}
	return 0, 0, false
}

// busyWhole reports whether a source that has the whole share has a lease.
func (m *Manager) busyWhole() bool {
	for _, o := range m.sources {
		if o != nil && o.count > 0 && o.have.n == m.space.n {
			return true
		}
	}
	return false
}

// fedFromBeyond reports whether the peers beyond the line that miss some of the share bring enough of it.
func (m *Manager) fedFromBeyond() bool {
	r, could, factor := &m.reliance, 0.0, beyondFactor
	for _, o := range m.sources {
		if o != nil && o.measured && o.have.n == m.space.n {
			could += o.rate
		}
	}
	switch {
	case r.fed == 0:
		r.fed = m.clock.at
	case m.clock.at >= r.fed+instant(flowMemory):
		factor = 1
	}
	return could > 0 && m.fromBeyond.now(m.clock.at) >= factor*max(could, leastRate)
}
