package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// whole reports whether a depot has all of a share on its disk.
func (m *mover) whole(id share.ID) bool {
	t, err := m.lender.root.Tree(id)
	if err != nil {
		return false
	}
	defer t.Close()
	for p := range t.Manifest().Layout().Pieces() {
		if !readPiece(t, share.Piece(p), make([]byte, t.Manifest().Layout().PieceLen(share.Piece(p)))) {
			return false
		}
	}
	return true
}

func (m *mover) state(id share.ID) depot.State {
	m.Helper()
	k, err := m.lender.db.Share(m.Context(), id)
	must(m.T, err)
	return k.State
}

// brought checks that an import brought a share that the depot knew: its data and its leases are on the disk.
func (m *mover) brought(got api.Imported, id share.ID) {
	m.Helper()
	leases, err := m.lender.root.Promises(id)
	must(m.T, err)
	leases = slices.DeleteFunc(leases, func(p depot.Promise) bool { return p.Account == "starter" }) // of the crawler, if it was first
	if got.Shares != 1 || got.Known != 0 || !m.whole(id) || m.state(id) != depot.Stable || len(leases) != 2 {
		m.Errorf("the import says %+v; the share is %v, whole: %v, with the leases %v beside it", got, m.state(id), m.whole(id), leases)
	}
}

// What a depot's export has comes back when the disk has lost it and the ledger is still here.
func TestAnExportGivesBackTheDataThatADiskLost(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for what, lose := range map[string]func(m *mover, at string) error{
		"all":        func(m *mover, _ string) error { return os.RemoveAll(filepath.Join(m.folder, "shares")) },
		"the data":   func(_ *mover, at string) error { return os.RemoveAll(filepath.Join(at, "data")) },
		"the end":    func(_ *mover, at string) error { return os.Truncate(filepath.Join(at, "data", "film"), 3) },
		"the leases": func(_ *mover, at string) error { return os.RemoveAll(at) },
	} {
		for when, known := range map[string]bool{"before the crawler saw it": false, "after the crawler saw it": true} {
			t.Run(what+" "+when, func(t *testing.T) {
				t.Parallel()
				a, film, stream := exported(t, "anna", "bert")
				must(t, lose(a, a.at(film)))
				now, bad := time.Now(), share.FullSet(1)
				for i := range 2 {
					if known {
						_, err := a.lender.db.Looked(t.Context(), now, now.Add(time.Duration(i)*depot.StrikeGap), film, bad)
						must(t, err)
					}
				}
				if want := map[bool]depot.State{false: depot.Stable, true: depot.Corrupt}[known]; a.state(film) != want {
					t.Fatal(a.state(film))
				}
				a.brought(a.enter(stream), film)
				if got := a.enter(stream); got.Known != 1 || got.Shares != 0 {
					t.Errorf("a second time: %+v", got)
				}
			})
		}
	}
}

// at is the folder of a share.
func (m *mover) at(id share.ID) (at string) {
	m.Helper()
	must(m.T, filepath.WalkDir(filepath.Join(m.folder, "shares"), func(p string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == id.String() {
			at = p
		}
		return err
	}))
	if at == "" {
		m.Fatal("the share has no folder")
	}
	return at
}

// An import of a share of which a crash left an empty folder brings its data.
func TestAnImportBringsWhatACrashLeftEmpty(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a, film, stream := exported(t, "anna", "bert")
	at, err := filepath.Rel(a.folder, a.at(film))
	must(t, err)
	b := newMover(t)
	must(t, os.MkdirAll(filepath.Join(b.folder, at), 0o700))
	b.brought(b.enter(stream), film)
}

// What an account waits for is here once an import has brought it, whatever size that account declared.
func TestAnImportBringsWhatIsComing(t *testing.T) {
	t.Parallel()
	_, film, stream := exported(t, "anna", "carl")
	b := newMover(t)
	b.account("bert", peerB)
	b.hold("bert", film)
	b.brought(b.enter(stream), film)
	if got := b.held(); len(got) != 2 {
		t.Error(got)
	}
}

// hold is a hold of a share with a wrong size.
func (m *mover) hold(account string, id share.ID) {
	m.Helper()
	of, err := m.lender.db.Named(m.Context(), account)
	must(m.T, err)
	_, err = m.lender.db.Hold(m.Context(), time.Now(), depot.Ask{Account: of, Request: "r", Share: id, Bytes: 1 << 20, Until: later, Space: depot.Space{Free: 1 << 40}})
	must(m.T, err)
}

// when calls f once, before the byte at is read.
type when struct {
	io.Reader
	at, n int
	f     func()
}

func (w *when) Read(b []byte) (int, error) {
	if w.n < w.at {
		b = b[:min(len(b), w.at-w.n)]
	} else {
		w.f()
	}
	n, err := w.Reader.Read(b)
	w.n += n
	return n, err
}

// Somebody asks the depot to hold a share while an import brings it: the data of the import is here afterwards.
func TestAShareThatIsHeldWhileItIsImportedIsNotLost(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, film, stream := exported(t, "anna", "carl")
	b := newMover(t)
	b.account("bert", peerB)
	at := bytes.Index(stream, []byte("shares/"+film.String()+"/data")) + 512
	var once sync.Once
	got, err := b.Daemon.Import(t.Context(), &when{Reader: bytes.NewReader(stream), at: at, f: func() { once.Do(func() { b.hold("bert", film) }) }})
	must(t, err)
	b.brought(got, film)
	if got := b.enter(stream); got.Known != 1 {
		t.Errorf("a second time: %+v", got)
	}
}

// A share that something else than its fetch writes is left to that, and the import says that it did not enter it.
func TestAnImportLeavesWhatIsBeingWritten(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a, film, stream := exported(t, "anna")
	m, err := a.lender.root.Manifest(film)
	must(t, err)
	b := newMover(t)
	b.account("bert", peerB)
	b.hold("bert", film)
	p, err := b.lender.root.Open(t.Context(), m, nil)
	must(t, err)
	if got := b.enter(stream); got.Shares+got.Known != 0 || got.Leaving != 1 || b.state(film) != depot.Coming {
		t.Errorf("%+v, %v", got, b.state(film))
	}
	must(t, p.Close())
	if got := b.enter(stream); got.Shares != 1 || !b.whole(film) || b.state(film) != depot.Stable {
		t.Errorf("%+v, %v", got, b.state(film))
	}
}

// comes makes a depot fetch a share of a piece slowly, and returns an export that has it.
func (m *mover) comes() (film share.ID, stream []byte) {
	m.Helper()
	a, owner := newMover(m.T), begun(m.T, m.TempDir(), func(c *Config) { c.Up = 4 << 10 })
	a.account("anna", peerA)
	src := file(m.T, large(9)[:share.MinPiece], m.TempDir(), "film")
	film = a.putFile(src, map[string]time.Time{"anna": later, "carl": later})
	m.account("owner", string(owner.node.ID()))
	e := added(m.T, owner, api.Add{Paths: []string{src}})
	_, err := owner.Hold(m.Context(), api.Hold{Entry: e.ID, Depots: []string{m.node.Addrs()[0]}})
	must(m.T, err)
	m.waits("its fetch has begun", func() bool {
		names, _ := filepath.Glob(filepath.Join(m.folder, "shares", "*", film.String(), "data", "*"))
		return len(names) > 0
	})
	if s := m.state(film); s != depot.Coming {
		m.Fatal(s)
	}
	return film, a.export("")
}

func (m *mover) waits(what string, is func() bool) {
	m.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			m.Fatalf("not in time: %s", what)
		}
	}
}

func (m *mover) arriving() int {
	m.Helper()
	s, err := m.node.DepotDo(m.Context(), nil)
	must(m.T, err)
	return s.Arriving
}

// An import takes the place of a fetch, which may wait for its sources for ever.
func TestAnImportTakesThePlaceOfAFetch(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := newMover(t)
	film, stream := m.comes()
	got := m.enter(stream)
	if got.Shares != 1 || got.Leaving != 0 || !m.whole(film) || m.state(film) != depot.Stable || len(m.held()) != 3 {
		t.Errorf("%+v; it is %v; %v", got, m.state(film), m.held())
	}
	m.waits("what was imported is not fetched any more", func() bool { return m.arriving() == 0 }) // it would begin again after a minute
}

// An import that is cut ends no fetch for good.
func TestAFetchGoesOnAfterAnImportThatWasCut(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := newMover(t)
	film, stream := m.comes()
	if got, err := m.Daemon.Import(t.Context(), bytes.NewReader(stream[:len(stream)-int(share.MinPiece)/2])); err == nil || got.Shares != 0 || got.Leaving != 0 {
		t.Errorf("half an export: %+v, %v", got, err)
	}
	if s, n := m.state(film), m.arriving(); s != depot.Coming || n != 1 {
		t.Errorf("it is %v, and %d are to be fetched", s, n)
	}
}

// Of two who change an account at once, each has its term.
func TestTermsChangedAtOnceAreAllKept(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := newMover(t)
	a.account("anna", peerA)
	for i := range 20 {
		quota, lease := int64(i+1), fmt.Sprint(i+1, "d")
		both := make(chan error)
		for _, s := range []api.SetAccount{{Quota: &quota}, {MaxLease: &lease}} {
			go func() {
				_, err := a.SetAccount(t.Context(), "anna", s)
				both <- err
			}()
		}
		must(t, errors.Join(<-both, <-both))
		acc, err := a.account2("anna")
		must(t, err)
		if acc.Quota != quota || acc.MaxLease != quota*24*3600 {
			t.Fatalf("the account is %+v after a quota of %d and leases of %s", acc, quota, lease)
		}
	}
}

// An owner took the key of an account away, and perhaps its quota; an export from before that gives neither back.
func TestAnImportGivesNoKeyBackThatWasTakenAway(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	few := int64(5)
	for _, quota := range []*int64{nil, &few} {
		a := newMover(t)
		a.account("anna", peerA)
		a.put("film", map[string]time.Time{"anna": later})
		stream := a.export("")
		_, err := a.SetAccount(t.Context(), "anna", api.SetAccount{RemoveKey: peerA, Quota: quota})
		must(t, err)
		want, err := a.account2("anna")
		must(t, err)
		got := a.enter(stream)
		acc, err := a.account2("anna")
		must(t, err)
		if acc.Quota != want.Quota || len(acc.Keys) != 0 || len(got.Refused) != 1 {
			t.Errorf("the account is %+v after an import (%+v)", acc, got)
		}
	}
}
