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

// On demand a source that gave the piece that a reader waits for to others is asked for it again when the time that it named is
// over, though it has been told that nobody reads anything more.
func TestOnDemandAPieceGivenToOthersIsAskedForAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rig{t: t, m: New(Config{}, Plan{Layout: even{20, share.MinPiece}, Epoch: 1, Seed: 1, OnDemand: true}, now), n: 20, now: now}
	r.add("a").full("a")
	r.m.SetReader(1, 5, 1, r.now)
	got, no := r.m.Acquire("a", 2, r.now)
	equal(t, "leased", fmt.Sprint(len(got), no.Reason), fmt.Sprint(1, Unread))
	asks := no.Until // zero: when it is woken
	wakes := func(todo Todo) {
		if len(todo.Wake) > 0 {
			asks = r.now
		}
	}
	wakes(r.m.Defer("a", 5, got[0].Token, time.Second, r.now))
	for end := r.now.Add(30 * time.Second); r.now.Before(end); r.pass(100 * time.Millisecond) {
		if at := r.m.Wake(); !at.IsZero() && !at.After(r.now) {
			wakes(r.m.Expire(r.now))
		}
		if asks.IsZero() || asks.After(r.now) {
			continue
		}
		if got, no = r.m.Acquire("a", 2, r.now); len(got) > 0 {
			return
		}
		asks = no.Until
	}
	t.Errorf("for 30 s the one source is not asked again for the piece that a reader waits for:\n%s", r.m.Describe())
}
