package fetcher

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// A coordinator that was killed is late after its ttl; one whose clock is an hour behind or ahead is not, and of one that gave
// the office back nothing is said.
func TestACoordinatorIsLateWhenItMissesAHeartbeat(t *testing.T) {
	const short = 2 * time.Second
	for _, x := range []struct {
		what        string
		heartbeat   time.Duration
		beats       bool
		ahead       time.Duration // its clock
		after       time.Duration // the last heartbeat, or since it began
		abandons    bool
		late, named bool
	}{
		{"alive", short, true, 0, time.Minute, false, false, true},
		{"alive, an hour behind", short, true, -time.Hour, time.Minute, false, false, true},
		{"alive, an hour ahead", short, true, time.Hour, time.Minute, false, false, true},
		{"alive, an hour ahead, with the longest heartbeat", time.Minute, true, time.Hour, time.Minute, false, false, true},
		{"alive, with the longest heartbeat", time.Minute, true, 0, 3*time.Minute + time.Second, false, false, true},
		{"killed, with the longest heartbeat", time.Minute, false, 0, 91 * time.Second, false, true, true},
		{"killed just now, with the longest heartbeat", time.Minute, false, 0, 89 * time.Second, false, false, true},
		{"killed just now", short, false, 0, time.Second, false, false, true},
		{"killed", short, false, 0, 4 * time.Second, false, true, true},
		{"killed, an hour ahead", short, false, time.Hour, 4 * time.Second, false, true, true},
		{"left", short, true, 0, time.Minute, true, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, id := FleetStore{memkv.New(), fleetSecret}, share.IDOf([]byte("a share"))
			ticket := share.Ticket{ID: id}
			must(t, s.put(t.Context(), listKey+id.String(), ListedShare{ID: id, Ticket: ticket.String(), Added: time.Now()}))
			name := fleet.RoundName(id)
			r, err := rounds.New(s.KV, rounds.Config{Name: name, Office: true, Holder: "somebody", Run: "1", Clock: rounds.ClockOf(time.Now)})
			must(t, err)
			beat := func() {
				must(t, r.SetData(string(s.secret().Seal(name, fleet.Holder{Peer: "somebody", At: time.Now().Add(x.ahead)}))))
			}
			beat()
			g, err := r.TryAcquire(t.Context(), x.heartbeat*3/2)
			must(t, err)
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for x.beats && ctx.Err() == nil {
					beat()
					if err := g.Extend(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					select {
					case <-time.After(x.heartbeat):
					case <-ctx.Done():
					}
				}
			}()
			time.Sleep(x.after)
			if x.abandons {
				end()
				<-ended
				must(t, g.Abandon(t.Context(), "it left"))
			}
			got, err := s.Rollout(t.Context())
			if err != nil || len(got.Shares) != 1 || got.Shares[0].Late != x.late || (got.Shares[0].Coordinator == "somebody") != x.named || x.late && got.Shares[0].Heard.After(time.Now()) {
				t.Errorf("%s: %+v, %v", x.what, got, err)
			}
			end()
			<-ended
		})
	}
}

func TestMachinesAreFoundByTheirNames(t *testing.T) {
	const peer, other = peers.ID("12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"), peers.ID("12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN")
	r := Rollout{Members: []MemberReport{{Peer: peer, Name: "nas"}, {Peer: other, Name: "vm"}}}
	for what, want := range map[string]peers.ID{"nas": peer, string(other): other, peer.Short(): peer} {
		if got, err := r.Machine(what); got != want || err != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	r.Members[1].Name = string(peer) // a name is whatever the machine says
	if got, err := r.Machine(string(peer)); got != peer || err != nil {
		t.Errorf("by its ID: %v, %v", got, err)
	}
	r.Members[1].Name = "nas"
	_, err1 := r.Machine("nas")
	_, err2 := r.Machine("")
	if !errors.Is(err1, ErrNotListed) || !errors.Is(err2, ErrNotListed) || !strings.Contains(err1.Error(), "2 machines of the fleet are called") {
		t.Errorf("%v; %v", err1, err2)
	}
}

// A machine that was forgotten is gone from the reports, and back when it runs again.
func TestAForgottenMachineThatRunsComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := FleetStore{memkv.New(), fleetSecret}
		follow := func() (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.Follow(ctx, MemberReport{Peer: "follower", Name: "nas"}, nil, noWork{})
			}()
			time.Sleep(15 * time.Second)
			return func() { cancel(); <-ended }
		}
		known := func() int {
			r, err := s.Rollout(t.Context())
			must(t, err)
			return len(r.Members)
		}
		end := follow()
		must(t, s.Forget(t.Context(), "follower"))
		if time.Sleep(15 * time.Second); known() != 1 {
			t.Error("it runs, and did not come back")
		}
		end()
		must(t, s.Forget(t.Context(), "follower"))
		if time.Sleep(time.Minute); known() != 0 {
			t.Error("it is not forgotten")
		}
		if err := s.Forget(t.Context(), "follower"); !errors.Is(err, ErrNotListed) {
			t.Errorf("forgotten twice: %v", err)
		}
		defer follow()()
		if known() != 1 {
			t.Error("it runs again, and is not back")
		}
	})
}
