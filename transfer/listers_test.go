package transfer

import (
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// inFleet is a transfer of a fleet that elects; it knows the source "out" and not yet
// the list of files.
func inFleet(t *testing.T) *world {
	w := newWorld(t, Config{Fleet: Fleet{Secret: "the secret of a fleet"}}, Fetch{Share: theManifest.ID()})
	if q := got[AskListers](w); len(q) != 1 || q[0].Stale != 0 {
		t.Fatalf("it asks %v", q)
	}
	w.find("out")
	return w
}

func (w *world) hear(m Listers) { w.happens(func() { w.x.Listers(m, w.now) }) }

func member(id peers.ID) peers.Addr {
	return peers.Addr{ID: id, Addrs: []string{"/ip4/10.0.0.1/tcp/1"}}
}

func TestOneMemberAsksForTheListOutside(t *testing.T) {
	w := inFleet(t)
	w.claim(len(w.asks) == 0, "it asks %v before it knows who does", w.asks)
	w.hear(Listers{Claim: 7, Mine: true})
	w.claim(w.asks["out"] && len(w.asks) == 1, "it is the one, and asks %v", w.asks)
}

func TestTheOthersAskThatMember(t *testing.T) {
	w := inFleet(t)
	w.hear(Listers{Claim: 7, Members: []peers.Addr{member("first"), member(self)}})
	w.claim(w.asks["first"] && len(w.asks) == 1, "it asks %v", w.asks)
	w.happens(func() {
		delete(w.asks, "first")
		w.x.ManifestCame("first", nil, wire.Reply{Status: wire.Busy, Retry: time.Second}, nil, w.now)
	})
	w.pass(1100 * time.Millisecond)
	w.claim(w.asks["first"] && len(w.asks) == 1, "later it asks %v", w.asks)
	w.happens(func() {
		delete(w.asks, "first")
		w.x.ManifestCame("first", theManifest.Bytes(), wire.Reply{Status: wire.OK}, nil, w.now)
	})
	w.claim(len(got[Open](w)) == 1, "it does not open its place")
	w.hear(Listers{Claim: 8, Mine: true}) // what arrives late
	w.pass(time.Minute)
	w.claim(len(w.asks) == 0, "with the list it asks %v", w.asks)
}

// A claim that nobody renews is taken over; one that is renewed stands.
func TestAClaimThatIsNotRenewedIsStale(t *testing.T) {
	w := inFleet(t)
	claim := uint64(1)
	for range 10 {
		w.hear(Listers{Claim: claim, Members: []peers.Addr{member("first")}})
		claim++
		w.pass(fleet.DefaultHeartbeat)
		q := got[AskListers](w)
		w.claim(len(q) == 1 && q[0].Stale == 0, "of a claim that was renewed it asks %v", q)
	}
	var q []AskListers
	for range 4 {
		w.hear(Listers{Claim: claim, Members: []peers.Addr{member("first")}})
		w.pass(fleet.DefaultHeartbeat)
		q = got[AskListers](w)
	}
	w.claim(len(q) == 1 && q[0].Stale == claim, "after %v without a sign it asks %v", claimTime, q)
	w.claim(!w.asks["out"], "it asks outside, and the claim is not its own")
	w.hear(Listers{Claim: claim + 1, Mine: true})
	w.claim(w.asks["out"], "the claim is its own, and it asks %v", w.asks)
}

// A store that does not answer keeps nobody from the list for ever.
func TestWithoutAWordOfTheStoreTheListComesFromOutside(t *testing.T) {
	w := inFleet(t)
	w.hear(Listers{})
	w.pass(silentStore - time.Millisecond)
	w.claim(!w.asks["out"], "too early")
	w.pass(time.Millisecond)
	w.claim(w.asks["out"], "after %v it asks %v", silentStore, w.asks)
}

// Unreachable sources outside do not end the transfer while members may have the list.
func TestNobodyOutsideIsNeeded(t *testing.T) {
	w := inFleet(t)
	w.hear(Listers{Claim: 7, Mine: true, Members: []peers.Addr{member("first")}})
	for range 2 * enoughDials {
		if w.asks["out"] {
			w.happens(func() {
				delete(w.asks, "out")
				w.x.ManifestCame("out", nil, wire.Reply{}, errors.Join(peers.ErrUnreachable, errors.New("nobody there")), w.now)
			})
		}
		w.pass(5 * time.Second)
	}
	w.claim(w.over == nil, "it has ended: %+v", w.over)
	w.happens(func() {
		delete(w.asks, "first")
		w.x.ManifestCame("first", theManifest.Bytes(), wire.Reply{Status: wire.OK}, nil, w.now)
	})
	w.claim(len(got[Open](w)) == 1, "it does not open its place")
}
