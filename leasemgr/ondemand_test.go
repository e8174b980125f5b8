package leasemgr

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// On demand nothing is leased but what a reader is about to read, nearest first; a source
// that asks for more waits, and is woken when a reader moves on.
func TestOnDemandOnlyWhatIsReadIsLeased(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rig{t: t, m: New(Config{MaxLeasesPerPeer: 100}, Plan{Layout: even{20, share.MinPiece}, Epoch: 1, Seed: 1, OnDemand: true}, now), n: 20, now: now}
	r.add("a", "b").full("a")
	r.m.SetHave("b", setOf(20, 3, 12), r.now)
	r.not("a", Unread)
	r.woken(r.m.SetReader(1, 5, 3, r.now), "a") // b has none of it
	var got []share.Piece
	for _, l := range r.get("a", 10) {
		got = append(got, l.Piece)
	}
	equal(t, "leased", fmt.Sprint(got), "[5 6 7]")
	r.not("a", Unread)
	r.not("b", Unread)
	r.woken(r.m.SetReader(1, 12, 1, r.now), "a", "b")
	equal(t, "piece", r.one("b").Piece, 12)
	r.m.DropReader(1)
	r.not("a", AllLeased) // it may share that one later
	if err := r.m.check(); err != nil {
		t.Error(err)
	}
}
