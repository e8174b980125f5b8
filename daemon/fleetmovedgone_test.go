package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

// What a member kept for the fleet itself is taken off the list while the member is off: its files are removed at the next start, also if
// the state directory was moved meanwhile.
func TestAMemberThatWasMovedKeepsNothingThatTheFleetDoesNot(t *testing.T) {
	t.Parallel()
	for what, moved := range map[string]bool{"in its place": false, "moved": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
			from := filepath.Join(t.TempDir(), "from")
			a, b := begun(t, t.TempDir(), inFleet(m)), begun(t, from, inFleet(m))
			e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "leases.db")}})
			id, err := a.member.store.AddInternal(t.Context(), e.Ticket, "photos")
			must(t, err)
			until(t, b, entriesOf(t, b, 1)[0].ID, "served", in(api.Served))
			must(t, b.Close())
			dir := from
			if moved {
				dir = filepath.Join(t.TempDir(), "to")
				must(t, os.Rename(from, dir))
			}
			must(t, a.member.store.Remove(t.Context(), id))
			_, err = os.Stat(filepath.Join(dir, internalName, id.String()))
			must(t, err)
			b = begun(t, dir, inFleet(m))
			for end := time.Now().Add(10 * time.Second); !absent(b.member.internal(id)); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					all, err := b.Entries(t.Context())
					must(t, err)
					t.Fatalf("the files of %s stay; its entries: %v", id.Short(), all)
				}
			}
		})
	}
}
