package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// fetched is a share and a folder with a finished copy of it.
func fetched(t *testing.T, tr tree, opt store.PartialOptions) (im *store.Imported, dir string) {
	t.Helper()
	src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tr.make(t, src)
	im = importDir(t, src, store.ImportOptions{})
	p := openPart(t, dst, im.Manifest, opt)
	copyAll(t, p, im.Tree)
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return im, dst
}

func TestAnIdenticalTargetIsDone(t *testing.T) {
	im, dir := fetched(t, sample(), store.PartialOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	if at, done := p.Done(); !done || at != filepath.Join(dir, "stuff") {
		t.Error(at, done)
	}
	if !p.Verified().Full() {
		t.Error("not all verified")
	}
	if need, _ := p.Need(); need != 0 {
		t.Error("need", need)
	}
	if at, err := p.Finish(context.Background()); err != nil || at != filepath.Join(dir, "stuff") {
		t.Error(at, err)
	}
	copyAll(t, openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{}), p)
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left over: %v", list)
	}
}

// The share got to its place in another way: what was fetched of it is removed.
func TestAnIdenticalTargetEndsATransfer(t *testing.T) {
	testrig.Slow(t)
	im, dir := fetched(t, sample(), store.PartialOptions{})
	target := filepath.Join(dir, "stuff")
	if err := os.Rename(target, target+"2"); err != nil {
		t.Fatal(err)
	}
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	for piece := range share.Piece(5) {
		if err := copyPiece(p, im.Tree, piece, 4); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(p.Close(), os.Rename(target+"2", target)); err != nil {
		t.Fatal(err)
	}
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	if _, done := p.Done(); !done {
		t.Error("not done")
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left over: %v", list)
	}
}

func TestADifferentTargetIsLeftAlone(t *testing.T) {
	for what, change := range map[string]func(dir string) error{
		"content": func(d string) error { return os.WriteFile(filepath.Join(d, "many/1"), []byte("!"), 0o666) },
		"size":    func(d string) error { return os.WriteFile(filepath.Join(d, "many/1"), []byte("11"), 0o666) },
		"missing": func(d string) error { return os.Remove(filepath.Join(d, "many/1")) },
		"extra":   func(d string) error { return os.WriteFile(filepath.Join(d, "many/3"), nil, 0o666) },
		"kind": func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "many/1")), os.Mkdir(filepath.Join(d, "many/1"), 0o777))
		},
		"exec": func(d string) error { return os.Chmod(filepath.Join(d, "run"), 0o666) },
		"link": func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "link")), os.Symlink("big", filepath.Join(d, "link")))
		},
		"a file": func(d string) error { return errors.Join(os.RemoveAll(d), os.WriteFile(d, []byte("mine"), 0o666)) },
		"a dangling link": func(d string) error {
			return errors.Join(os.RemoveAll(d), os.Symlink("nowhere", d))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			im, dir := fetched(t, tree{"many/1": "1", "many/2": "2", "run*": "x", "link": "-> run"}, store.PartialOptions{})
			if err := change(filepath.Join(dir, "stuff")); err != nil {
				t.Fatal(err)
			}
			before := t.TempDir()
			if err := os.CopyFS(before, os.DirFS(dir)); err != nil && what != "a dangling link" {
				t.Fatal(err)
			}
			_, err := store.OpenPartial(context.Background(), dir, im.Manifest, store.PartialOptions{})
			if !errors.Is(err, share.ErrExists) {
				t.Fatalf("got %v, want ErrExists", err)
			}
			if what != "a dangling link" {
				sameOnDisk(t, dir, before)
			}
		})
	}
}

// The target may appear while the share is being fetched: it is not replaced, and
// what was fetched stays.
func TestATargetThatCameMeanwhileIsNotReplaced(t *testing.T) {
	for _, single := range []bool{false, true} {
		src, dst := t.TempDir(), t.TempDir()
		tree{"stuff/f": "content", "one": "content"}.make(t, src)
		name := map[bool]string{false: "stuff", true: "one"}[single]
		im := importDir(t, filepath.Join(src, name), store.ImportOptions{})
		p := openPart(t, dst, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		target := filepath.Join(dst, name)
		if single {
			os.WriteFile(target, []byte("mine"), 0o666)
		} else {
			os.Mkdir(target, 0o777) // an empty folder belongs to somebody too
		}
		if _, err := p.Finish(context.Background()); !errors.Is(err, share.ErrExists) {
			t.Fatalf("got %v, want ErrExists", err)
		}
		if _, done := p.Done(); done {
			t.Fatal("done")
		}
		copyAll(t, openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{}), p) // still served
		if err := os.Remove(target); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(context.Background()); err != nil {
			t.Fatal(err)
		}
		sameOnDisk(t, target, filepath.Join(src, name))
	}
}

func TestAFolderThatIsNotOursIsLeftAlone(t *testing.T) {
	testrig.Slow(t)
	src := filepath.Join(t.TempDir(), "stuff")
	sample().make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	other := filepath.Join(t.TempDir(), "stuff")
	tree{"x": "y"}.make(t, other)
	for what, make := range map[string]func(dir string){
		"somebody's": func(dir string) { tree{"stuff.partial/mine": "precious"}.make(t, dir) },
		"data":       func(dir string) { tree{"stuff.partial/data": "precious"}.make(t, dir) },
		"garbage":    func(dir string) { tree{"stuff.partial/manifest": "precious"}.make(t, dir) },
		"a file":     func(dir string) { tree{"stuff.partial": "precious"}.make(t, dir) },
		"another share": func(dir string) {
			p := openPart(t, dir, importDir(t, other, store.ImportOptions{}).Manifest, store.PartialOptions{})
			p.Close()
		},
	} {
		dir, before := t.TempDir(), t.TempDir()
		make(dir)
		os.CopyFS(before, os.DirFS(dir))
		if _, err := store.OpenPartial(context.Background(), dir, im.Manifest, store.PartialOptions{}); !errors.Is(err, share.ErrExists) {
			t.Errorf("%s: got %v, want ErrExists", what, err)
		}
		sameOnDisk(t, dir, before)
	}
}

func TestNoRoomIsSaidBeforeTheFirstByte(t *testing.T) {
	r := newRig(t, small())
	d := storetest.New(share.MinPiece)
	_, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{})
	if !errors.Is(err, share.ErrDiskFull) || !strings.Contains(err.Error(), "free 206 kB more; 1.25 MB is needed and 1.05 MB is free") {
		t.Fatal(err)
	}
	if left, err := d.FS().ReadDir("."); len(left) > 0 || err != nil { // nobody would know whose it is
		t.Fatalf("left: %v, %v", left, err)
	}
	d.Resize(1 << 30)
	if _, err := r.fetch(d.FS(), 2); err != nil {
		t.Fatal("the lock was kept:", err)
	}
}

// The disk fills up in the middle, at every page; with room the fetch continues, and
// nothing was lost.
func TestAFullDiskIsAPause(t *testing.T) {
	r := newRig(t, small())
	for room := int64(0); room < 40; room += 3 {
		d := storetest.New(1 << 30)
		p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d.Resize(room * 10 * storetest.PageSize)
		n, full := 0, false
		for piece := range share.FullSet(r.m.Layout().Pieces()).All() {
			if err := copyPiece(p, r.im.Tree, piece, 3); errors.Is(err, share.ErrDiskFull) {
				full = true
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			n++
		}
		d.Resize(-1) // not even the bits fit
		if _, err := p.Sync(); n > 0 && !errors.Is(err, share.ErrDiskFull) {
			t.Fatalf("sync on a full disk: %v", err)
		}
		if got := p.Verified().Count(); got != n {
			t.Fatalf("%d pieces verified, %d were written", got, n)
		}
		if err := p.Close(); n > 0 && !errors.Is(err, share.ErrDiskFull) {
			t.Fatal(err)
		}
		d.Resize(1 << 30)
		if err := r.checkBits(d.FS(), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := r.fetch(d.FS(), 2); err != nil {
			t.Fatal(err)
		}
		if err := r.checkDone(d.FS()); err != nil {
			t.Fatal(err)
		}
		if room == 0 && !full {
			t.Fatal("the disk was never full")
		}
	}
}

// Two names that this file system treats as one must not share a file.
func TestNamesThatFallTogetherAreRefused(t *testing.T) {
	r := newRig(t, tree{"File": random(10), "file": random(20), "x": "x"})
	d := storetest.New(1 << 30)
	d.FoldCase = true
	for range 2 {
		p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var errs error
		for piece := range share.FullSet(3).Minus(p.Verified()).All() {
			errs = errors.Join(errs, copyPiece(p, r.im.Tree, piece, 1))
		}
		if !errors.Is(errs, share.ErrPath) {
			t.Fatalf("got %v, want ErrPath", errs)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Files that were tampered with in NAME.partial cost their pieces and no more.
func TestFilesMissingFromAPartialAreFetchedAgain(t *testing.T) {
	testrig.Slow(t)
	src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	sample().make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dst, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	p.Close()
	data := filepath.Join(dst, "stuff.partial", "data")
	os.RemoveAll(filepath.Join(data, "many"))
	os.Truncate(filepath.Join(data, "big"), share.MinPiece)
	os.WriteFile(filepath.Join(data, "alien"), []byte("x"), 0o666)
	f, _ := os.OpenFile(filepath.Join(data, "a", "piece"), os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString("more")
	f.Close()
	p = openPart(t, dst, im.Manifest, store.PartialOptions{})
	// many/1, many/2, many/exec-large; three of four pieces of big; a/piece
	if missing := im.Manifest.Layout().Pieces() - p.Verified().Count(); missing != 3+3+1 {
		t.Errorf("%d pieces missing", missing)
	}
	copyAll(t, p, im.Tree)
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dst, "stuff", "alien")); err != nil {
		t.Error("what is not ours did not stay:", err)
	}
	sameOnDisk(t, filepath.Join(dst, "stuff"), src)
}

func TestALongNameHasAPartial(t *testing.T) {
	name := strings.Repeat("ü", 126) + "x" // 253 bytes
	src, dst := t.TempDir(), t.TempDir()
	tree{name: "content"}.make(t, src)
	im := importDir(t, filepath.Join(src, name), store.ImportOptions{})
	p := openPart(t, dst, im.Manifest, store.PartialOptions{})
	if f, err := store.Find(dst, im.Manifest.ID()); f.Manifest == nil {
		t.Error("not found:", err)
	}
	copyAll(t, p, im.Tree)
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, dst, src)
}

func TestWritesOfDifferentPiecesMayRunTogether(t *testing.T) {
	testrig.Slow(t)
	src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tr := sample()
	for _, dir := range []string{"p/q/r/", "p/q/", "p/s/"} {
		for _, f := range []string{"1", "2", "3", "4", "5"} {
			tr[dir+f] = random(100_000)
		}
	}
	tr.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dst, im.Manifest, store.PartialOptions{MaxOpen: 3})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < im.Manifest.Layout().Pieces(); i += 4 {
				if err := copyPiece(p, im.Tree, share.Piece(i), 2); err != nil {
					t.Error(err)
				}
				buf := make([]byte, share.BlockSize)
				if _, err := p.ReadRun(share.Piece(i), 0, 1, buf); err != nil {
					t.Error(err)
				}
				if i%5 == 0 {
					if _, err := p.Sync(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, filepath.Join(dst, "stuff"), src)
}

// No more files are open than allowed, whatever the share's size.
func TestOpenFilesAreBounded(t *testing.T) {
	testrig.Slow(t)
	tr := tree{}
	for i := range 40 {
		tr[string(rune('a'+i%5))+"/"+string(rune('A'+i))] = random(share.BlockSize + 1)
	}
	tr["x"], tr["y"], tr["z"] = random(share.MinPiece+1), random(share.MinPiece+1), random(share.MinPiece+1)
	r := newRig(t, tr)
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{MaxOpen: 4})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for piece := range share.FullSet(r.m.Layout().Pieces()).All() {
			if round == 0 {
				err = copyPiece(p, r.im.Tree, piece, 1)
			} else {
				_, err = p.ReadRun(piece, 0, 1, make([]byte, share.BlockSize))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	for piece := range share.FullSet(r.m.Layout().Pieces()).All() {
		if _, err := p.ReadRun(piece, 0, 1, make([]byte, share.BlockSize)); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	open, most := d.Open()
	if open != 0 {
		t.Errorf("%d files left open", open)
	}
	if most > 4+4+8 {
		t.Errorf("%d files and folders were open", most)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	r := newRig(t, small())
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pieces := share.Piece(r.m.Layout().Pieces())
	buf := make([]byte, share.MinPiece)
	for what, err := range map[string]error{
		"write past the share":    p.Write(pieces, 0, buf[:1]),
		"write past the piece":    p.Write(0, 60000, buf[:1]),
		"write of nothing":        p.Write(0, 0, nil),
		"write of a short block":  p.Write(0, 0, buf[:5]),
		"proof past the share":    second(p.Proof(pieces)),
		"read past the share":     second(p.ReadRun(pieces, 0, 1, buf)),
		"read of nothing":         second(p.ReadRun(0, 0, 0, buf)),
		"tree: proof past it":     second(r.im.Tree.Proof(pieces)),
		"tree: read past it":      second(r.im.Tree.ReadRun(0, 0, 99, buf)),
		"tree: read before start": second(r.im.Tree.ReadRun(0, 0, -1, buf)),
	} {
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.Complete(pieces, nil) // no such piece: nothing happens
	if p.Verified().Count() != 0 {
		t.Error("a piece came from nowhere")
	}
	if _, err := p.ReadRun(0, 0, 1, buf); !errors.Is(err, store.ErrNotYet) {
		t.Error(err)
	}
	if _, err := r.im.Tree.ReadRun(0, 0, 1, nil); err == nil {
		t.Error("read into nothing")
	}
	if _, err := p.Finish(context.Background()); !errors.Is(err, store.ErrNotYet) {
		t.Error("finished too early:", err)
	}
	p.Close()
	if p.Close() != nil {
		t.Error("second Close")
	}
	p.Complete(0, r.m.OnlyBlock(0))
	for what, err := range map[string]error{
		"write":  p.Write(0, 0, buf[:10]),
		"read":   second(p.ReadRun(0, 0, 1, buf)),
		"proof":  second(p.Proof(0)),
		"sync":   second(p.Sync()),
		"finish": second(p.Finish(context.Background())),
	} {
		if err == nil {
			t.Errorf("%s after Close worked", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestAReadOnlyFolderIsAnError(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	r := newRig(t, small())
	dir := t.TempDir()
	os.Chmod(dir, 0o555)
	defer os.Chmod(dir, 0o755)
	if _, err := store.OpenPartial(context.Background(), dir, r.m, store.PartialOptions{}); !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
}
