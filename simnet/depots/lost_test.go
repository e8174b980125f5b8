package depots

import (
	"context"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasedb"
)

// TestALostDatabaseIsThatOfItsSnapshot plays random histories in which the database is lost, and its last snapshot put in
// place, as daemon.RestoreLeases does. It has the leases that the model had when the snapshot was made. Once the depot
// has entered what its folder knows, it has those of the model now; or those of the snapshot if
// they ended since. To a snapshot of some days ago the time since is a step.
func TestALostDatabaseIsThatOfItsSnapshot(t *testing.T) {
	rig.Slow(t)
	histories(t, rig.Most(16, 4), func(s *Story) {
		h := beginning(s)
		h.steps(3 + h.rng.IntN(6))
		was, at, snapshot := h.ends(), h.m.now, h.snapshot(t.TempDir())
		h.steps(h.rng.IntN(5))
		name := h.d.Meta().Depot
		h.d.PowerOff()
		h.d.Lose()
		h.restore(snapshot, name, was, at)
		h.d.Stepped = func(from, to time.Time) {
			for k, end := range was {
				was[k] = stepped(end, from, to)
			}
		}
		h.d.Start()
		h.Until("all that is on the disk is in the database", 24*time.Hour, func() bool { return !h.d.Meta().CompleteSince.IsZero() })
		h.promised(was)
	})
}

// steps takes some, and waits until nothing is under way.
func (h *history) steps(n int) {
	for range n {
		h.step()
	}
	h.d.CrashIn(0, false)
	h.settled()
	h.stands()
}

// ends are the ends of the leases of the model.
func (h *history) ends() map[mHeld]time.Time {
	out := map[mHeld]time.Time{}
	for k, l := range h.m.leases {
		out[k] = l.until
	}
	return out
}

// snapshot makes one in a folder.
func (h *history) snapshot(dir string) (path string) {
	ctx, path := context.Background(), filepath.Join(dir, "snapshot")
	onDisk, _, err := leasedb.Open(ctx, filepath.Join(dir, "whole"), nil)
	must(err)
	h.d.quietly(func() { must(h.d.DB.CopyTo(ctx, onDisk)) })
	must(onDisk.Snapshot(ctx, path))
	must(onDisk.Close())
	return path
}

// restore puts a snapshot in place of the database, and compares it with the leases that the model had at that time.
func (h *history) restore(snapshot, name string, was map[mHeld]time.Time, at time.Time) {
	ctx, path := context.Background(), filepath.Join(filepath.Dir(snapshot), "leases")
	_, err := leasedb.Restore(ctx, snapshot, path, name)
	must(err)
	db, aside, err := leasedb.Open(ctx, path, nil)
	must(err)
	got := map[mHeld]time.Time{}
	for account := range h.nodes {
		id, err := db.Named(ctx, account)
		must(err)
		for _, c := range h.all {
			all, err := db.Leases(ctx, at, c.ID())
			must(err)
			for _, l := range all {
				if l.Account == id {
					got[mHeld{account, c}] = l.Expires
				}
			}
		}
	}
	h.Expect(aside == "" && maps.EqualFunc(got, was, time.Time.Equal), "restored: %v, and the model had %v", got, was)
	h.Timeline().Note("restored %d leases", len(got))
	must(db.CopyTo(ctx, h.d.DB))
	must(db.Close())
}

// promised expects all leases of the model, and besides them none but those of a snapshot.
func (h *history) promised(was map[mHeld]time.Time) {
	h.stands()
	for account, x := range h.nodes {
		has := map[string]int64{}
		for _, g := range h.holdings(x) {
			has[g.Share.String()] = g.Expires
		}
		for _, c := range h.all {
			k, got := mHeld{account, c}, has[c.ID().String()]
			now, then := int64(0), int64(0)
			if l := h.m.leases[k]; l != nil {
				now = l.until.Unix()
			}
			if u, ok := was[k]; ok {
				then = u.Unix()
			}
			h.Expect(got == now || got == then && got > now, "%s holds %s until %d, with the snapshot until %d; the depot says %d", account, c.Manifest.Name, now, then, got)
		}
	}
}
