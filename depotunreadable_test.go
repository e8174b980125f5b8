package fetcher_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
)

// A share that a depot cannot open, as its list of files is gone, is not here for those who ask, and not about to be: nobody waits for it.
func TestNobodyWaitsForWhatADepotCannotOpen(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	s := k.hold(owner, folderOf(t, album), 10*day)
	k.until(s.ID(), depot.Stable)
	k.ok(owner.Close())
	k.stop()
	k.ok(os.Remove(filepath.Join(k.dir, disk.Folder(s.ID()), "manifest")))
	k.start()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	f, err := client(t).Fetch(ctx, s.ID().String(), fetcher.FetchOptions{Dir: t.TempDir(), Peers: k.node.Addrs()[:1]})
	k.ok(err)
	if err := f.Wait(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: %s", err, f.Progress().Reason)
	}
}
