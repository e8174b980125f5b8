package fetcher_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// The owner says what a share is called, not the depot.
func TestDepotKeepsASharesWhateverItIsCalled(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k := newKeeper(t)
	n := client(t)
	k.account(n, 1<<30)
	for _, name := range []string{"leases", "manifest", "sources"} {
		file := filepath.Join(t.TempDir(), name)
		k.ok(os.WriteFile(file, []byte("of "+name), 0o600))
		s := k.hold(n, file, time.Hour)
		late := time.After(20 * time.Second)
		for stable := false; !stable; {
			x, err := k.db.Share(t.Context(), s.ID())
			k.ok(err)
			stable = x.State == depot.Stable
			select {
			case <-k.told:
			case <-time.After(50 * time.Millisecond):
			case <-late:
				t.Errorf("a file %q is %v", name, x.State)
				stable = true
			}
		}
		if p, err := k.root.Promises(s.ID()); err != nil || len(p) != 1 {
			t.Errorf("leases of a file %q: %v, %v", name, p, err)
		}
		if m, err := k.root.Manifest(s.ID()); err != nil || m.Name != name {
			t.Errorf("manifest of a file %q: %v", name, err)
		}
	}
}

// A request that is sent again long after it was done fetches nothing.
func TestAnOldAnswerHasNothingFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k := newKeeper(t)
	n := client(t)
	k.account(n, 1<<30)
	s, err := n.Share(t.Context(), folderOf(t, album), fetcher.ShareOptions{})
	k.ok(err)
	ask := fetcher.HoldRequest{Share: s.ID(), Bytes: fetcher.HoldBytes(s.Manifest()), Until: k.reading().Wall.Add(time.Hour), Request: "1"}
	_, err = k.at(n).Hold(t.Context(), ask)
	k.ok(err)
	k.until(s.ID(), depot.Stable)
	_, err = k.at(n).Hold(t.Context(), ask)
	k.ok(err)
	if d, err := k.node.DepotDo(t.Context(), nil); err != nil || d.Arriving != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Each share takes folders, files and rows, whatever its account says.
func TestAShareThatIsTooSmallIsNotHeld(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	n := client(t)
	k.account(n, 1000)
	for i := range byte(3) {
		_, err := k.at(n).Hold(t.Context(), fetcher.HoldRequest{Share: share.IDOf([]byte{i}), Bytes: 1, Until: k.reading().Wall.Add(time.Hour)})
		var r *fetcher.HoldRefused
		if !errors.As(err, &r) || r.Reason != fetcher.HoldWrongBytes {
			t.Errorf("a share of one byte: %v", err)
		}
	}
}

// What a power cut brought back of a share that the database has forgotten does not occupy
// space for ever.
func TestWhatIsLeftOfRemovedSharesGoesAtTheStart(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.complete()
	k.stop()
	left := filepath.Join(k.dir, "going", share.IDOf([]byte("x")).String())
	k.ok(os.MkdirAll(filepath.Join(left, "data"), 0o755))
	k.start()
	for range 3000 {
		if _, err := os.Lstat(left); errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it is still there")
}

// A request that arrives while the depot opens its folder, which may take a while, is
// answered when it is open.
func TestAHoldRightAfterTheStartIsNotRefused(t *testing.T) {
	t.Parallel()
	k := &keeper{T: t, dir: t.TempDir(), state: t.TempDir(), told: make(chan struct{}, 1000), slow: make(chan struct{})}
	k.start()
	t.Cleanup(k.stop)
	time.AfterFunc(300*time.Millisecond, func() { close(k.slow) }) // by then the request has arrived
	n := client(t)
	k.account(n, 1<<30)
	if _, err := k.at(n).Hold(t.Context(), fetcher.HoldRequest{Share: share.IDOf([]byte("x")), Bytes: 1 << 20, Until: k.reading().Wall.Add(time.Hour)}); err != nil {
		t.Error(err)
	}
}

// A depot drops what it cannot read: whoever asks is told at once what is wrong, and not that the depot does not answer.
func TestARequestThatNoDepotReadsIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, r := range []fetcher.HoldRequest{{Request: "a\n"}, {Name: "a\x01"}, {Name: "\xff"}} {
		r.Share, r.Bytes, r.Until = share.IDOf([]byte("x")), 1<<20, time.Now().Add(time.Hour)
		var refused *fetcher.HoldRefused
		if _, err := k.at(owner).Hold(ctx, r); !errors.As(err, &refused) || refused.Reason != fetcher.HoldBadRequest {
			t.Errorf("request %q, name %q: %v", r.Request, r.Name, err)
		}
	}
}
