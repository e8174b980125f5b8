package leasemgr

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// rig is a manager and a clock, for tests that tell a story.
type rig struct {
	t   *testing.T
	m   *Manager
	n   int
	now time.Time
}

func newRig(t *testing.T, n int, cfg Config) *rig {
	t.Helper()
	return newRigOf(t, even{n, share.MinPiece}, cfg)
}

func newRigOf(t *testing.T, layout Geometry, cfg Config) *rig {
	now := time.Unix(1000, 0)
	plan := Plan{Layout: layout, Epoch: 1, Seed: 1}
	r := &rig{t: t, m: New(cfg, plan, now), n: layout.Pieces(), now: now}
	t.Cleanup(func() {
		if r.n < 10_000 {
			if err := r.m.check(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func (r *rig) add(ids ...peers.ID) *rig {
	for _, id := range ids {
		r.m.AddSource(id, r.now)
	}
	return r
}

// full gives the whole share to sources, has some pieces.
func (r *rig) full(ids ...peers.ID) *rig {
	for _, id := range ids {
		r.m.SetHave(id, share.FullSet(r.n), r.now)
	}
	return r
}

func (r *rig) has(id peers.ID, pieces ...share.Piece) *rig {
	r.m.SetHave(id, setOf(r.n, pieces...), r.now)
	return r
}

func (r *rig) rate(id peers.ID, rate float64, trip time.Duration) *rig {
	r.m.Measured(id, rate, trip, r.now)
	return r
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }
func (r *rig) to(at time.Time)      { r.now = at }

// get returns what a source is granted.
func (r *rig) get(id peers.ID, max int) []Lease {
	got, _ := r.m.Acquire(id, max, r.now)
	return got
}

// one returns the one lease that a source is granted.
func (r *rig) one(id peers.ID) Lease {
	r.t.Helper()
	got, no := r.m.Acquire(id, 1, r.now)
	if len(got) != 1 {
		r.t.Fatalf("%s was refused: %+v", id, no)
	}
	return got[0]
}

// not expects a refusal with a reason.
func (r *rig) not(id peers.ID, why Why) Refusal {
	r.t.Helper()
	got, no := r.m.Acquire(id, 1, r.now)
	if len(got) > 0 || no.Reason != why {
		r.t.Fatalf("%s got %v, refused %q, want refusal %q", id, got, no.Reason, why)
	}
	return no
}

func (r *rig) done(l Lease) Todo { return r.m.Verified(l.Piece, r.now, l.Token) }

func (r *rig) woken(todo Todo, want ...peers.ID) {
	r.t.Helper()
	got := slices.Clone(todo.Wake)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("woke %v, want %v", got, want)
	}
}

func piecesOf(ls []Lease) (out []share.Piece) {
	for _, l := range ls {
		out = append(out, l.Piece)
	}
	slices.Sort(out)
	return out
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
