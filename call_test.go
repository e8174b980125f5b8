package fetcher

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A source that listens nowhere is fetched from over the connection that it makes itself, also when those that are known
// have said that they do not have the share.
func TestASourceThatNobodyCanReachCallsWhoeverFetches(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "big.bin"), t.TempDir()
	want := writeRandom(t, src, 3<<20, 7)
	s := shareOf(t, src, func(c *Config) { c.Listen = []string{"none"} })
	n, lacks := openNode(t), openNode(t)
	x, err := n.Fetch(t.Context(), s.ID().String(), FetchOptions{Dir: dir, Peers: lacks.Addrs(), Called: true, Stall: time.Minute})
	must(t, err)
	for e := range x.Events(t.Context()) {
		if end, ok := e.(Ended); ok {
			t.Fatal("it ended before it was called: ", end.Err)
		}
		if all := x.Progress().Sources; len(all) == 1 && all[0].State == Left {
			break
		}
	}
	must(t, s.Call(n.Ticket(s.ID()), nil))
	must(t, x.Wait(t.Context()))
	if got, _ := os.ReadFile(filepath.Join(dir, "big.bin")); !bytes.Equal(got, want) {
		t.Error("content differs")
	}
}

// Who said no before it calls, because it did not serve the share yet or not to this node, is fetched from.
func TestWhoSaidNoAndThenCallsIsFetchedFrom(t *testing.T) {
	rig.Slow(t)
	for _, how := range []string{"had none", "did not allow it"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			src := filepath.Join(t.TempDir(), "some.bin")
			writeRandom(t, src, 3<<20, 7)
			id, late, n := shareOf(t, src).ID(), openNode(t), openNode(t)
			if how == "did not allow it" {
				_, err := late.Share(t.Context(), src, ShareOptions{Allow: []peers.ID{late.ID()}})
				must(t, err)
			}
			x, err := n.Fetch(t.Context(), id.String(), FetchOptions{Dir: t.TempDir(), Peers: late.Addrs(), Called: true, Stall: time.Minute})
			must(t, err)
			for range x.Events(t.Context()) {
				if all := x.Progress().Sources; len(all) == 1 && all[0].State == Left {
					break
				}
			}
			s, err := late.Share(t.Context(), src, ShareOptions{})
			must(t, err)
			must(t, s.Call(n.Ticket(id), nil))
			must(t, x.Wait(t.Context()))
		})
	}
}

func TestACallIsForTheShareOfItsTicket(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "small.bin")
	writeRandom(t, src, 1000, 7)
	s, n := shareOf(t, src), openNode(t)
	other, err := share.ParseID(someID(t))
	must(t, err)
	if err := s.Call(n.Ticket(other), nil); !errors.Is(err, share.ErrTicket) {
		t.Error("another share's:", err)
	}
	if err := s.Call("nonsense", nil); !errors.Is(err, share.ErrTicket) {
		t.Error("no ticket:", err)
	}
	if err := s.Call(s.ID().String(), nil); !errors.Is(err, ErrNoSource) || !strings.Contains(err.Error(), "an ID alone names none") {
		t.Error("an ID alone:", err)
	}
	lonely, err := share.NewTicket(s.ID(), nil)
	must(t, err)
	if err := s.Call(lonely.String(), nil); !errors.Is(err, ErrNoSource) || !strings.Contains(err.Error(), "the ticket names none") {
		t.Error("a ticket that names nobody:", err)
	}
}

// Whoever refuses to fetch, and gives no reason, or one that is not known here, is spoken of in a whole sentence.
func TestARefusalToFetchIsAWholeSentence(t *testing.T) {
	for want, r := range map[string]wire.Reason{
		"it does not say why":               {},
		`it says "on holiday"`:              {Prose: "on holiday"},
		"it serves as many peers as it can": {Code: wire.CodeFull},
	} {
		for _, retry := range []time.Duration{0, time.Minute} {
			if got := calledError(&actors.Unwanted{Reason: r, Retry: retry}).Error(); got != want {
				t.Errorf("%v: %s, want %s", r, got, want)
			}
		}
	}
}
