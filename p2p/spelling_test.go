package p2p

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/peers"
)

// spellings returns other texts that libp2p reads as a peer's ID: as a CID in base32, whose letters count in either case.
func spellings(t testing.TB, id peers.ID, n int) (out []peers.ID) {
	p, err := peer.Decode(string(id))
	if err != nil {
		t.Fatal(err)
	}
	cid := peer.ToCid(p).String()
	head, tail := cid[:len(cid)-16], cid[len(cid)-16:]
	for i := 0; len(out) < n; i++ {
		text := head
		for bit, letter := range tail {
			if i>>bit&1 == 1 {
				letter = []rune(strings.ToUpper(string(letter)))[0]
			}
			text += string(letter)
		}
		if !slices.Contains(out, peers.ID(text)) {
			out = append(out, peers.ID(text))
		}
	}
	return out
}

// Somebody names a peer by many texts that libp2p reads as its ID. None of them is a peer's ID here: each would be a source of its own,
// with its own ban and its own streams, and the peer itself, which takes no more streams, would be lost.
func TestAPeerHasOneName(t *testing.T) {
	x := newMemory(t, 1<<20)
	src := newHost(t, Config{Key: seedKey(1)})
	src.Serve(toAll(x), everybody{})
	h := newHost(t, Config{Listen: []string{"none"}})
	taken := 0
	for _, id := range spellings(t, src.ID(), 2*linkStreams) {
		c := newCatcher()
		l := h.Open(peers.Addr{ID: id, Addrs: src.Addrs()}, x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		select {
		case <-c.up:
			taken++
		case err := <-c.down:
			if !errors.Is(err, peers.ErrUnreachable) || !strings.Contains(err.Error(), fmt.Sprintf("%q is not a peer ID", id)) {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("neither up nor down")
		}
	}
	if taken > 0 {
		t.Errorf("by %d other names it was taken for other peers", taken)
	}
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	fetchAll(t, x, l, c)
}
