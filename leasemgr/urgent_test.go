package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// The piece that a reader waits for goes to the head of its holder's queue, when it is
// granted and when it is already held; the leases that it overtakes get its time in addition.
func TestWhatAReaderWaitsForGoesFirst(t *testing.T) {
	now := time.Now()
	m := New(Config{}, Plan{Layout: even{100, share.MinPiece}, Epoch: 1, Seed: 1}, now)
	m.AddSource("s", now)
	m.SetHave("s", share.FullSet(100), now)
	m.Measured("s", share.MinPiece, 0, now) // a piece a second
	first := take(t, m, 1, now)[0]
	due := first.Expires

	m.SetReader(1, 77, 3, now)
	l := take(t, m, 1, now)[0]
	if l.Piece != 77 || !l.Urgent {
		t.Fatalf("granted %+v", l)
	}
	if got := m.head("s"); got != 77 {
		t.Errorf("the head of the queue is %d", got)
	}
	for _, e := range m.holdersOf(first.Piece, now) {
		if d := e.Until.Sub(due); d != time.Second {
			t.Errorf("the lease that was passed got %v more", d)
		}
	}

	todo := m.SetReader(1, first.Piece, 1, now) // which is held
	if len(todo.Urgent) != 1 || todo.Urgent[0].Piece != first.Piece || todo.Urgent[0].Token != first.Token || !todo.Urgent[0].Urgent {
		t.Errorf("told %+v", todo.Urgent)
	}
	if got := m.head("s"); got != first.Piece {
		t.Errorf("the head of the queue is %d", got)
	}
	if todo := m.SetReader(1, first.Piece, 2, now); len(todo.Urgent) > 0 {
		t.Errorf("told again: %+v", todo.Urgent)
	}
	m.DropReader(1)
	if m.awaited(uint32(first.Piece)) {
		t.Error("somebody waits still")
	}
}

// A reader that jumps about does not keep a silent source's leases alive.
func TestHurryingDoesNotKeepASilentSourceAlive(t *testing.T) {
	now := time.Now()
	m := New(Config{}, Plan{Layout: even{100, share.MinPiece}, Epoch: 1, Seed: 1}, now)
	m.AddSource("s", now)
	m.SetHave("s", share.FullSet(100), now)
	m.Measured("s", 4*share.MinPiece, 100*time.Millisecond, now)
	ls := take(t, m, 2, now)
	for i := range 100 {
		m.SetReader(1, ls[i%2].Piece, 1, now)
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		if now = now.Add(100 * time.Millisecond); len(m.Expire(now).Expired) > 0 {
			return
		}
	}
	t.Error("the source was silent for 10 s and holds its leases")
}

func take(t *testing.T, m *Manager, n int, now time.Time) []Lease {
	t.Helper()
	ls, no := m.Acquire("s", n, now)
	if len(ls) != n {
		t.Fatalf("%d leases of %d: %v", len(ls), n, no)
	}
	return ls
}

// head returns the piece at the head of a source's queue.
func (m *Manager) head(id string) share.Piece {
	for _, s := range m.sources {
		if s != nil && string(s.id) == id && s.head != 0 {
			return share.Piece(m.leases[s.head].piece)
		}
	}
	return 1<<32 - 1
}

func (m *Manager) holdersOf(p share.Piece, now time.Time) []Holder { return m.Why(p, now).Holders }
