package fetcher

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// What is shared with named peers is for them alone, and others are told so, whether they ask
// for the list of files or already have it. A share's own list replaces the node's.
func TestAPrivateShareIsForTheNamedPeers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 2<<20, 1)
	friend, stranger := openNode(t), openNode(t)
	only := []peers.ID{friend.ID()}
	public := shareOf(t, file)
	_, err := stranger.Manifest(t.Context(), public.Ticket(), nil) // from now on it has the list
	must(t, err)
	for name, c := range map[string]struct {
		node  Config
		share ShareOptions
	}{
		"the node's list":  {node: Config{Allow: only}},
		"the share's list": {share: ShareOptions{Allow: only}},
		"both":             {node: Config{Allow: []peers.ID{stranger.ID()}}, share: ShareOptions{Allow: only}},
	} {
		t.Run(name, func(t *testing.T) {
			n := openNode(t, func(to *Config) { to.Allow = c.node.Allow })
			s, err := n.Share(t.Context(), file, c.share)
			must(t, err)
			_, err = fetchInto(t, friend, s.Ticket(), t.TempDir(), FetchOptions{})
			must(t, err)
			for _, who := range []*Node{openNode(t), stranger} { // one asks for the list, one has it
				_, err = fetchInto(t, who, s.Ticket(), t.TempDir(), FetchOptions{})
				if !errors.Is(err, share.ErrNotAllowed) || !strings.Contains(err.Error(), "the only peer that was asked gives the share only to peers that it names, or to those whose ticket has the share's secret, and this node, "+string(who.ID())) {
					t.Errorf("a stranger got %v", err)
				}
			}
			if _, err := openNode(t).Manifest(t.Context(), s.Ticket(), nil); !errors.Is(err, share.ErrNotAllowed) {
				t.Errorf("a stranger asked for the list and got %v", err)
			}
			if _, r := n.catalog.offers.For(stranger.ID()).Check(s.ID(), 0, 0, 1); r.Status != wire.Refused {
				t.Errorf("a stranger may have a block: %v", r)
			}
			if _, r := n.catalog.offers.For(friend.ID()).Check(s.ID(), 0, 0, 1); r.Status != wire.OK {
				t.Errorf("a friend may not have a block: %v", r)
			}
		})
	}
}

// What was fetched is served to the peers that FetchOptions.Allow names.
func TestWhatWasFetchedIsServedToTheNamedPeers(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 2<<20, 1)
	s := shareOf(t, file)
	friend, n := openNode(t), openNode(t)
	_, err := fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{Keep: true, Allow: []peers.ID{friend.ID()}})
	must(t, err)
	_, err = fetchInto(t, friend, n.Ticket(s.ID()), t.TempDir(), FetchOptions{})
	must(t, err)
	_, err = fetchInto(t, openNode(t), n.Ticket(s.ID()), t.TempDir(), FetchOptions{})
	if !errors.Is(err, share.ErrNotAllowed) {
		t.Error(err)
	}
}

func TestAnAllowListIsOfPeerIDs(t *testing.T) {
	t.Parallel()
	bad := []peers.ID{"a friend"}
	n := openNode(t)
	_, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: loopback, Allow: bad})
	_, err2 := n.Share(t.Context(), t.TempDir(), ShareOptions{Allow: bad})
	_, err3 := n.Fetch(t.Context(), "x", FetchOptions{Dir: t.TempDir(), Allow: bad})
	for _, err := range []error{err, err2, err3} {
		if err == nil {
			t.Error("it was taken")
		}
	}
}
