package leasemgr

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
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

// On demand a source that holds a piece, and was told that nobody reads anything more, asks again meanwhile: it may give the piece to
// others, and is then asked for it anew when the time that it named is over.
func TestOnDemandAPieceGivenToOthersIsAskedForAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rig{t: t, m: New(Config{}, Plan{Layout: even{20, share.MinPiece}, Epoch: 1, Seed: 1, OnDemand: true}, now), n: 20, now: now}
	r.add("a").full("a")
	r.m.SetReader(1, 5, 1, r.now)
	l := r.one("a")
	no := r.not("a", Unread)
	r.woken(r.away(l, 2*time.Second))
	r.to(no.Until)
	for r.now.Before(now.Add(2 * time.Second)) {
		r.to(r.not("a", Spared).Until)
	}
	equal(t, "piece", r.one("a").Piece, 5)
}

// On demand those that were not told of a reader, because there are many, are told of the next one that waits for the same piece.
func TestOnDemandALeasedPieceThatIsReadWakesOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rig{t: t, m: New(Config{}, Plan{Layout: even{20, share.MinPiece}, Epoch: 1, Seed: 1, OnDemand: true}, now), n: 20, now: now}
	for i := range firstOffers + 4 {
		id := peers.ID(fmt.Sprint(i))
		r.add(id).full(id)
		r.not(id, Unread)
	}
	told := r.m.SetReader(1, 5, 1, r.now).Wake
	r.one(told[0])
	equal(t, "told", len(told), firstOffers+2)
	equal(t, "told then", len(r.m.SetReader(2, 5, 1, r.now).Wake), 2)
}
