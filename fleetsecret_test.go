package fetcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

const nextSecret = "another secret of the fleet"

// fewWrites is a store that is lost after that many writes.
type fewWrites struct {
	rounds.KV
	left int
}

var errCut = errors.New("the connection was lost")

func (f *fewWrites) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if f.left--; f.left < 0 {
		return 0, errCut
	}
	return f.KV.Create(ctx, key, value)
}

func (f *fewWrites) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if f.left--; f.left < 0 {
		return 0, errCut
	}
	return f.KV.Update(ctx, key, value, rev)
}

// listOf puts shares on the list of a fleet, the first of which is removed again.
func listOf(t *testing.T, s FleetStore, n int) (want []share.ID) {
	for i := range n {
		id := share.IDOf([]byte(fmt.Sprint(i)))
		ticket := share.Ticket{ID: id}
		must(t, s.put(t.Context(), listKey+id.String(), ListedShare{Ticket: ticket.String(), Added: time.Unix(int64(i), 0)}))
		want = append(want, id)
	}
	must(t, s.Remove(t.Context(), want[0]))
	return want[1:]
}

func lists(r Rollout, want []share.ID) bool {
	for i, x := range r.Shares {
		if i >= len(want) || x.ID != want[i] {
			return false
		}
	}
	return len(r.Shares) == len(want)
}

// The secret is changed while a member runs: it writes nothing from then on, and is told so; whoever knows the new one finds the
// list as it was.
func TestTheSecretOfAFleetIsChangedWhileAMemberRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := memkv.New()
		s, to := FleetStore{kv, fleetSecret}, FleetStore{kv, nextSecret}
		must(t, s.Claim(t.Context()))
		want := listOf(t, s, 4)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.Follow(ctx, MemberReport{Peer: "follower"}, nil, noWork{})
		}()
		defer func() { end(); <-ended }()
		time.Sleep(time.Minute)
		if r, err := s.Rollout(t.Context()); err != nil || len(r.Members) != 1 {
			t.Fatalf("before: %+v, %v", r, err)
		}
		must(t, s.ChangeSecret(t.Context(), nextSecret))
		time.Sleep(time.Minute)
		last, err := kv.Get(t.Context(), statusKey+"follower")
		must(t, err)
		time.Sleep(time.Hour)
		if e, err := kv.Get(t.Context(), statusKey+"follower"); err != nil || e.Rev != last.Rev {
			t.Errorf("it reports into the store of another fleet: %v", err)
		}
		if r, err := to.Rollout(t.Context()); err != nil || len(r.Members) != 0 || !lists(r, want) {
			t.Errorf("afterwards: %+v, %v", r, err)
		}
		if _, err := s.Rollout(t.Context()); !errors.Is(err, ErrOtherFleet) {
			t.Errorf("with the old secret: %v", err)
		}
		must(t, s.ChangeSecret(t.Context(), nextSecret)) // as after an answer that was lost
	})
}

// A change of the secret that is cut short anywhere is finished when it is called again; nobody else changes it.
func TestAChangeOfTheSecretIsFinishedLater(t *testing.T) {
	for _, claimed := range []bool{true, false} {
		for n := range 6 {
			kv := memkv.New()
			s := FleetStore{kv, fleetSecret}
			if claimed {
				must(t, s.Claim(t.Context()))
			}
			want := listOf(t, s, 4)
			err := FleetStore{&fewWrites{kv, n}, fleetSecret}.ChangeSecret(t.Context(), nextSecret)
			if short := n < 4; errors.Is(err, errCut) != short {
				t.Fatalf("after %d writes: %v", n, err)
			}
			for range 2 {
				must(t, s.ChangeSecret(t.Context(), nextSecret))
			}
			if r, err := (FleetStore{kv, nextSecret}).Rollout(t.Context()); err != nil || !lists(r, want) {
				t.Errorf("after %d writes: %+v, %v", n, r, err)
			}
			for _, other := range []FleetStore{s, {kv, "the secret of a stranger"}} {
				if err := other.ChangeSecret(t.Context(), "what the stranger makes of it"); !errors.Is(err, ErrOtherFleet) {
					t.Errorf("somebody else changed it: %v", err)
				}
			}
		}
	}
	if err := (FleetStore{memkv.New(), fleetSecret}).ChangeSecret(t.Context(), "short"); err == nil {
		t.Error("a short secret was taken")
	}
}
