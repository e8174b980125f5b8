package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/share"
)

// minWindow is the window of the slowest source. It lets small pieces, which cost
// a round trip each, be asked for several at a time.
const minWindow = 4 * share.BlockSize

// window is how many bytes a measured source may have still to come: what one
// round trip and the pipeline take at its rate.
func (m *Manager) window(s *source) int64 {
	w := s.rate * (s.trip + m.cfg.Ahead).Seconds()
	return int64(min(max(w, minWindow), float64(m.cfg.MaxWindow)))
}

// room says whether a source may hold one more lease, of n bytes.
func (m *Manager) room(s *source, n int64) bool {
	switch {
	case s.score < m.cfg.MinPeerScore:
		return s.count == 0
	case s.measured:
		return s.count < 2 || s.count < m.cfg.MaxMeasuredLeases && s.pending+n <= m.window(s)
	default:
		small := int64(m.cfg.MaxLeasesPerPeer) * share.MinPiece
		return s.count == 0 || s.count < m.cfg.MaxLeasesPerPeer || s.count < m.cfg.MaxSmallLeases && s.pending+n <= small
	}
}

// maxRate keeps arithmetic with rates finite: 1 TB/s.
const maxRate = 1e12

// maxTrip is the longest round trip that is believed.
const maxTrip = 30 * time.Second
