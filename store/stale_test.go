package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// These tests are about records that are no longer true.

// A person removes or cuts a file of NAME.partial whose pieces are recorded, the
// next run begins it again, and is killed: the old record is not believed.
func TestANoteIsNotBelievedOnceItsFileWasTakenAway(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(12 * share.MinPiece)})
	for name, c := range map[string]struct {
		vandal func(vfs.FS) error
		cut    bool
	}{
		"removed": {func(d vfs.FS) error { return d.Remove("stuff.partial/data/big") }, false},
		"cut": {func(d vfs.FS) error {
			if err := d.Remove("stuff.partial/data/big"); err != nil {
				return err
			}
			f, err := d.Create("stuff.partial/data/big", false)
			if err == nil {
				_, err = f.WriteAt([]byte(r.tree["big"][:share.MinPiece]), 0)
			}
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := storetest.New(1 << 30)
			l := &lostRig{r, t, d, nil}
			l.open()
			for p := range share.Piece(8) {
				l.write(p, 0, 16)
				l.complete(p)
			}
			d.Kill()
			if err := c.vandal(d.FS()); err != nil {
				t.Fatal(err)
			}
			l.open()
			if n := l.p.Verified().Count(); n > 1 || n == 1 != c.cut {
				t.Fatalf("%d pieces verified", n)
			}
			l.write(11, 0, 16) // the file has its full length, with a hole
			l.complete(11)
			d.Kill()
			l.open()
			for p := range l.p.Verified().All() {
				l.wantBytes(p)
			}
		})
	}
}

// wantBytes fails unless a piece is what it should be.
func (l *lostRig) wantBytes(p share.Piece) {
	l.t.Helper()
	s := l.m.Layout().PieceSpan(p)
	buf := make([]byte, s.Len)
	if _, err := l.p.ReadRun(p, 0, l.m.Layout().Blocks(p), buf); err != nil {
		l.t.Errorf("piece %d counts as verified: %v", p, err)
	} else if string(buf) != l.tree[l.m.Entry(s.Entry).Path][s.Offset:s.Offset+int64(s.Len)] {
		l.t.Errorf("piece %d counts as verified, and its bytes are wrong", p)
	}
}

// A piece that was found wrong is not believed after a kill, although its bit was
// on the disk and nothing else was completed since.
func TestAPieceFoundWrongStaysLostAfterAKill(t *testing.T) {
	l := newLostRig(t)
	l.write(0, 0, 16)
	l.complete(0)
	l.garble()
	if _, err := l.p.Proof(0); !errors.Is(err, share.ErrChanged) {
		t.Fatal(err)
	}
	l.wantLost(0)
	l.d.Kill()
	l.open()
	if l.p.Verified().Has(0) {
		t.Error("it is believed again")
	}
}

// A record of an earlier boot may be longer than those of this one.
func TestANoteIsReadWhereALongerOneWas(t *testing.T) {
	testrig.Slow(t)
	m, content := oneFile(t, 24<<20)
	d := storetest.New(1 << 30)
	fetchSome(t, d, m, content, 20)
	d.Kill()
	for _, name := range []string{"f.partial/recent.0", "f.partial/recent.1"} {
		f, err := d.FS().Edit(name)
		if err != nil {
			t.Fatal(err)
		}
		info, _ := f.Stat()
		f.WriteAt(make([]byte, 500), info.Size-40) // neither whole nor short
		f.Close()
	}
	p := fetchSome(t, d, m, content, 20)
	if n := p.Verified().Count(); n != 20 {
		t.Fatal(n)
	}
	d.Kill()
	q, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := q.Verified().Count(); n < 16 {
		t.Errorf("%d pieces are here of 20 that were complete", n)
	}
}

// What is written during a sync of everything is lost with the rest if that fails: the
// next sync would not know about it.
func TestWhatIsWrittenDuringAFailingSyncIsLost(t *testing.T) {
	testrig.Slow(t)
	tr := tree{"big": random(2 * share.MinPiece)}
	for _, c := range "abcdefghij" {
		tr[string(c)] = random(100)
	}
	l := &lostRig{newRig(t, tr), t, storetest.New(1 << 30), nil}
	hook := new(func())
	var err error
	if l.p, err = store.OpenPartialIn(context.Background(), hooked{l.d.FS(), hook}, l.m, store.PartialOptions{}); err != nil {
		t.Fatal(err)
	}
	big, _ := l.m.Layout().PiecesOf(entryOf(l.m, "big"))
	for p := range share.Piece(l.m.Layout().Pieces()) {
		if p != big && p != big+1 {
			l.write(p, 0, 1)
			l.complete(p)
		}
	}
	*hook = func() {
		*hook = nil
		l.write(big, 0, 16)
		l.complete(big)
		l.write(big+1, 0, 3)
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind != "syncall" {
				return nil
			}
			l.d.Fault = nil
			return errDisk
		}
	}
	l.wantLost(slices.Collect(share.FullSet(l.m.Layout().Pieces()).All())...)
	l.write(big+1, 3, 16) // the rest does not complete it
	l.complete(big + 1)
	l.wantLost(big + 1)
	if got := l.durable(); len(got) != 0 {
		t.Errorf("verified: %v", got)
	}
}

// hooked is a disk on which something happens before each SyncAll.
type hooked struct {
	vfs.FS
	hook *func()
}

func (h hooked) Sub(name string) (vfs.FS, error) {
	d, err := h.FS.Sub(name)
	return hooked{d, h.hook}, err
}

func (h hooked) SyncAll() error {
	if *h.hook != nil {
		(*h.hook)()
	}
	return h.FS.SyncAll()
}

// A folder that stands where a file of the share will be is moved aside, and so is a file
// where a folder will be. Nothing in them is lost.
func TestWhatStandsWhereAFileShouldBeMakesWay(t *testing.T) {
	for name, tr := range map[string]tree{"folder": {"a/b": random(100), "c": random(100)}, "single": {"one": random(100)}} {
		t.Run(name, func(t *testing.T) {
			src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
			tr.make(t, src)
			if name == "single" {
				src = filepath.Join(src, "one")
			}
			im := importDir(t, src, store.ImportOptions{})
			openPart(t, dst, im.Manifest, store.PartialOptions{}).Close()
			data := filepath.Join(dst, im.Manifest.Name+".partial", "data")
			if name == "single" {
				tree{"data/x/y": "y"}.make(t, filepath.Dir(data))
			} else {
				tree{"c/x/y": "y", "a": "no folder"}.make(t, data)
			}
			p := openPart(t, dst, im.Manifest, store.PartialOptions{})
			copyAll(t, p, im.Tree)
			at, err := p.Finish(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			sameOnDisk(t, at, src)
			theirs := map[string]tree{"folder": {"1/a": "no folder", "2/c/x/y": "y"}, "single": {"1/data/x/y": "y"}}[name]
			kept := t.TempDir()
			theirs.make(t, kept)
			sameOnDisk(t, filepath.Join(dst, im.Manifest.Name+".partial", "others"), kept)
		})
	}
}

// A manifest that was damaged in the State is stored again by the next import.
func TestADamagedManifestIsKeptAnew(t *testing.T) {
	testrig.Slow(t)
	dir, src := t.TempDir(), filepath.Join(t.TempDir(), "stuff")
	sample().make(t, src)
	st, err := store.OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	im := importDir(t, src, store.ImportOptions{State: st})
	kept := filepath.Join(dir, "manifests", im.Manifest.ID().String())
	if err := os.WriteFile(kept, make([]byte, len(im.Manifest.Bytes())), 0o600); err != nil {
		t.Fatal(err)
	}
	importDir(t, src, store.ImportOptions{State: st})
	if again := importDir(t, src, store.ImportOptions{State: st}); again.Hashed != 0 {
		t.Errorf("hashed %d bytes that were known", again.Hashed)
	}
}

// What a process was writing into the State when it was killed does not stay.
func TestTheStateIsTidiedOfWhatAKillLeft(t *testing.T) {
	d := storetest.New(1 << 30)
	sample := tree{"big": random(3 * share.MinPiece)}
	sample.fill(t, d.FS(), "stuff")
	st, err := store.OpenStateIn(d.FS())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		killed := false
		d.Fault = func(op storetest.Op) error {
			if op.Kind == "rename" {
				killed = true
			}
			if killed {
				return storetest.ErrPower
			}
			return nil
		}
		store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS(), State: st, Workers: 1})
		d.Fault = nil
		d.Kill()
		if st, err = store.OpenStateIn(d.FS()); err != nil {
			t.Fatal(err)
		}
	}
	im, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS(), State: st, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	im.Tree.Close()
	st.Close()
	for _, file := range files(d.FS(), ".") {
		if top, _, _ := strings.Cut(file, "/"); !slices.Contains([]string{"manifests", "hashes", "imports", "stuff"}, top) && file != "temp/0/lock" {
			t.Error("left over:", file)
		}
	}
}

// files lists every file below a folder.
func files(d vfs.FS, dir string) (out []string) {
	list, _ := d.ReadDir(dir)
	for _, e := range list {
		if at := path.Join(dir, e.Name); e.Type.IsDir() {
			out = append(out, files(d, at)...)
		} else {
			out = append(out, at)
		}
	}
	return out
}

// Two processes never write under the same name, even if their IDs are the same, like
// those in containers.
func TestProcessesDoNotShareTemporaryNames(t *testing.T) {
	dir := t.TempDir()
	var open []*store.State
	for i := range 3 {
		st, err := store.OpenState(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if err := st.SaveRanking([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		open = append(open, st)
		if list, _ := os.ReadDir(filepath.Join(dir, "temp")); len(list) != i+1 {
			t.Errorf("%d processes have %d folders", i+1, len(list))
		}
	}
	open[1].Close()
	st, err := store.OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.SaveRanking(nil); err != nil {
		t.Fatal(err)
	}
	if list, _ := os.ReadDir(filepath.Join(dir, "temp")); len(list) != 3 {
		t.Errorf("a folder that is free was not taken: %v", list)
	}
}

// A file that was just written to is hashed only when a later change would show in its
// time; on file systems that keep whole seconds that takes longer.
func TestAFileThatWasJustWrittenIsLeftToSettle(t *testing.T) {
	for name, c := range map[string]struct{ grain, wait time.Duration }{
		"fine":   {time.Nanosecond, 20 * time.Millisecond},
		"coarse": {time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(12345 * time.Microsecond)
				src := filepath.Join(t.TempDir(), "f")
				if err := os.WriteFile(src, []byte("new"), 0o666); err != nil {
					t.Fatal(err)
				}
				written := time.Now()
				mtime := written.Truncate(c.grain)
				if err := os.Chtimes(src, mtime, mtime); err != nil {
					t.Fatal(err)
				}
				importDir(t, src, store.ImportOptions{Workers: 1})
				if took := time.Since(mtime); took < c.wait || took > c.wait+time.Millisecond {
					t.Errorf("hashed %v after its time", took)
				}
			})
		})
	}
}

// So is one that is written to after it was found and before it is read.
func TestAFileThatChangesBeforeItIsReadIsLeftToSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		src := filepath.Join(dir, "f")
		tree{"f": "old"}.make(t, dir)
		here, err := vfs.Dir(dir)
		if err != nil {
			t.Fatal(err)
		}
		opened := 0
		var written time.Time
		d := touchy{here, func() {
			if opened++; opened == 2 { // the first open checks whether it can be read
				written = time.Now()
				os.WriteFile(src, []byte("new"), 0o666)
				os.Chtimes(src, written, written)
			}
		}}
		im, err := store.Import(t.Context(), "f", store.ImportOptions{FS: d, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		im.Tree.Close()
		if opened < 2 || time.Since(written) < 20*time.Millisecond {
			t.Errorf("hashed %v after it was written", time.Since(written))
		}
	})
}

// touchy is a disk on which something happens before a file is opened.
type touchy struct {
	vfs.FS
	before func()
}

func (d touchy) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return touchy{sub, d.before}, err
}

func (d touchy) Open(name string) (vfs.File, error) {
	d.before()
	return d.FS.Open(name)
}

// A lock that is not a regular file is refused, not waited for.
func TestALockThatIsALinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	tree{"other": "", "lock": "-> other"}.make(t, dir)
	d, err := vfs.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	done := make(chan error, 1)
	go func() {
		l, err := d.Lock("lock")
		if err == nil {
			l.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it spins")
	}
}
