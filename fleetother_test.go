package fetcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// noWork is the work of a member that has nothing to do.
type noWork struct{}

func (noWork) Member(error) {}

func (noWork) Update(context.Context, []ListedShare, []share.ID) {}
func (noWork) Report() []ShareReport                             { return nil }

// A node whose secret is another fleet's writes nothing into the store, and is told so for as long as it runs.
func TestANodeOfAnotherFleetSaysSoAlsoLater(t *testing.T) {
	for what, claim := range map[string]bool{"a store that is marked": true, "one with a list alone": false} {
		synctest.Test(t, func(t *testing.T) {
			kv := memkv.New()
			s, wrong := FleetStore{kv, fleetSecret}, FleetStore{kv, "the secret of another fleet"}
			if claim {
				must(t, s.Claim(t.Context()))
			} else {
				key := listKey + share.IDOf([]byte("a share")).String()
				must(t, s.put(t.Context(), key, ListedShare{}))
			}
			follow := func(s FleetStore, peer string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_ = s.Follow(ctx, MemberReport{Peer: "follower"}, nil, noWork{})
				_, err := kv.Get(t.Context(), statusKey+"follower")
				if written := err == nil; written != (peer == "ours") {
					t.Errorf("%s: %s has reported: %v", what, peer, written)
				}
			}
			follow(wrong, "a stranger")
			if _, err := wrong.Rollout(t.Context()); !errors.Is(err, ErrOtherFleet) {
				t.Errorf("%s: after a minute: %v", what, err)
			}
			// not even what it had written before counts
			must(t, wrong.put(t.Context(), statusKey+"peer", MemberReport{Peer: "peer"}))
			if err := wrong.Claim(t.Context()); !errors.Is(err, ErrOtherFleet) {
				t.Errorf("%s: claimed: %v", what, err)
			}
			follow(s, "ours")
		})
	}
}

// slowKV answers after a while.
type slowKV struct{ rounds.KV }

func (s slowKV) wait(ctx context.Context) error {
	select {
	case <-time.After(3 * time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slowKV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if err := s.wait(ctx); err != nil {
		return rounds.Entry{}, err
	}
	return s.KV.Get(ctx, key)
}

func (s slowKV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.KV.Create(ctx, key, value)
}

// updates counts what it is told.
type updates struct {
	noWork
	n *int
}

func (u updates) Update(context.Context, []ListedShare, []share.ID) { *u.n++ }

// A member whose store is slow reports all the same, and what it does goes on meanwhile.
func TestAMemberReportsToASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := FleetStore{memkv.New(), fleetSecret}, 0
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_ = FleetStore{slowKV{s.KV}, fleetSecret}.Follow(ctx, MemberReport{Peer: "follower", Name: "nas"}, nil, updates{n: &n})
		if r, err := s.Rollout(t.Context()); err != nil || len(r.Members) != 1 {
			t.Errorf("it has not reported: %+v, %v", r.Members, err)
		}
		if n < 25 {
			t.Errorf("what it does went on %d times in 30 s", n)
		}
	})
}
