package fetcher

import (
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// The source of a share that is on a fleet's list is gone, and the list gets a ticket with another: members that have begun fetch
// from that.
func TestAMemberFetchesWithTheLaterTicketOfAShare(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := followFleet(t, 1)
	slow, _ := fileShared(t, "film.bin", 8<<20, func(c *Config) { c.UploadRate = 1 << 20 })
	_, err := f.store.Add(t.Context(), slow.Ticket())
	must(t, err)
	f.until("piece", func(r Rollout) bool {
		return len(r.Members) == 1 && len(r.Members[0].Shares) == 1 && r.Members[0].Shares[0].Verified > 0
	})
	must(t, slow.node.Close())
	other, _ := fileShared(t, "film.bin", 8<<20)
	id, err := f.store.Add(t.Context(), other.Ticket())
	must(t, err)
	f.until("copy", func(r Rollout) bool { return len(r.Shares) == 1 && r.Shares[0].ID == id && r.Shares[0].Done == 1 })
}
