package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// A depot in a fleet has the fleet keep a snapshot of what it has promised. In each round a file
// is written, served, put on the fleet's list, and named by the round's pointer once another
// member has it. The one before is kept until the next.
const (
	snapshotRound = 24 * time.Hour
	snapshotRetry = 10 * time.Minute
	snapshotKept  = 10 * time.Minute // how long other members have to fetch it
	snapshotsName = "snapshots"      // in the state directory
	leasesName    = "leases.db"
)

// roundOf returns the name of the round in which the depot with that name writes its snapshot.
func roundOf(depot string) string { return "leases." + depot }

// snapshots writes a snapshot in each round, until the end.
func (m *member) snapshots() {
	m.sweepSnapshots()
	for {
		meta, err := m.d.lender.db.Meta(m.d.life)
		if err == nil && meta.Depot != "" {
			m.each(m.snapshotJob(meta.Depot))
			return
		}
		select { // the depot's folder was not there yet
		case <-m.d.life.Done():
			return
		case <-time.After(snapshotRetry):
		}
	}
}

func (m *member) snapshotJob(depot string) roundJob {
	seq := uint64(0) // a round may have several attempts
	return roundJob{name: roundOf(depot), every: snapshotRound, retry: snapshotRetry, do: func(ctx context.Context, g *rounds.Guard) (string, error) {
		seq++
		id, err := m.snapshot(ctx, depot, rounds.Target{Term: g.Term(), Seq: seq})
		if err != nil {
			return "", fmt.Errorf("no snapshot of the leases was made for the fleet: %w", err)
		}
		m.d.log.Info("the fleet keeps a snapshot of the leases", "share", id.String(), "term", g.Term())
		return id.String(), nil
	}}
}

// snapshot writes one, makes the fleet keep it, and makes the pointer name it. Of an attempt that fails
// nothing is left, unless the store is away: then see forgetSnapshots.
func (m *member) snapshot(ctx context.Context, depot string, t rounds.Target) (id share.ID, err error) {
	path := filepath.Join(m.d.dir, snapshotsName, fmt.Sprintf("%016x-%d", t.Term, t.Seq), leasesName)
	named := false // by the pointer, perhaps
	defer func() {
		if err != nil && !named && m.d.life.Err() == nil {
			m.forgetSnapshot(context.WithoutCancel(ctx), path)
		}
	}()
	if err := errors.Join(os.RemoveAll(filepath.Dir(path)), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
		return id, err
	}
	if err := m.d.lender.db.Snapshot(ctx, path); err != nil {
		return id, err
	}
	k, err := m.d.added(ctx, catalog.Wish{Paths: []string{path}, Secret: true})
	if err != nil {
		return id, err
	}
	k.settledIn(ctx)
	v := k.view()
	if id, err = m.store.AddInternal(ctx, v.Ticket, depot); err != nil {
		if !errors.Is(err, rounds.ErrAway) { // told is for whoever can run a command again
			err = m.told(err)
		}
		return id, fmt.Errorf("%w (the state of the snapshot's entry is %q)", err, v.State)
	}
	m.awaitCopy(ctx, id)
	p, err := rounds.NewPointer(m.store.KV, roundOf(depot))
	if err != nil {
		return id, err
	}
	t.Value = id.String()
	if err = p.Publish(ctx, t); err != nil {
		named = mayName(ctx, p, t)
		return id, err
	}
	m.forgetSnapshots(ctx, depot)
	return id, nil
}

// mayName reports whether a pointer names what could not be published, for all that is known.
func mayName(ctx context.Context, p *rounds.Pointer, t rounds.Target) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRound)
	defer cancel()
	is, err := p.Get(ctx)
	return is == t || err != nil && !errors.Is(err, rounds.ErrNever)
}

// awaitCopy waits a while for another member to have a share.
func (m *member) awaitCopy(ctx context.Context, id share.ID) {
	ctx, cancel := context.WithTimeout(ctx, snapshotKept)
	defer cancel()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if r, err := m.store.Rollout(ctx); err == nil {
			for _, x := range r.Members {
				done := func(s fetcher.ShareReport) bool { return s.ID == id.String() && s.Done }
				if x.Peer != m.d.node.ID() && slices.ContainsFunc(x.Shares, done) {
					return
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.d.log.Warn("no other member of the fleet has the snapshot of the leases yet", "share", id.String())
			return
		}
	}
}

// forgetSnapshots removes all but the latest and the one before that on the fleet's list, also what could not be removed earlier,
// or was added by a node that had the depot before.
func (m *member) forgetSnapshots(ctx context.Context, depot string) {
	listed := func(k *keeper) bool {
		_, err := m.store.Listed(ctx, k.entry().Share)
		return !errors.Is(err, fetcher.ErrNotListed)
	}
	kept := 0
	for _, k := range slices.Backward(m.ownSnapshots()) {
		if kept == 0 || kept == 1 && listed(k) {
			kept++
		} else {
			m.forgetSnapshot(ctx, k.entry().Paths[0])
		}
	}
	before := m.snapshotsBefore(depot)
	for _, l := range before[:max(len(before)+kept-2, 0)] {
		if err := m.store.Remove(ctx, l.ID); err != nil && !errors.Is(err, fetcher.ErrNotListed) {
			m.d.log.Warn("an earlier snapshot of the leases stays until another one is made", "share", l.ID.String(), "error", err)
		}
	}
}

// snapshotsBefore are those on the list that a node which had the depot before has added, the latest last.
func (m *member) snapshotsBefore(depot string) (out []fetcher.ListedShare) {
	ours := map[share.ID]bool{}
	for _, k := range m.ownSnapshots() {
		ours[k.entry().Share] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, l := range m.list {
		if l.Depot == depot && !ours[id] {
			out = append(out, l.ListedShare)
		}
	}
	slices.SortFunc(out, func(a, b fetcher.ListedShare) int { return a.Added.Compare(b.Added) })
	return out
}

// ownSnapshots are the entries of snapshots of this node, in the order in which they were added.
func (m *member) ownSnapshots() (ours []*keeper) {
	for _, k := range m.d.all() {
		if e := k.entry(); len(e.Paths) == 1 && m.isSnapshot(e.Paths[0]) {
			ours = append(ours, k)
		}
	}
	return ours
}

// isSnapshot reports whether a path is that of a snapshot of this node: in the state directory, or in the one that was moved
// here since.
func (m *member) isSnapshot(path string) bool {
	dir, file := filepath.Split(path)
	top, name := filepath.Split(filepath.Clean(dir))
	if file != leasesName || filepath.Base(top) != snapshotsName {
		return false
	}
	if filepath.Clean(top) == filepath.Join(m.d.dir, snapshotsName) {
		return true
	}
	_, gone := os.Lstat(path)
	_, here := os.Lstat(filepath.Join(m.d.dir, snapshotsName, name))
	return errors.Is(gone, fs.ErrNotExist) && here == nil
}

// forgetSnapshot takes a snapshot off the fleet's list, unless another one is the same share, and removes it. If the store is away, it
// stays: without its entry nobody would know that it is still to be taken off the list.
func (m *member) forgetSnapshot(ctx context.Context, path string) {
	ours := m.ownSnapshots()
	if i := slices.IndexFunc(ours, func(k *keeper) bool { return k.entry().Paths[0] == path }); i >= 0 {
		k, id := ours[i], ours[i].entry().Share
		var err error
		if same := func(k *keeper) bool { return k.entry().Share == id }; !id.IsZero() && !slices.ContainsFunc(slices.Delete(ours, i, i+1), same) {
			err = m.store.Remove(ctx, id)
		}
		if err == nil || errors.Is(err, fetcher.ErrNotListed) {
			_, err = m.d.remove(ctx, k, false)
		}
		if err != nil {
			m.d.log.Warn("a snapshot of the leases stays until another one is made", "id", k.id, "share", id.String(), "error", err)
			return
		}
	}
	if err := os.RemoveAll(filepath.Join(m.d.dir, snapshotsName, filepath.Base(filepath.Dir(path)))); err != nil {
		m.d.log.Warn("an old snapshot of the leases cannot be removed", "error", err)
	}
}

// sweepSnapshots removes the folders of snapshots that have no entry: the node was killed before it had made one.
func (m *member) sweepSnapshots() {
	has := map[string]bool{} // by their names alone: the state directory may have moved
	for _, k := range m.d.all() {
		for _, path := range k.entry().Paths {
			has[filepath.Base(filepath.Dir(path))] = true
		}
	}
	top := filepath.Join(m.d.dir, snapshotsName)
	all, err := os.ReadDir(top)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, e := range all {
		if !has[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(top, e.Name())))
		}
	}
	if err != nil {
		m.d.log.Warn("what is left of a snapshot of the leases cannot be removed", "error", err)
	}
}

// Restored is a database of leases that came from a fleet.
type Restored struct {
	Share share.ID
	Term  uint64 // of the latest snapshot; 0: no machine gave that, and this is an earlier one
	Aside string // the new name of the database that was there; empty: there was none
}

// RestoreLeases gives the depot of cfg.Depot the database of leases from its fleet's last
// snapshot or, if no machine gives that, from one before. No node may be running. The next node to run enters later promises from the depot's
// folder, and removes nothing before that.
func RestoreLeases(ctx context.Context, cfg Config) (r Restored, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return r, err
	}
	m, ok, err := membershipFor(cfg)
	if err == nil && !ok {
		err = words.Error(ErrMembership, "this machine belongs to no fleet, and so no fleet keeps the leases of its depot")
	}
	if err != nil {
		return r, err
	}
	depot, err := depotName(cfg.Depot)
	if err != nil {
		return r, err
	}
	kv, err := kvurl.Open(ctx, m.URL)
	if err != nil {
		return r, err
	}
	defer kv.Close()
	p, err := rounds.NewPointer(kv, roundOf(depot))
	if err != nil {
		return r, err
	}
	at, err := p.Get(ctx)
	if errors.Is(err, rounds.ErrNever) {
		return r, words.Error(rounds.ErrNever, "no snapshot of this depot's leases has been made yet, so the fleet has none; "+withoutSnapshot)
	}
	if err != nil {
		return r, err
	}
	latest, err := share.ParseID(at.Value)
	if err != nil {
		return r, err
	}
	r, err = restoreOne(ctx, cfg, fetcher.FleetStore{KV: kv, Secret: m.Secret}, latest, depot)
	if r.Share == latest {
		r.Term = at.Term
	}
	return r, err
}

// restoreOne restores the first snapshot of a depot that the fleet has: the latest, and then those before.
func restoreOne(ctx context.Context, cfg Config, s fetcher.FleetStore, latest share.ID, depot string) (r Restored, err error) {
	all, err := snapshotsOf(ctx, s, latest)
	if err != nil {
		return r, err
	}
	into := filepath.Join(cfg.Dir, snapshotsName, "restore")
	defer os.RemoveAll(into)
	var failed error
	for _, l := range all {
		r.Share = l.ID
		dir := filepath.Join(into, l.ID.String())
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return r, err
		}
		if err = fetchSnapshot(ctx, cfg, s, l.Ticket, dir); err == nil {
			r.Aside, err = leasedb.Restore(ctx, filepath.Join(dir, leasesName), filepath.Join(cfg.Dir, leasesName), depot)
		}
		switch other := l.ID != latest && errors.Is(err, leasedb.ErrSnapshot); { // another depot's, which is no less the fleet's
		case ctx.Err() != nil, !other && !errors.Is(err, ErrNoSnapshot):
			return r, err
		case !other:
			cfg.Logger.Warn("no machine gives a snapshot of the leases; an earlier one is looked for", "share", l.ID.String(), "added", l.Added, "error", err)
		}
		failed = cmp.Or(failed, err)
	}
	return r, failed
}

// snapshotsOf are the snapshots on the list of a fleet, its latest of a depot first, and then of all depots those added last.
func snapshotsOf(ctx context.Context, s fetcher.FleetStore, latest share.ID) ([]fetcher.ShareRollout, error) {
	r, err := s.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(r.Shares, func(x fetcher.ShareRollout) bool { return !x.Internal && x.ID != latest })
	slices.Reverse(all)
	i := slices.IndexFunc(all, func(x fetcher.ShareRollout) bool { return x.ID == latest })
	if i < 0 {
		return nil, words.Error(rounds.ErrNever, "the snapshot of this depot's leases is no longer on the list of the fleet; "+withoutSnapshot)
	}
	return slices.Insert(slices.Delete(slices.Clone(all), i, i+1), 0, all[i]), nil
}

// depotName returns the name of the depot in a folder.
func depotName(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("name the folder of the depot: it says which depot this is")
	}
	fsys, err := vfs.PrivateDir(dir)
	if info, at := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || at == nil && !info.IsDir() {
		return "", words.Error(ErrDepot, "there is no folder %s; name that of the depot", dir)
	}
	if err != nil {
		return "", err
	}
	defer fsys.Close()
	is, err := disk.ReadIdentity(fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return "", words.Error(ErrDepot, "%s is not the folder of a depot; name the folder of yours", dir)
	}
	return is.Depot, err
}

// withoutSnapshot says how a depot begins whose snapshot no machine has.
const withoutSnapshot = "run the node without a snapshot: it rebuilds the leases from what it finds in the depot's folder"

// ErrNoSnapshot says that no machine of the fleet gave the snapshot of a depot's leases, which some have.
var ErrNoSnapshot = errors.New("no machine of the fleet gave the snapshot of this depot's leases")

// fetchSnapshot fetches a share from the members of the fleet.
func fetchSnapshot(ctx context.Context, cfg Config, s fetcher.FleetStore, ticket, into string) error {
	node, err := fetcher.Open(ctx, fetcher.Config{Dir: cfg.Dir, Sole: true, Listen: cfg.Listen, Announce: cfg.Announce, Reach: cfg.reach(), Logger: cfg.Logger,
		Fleet: fetcher.Fleet{Store: s}})
	if err != nil {
		return err
	}
	defer node.Close()
	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{Dir: into})
	if err == nil {
		err = t.Wait(ctx)
	}
	return unfetched(err)
}

// unfetched marks an error of a fetch that ended because of the machines there.
func unfetched(err error) error {
	if errors.Is(err, share.ErrNetwork) || errors.Is(err, share.ErrNotFound) || errors.Is(err, share.ErrStalled) {
		return fmt.Errorf("%w: %w", ErrNoSnapshot, err)
	}
	return err
}
