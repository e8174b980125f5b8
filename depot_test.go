package fetcher_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// keeper is a node that keeps shares, and what it keeps them with.
type keeper struct {
	*testing.T
	dir, state string
	root       *disk.Root
	db         *leasedb.DB
	node       *fetcher.Node
	open       *depot.Terms
	slow       chan struct{} // if not nil, the folder can be opened once it is closed

	mu    sync.Mutex
	ahead time.Duration // by which the clock is ahead, as if that much time had passed
	told  chan struct{} // gets a value for each change of what is held
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{T: t, dir: t.TempDir(), state: t.TempDir(), told: make(chan struct{}, 1000)}
	k.start()
	t.Cleanup(k.stop)
	return k
}

func (k *keeper) start() {
	k.Helper()
	k.root = disk.New(func() (vfs.FS, error) {
		if k.slow != nil {
			<-k.slow
		}
		return vfs.PrivateDir(k.dir)
	}, rand.Text)
	db, _, err := leasedb.Open(k.Context(), filepath.Join(k.state, "leases.db"), k.root)
	k.ok(err)
	k.db = db
	k.node, err = fetcher.Open(k.Context(), fetcher.Config{Dir: k.state, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Depot: &fetcher.DepotConfig{
		Ledger: db, Disk: k.root, Reading: k.reading, Open: k.open, Changed: k.changed}})
	k.ok(err)
}

func (k *keeper) stop() {
	k.Helper()
	if k.node == nil {
		return
	}
	k.ok(errors.Join(k.node.Close(), k.db.Close(), k.root.Close()))
	k.node = nil
}

func (k *keeper) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *keeper) reading() depot.Reading {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now().Add(k.ahead)
	return depot.Reading{Boot: "1", Wall: now, Passed: now.Sub(time.Unix(1_000_000_000, 0)), Synced: true}
}

func (k *keeper) changed(share.ID, fetcher.HoldState, string) { k.told <- struct{}{} }

// account lets a node hold up to a quota.
func (k *keeper) account(n *fetcher.Node, quota int64) depot.Account {
	k.Helper()
	id, err := k.db.AddAccount(k.Context(), time.Now(), string(n.ID()), depot.Terms{Quota: quota, MaxLease: 31 * 24 * time.Hour})
	k.ok(err)
	k.ok(k.db.AddKey(k.Context(), id, n.ID()))
	return id
}

// crawled waits until the crawler has visited all that it had not visited, and all once more.
func (k *keeper) crawled() {
	k.Helper()
	first := int64(0)
	for late := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) { // it looks for a disk that was away once a minute
		s, err := k.node.DepotDo(k.Context(), fetcher.DepotCrawl{})
		if err != nil || time.Now().After(late) {
			k.Fatalf("the crawler's cycle does not end: %+v, %v", s.Crawl, err)
		}
		if first = cmp.Or(first, s.Crawl.Cycle); s.Crawl.Cycle > first+1 {
			return
		}
	}
}

// until waits until a share is in a state at the depot.
func (k *keeper) until(id share.ID, want depot.State) {
	k.Helper()
	late := time.After(time.Minute)
	for {
		s, err := k.db.Share(k.Context(), id)
		k.ok(err)
		if s.State == want {
			return
		}
		select {
		case <-k.told:
		case <-late:
			k.Fatalf("%v is %v, not %v", id, s.State, want)
		}
	}
}

// at is the depot as another node sees it.
func (k *keeper) at(n *fetcher.Node) *fetcher.Depot {
	k.Helper()
	d, err := n.Depot(k.node.Addrs()[0])
	k.ok(err)
	return d
}

func client(t *testing.T) *fetcher.Node {
	t.Helper()
	n, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// folderOf makes a folder with files.
func folderOf(t *testing.T, files map[string]int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "album")
	for name, size := range files {
		b := make([]byte, size)
		rand.Read(b)
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var album = map[string]int{"a": 3 << 20, "b/c": 70_000, "b/empty": 0}

// hold shares a folder and has a depot keep it.
func (k *keeper) hold(n *fetcher.Node, dir string, d time.Duration) *fetcher.Share {
	k.Helper()
	s, err := n.Share(k.Context(), dir, fetcher.ShareOptions{})
	k.ok(err)
	h, err := k.at(n).Hold(k.Context(), fetcher.HoldRequest{Share: s.ID(), Bytes: fetcher.HoldBytes(s.Manifest()), Until: k.reading().Wall.Add(d)})
	k.ok(err)
	if h.State != fetcher.HoldComing && h.State != fetcher.HoldStable || h.Expires.IsZero() {
		k.Fatalf("%+v", h)
	}
	return s
}

const day = 24 * time.Hour

func TestDepotKeepsAShareWhenItsOwnerIsGone(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	s := k.hold(owner, folderOf(t, album), 10*day)
	k.until(s.ID(), depot.Stable)
	d := k.at(owner)
	if u, err := d.Usage(t.Context()); err != nil || u.Used != fetcher.HoldBytes(s.Manifest()) || u.Quota != 1<<30 || u.MaxLease != 31*day {
		t.Errorf("%+v, %v", u, err)
	}
	if h, err := d.Holdings(t.Context()); err != nil || len(h) != 1 || h[0].Share != s.ID() || h[0].State != fetcher.HoldStable {
		t.Errorf("%+v, %v", h, err)
	}
	k.ok(owner.Close())
	for _, restarted := range []bool{false, true} {
		if restarted {
			k.stop()
			k.start()
		}
		other := client(t)
		f, err := other.Fetch(t.Context(), s.ID().String(), fetcher.FetchOptions{Dir: t.TempDir(), Peers: k.node.Addrs()[:1]})
		k.ok(err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Wait(ctx); err != nil {
			t.Fatalf("restarted %v: %v, %v", restarted, err, f.Why("gives up"))
		}
	}
}

func TestStrangersAndTheirQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	k, stranger, other := newKeeper(t), client(t), client(t)
	d := k.at(stranger)
	var r *fetcher.HoldRefused
	if _, err := d.Usage(t.Context()); !errors.As(err, &r) || r.Reason != fetcher.HoldUnknownAccount {
		t.Error(err)
	}
	if _, err := d.Holdings(t.Context()); !errors.As(err, &r) || r.Reason != fetcher.HoldUnknownAccount {
		t.Error(err)
	}
	if _, err := d.Release(t.Context(), share.IDOf([]byte("x")), ""); !errors.As(err, &r) || r.Reason != fetcher.HoldUnknownAccount {
		t.Error(err)
	}
	k.account(stranger, 10_000)
	if _, err := d.Renew(t.Context(), share.IDOf([]byte("x")), time.Now().Add(day), ""); !errors.As(err, &r) || r.Reason != fetcher.HoldNoLease {
		t.Error(err)
	}
	if _, err := d.Hold(t.Context(), fetcher.HoldRequest{Share: share.IDOf([]byte("x")), Bytes: 10_001, Until: time.Now().Add(day)}); !errors.As(err, &r) || r.Reason != fetcher.HoldOverQuota || r.Room != 10_000 {
		t.Error(err)
	}
	none, err := stranger.Depot(other.Addrs()[0])
	k.ok(err)
	if _, err := none.Usage(t.Context()); !errors.Is(err, fetcher.ErrNoDepot) {
		t.Error(err)
	}
	gone := other.Addrs()[0]
	k.ok(other.Close())
	away, err := client(t).Depot(gone)
	k.ok(err)
	if _, err := away.Usage(t.Context()); !errors.Is(err, fetcher.ErrDepotAway) {
		t.Error(err)
	}
	if _, err := other.DepotDo(t.Context(), nil); err == nil {
		t.Error("a closed node has a depot")
	}
}

func TestReleaseFreesAtOnceAndIsTold(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	told := make(chan fetcher.Holding, 100)
	watching, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- k.at(owner).Watch(watching, func(h fetcher.Holding) { told <- h }) }()
	k.ok(k.db.SetGC(t.Context(), true))
	k.complete()
	for tries := 0; len(told) == 0; tries++ { // until the watch stands, which nothing else says
		if tries == 600 {
			t.Fatal("no watch stands in a minute")
		}
		x := k.hold(owner, folderOf(t, map[string]int{"a": 1}), 10*day)
		k.until(x.ID(), depot.Stable)
		_, err := k.at(owner).Release(t.Context(), x.ID(), fmt.Sprint("try", tries))
		k.ok(err)
		time.Sleep(100 * time.Millisecond)
	}
	s := k.hold(owner, folderOf(t, album), 10*day)
	k.until(s.ID(), depot.Stable)
	for late, ok := time.After(time.Minute), false; !ok && !t.Failed(); {
		select {
		case h := <-told:
			if ok = h.Share == s.ID(); ok && h.State != fetcher.HoldStable {
				t.Errorf("%+v", h)
			}
		case <-late:
			t.Error("nothing was told")
		}
	}
	if _, err := k.at(owner).Release(t.Context(), s.ID(), "r"); err != nil {
		t.Fatal(err)
	}
	k.until(s.ID(), depot.None)
	if left, err := os.ReadDir(filepath.Join(k.dir, "going")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if u, err := k.at(owner).Usage(t.Context()); err != nil || u.Used != 0 {
		t.Errorf("%+v, %v", u, err)
	}
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// complete waits until the crawler's first cycle is done.
func (k *keeper) complete() {
	k.Helper()
	for range 600 {
		m, err := k.db.Meta(k.Context())
		k.ok(err)
		if !m.CompleteSince.IsZero() {
			return
		}
		select {
		case <-k.told:
		case <-time.After(100 * time.Millisecond):
		}
	}
	k.Fatal("the crawler's first cycle does not end")
}
