package transfer

import "time"

// meter is a rate over the last few seconds.
type meter struct {
	slots [8]int64 // bytes, each over slot
	first time.Time
	at    int64 // number of the newest slot
}

const slot = 500 * time.Millisecond

func (m *meter) add(n int, now time.Time) {
	m.roll(now)
	m.slots[m.at%int64(len(m.slots))] += int64(n)
}

func (m *meter) roll(now time.Time) {
	if m.first.IsZero() {
		m.first = now
	}
	at := int64(now.Sub(m.first) / slot)
	for i := max(m.at+1, at-int64(len(m.slots))+1); i <= at; i++ {
		m.slots[i%int64(len(m.slots))] = 0
	}
	m.at = max(m.at, at)
}

// perSecond is bytes per second; the time since the first byte counts, up to the length of the window.
func (m *meter) perSecond(now time.Time) float64 {
	if m.first.IsZero() {
		return 0
	}
	m.roll(now)
	var sum int64
	for _, n := range m.slots {
		sum += n
	}
	over := min(now.Sub(m.first), slot*time.Duration(len(m.slots)-1)+now.Sub(m.first)%slot)
	if over < slot {
		over = slot
	}
	return float64(sum) / over.Seconds()
}
