package beacon

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Who is told that a beacon has no room for a channel, and when to come back, has one then.
func TestWhoComesBackWhenItWasToldToOpensAChannel(t *testing.T) {
	c := NewChannels[int](1)
	now := time.Unix(1e9, 0)
	for i := range 200 {
		_, refused, retry := c.Open(peers.ID(fmt.Sprint("p", i)), "net", now)
		switch refused {
		case TooOften:
			now = now.Add(retry)
		case Full:
			_, refused, again := c.Open("patient", "net", now.Add(retry))
			if refused != 0 {
				t.Errorf("after %v it is refused once more (%d), for another %v", retry, refused, again)
			}
			return
		default:
			now = now.Add(2 * time.Second)
		}
	}
	t.Error("never full")
}

// full is a table without room for another peer or another record: each peer is in a block of its own and has
// four shares, but the first has five and the second three.
func full(t *testing.T) *Table {
	t.Helper()
	x := New(1)
	for i := range maxPeers {
		keys := []int{8 * i, 8*i + 1, 8*i + 2, 8*i + 3}
		switch i {
		case 0:
			keys = append(keys, 4)
		case 1:
			keys = keys[1:]
		}
		if refused := announce(x, i, i, epoch, keys...); refused != 0 {
			t.Fatal(i, refused)
		}
	}
	if s := x.Stats(epoch); s.Peers != maxPeers || s.Records != maxRecords {
		t.Fatalf("%+v", s)
	}
	return x
}

// Whoever is in the block that has most gets no more, and takes nothing from its neighbours there.
func TestAFullTableTakesNothingMoreOfTheBiggestBlock(t *testing.T) {
	rig.Slow(t)
	x := full(t)
	for what, id := range map[string]int{"a new peer": maxPeers, "one that is known": 0} {
		if refused := announce(x, id, 0, epoch, 1<<20); refused != Full {
			t.Errorf("%s: %d", what, refused)
		}
	}
	for key := range 5 {
		if got := sample(x, key, 9, epoch); len(got) != 1 || got[0] != peerOf(0) {
			t.Errorf("share %d is said to be at %v", key, got)
		}
	}
}

// A record that gives way may be the only one of the share that is announced.
func TestAShareWhoseLastRecordGivesWayIsFound(t *testing.T) {
	rig.Slow(t)
	x := full(t)
	last := 0
	for id := 1; last < 5; id++ {
		top := x.biggest[0].records[0]
		key, alone := top.shelf.key, top.shelf.records == 1
		where := at(id, id%256)
		if refused, _ := x.Announce(peerOf(id), where, []peers.Endpoint{where}, false, []share.Hash{key}, epoch); refused != 0 {
			t.Fatal(id, refused)
		}
		if alone && top.shelf != x.shares[key] || alone && x.shares[key].records == 1 {
			last++
		}
		s := x.shares[key]
		if s == nil || s.of(x.peers[peerOf(id)]) == nil {
			t.Fatalf("peer %d announced a share that is not found", id)
		}
	}
}
