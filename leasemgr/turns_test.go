package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// The line to all sources became slow: a block takes longer than a piece took before. What a source has begun
// to send of a block is lost when its lease goes to another.
func TestSourcesThatAllBecameSlowDoNotTakeAPieceInTurn(t *testing.T) {
	r := newRig(t, 1, Config{})
	ids := []peers.ID{"a", "b", "c", "d"}
	const block = 2 * time.Second // at 32 KiB/s
	for _, id := range ids {
		r.add(id).full(id).rate(id, mib, 20*time.Millisecond)
	}
	held := map[peers.ID]Lease{}
	next := map[peers.ID]time.Time{}
	need := 16
	over := func(todo Todo) {
		for _, l := range append(todo.Revoked, todo.Expired...) {
			if held[l.Source].Token == l.Token {
				delete(held, l.Source)
			}
		}
	}
	for range 1200 {
		r.pass(100 * time.Millisecond)
		over(r.m.Expire(r.now))
		for _, id := range ids {
			if l, ok := held[id]; ok && !r.now.Before(next[id]) {
				next[id] = r.now.Add(block)
				r.m.Measured(id, share.BlockSize/block.Seconds(), 20*time.Millisecond, r.now)
				over(r.m.Progress(id, 0, l.Token, share.BlockSize, r.now))
				if need--; need == 0 {
					return
				}
			}
			if _, ok := held[id]; !ok {
				if ls := r.get(id, 1); len(ls) == 1 {
					held[id], next[id] = ls[0], r.now.Add(block)
				}
			}
			over(r.m.Expire(r.now))
		}
	}
	t.Errorf("%d of 16 blocks are missing after two minutes, with %d takeovers", need, r.m.Stats().Taken)
}
