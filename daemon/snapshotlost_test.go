package daemon

import (
	"fmt"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// A depot that lost its state directory, and got its leases back from the fleet, has the snapshots from before taken off the fleet's list
// when later ones take their place: two of them stay, as always, and the members do not keep the others for ever.
func TestSnapshotsFromBeforeALossGo(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newDepotFleet(t)
	snapshot := func(seq uint64) share.ID {
		t.Helper()
		id, err := f.snapshot(t, fmt.Sprint("account", seq), rounds.Target{Term: 1_000_000 * seq, Seq: 1})
		must(t, err)
		return id
	}
	before := []share.ID{snapshot(1), snapshot(2)}
	must(t, f.keeper.Close())

	dir := t.TempDir() // the state directory was lost, with the key
	must(t, f.Save(dir))
	_, err := RestoreLeases(t.Context(), Config{Dir: dir, Settings: Settings{Depot: f.folder, Listen: []string{"127.0.0.1:0"}}})
	must(t, err)
	f.keeper = begun(t, dir, func(c *Config) { c.Depot = f.folder; inFleet(f.Membership)(c) })
	for seq := range uint64(3) {
		snapshot(3 + seq)
	}
	list, err := f.other.member.store.Rollout(t.Context())
	must(t, err)
	for _, x := range list.Shares {
		if slices.Contains(before, x.ID) {
			t.Errorf("%s, from before the loss, is still on the list, which has %d snapshots", x.ID.Short(), len(list.Shares))
		}
	}
}
