package fetcher_test

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
)

// A share that one account holds, and whose source is away for a moment, comes when that is back, whatever another account that
// holds the same share has said meanwhile of where it is.
func TestAnotherAccountDoesNotTakeTheSourcesOfAShareAway(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	owner, other, mirror := client(t), client(t), client(t)
	k.account(owner, 1<<30)
	k.account(other, 1<<30)
	s, err := mirror.Share(t.Context(), folderOf(t, album), fetcher.ShareOptions{})
	k.ok(err)
	if _, err := mirror.StopSharing(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	bytes := fetcher.HoldBytes(s.Manifest())
	ask := fetcher.HoldRequest{Share: s.ID(), Bytes: bytes, Until: k.reading().Wall.Add(time.Hour), Sources: mirror.Addrs()}
	_, err = k.at(owner).Hold(t.Context(), ask)
	k.ok(err)
	has := func() bool {
		return slices.ContainsFunc(k.root.Sources(s.ID()), func(a peers.Addr) bool { return a.ID == mirror.ID() })
	}
	if !has() {
		t.Fatal("the source was not stored")
	}
	ask.Sources = nil
	_, err = k.at(other).Hold(t.Context(), ask)
	k.ok(err)
	if !has() {
		t.Errorf("the source that the first account named is forgotten; left are %+v", k.root.Sources(s.ID()))
	}
	if x, err := k.db.Share(t.Context(), s.ID()); err != nil || x.State != depot.Coming {
		t.Error(x, err)
	}
}
