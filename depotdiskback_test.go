package fetcher_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
)

// A share that was asked for while the depot's disk was away is given to whoever asks once the disk is back.
func TestWhatWasAskedForWhileTheDiskWasAwayIsServedOnceItIsBack(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	s := k.hold(owner, folderOf(t, album), 10*day)
	k.until(s.ID(), depot.Stable)
	k.ok(owner.Close())
	k.stop()
	k.ok(os.Rename(k.dir, k.dir+".away"))
	k.start()
	ask := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		f, err := client(t).Fetch(ctx, s.ID().String(), fetcher.FetchOptions{Dir: t.TempDir(), Peers: k.node.Addrs()[:1]})
		k.ok(err)
		return f.Wait(ctx)
	}
	if err := ask(5 * time.Second); err == nil {
		t.Fatal("it was served without its disk")
	}
	k.ok(os.Rename(k.dir+".away", k.dir))
	k.crawled() // it looks for its disk again after a minute
	if err := ask(20 * time.Second); err != nil {
		t.Error("the disk is back, and the share is not served:", err)
	}
}
