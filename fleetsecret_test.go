package fetcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
		for n := range 9 {
			kv := memkv.New()
			s := FleetStore{kv, fleetSecret}
			if claimed {
				must(t, s.Claim(t.Context()))
			}
			want := listOf(t, s, 4)
			err := FleetStore{&fewWrites{kv, n}, fleetSecret}.ChangeSecret(t.Context(), nextSecret)
			if short := n < 7; errors.Is(err, errCut) != short {
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

// While a change of the secret is cut short, another machine, which knows only the secret before, may make one of its own:
// it is made with the whole list, or refused; and so is the first when it is called again.
func TestTwoMachinesChangeTheSecret(t *testing.T) {
	for n := range 8 {
		kv := memkv.New()
		s := FleetStore{kv, fleetSecret}
		must(t, s.Claim(t.Context()))
		want := listOf(t, s, 4)
		first := FleetStore{&fewWrites{kv, n}, fleetSecret}.ChangeSecret(t.Context(), nextSecret)
		const third = "what the second machine makes of it"
		err, owner := s.ChangeSecret(t.Context(), third), FleetStore{kv, third}
		if marked := n > 3; errors.Is(err, ErrOtherFleet) != marked || !marked && err != nil {
			t.Errorf("after %d writes, %v: %v", n, first, err)
		}
		again := s.ChangeSecret(t.Context(), nextSecret)
		if err != nil {
			owner = FleetStore{kv, nextSecret}
		}
		if errors.Is(again, ErrOtherFleet) != (err == nil) || again != nil && err != nil {
			t.Errorf("after %d writes the first again: %v", n, again)
		}
		if r, err := owner.Rollout(t.Context()); err != nil || !lists(r, want) {
			t.Errorf("after %d writes: of %d shares %d are left on the list, %v", n, len(want), len(r.Shares), err)
		}
		e, err := kv.Get(t.Context(), listKey+want[0].String())
		must(t, err)
		if _, ok, _ := s.listed(e); ok {
			t.Errorf("after %d writes the secret before opens the list", n)
		}
	}
}

// before is a store in which something happens just before the next entry is created.
type before struct {
	rounds.KV
	happens func()
}

func (b *before) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if f := b.happens; f != nil {
		b.happens = nil
		f()
	}
	return b.KV.Create(ctx, key, value)
}

// Whoever knows only the secret before a change takes nothing off the list, changes nothing on it, and does not say that
// it has put something there.
func TestTheOldSecretChangesNothingOnTheList(t *testing.T) {
	kv := memkv.New()
	s, to := FleetStore{kv, fleetSecret}, FleetStore{kv, nextSecret}
	must(t, s.Claim(t.Context()))
	want := listOf(t, s, 4)
	id := share.IDOf([]byte("a share"))
	ticket := share.Ticket{ID: id}
	late := FleetStore{&before{kv, func() { must(t, s.ChangeSecret(t.Context(), nextSecret)) }}, fleetSecret}
	if err := late.editList(t.Context(), id, func(rounds.Entry) (any, error) { return ListedShare{Ticket: ticket.String()}, nil }); !errors.Is(err, ErrOtherFleet) {
		t.Errorf("added while the secret was changed: %v", err)
	}
	_, kept := s.Keep(t.Context(), want[0], func(*ListedHold) *ListedHold { return nil })
	_, listed := s.Listed(t.Context(), want[0])
	for what, err := range map[string]error{
		"remove": s.Remove(t.Context(), want[0]),
		"forget": s.Forget(t.Context(), "follower"),
		"keep":   kept,
		"listed": listed,
		"edit":   s.editList(t.Context(), want[0], func(rounds.Entry) (any, error) { return "something else", nil }),
	} {
		if err == nil {
			t.Errorf("%s: done", what)
		}
	}
	if r, err := to.Rollout(t.Context()); err != nil || !lists(r, want) {
		t.Errorf("of %d shares %d are on the list: %v", len(want), len(r.Shares), err)
	}
}

// unsteady is a store that one node cannot reach while it is cut off.
type unsteady struct {
	rounds.KV
	cut atomic.Bool
}

func (u *unsteady) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if u.cut.Load() {
		return rounds.Entry{}, errCut
	}
	return u.KV.Get(ctx, key)
}

func (u *unsteady) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if u.cut.Load() {
		return 0, errCut
	}
	return u.KV.Create(ctx, key, value)
}

func (u *unsteady) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if u.cut.Load() {
		return 0, errCut
	}
	return u.KV.Update(ctx, key, value, rev)
}

// Watch ends when the node is cut off, or a second later.
func (u *unsteady) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	if u.cut.Load() {
		return errCut
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() {
		for !u.cut.Load() && ctx.Err() == nil {
			time.Sleep(time.Second)
		}
		cancel()
	})
	return u.KV.Watch(ctx, key, f)
}

// heardOf is work that notes what it is told.
type heardOf struct {
	noWork
	listed, gone []share.ID
	member       error
}

func (h *heardOf) Update(_ context.Context, listed []ListedShare, gone []share.ID) {
	for _, l := range listed {
		h.listed = append(h.listed, l.ID)
	}
	h.gone = append(h.gone, gone...)
}

func (h *heardOf) Member(err error) { h.member = err }

// A member hears soon that the secret was changed: what is on the list does not open any more.
func TestAMemberHearsOfAnotherSecretByTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := FleetStore{memkv.New(), fleetSecret}
		must(t, s.Claim(t.Context()))
		listOf(t, s, 4)
		ctx, end := context.WithCancel(t.Context())
		var work heardOf
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.Follow(ctx, MemberReport{Peer: "follower"}, nil, &work)
		}()
		time.Sleep(65 * time.Second) // it has told just now
		must(t, s.ChangeSecret(t.Context(), nextSecret))
		time.Sleep(tellEvery + followEvery)
		end()
		if <-ended; !errors.Is(work.member, ErrOtherFleet) {
			t.Errorf("after %v: %v", tellEvery+followEvery, work.member)
		}
	})
}

// While a member cannot reach the store the secret is changed. It drops nothing of what it has, and when it is back it writes
// nothing, takes nothing over, and is told that it is no member.
func TestTheSecretIsChangedWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := memkv.New()
		u := &unsteady{KV: kv}
		s, to, far := FleetStore{kv, fleetSecret}, FleetStore{kv, nextSecret}, FleetStore{u, fleetSecret}
		must(t, s.Claim(t.Context()))
		want := listOf(t, s, 4)
		ctx, end := context.WithCancel(t.Context())
		var work heardOf
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = far.Follow(ctx, MemberReport{Peer: "follower"}, nil, &work)
		}()
		time.Sleep(time.Minute)
		u.cut.Store(true)
		synctest.Wait() // it may report at this moment
		was, err := kv.Get(t.Context(), statusKey+"follower")
		must(t, err)
		time.Sleep(time.Minute)
		if err := far.ChangeSecret(t.Context(), nextSecret); !errors.Is(err, errCut) {
			t.Errorf("changed without the store: %v", err)
		}
		must(t, s.ChangeSecret(t.Context(), nextSecret))
		late := share.IDOf([]byte("added since"))
		must(t, to.editList(t.Context(), late, func(rounds.Entry) (any, error) {
			return ListedShare{Ticket: share.Ticket{ID: late}.String(), Added: time.Unix(9, 0)}, nil
		}))
		time.Sleep(time.Hour)
		u.cut.Store(false)
		time.Sleep(time.Minute)
		end()
		<-ended
		if is, err := kv.Get(t.Context(), statusKey+"follower"); err != nil || is.Rev != was.Rev {
			t.Errorf("it reports with the old secret: %v", err)
		}
		if !errors.Is(work.member, ErrOtherFleet) {
			t.Errorf("it is told that it is a member: %v", work.member)
		}
		if slices.Contains(work.listed, late) || slices.ContainsFunc(work.gone, func(id share.ID) bool { return slices.Contains(want, id) }) {
			t.Errorf("it takes over %v, and drops %v", work.listed, work.gone)
		}
		if r, err := to.Rollout(t.Context()); err != nil || len(r.Members) != 0 || !lists(r, append(want, late)) {
			t.Errorf("afterwards: %+v, %v", r, err)
		}
	})
}
