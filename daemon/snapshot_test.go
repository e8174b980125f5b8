package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// depotFleet is a fleet of two members, one with a depot.
type depotFleet struct {
	Membership
	folder        string
	keeper, other *Daemon
}

func newDepotFleet(t *testing.T) depotFleet {
	t.Helper()
	f := depotFleet{Membership: Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}, folder: t.TempDir()}
	f.keeper = begun(t, t.TempDir(), func(c *Config) { c.Depot = f.folder; inFleet(f.Membership)(c) })
	f.other = begun(t, t.TempDir(), inFleet(f.Membership))
	return f
}

// snapshot adds an account to the depot, so that the snapshot that it makes is another share.
func (f depotFleet) snapshot(t *testing.T, account string, at rounds.Target) (id share.ID, err error) {
	t.Helper()
	_, err = f.keeper.AddAccount(t.Context(), api.AddAccount{Name: account, Key: string(begun(t, t.TempDir()).node.ID()), Quota: 1 << 30})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return f.keeper.member.snapshot(ctx, f.depot(t), at)
}

// depot is the name of the depot.
func (f depotFleet) depot(t *testing.T) string {
	t.Helper()
	meta, err := f.keeper.lender.db.Meta(t.Context())
	must(t, err)
	return meta.Depot
}

// The snapshots of later rounds reach the other members too, and what they fetched for the fleet
// itself goes when it is taken off the list.
func TestSnapshotsOfLaterRoundsReachTheFleet(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newDepotFleet(t)
	keeper, other := f.keeper, f.other
	at := func(id share.ID) string { return filepath.Join(other.dir, "fleet", id.String(), leasesName) }
	gone := func(path string) bool { _, err := os.Stat(path); return errors.Is(err, os.ErrNotExist) }
	var ids []share.ID
	for seq := range uint64(2) {
		id, err := f.snapshot(t, fmt.Sprint("account", seq), rounds.Target{Term: 1_000, Seq: seq})
		if err != nil || gone(at(id)) {
			t.Fatalf("snapshot %d is not at the other member: %v", seq, err)
		}
		complete(t, keeper.lender) // else nothing is removed
		_, err = keeper.RemoveAccount(t.Context(), fmt.Sprint("account", seq), false)
		must(t, err)
		ids = append(ids, id)
	}
	if err := keeper.member.store.Remove(t.Context(), ids[0]); err != nil && !errors.Is(err, fetcher.ErrNotListed) { // the node's own round came between
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !gone(filepath.Dir(at(ids[0]))); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was fetched of a snapshot that is off the list stays")
		}
	}
	if gone(at(ids[1])) {
		t.Error("the other snapshot is gone too")
	}
}

// A depot that has lost its state directory gets the accounts and leases of the last round from its
// fleet; a file that is not its snapshot, and a node that is running, are refused.
func TestALostDatabaseOfLeasesComesBackFromTheFleet(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder := t.TempDir()
	asDepot := func(c *Config) { c.Depot = folder; inFleet(m)(c) }
	keeper := begun(t, t.TempDir(), asDepot)
	other := begun(t, t.TempDir(), inFleet(m))
	account, err := keeper.AddAccount(t.Context(), api.AddAccount{Name: "photos", Key: string(other.node.ID()), Quota: 1 << 30})
	must(t, err)
	served := added(t, other, api.Add{Paths: []string{file(t, large(7), t.TempDir(), "album")}})
	at := keeper.node.Addrs()[0]
	_, err = other.Hold(t.Context(), api.Hold{Entry: served.ID, Depots: []string{at}})
	must(t, err)
	var want []api.Lease
	for end := time.Now().Add(30 * time.Second); len(want) == 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		want, err = keeper.Leases(t.Context(), "photos", "", 100)
		must(t, err)
	}
	if len(want) != 1 {
		t.Fatalf("it has promised %v", want)
	}
	name, err := keeper.lender.db.Meta(t.Context())
	must(t, err)
	if _, err = keeper.member.snapshot(t.Context(), name.Depot, rounds.Target{Term: 1_000, Seq: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreLeases(t.Context(), Config{Dir: keeper.dir, Settings: Settings{Depot: folder, Listen: []string{"127.0.0.1:0"}}}); !errors.Is(err, share.ErrHeld) {
		t.Errorf("while the node runs: %v", err)
	}
	must(t, keeper.Close())

	dir := t.TempDir() // the state directory was lost, with the key
	cfg := Config{Dir: dir, Settings: Settings{Depot: folder, Listen: []string{"127.0.0.1:0"}}}
	if _, err := RestoreLeases(t.Context(), cfg); !errors.Is(err, ErrMembership) {
		t.Errorf("without a fleet: %v", err)
	}
	must(t, Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: m.Secret}.Save(dir))
	if _, err := RestoreLeases(t.Context(), cfg); !errors.Is(err, rounds.ErrNever) || !strings.Contains(err.Error(), "run the node without a snapshot") || strings.Contains(err.Error(), "pointer") {
		t.Errorf("from a fleet that has made no snapshot: %v", err)
	}
	must(t, m.Save(dir))
	for _, at := range []string{filepath.Join(dir, "none"), t.TempDir(), file(t, "x", t.TempDir(), "f")} {
		if _, err := RestoreLeases(t.Context(), Config{Dir: dir, Settings: Settings{Depot: at}}); !errors.Is(err, ErrDepot) || !strings.Contains(err.Error(), at) {
			t.Errorf("into what is no depot: %v", err)
		}
	}
	r, err := RestoreLeases(t.Context(), cfg)
	if err != nil || r.Term != 1_000 || r.Aside != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	db, aside, err := leasedb.Open(t.Context(), filepath.Join(dir, leasesName), nil)
	if err != nil || aside != "" {
		t.Fatal(aside, err)
	}
	id, err := db.Named(t.Context(), "photos")
	must(t, err)
	got, err := db.Holdings(t.Context(), time.Now(), id, share.ID{}, 100)
	must(t, err)
	must(t, db.Close())
	if len(got) != 1 || got[0].Share.String() != want[0].Share || !got[0].Expires.Equal(want[0].Expires) || got[0].Bytes != want[0].Bytes {
		t.Errorf("restored %+v, want %+v", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, snapshotsName, "restore")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was fetched stays: %v", err)
	}
	again := begun(t, dir, func(c *Config) { c.Depot = folder })
	back, err := again.Accounts(t.Context())
	must(t, err)
	if len(back) != 2 || back[1].Name != "photos" || back[1].Quota != account.Quota || len(back[1].Keys) != 1 {
		t.Errorf("the accounts: %+v", back)
	}
	for is, away := range map[error]bool{nil: false, share.ErrNetwork: true, share.ErrNotFound: true, share.ErrStalled: true, share.ErrDiskFull: false} {
		if got := unfetched(is); errors.Is(got, ErrNoSnapshot) != away || !errors.Is(got, is) {
			t.Errorf("%v becomes %v", is, got)
		}
	}
	must(t, again.Close())
	store, err := kvurl.Open(t.Context(), m.URL)
	must(t, err)
	defer store.Close()
	must(t, fetcher.FleetStore{KV: store, Secret: m.Secret}.Remove(t.Context(), r.Share))
	if _, err := RestoreLeases(t.Context(), cfg); !errors.Is(err, rounds.ErrNever) {
		t.Errorf("when the fleet does not list it: %v", err)
	}
}

// A snapshot that could not be named is tried again every ten minutes: nothing of the ones before is left.
func TestSnapshotsThatFailLeaveNothing(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder := t.TempDir()
	lender := begun(t, t.TempDir(), func(c *Config) { c.Depot = folder; inFleet(m)(c) })
	name, err := lender.lender.db.Meta(t.Context())
	must(t, err)
	// somebody else's pointer is ahead, as after a store that came back from a backup: each Publish is refused
	p, err := rounds.NewPointer(lender.member.store.KV, roundOf(name.Depot))
	must(t, err)
	must(t, p.Publish(t.Context(), rounds.Target{Term: 1 << 40, Seq: 1, Value: share.IDOf([]byte("x")).String()}))
	for i := range uint64(2) {
		_, err := lender.AddAccount(t.Context(), api.AddAccount{Name: string(rune('a' + i)), Key: string(lender.node.ID()), Quota: 1 << 30})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		id, err := lender.member.snapshot(ctx, name.Depot, rounds.Target{Term: 1000 + i, Seq: 1})
		cancel()
		if err == nil {
			t.Fatal("it was published")
		}
		path := filepath.Join(lender.dir, snapshotsName, fmt.Sprintf("%016x-1", 1000+i))
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
		for _, k := range lender.member.ownSnapshots() {
			if filepath.Dir(k.entry().Paths[0]) == path {
				t.Errorf("its entry is there: %+v", k.entry())
			}
		}
		ours := slices.ContainsFunc(lender.member.ownSnapshots(), func(k *keeper) bool { return k.entry().Share == id }) // the round's own is the same
		r, err := lender.member.store.Rollout(t.Context())
		must(t, err)
		if !ours && !id.IsZero() && slices.ContainsFunc(r.Shares, func(x fetcher.ShareRollout) bool { return x.ID == id }) {
			t.Errorf("it is on the list: %+v", r.Shares)
		}
		complete(t, lender.lender) // else nothing is removed
		_, err = lender.RemoveAccount(t.Context(), string(rune('a'+i)), false)
		must(t, err)
	}
}

// away is a store that answers nothing any more once a key was written.
type away struct {
	rounds.KV
	key  string
	gone atomic.Bool
}

func (k *away) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if k.gone.Load() {
		return rounds.Entry{}, rounds.ErrAway
	}
	return k.KV.Get(ctx, key)
}

func (k *away) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	rev, err := k.KV.Create(ctx, key, value)
	return k.answer(key, rev, err)
}

func (k *away) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	rev, err := k.KV.Update(ctx, key, value, rev)
	return k.answer(key, rev, err)
}

func (k *away) answer(key string, rev uint64, err error) (uint64, error) {
	if key == k.key {
		k.gone.Store(true)
		return 0, rounds.ErrAway
	}
	return rev, err
}

// A snapshot that the round's pointer may name stays, though nobody knows: the next round removes it.
func TestASnapshotThatMayBeNamedStays(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder := t.TempDir()
	lender := begun(t, t.TempDir(), func(c *Config) { c.Depot = folder; inFleet(m)(c) })
	other := begun(t, t.TempDir(), inFleet(m))
	name, err := lender.lender.db.Meta(t.Context())
	must(t, err)
	_, err = lender.AddAccount(t.Context(), api.AddAccount{Name: "a", Key: string(other.node.ID()), Quota: 1 << 30})
	must(t, err)
	store := lender.member.store
	store.KV = &away{KV: store.KV, key: "pointer.v1." + roundOf(name.Depot)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for seq := range uint64(2) { // the second finds it away before anything is named
		if _, err := (&member{d: lender, store: store}).snapshot(ctx, name.Depot, rounds.Target{Term: 1000, Seq: seq + 1}); !errors.Is(err, rounds.ErrAway) {
			t.Fatal(err)
		}
	}
	path := filepath.Join(lender.dir, snapshotsName, fmt.Sprintf("%016x-1", 1000), leasesName)
	if _, err := os.Stat(path); err != nil || !slices.ContainsFunc(lender.member.ownSnapshots(), func(k *keeper) bool { return k.entry().Paths[0] == path }) {
		t.Error("it is gone:", err)
	}
}

// A node was killed while it wrote a snapshot. What is left of that goes when it runs again.
func TestASnapshotThatAKillLeftGoes(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder, dir := t.TempDir(), t.TempDir()
	left := filepath.Join(dir, snapshotsName, "00000000000003e8-1")
	file(t, large(3), left, leasesName)
	whole := begun(t, dir, func(c *Config) { c.Depot = folder; inFleet(m)(c) })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(left); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is still there")
		}
	}
	kept := file(t, large(3), filepath.Join(dir, snapshotsName, "0000000000000001-7"), leasesName)
	added(t, whole, api.Add{Paths: []string{kept}})
	whole.member.sweepSnapshots()
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("one that has an entry: %v", err)
	}
}
