package daemon

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
)

// unheard is a store whose rounds cannot be changed while it is away.
type unheard struct {
	rounds.KV
	away atomic.Bool
}

func (u *unheard) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if u.away.Load() && strings.HasPrefix(key, "round.v1.holds.") {
		return 0, rounds.ErrAway
	}
	return u.KV.Update(ctx, key, value, rev)
}

// The store is away for the moment in which a member gives its turn back. Then the member may have it again: nobody else does.
func TestATurnThatCouldNotBeGivenBackIsOnesOwn(t *testing.T) {
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	a := begun(t, t.TempDir(), inFleet(fleet))
	kv := &unheard{KV: a.member.kv}
	f := newFleetHolds(&member{d: a, store: fetcher.FleetStore{KV: kv, Secret: fleet.Secret}})
	const at = peers.ID("12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")
	end, err := f.turn(t.Context(), at, 0)
	must(t, err)
	kv.away.Store(true)
	end()
	leave, err := f.turns.Take(t.Context(), at) // it was given up, as far as it can be
	must(t, err)
	leave()
	kv.away.Store(false)
	if end, err = f.turn(t.Context(), at, 0); err != nil {
		t.Fatal("it has no turn any more: ", err)
	}
	end()
}

// lossy is a store that takes a change of a round, and whose answer is lost, as is what it says of the round next.
type lossy struct {
	rounds.KV
	away atomic.Bool
}

func (l *lossy) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	out, err := l.KV.Update(ctx, key, value, rev)
	if l.away.Load() && strings.HasPrefix(key, "round.v1.holds.") {
		return 0, rounds.ErrAway
	}
	return out, err
}

func (l *lossy) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if l.away.Load() && strings.HasPrefix(key, "round.v1.holds.") {
		return rounds.Entry{}, rounds.ErrAway
	}
	return l.KV.Get(ctx, key)
}

// A member gives its turn back, and only the answer of the store is lost. Another member gets the turn: then the first does not have it too.
func TestATurnThatWasGivenBackUnheardIsNotOnesOwn(t *testing.T) {
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	a, b := begun(t, t.TempDir(), inFleet(fleet)), begun(t, t.TempDir(), inFleet(fleet))
	kv := &lossy{KV: a.member.kv}
	f := newFleetHolds(&member{d: a, store: fetcher.FleetStore{KV: kv, Secret: fleet.Secret}})
	const at = peers.ID("12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")
	end, err := f.turn(t.Context(), at, 0)
	must(t, err)
	kv.away.Store(true)
	end()
	leave, err := f.turns.Take(t.Context(), at) // it was given up
	must(t, err)
	leave()
	kv.away.Store(false)
	other, err := b.member.holds.turn(t.Context(), at, 0)
	must(t, err)
	defer other()
	if end, err = f.turn(t.Context(), at, 0); err == nil {
		end()
		t.Error("two members have the turn at a depot at once")
	}
}
