package fetcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// A lease that a restored database does not know is entered from the disk, also if it ends before one that the database
// knows and that was released since.
func TestALeaseThatAnOldDatabaseLacksIsEnteredThoughItEndsBeforeOneThatWasReleased(t *testing.T) {
	t.Parallel()
	k, a, b := newKeeper(t), client(t), client(t)
	k.account(a, 1<<30)
	of := k.account(b, 1<<30)
	k.complete()
	id, path := share.IDOf([]byte("a share that is still coming")), filepath.Join(k.state, "leases.db")
	hold := func(n *fetcher.Node, days int) {
		t.Helper()
		_, err := k.at(n).Hold(t.Context(), fetcher.HoldRequest{Share: id, Bytes: 1 << 20, Until: k.reading().Wall.AddDate(0, 0, days)})
		k.ok(err)
	}
	hold(a, 20)
	k.stop()
	old, err := os.ReadFile(path)
	k.ok(err)
	k.start()
	hold(b, 10)
	_, err = k.at(a).Release(t.Context(), id, "")
	k.ok(err)
	k.stop()
	k.ok(os.WriteFile(path, old, 0o600))
	k.start()
	k.ok(k.root.Ready(t.Context(), k.db))
	beside, err := k.root.Promises(id)
	if k.ok(err); len(beside) != 1 || beside[0].Account != string(b.ID()) {
		t.Fatalf("beside the data are %v", beside)
	}
	k.crawled()
	if all, err := k.db.Leases(t.Context(), k.reading().Wall, id); err != nil || !slices.ContainsFunc(all, func(l depot.Lease) bool { return l.Account == of }) {
		t.Errorf("a whole cycle of the crawler is done, and the database has %+v, %v", all, err)
	}
}
