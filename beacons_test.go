package fetcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// addrOf is where a node is: the first of its addresses.
func addrOf(n *Node) string { return n.Addrs()[0] }

func uses(at ...string) func(*Config) {
	return func(c *Config) { c.Beacons.Use, c.Beacons.At = true, at }
}

// openBeacon is a beacon.
func openBeacon(t *testing.T) *Node {
	return openNode(t, func(c *Config) { c.Beacons.Serve = true })
}

// remembers waits until a beacon remembers so much.
func remembers(t *testing.T, b *Node, records int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		st, err := b.Beacon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Records == records {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the beacon remembers %+v, want %d records", st, records)
		}
	}
}

func someFile(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.bin")
	must(t, os.WriteFile(path, []byte(strings.Repeat("content ", size/8)), 0o644))
	return path
}

// The source is gone, and a peer that fetched the share still serves it: a newcomer finishes with
// the ticket that the source gave out. The share is private.
func TestATicketWorksWhenItsSourceHasGone(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon := openBeacon(t)
	source := openNode(t, uses(addrOf(beacon)))
	s, err := source.Share(t.Context(), someFile(t, 1<<20), ShareOptions{})
	must(t, err)
	ticket := s.Ticket()
	if tk, err := share.ParseTicket(ticket); err != nil || tk.Secret == nil || len(tk.Beacons) == 0 || len(ticket) > 330 {
		t.Fatalf("the ticket is %s", ticket)
	}
	seeder := openNode(t, uses())
	if _, err := fetchInto(t, seeder, ticket, t.TempDir(), FetchOptions{Keep: true}); err != nil {
		t.Fatal(err)
	}
	remembers(t, beacon, 2)
	if other := seeder.Ticket(s.ID()); !slices.Equal(secretIn(t, other), secretIn(t, ticket)) {
		t.Error("the ticket of the node that fetched it leads elsewhere")
	}
	must(t, source.Close())
	x, err := fetchInto(t, openNode(t, uses()), ticket, t.TempDir(), FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for e := range x.Events(t.Context()) {
		if c, ok := e.(SourceChanged); ok && c.Source.Peer == seeder.ID() && c.Source.Via.String() == "beacon" {
			found = true
		}
	}
	if !found {
		t.Error("no event says that a beacon named the source")
	}
}

func secretIn(t *testing.T, ticket string) []byte {
	t.Helper()
	tk, err := share.ParseTicket(ticket)
	must(t, err)
	return tk.Secret[:]
}

// A machine has more addresses than a message holds, as one with several networks of containers has. The beacon is told of the one by which it is
// connected with the node, whichever that is: of all others it keeps none.
func TestABeaconIsToldOfTheAddressThatItSees(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon := openBeacon(t)
	source := openNode(t, uses(addrOf(beacon)), func(c *Config) {
		for i := range 4 {
			c.Announce = append(c.Announce, fmt.Sprintf("/ip4/198.51.100.%d/tcp/4001", i), fmt.Sprintf("/ip4/198.51.100.%d/udp/4001/quic-v1", i))
		}
	})
	_, err := source.Share(t.Context(), someFile(t, 1<<20), ShareOptions{})
	must(t, err)
	remembers(t, beacon, 1)
}

// The source is at another address, with another port, and gives out the same secret.
func TestATicketWorksWhenItsSourceHasMoved(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon := openBeacon(t)
	dir, path := t.TempDir(), someFile(t, 1<<20)
	at := func(c *Config) { c.Dir = dir }
	source := openNode(t, uses(addrOf(beacon)), at)
	s, err := source.Share(t.Context(), path, ShareOptions{})
	must(t, err)
	ticket, before := s.Ticket(), addrOf(source)
	remembers(t, beacon, 1)
	must(t, source.Close())
	moved := openNode(t, uses(addrOf(beacon)), at)
	again, err := moved.Share(t.Context(), path, ShareOptions{})
	must(t, err)
	if addrOf(moved) == before || !slices.Equal(secretIn(t, again.Ticket()), secretIn(t, ticket)) {
		t.Fatal("it has the same address, or another secret")
	}
	if _, err := fetchInto(t, openNode(t, uses()), ticket, t.TempDir(), FetchOptions{}); err != nil {
		t.Error(err)
	}
}

// A node that was not told to use beacons contacts none, is none, and names none.
func TestBeaconsAreUsedByWhoeverAskedAlone(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon := openBeacon(t)
	source := openNode(t, uses(addrOf(beacon)))
	s, err := source.Share(t.Context(), someFile(t, 1<<18), ShareOptions{})
	must(t, err)
	remembers(t, beacon, 1)
	x := openNode(t)
	if _, err := fetchInto(t, x, s.Ticket(), t.TempDir(), FetchOptions{Keep: true}); err != nil {
		t.Fatal(err)
	}
	if w := x.Way(beacon.ID()); w != Unconnected {
		t.Errorf("it went to the beacon, %s", w)
	}
	if tk, err := share.ParseTicket(x.Ticket(s.ID())); err != nil || tk.Secret != nil || tk.Beacons != nil {
		t.Error("its ticket names a beacon")
	}
	if _, err := x.Beacon(t.Context()); err == nil {
		t.Error("it is a beacon")
	}
	anonymous := openNode(t, uses())
	if _, err := fetchInto(t, anonymous, s.Ticket(), t.TempDir(), FetchOptions{Keep: true, Anonymous: true}); err != nil {
		t.Fatal(err)
	}
	if got := anonymous.meetings(); len(got) > 0 {
		t.Errorf("whoever wants no name announces %v", got)
	}
	if st, err := beacon.Beacon(t.Context()); err != nil || st.Records != 1 {
		t.Errorf("the beacon remembers %+v, %v", st, err)
	}
}

func TestBeaconsAreChecked(t *testing.T) {
	t.Parallel()
	good := addrOf(openNode(t))
	for name, b := range map[string]Beacons{
		"no address": {Use: true, At: []string{"nonsense"}}, "no peer": {Use: true, At: []string{"/ip4/127.0.0.1/tcp/1"}},
		"not used": {At: []string{good}}, "too many": {Use: true, At: []string{good, good, good}},
	} {
		if err := (Config{Beacons: b}).Validate(); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if err := (Config{Beacons: Beacons{Use: true, At: []string{good}}}).Validate(); err != nil {
		t.Error(err)
	}
}

// looks is a Discovery that notes what it was to announce.
type looks struct{ shares func() []share.ID }

func (l *looks) Find(share.ID, []peers.ID, func(peers.Via, peers.Addr)) (cancel func()) {
	return func() {}
}
func (l *looks) Start(n Local) {
	l.shares = func() []share.ID { return n.Shares(VisibleLAN) }
}
func (l *looks) Changed()     {}
func (l *looks) Close() error { return nil }

// A private share is announced nowhere but at the beacons that its ticket names, and there
// under the key that only the ticket's secret gives.
func TestAPrivateShareIsAnnouncedAtItsBeaconsAlone(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon, other := openBeacon(t), openBeacon(t)
	lan := &looks{}
	n := openNode(t, uses(addrOf(beacon)), func(c *Config) { c.Discovery = lan })
	s, err := n.Share(t.Context(), someFile(t, 1<<18), ShareOptions{})
	must(t, err)
	remembers(t, beacon, 1)
	tk, err := share.ParseTicket(s.Ticket())
	must(t, err)
	got := n.meetings()
	if len(got) != 1 || got[0].Beacon.ID != beacon.ID() || got[0].Key != s.ID().AtBeacon(tk.Secret) || got[0].Key == s.ID().AtBeacon(nil) {
		t.Errorf("announced are %v", got)
	}
	if all := lan.shares(); len(all) > 0 {
		t.Errorf("announced on the local network are %v", all)
	}
	// A node that fetches it by the ticket announces it there too, and not at beacons of its own.
	fetched := openNode(t, uses())
	if _, err := fetchInto(t, fetched, s.Ticket(), t.TempDir(), FetchOptions{Keep: true}); err != nil {
		t.Fatal(err)
	}
	if theirs := fetched.meetings(); len(theirs) != 1 || theirs[0].Key != got[0].Key || theirs[0].Beacon.ID != beacon.ID() {
		t.Errorf("whoever fetched it announces %v", theirs)
	}
	remembers(t, beacon, 2)
	remembers(t, other, 0)
	must(t, s.Stop(t.Context()))
	remembers(t, beacon, 1)
	if got := n.meetings(); len(got) > 0 {
		t.Errorf("announced after its end are %v", got)
	}
}

// A node that ends takes back what it has announced, so that nobody is sent to it.
func TestANodeThatEndsIsForgottenByItsBeacons(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon := openBeacon(t)
	source := openNode(t, uses(addrOf(beacon)))
	s, err := source.Share(t.Context(), someFile(t, 1<<20), ShareOptions{})
	must(t, err)
	seeder := openNode(t, uses())
	_, err = fetchInto(t, seeder, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	remembers(t, beacon, 2)
	must(t, seeder.Close())
	remembers(t, beacon, 1)
	must(t, source.Close())
	remembers(t, beacon, 0)
}

// A ticket with a secret and no beacon is fetched by a node that has one: the ticket that it gives out names
// the beacon. With it the share is found there.
func TestATicketOfAHolderLeadsToItsOwnBeacon(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	beacon := openBeacon(t)
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	source := openNode(t)
	s, err := source.Share(t.Context(), file, ShareOptions{Secret: true})
	must(t, err)
	holder := openNode(t, uses(addrOf(beacon)))
	_, err = fetchInto(t, holder, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	tk, err := share.ParseTicket(holder.Ticket(s.ID()))
	must(t, err)
	if len(tk.Beacons) == 0 || tk.Secret == nil {
		t.Fatalf("%+v", tk)
	}
	said := holder.meetings()
	if len(said) != 1 || said[0].Key != s.ID().AtBeacon(tk.Secret) {
		t.Errorf("its ticket's secret makes the key %x, and it announces %v", s.ID().AtBeacon(tk.Secret), said)
	}
}
