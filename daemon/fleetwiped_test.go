package daemon

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// The store of a fleet was emptied, or is as it was before a share was added: what a member has of that its owner can remove, or have
// the fleet remove.
func TestWhatIsNotOnTheListOfAnEmptiedStoreCanBeRemoved(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	kv := filepath.Join(t.TempDir(), "kv")
	a := begun(t, t.TempDir(), inFleet(Membership{URL: "sqlite:" + kv, Secret: "the secret of a fleet"}))
	film := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), film.Ticket)
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 1 })
	e := entriesOf(t, a, 1)[0]
	db, err := sqlite.OpenConn(kv, sqlite.OpenReadWrite)
	must(t, err)
	err = sqlitex.ExecuteTransient(db, "DELETE FROM entries", nil)
	must(t, errors.Join(err, db.Close()))
	rolled(t, a, "empty", func(f api.Fleet) bool { return len(f.Shares) == 0 })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		_, here := a.Remove(t.Context(), e.ID, false)
		_, all := a.RemoveFromFleet(t.Context(), film.Share)
		if here == nil || all == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not the entry: %v;\nnot the share: %v, %v", here, all, errors.Is(all, fetcher.ErrNotListed))
		}
	}
}
