package fetcher_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	durable "github.com/piecelease/fetcher/catalog"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// holder is a node that makes depots keep something.
type holder struct {
	*fetcher.Node
	t      *testing.T
	state  string
	book   *durable.DB
	visits chan string // the reason why not all went well
}

func newHolder(t *testing.T) *holder {
	h := &holder{t: t, state: t.TempDir(), visits: make(chan string, 1000)}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *holder) start() {
	h.t.Helper()
	var err error
	h.book, _, err = durable.Open(h.t.Context(), filepath.Join(h.state, "catalog.db"))
	if err == nil {
		h.Node, err = fetcher.Open(h.t.Context(), fetcher.Config{Dir: h.state, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
			Holds: &fetcher.HoldsConfig{Book: h.book, Visited: func(_ peers.ID, why string) { h.visits <- why }}})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *holder) stop() {
	if err := errors.Join(h.Close(), h.book.Close()); err != nil {
		h.t.Error(err)
	}
}

// until waits until the holds are as they should be; it looks after each visit.
func (h *holder) until(what string, f func(l fetcher.HoldList) bool) {
	h.t.Helper()
	late := time.After(time.Minute)
	for {
		l, err := h.Holds(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if f(l) {
			return
		}
		select {
		case <-h.visits:
		case <-late:
			h.t.Fatalf("not in a minute: %s: %+v", what, l)
		}
	}
}

func stable(n int) func(fetcher.HoldList) bool {
	return func(l fetcher.HoldList) bool {
		for _, h := range l.Holds {
			if h.State != renewal.Stable {
				return false
			}
		}
		return len(l.Holds) == n
	}
}

// A hold is kept across restarts, made again where it was lost, moves to a new
// version, and is gone when it is dropped.
func TestAHoldStands(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k, owner := newKeeper(t), newHolder(t)
	k.account(owner.Node, 1<<30)
	dir := folderOf(t, album)
	s, err := owner.Share(t.Context(), dir, fetcher.ShareOptions{})
	k.ok(err)
	length := 20 * time.Second
	l, err := owner.KeepHold(t.Context(), fetcher.Hold{Share: s.ID(), Bytes: fetcher.HoldBytes(s.Manifest()), Length: length}, k.node.Addrs()[:1], false)
	k.ok(err)
	if len(l.Wants) != 1 || l.Wants[0].ID != l.Want || len(l.Holds) != 1 || l.Holds[0].Left < length/2 || l.Holds[0].Left > length || len(l.Errs) != 0 {
		t.Fatalf("%+v", l)
	}
	owner.until("it is there", stable(1))

	owner.stop()
	owner.start()
	s, err = owner.Share(t.Context(), dir, fetcher.ShareOptions{})
	k.ok(err)
	owner.until("it stands after a restart", stable(1))
	at, err := owner.Depot(k.node.Addrs()[0])
	k.ok(err)
	_, err = at.Release(t.Context(), s.ID(), "") // as if the depot had lost it
	k.ok(err)
	owner.until("it was made again", func(l fetcher.HoldList) bool {
		held, err := at.Holdings(t.Context())
		return err == nil && len(held) == 1 && stable(1)(l)
	})

	k.ok(os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o644))
	next, err := owner.Share(t.Context(), dir, fetcher.ShareOptions{})
	k.ok(err)
	w := l.Wants[0]
	w.Share, w.Bytes = next.ID(), fetcher.HoldBytes(next.Manifest())
	_, err = owner.KeepHold(t.Context(), w, nil, true)
	k.ok(err)
	owner.until("the other version is there alone", func(l fetcher.HoldList) bool {
		return stable(1)(l) && l.Holds[0].Share == next.ID()
	})
	if held, err := at.Holdings(t.Context()); err != nil || len(held) != 1 || held[0].Share != next.ID() {
		t.Errorf("%+v, %v", held, err)
	}

	if l, err = owner.DropHold(t.Context(), w.ID, false); err != nil || len(l.Wants)+len(l.Holds) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if held, err := at.Holdings(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("%+v, %v", held, err)
	}
}

// If a depot does not do something, the reason is given.
func TestAHoldThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), newHolder(t)
	s, err := owner.Share(t.Context(), folderOf(t, album), fetcher.ShareOptions{})
	k.ok(err)
	h := fetcher.Hold{Share: s.ID(), Bytes: fetcher.HoldBytes(s.Manifest())}
	l, err := owner.KeepHold(t.Context(), h, k.node.Addrs()[:1], false)
	k.ok(err)
	var r *fetcher.HoldRefused
	if err := l.Errs[renewal.Key{Depot: k.node.ID(), Share: s.ID()}]; !errors.As(err, &r) || r.Reason != depot.UnknownAccount {
		t.Errorf("%v", l.Errs)
	}
	if _, err := owner.DropHold(t.Context(), l.Want, false); err != nil {
		t.Error(err)
	}
	if l, err = owner.KeepHold(t.Context(), h, []string{"/ip4/127.0.0.1/tcp/1/p2p/" + string(owner.ID())}, false); err != nil || len(l.Errs) == 0 {
		t.Errorf("at itself: %+v, %v", l, err)
	}
	for _, bad := range []time.Duration{time.Second, 400 * 24 * time.Hour} {
		h.Length = bad
		if _, err := owner.KeepHold(t.Context(), h, k.node.Addrs(), false); err == nil {
			t.Errorf("leases of %v are asked for", bad)
		}
	}
	if _, err := client(t).Holds(t.Context()); !errors.Is(err, fetcher.ErrNoHolds) {
		t.Error(err)
	}
}

// What is wanted once more is asked for again, also where it is already wanted for something else: a failure
// in an earlier visit is not the answer.
func TestAnErrorOfAnEarlierVisitIsNoAnswer(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k, owner := newKeeper(t), newHolder(t)
	s, err := owner.Share(t.Context(), folderOf(t, album), fetcher.ShareOptions{})
	k.ok(err)
	at := k.node.Addrs()[:1]
	key := renewal.Key{Depot: k.node.ID(), Share: s.ID()}
	want := func(entry int64) fetcher.HoldList {
		t.Helper()
		l, err := owner.KeepHold(t.Context(), fetcher.Hold{Entry: entry, Share: s.ID(), Bytes: fetcher.HoldBytes(s.Manifest())}, at, false)
		k.ok(err)
		return l
	}
	if l := want(1); l.Errs[key] == nil {
		t.Fatalf("a stranger holds: %+v", l)
	}
	k.stop()
	if l := want(2); l.Errs[key] != nil || !errors.Is(l.Errs[renewal.Key{Depot: key.Depot}], fetcher.ErrDepotAway) {
		t.Errorf("of a depot that is away: %v", l.Errs)
	}
	if l, err := owner.Holds(t.Context()); err != nil || l.Errs[key] == nil {
		t.Errorf("what was refused last is not known any more: %v, %v", l.Errs, err)
	}
	k.start()
	k.account(owner.Node, 1<<30)
	at = k.node.Addrs()[:1]
	if l := want(3); len(l.Errs) != 0 || len(l.Holds) != 1 || l.Holds[0].Left == 0 {
		t.Errorf("of a depot that lets this node in by now: %+v", l)
	}
}

// damage changes each file of each share on the depot's disk, so that whoever looks again finds it
// damaged still.
func (k *keeper) damage() {
	k.Helper()
	n := 0
	k.ok(filepath.WalkDir(k.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "/data/") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			return err
		}
		n++
		b[0]++
		return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, b, 0o600))
	}))
	if n == 0 {
		k.Fatal("there is nothing to damage")
	}
}

// A depot whose copy is damaged keeps what is left of it if nobody serves the share any more.
func TestADamagedCopyIsRenewedWhenItCannotBeOffered(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k, owner := newKeeper(t), newHolder(t)
	k.account(owner.Node, 1<<30)
	s, err := owner.Share(t.Context(), folderOf(t, album), fetcher.ShareOptions{})
	k.ok(err)
	length := 100 * time.Minute
	l, err := owner.KeepHold(t.Context(), fetcher.Hold{Share: s.ID(), Bytes: fetcher.HoldBytes(s.Manifest()), Length: length}, k.node.Addrs()[:1], false)
	k.ok(err)
	k.until(s.ID(), depot.Stable)
	k.ok(s.Stop(t.Context()))
	k.damage()
	bad := share.NewSet(s.Manifest().Layout().Pieces())
	bad.Add(0)
	_, err = k.db.Looked(t.Context(), k.reading().Wall, k.reading().Wall, s.ID(), bad)
	k.ok(err)
	k.mu.Lock()
	k.ahead = 80 * time.Minute
	k.mu.Unlock()
	_, err = k.db.Looked(t.Context(), k.reading().Wall, k.reading().Wall, s.ID(), bad)
	k.ok(err)
	k.until(s.ID(), depot.Corrupt)
	l, err = owner.KeepHold(t.Context(), l.Wants[0], nil, false)
	k.ok(err)
	if len(l.Holds) != 1 || l.Holds[0].State != renewal.Corrupt || l.Holds[0].Left < length*9/10 {
		t.Errorf("%+v", l)
	}
}
