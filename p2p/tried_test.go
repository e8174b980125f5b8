package p2p

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
)

// Only a relay dials others because they ask for it.
func TestOnlyARelayTriesAddresses(t *testing.T) {
	for relay, want := range map[bool]bool{false: false, true: true} {
		h := newHost(t, Config{Reach: Reach{Traverse: true, Relay: relay}})
		if got := slices.Contains(h.host.Mux().Protocols(), protocol.ID(autonatv2.DialProtocol)); got != want {
			t.Errorf("relay %v: it tries others: %v", relay, got)
		}
	}
}

// An address that no relay can say anything about, or that names a host, does not keep the others
// from being tried.
func TestWhatCannotBeTriedIsPassedOver(t *testing.T) {
	h := newHost(t, Config{Reach: Reach{Traverse: true}, Announce: []string{"/dns4/example.org/tcp/4001", "/ip4/10.0.0.1/tcp/4001", "/ip4/8.8.8.8/tcp/4001", "/ip4/1.1.1.1/tcp/4001"}})
	is := func(want string, asked map[string]time.Time) {
		t.Helper()
		got := ""
		if a := h.reach.untried(asked); a != nil {
			got = a.String()
		}
		if got != want {
			t.Errorf("next is %q, want %q", got, want)
		}
	}
	now := time.Now()
	is("/ip4/8.8.8.8/tcp/4001", nil)
	is("/ip4/1.1.1.1/tcp/4001", map[string]time.Time{"/ip4/8.8.8.8/tcp/4001": now})
	h.reach.tried = []Tried{{"/ip4/8.8.8.8/tcp/4001", false, now}}
	is("/ip4/1.1.1.1/tcp/4001", nil)
	h.reach.tried = append(h.reach.tried, Tried{"/ip4/1.1.1.1/tcp/4001", true, now}, Tried{"/ip4/9.9.9.9/tcp/1", true, now})
	is("", nil)
	if got := h.Tried(); len(got) != 2 {
		t.Errorf("%+v: one of them is not an address of the host any more", got)
	}
	h.reach.tried[0].At = now.Add(-triedFor)
	is("/ip4/8.8.8.8/tcp/4001", nil)
}
