package fetcher_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
)

// A folder of shares that cannot be read, as where a block of the disk is bad, or another user owns it, does not keep a depot from looking at
// all its other shares without a word.
func TestAFolderThatCannotBeReadDoesNotEndTheCrawlInSilence(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	s := k.hold(owner, folderOf(t, album), 10*day)
	k.until(s.ID(), depot.Stable)
	k.crawled()
	k.stop()
	bad := filepath.Join(k.dir, "shares", "00") // before that of the share; what is no folder cannot be read as one, not even by root
	if filepath.Dir(filepath.Join(k.dir, disk.Folder(s.ID()))) == bad {
		t.Fatal("take another share")
	}
	k.ok(os.WriteFile(bad, nil, 0o600))
	k.start()
	for late := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		d, err := k.node.DepotDo(t.Context(), fetcher.DepotCrawl{})
		k.ok(err)
		if d.Stuck != "" {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("nothing is looked at, and nothing is said: %+v", d.Crawl)
		}
	}
}
