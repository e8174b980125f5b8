package fetcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// muchWork is the work of a member with as many shares as one key has room for, all of which wait.
type muchWork struct{ noWork }

func (muchWork) Report() (out []ShareReport) {
	for i := range maxReported {
		out = append(out, ShareReport{ID: share.IDOf([]byte(fmt.Sprint(i))).String(), Name: fmt.Sprintf("recordings of the year %d.tar", 1800+i),
			Bytes: 1 << 40, Verified: 1 << 39, Waits: strings.Repeat("waits for leases ", 12)})
	}
	return out
}

// A member that has much to say reports all the same: what a store takes of one value has room for what a report may have.
func TestALongReportFitsIntoTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := FleetStore{memkv.New(), fleetSecret}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = s.Follow(ctx, MemberReport{Peer: "follower", Name: "nas"}, nil, muchWork{})
		r, err := s.Rollout(t.Context())
		if err != nil || len(r.Members) != 1 {
			t.Fatalf("after a minute %d members have reported, %v", len(r.Members), err)
		}
		if n := len(r.Members[0].Shares); n < maxReported {
			t.Errorf("it has reported %d shares of %d", n, maxReported)
		}
	})
}

var aSource = multiaddr.StringCast("/ip4/192.0.2.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")

// allDone is the work of a member that has all of more shares than one key has room for.
type allDone struct{ noWork }

func (allDone) Report() (out []ShareReport) {
	for i := range maxReported + 1 {
		out = append(out, ShareReport{ID: share.IDOf([]byte(fmt.Sprint(i))).String(), Bytes: 1, Verified: 1, Done: true})
	}
	return out
}

// What a member has is shown of each share of the list, however many there are.
func TestOfManySharesEachIsShownAsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := FleetStore{memkv.New(), fleetSecret}
		for i := range maxReported + 1 {
			ticket, err := share.NewTicket(share.IDOf([]byte(fmt.Sprint(i))), []multiaddr.Multiaddr{aSource})
			must(t, err)
			_, err = s.Add(t.Context(), ticket.String())
			must(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = s.Follow(ctx, MemberReport{Peer: "follower", Name: "nas"}, nil, allDone{})
		r, err := s.Rollout(t.Context())
		if err != nil || len(r.Members) != 1 {
			t.Fatalf("%+v, %v", r.Members, err)
		}
		for _, x := range r.Shares {
			if x.Done != 1 {
				t.Errorf("of %d shares, all of which the member has, %s is shown as had by %d", len(r.Shares), x.ID.Short(), x.Done)
			}
		}
		must(t, s.Forget(t.Context(), "follower"))
		said, err := s.entries(t.Context(), statusKey)
		if err != nil || len(said) != 2 || slices.ContainsFunc(said, func(e rounds.Entry) bool { return len(e.Value) > 0 }) {
			t.Errorf("of a machine that was forgotten there are %d keys, %v", len(said), err)
		}
	})
}

// A list has no more shares than members can report; one of them may get another ticket all the same.
func TestAListThatIsFullTakesNoMore(t *testing.T) {
	s, last := FleetStore{memkv.New(), fleetSecret}, ""
	for i := range MaxListed {
		ticket, err := share.NewTicket(share.IDOf([]byte(fmt.Sprint(i))), []multiaddr.Multiaddr{aSource})
		must(t, err)
		last = ticket.String()
		must(t, s.put(t.Context(), listKey+ticket.ID.String(), ListedShare{Ticket: last}))
	}
	_, err := s.Add(t.Context(), last)
	must(t, err)
	ticket, err := share.NewTicket(share.IDOf([]byte("one more")), []multiaddr.Multiaddr{aSource})
	must(t, err)
	if _, err := s.Add(t.Context(), ticket.String()); err == nil || !strings.Contains(err.Error(), "room for no more") {
		t.Errorf("got %v", err)
	}
}
