package fetcher

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// altered returns a ticket with another secret.
func altered(t *testing.T, ticket string, secret *share.Secret) string {
	t.Helper()
	k, err := share.ParseTicket(ticket)
	must(t, err)
	if k.Secret == nil {
		t.Fatal("a ticket without a secret")
	}
	k.Secret = secret
	return k.String()
}

// A node with the ticket gets the share, and one that knows only its ID and its source does not,
// whether it asks for the list of files or knows it, nor from a node that has fetched it.
func TestASecretInATicketLetsItsHoldersIn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	n := openNode(t)
	friend, knows := openNode(t), openNode(t)
	s, err := n.Share(t.Context(), file, ShareOptions{Secret: true, Allow: []peers.ID{friend.ID()}})
	must(t, err)
	holder := openNode(t)
	_, err = fetchInto(t, holder, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	_, err = knows.Manifest(t.Context(), s.Ticket(), nil)
	must(t, err)
	for from, ticket := range map[string]string{"the source": s.Ticket(), "a holder": holder.Ticket(s.ID())} {
		for what, c := range map[string]struct {
			who    *Node
			ticket string
			ok     bool
		}{
			"no secret":                       {openNode(t), altered(t, ticket, nil), false},
			"no secret, and the list":         {knows, altered(t, ticket, nil), from == "the source"}, // it has proven it once
			"another secret":                  {openNode(t), altered(t, ticket, &share.Secret{1}), false},
			"allowed by ID, without a secret": {friend, altered(t, ticket, nil), from == "the source"},
			"the ticket":                      {openNode(t), ticket, true},
		} {
			_, err := fetchInto(t, c.who, c.ticket, t.TempDir(), FetchOptions{})
			if c.ok && err != nil || !c.ok && !errors.Is(err, share.ErrNotAllowed) {
				t.Errorf("from %s, with %s: %v", from, what, err)
			}
		}
	}
	if _, err := openNode(t).Manifest(t.Context(), altered(t, s.Ticket(), nil), nil); !errors.Is(err, share.ErrNotAllowed) {
		t.Error("the list of files without the secret:", err)
	}
}

// An old ticket uses the present secret; if the share no longer has one, nobody is asked for it.
func TestASecretIsTheSameWhenItIsSharedAgain(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file, dir := filepath.Join(t.TempDir(), "file"), t.TempDir()
	writeRandom(t, file, 1000, 1)
	var tickets []string
	for range 2 {
		n, err := Open(t.Context(), Config{Dir: dir, Listen: loopback})
		must(t, err)
		s, err := n.Share(t.Context(), file, ShareOptions{Secret: true})
		must(t, err)
		tickets = append(tickets, s.Ticket())
		if len(tickets) == 2 {
			s, err = n.Share(t.Context(), file, ShareOptions{})
			must(t, err)
			if k, err := share.ParseTicket(s.Ticket()); err != nil || k.Secret != nil {
				t.Error("shared without one, its ticket holds", k.Secret, err)
			}
			_, err = fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{})
			must(t, err)
		}
		must(t, n.Close())
	}
	a, _ := share.ParseTicket(tickets[0])
	b, _ := share.ParseTicket(tickets[1])
	if *a.Secret != *b.Secret {
		t.Error("it changed")
	}
	other := openNode(t)
	s, err := other.Share(t.Context(), file, ShareOptions{Secret: true})
	must(t, err)
	if c, _ := share.ParseTicket(s.Ticket()); *c.Secret == *a.Secret {
		t.Error("two nodes have one secret")
	}
}

// A ticket may hold a secret that its source does not ask for. Then nobody does.
func TestASecretThatNobodyAsksForKeepsNobodyOut(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1000, 1)
	s := shareOf(t, file)
	k, err := share.ParseTicket(s.Ticket())
	must(t, err)
	k.Secret = &share.Secret{5}
	holder := openNode(t)
	_, err = fetchInto(t, holder, k.String(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	plain, err := share.ParseTicket(holder.Ticket(s.ID()))
	must(t, err)
	plain.Secret = nil
	_, err = fetchInto(t, openNode(t), plain.String(), t.TempDir(), FetchOptions{})
	must(t, err)
}

// A holder of a share with a secret is started anew, or its entry is paused and resumed, when the source is
// not there: it still gives the share to nobody without the secret.
func TestAHolderAsksForTheSecretAfterARestart(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, how := range []string{"restart", "pause"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file")
			writeRandom(t, file, 1<<20, 1)
			source := openNode(t)
			s, err := source.Share(t.Context(), file, ShareOptions{Secret: true})
			must(t, err)
			ticket, state, got := s.Ticket(), t.TempDir(), t.TempDir()
			holder, err := Open(t.Context(), Config{Dir: state, Listen: loopback})
			must(t, err)
			t.Cleanup(func() { holder.Close() })
			_, err = fetchInto(t, holder, ticket, got, FetchOptions{Keep: true})
			must(t, err)
			stranger := func() error {
				tk, err := share.ParseTicket(holder.Ticket(s.ID()))
				must(t, err)
				tk.Secret = nil
				_, err = fetchInto(t, openNode(t), tk.String(), t.TempDir(), FetchOptions{})
				return err
			}
			if err := stranger(); !errors.Is(err, share.ErrNotAllowed) {
				t.Fatal("before:", err)
			}
			must(t, source.Close())
			if how == "restart" {
				must(t, holder.Close())
				holder, err = Open(t.Context(), Config{Dir: state, Listen: loopback})
				must(t, err)
				_, err = fetchInto(t, holder, ticket, got, FetchOptions{Keep: true}) // as Resume does
				must(t, err)
			} else {
				e := holder.Entries()[0]
				must(t, holder.Pause(t.Context(), e.ID))
				must(t, holder.Resume(t.Context(), e.ID))
				for end := time.Now().Add(30 * time.Second); holder.Entries()[0].State != EntryServed && time.Now().Before(end); {
					time.Sleep(10 * time.Millisecond)
				}
			}
			if err := stranger(); !errors.Is(err, share.ErrNotAllowed) {
				t.Errorf("whoever knows the ID alone has fetched the share: %v", err)
			}
		})
	}
}

// The source of a share with a secret is started anew. Who holds the share, and tells the source so, is still
// among those to whom it may be named, and who may fetch of it.
func TestAHolderIsKnownToASourceThatBeganAnew(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	state := t.TempDir()
	listen := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t))
	source, err := Open(t.Context(), Config{Dir: state, Listen: []string{listen}})
	must(t, err)
	s, err := source.Share(t.Context(), file, ShareOptions{Secret: true})
	must(t, err)
	holder := openNode(t)
	_, err = fetchInto(t, holder, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	must(t, source.Close())
	source, err = Open(t.Context(), Config{Dir: state, Listen: []string{listen}})
	must(t, err)
	t.Cleanup(func() { source.Close() })
	_, err = source.Share(t.Context(), file, ShareOptions{Secret: true})
	must(t, err)
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, r := source.catalog.offers.Offered(s.ID(), holder.ID()); r.Status != wire.Refused {
			return
		}
	}
	t.Error("it does not prove any more that it knows the secret")
}

// A holder of a part of a share with a secret fetches it once more, when the source is not there: while it is served and after that, it
// is given to nobody without the secret.
func TestAHolderAsksForTheSecretAfterASecondFetch(t *testing.T) {
	t.Parallel()
	dir, got := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	writeRandom(t, filepath.Join(dir, "a"), 1<<20, 1)
	writeRandom(t, filepath.Join(dir, "b"), 1000, 2)
	source, holder := openNode(t), openNode(t)
	s, err := source.Share(t.Context(), dir, ShareOptions{Secret: true})
	must(t, err)
	ticket, part := s.Ticket(), FetchOptions{Only: []string{"a"}, Keep: true}
	stranger := FetchOptions{Only: part.Only, Peers: holder.Addrs()}
	for _, when := range []string{"first", "second"} {
		_, err = fetchInto(t, holder, ticket, got, part)
		must(t, err)
		if _, err := fetchInto(t, openNode(t), s.ID().String(), t.TempDir(), stranger); !errors.Is(err, share.ErrNotAllowed) {
			t.Fatalf("after the %s fetch, whoever knows the ID alone has fetched the share: %v", when, err)
		}
		must(t, source.Close())
	}
}
