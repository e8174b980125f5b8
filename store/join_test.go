package store_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// neighbours are names that sort differently as folders and as files.
func neighbours() tree {
	return tree{
		"a/big": random(2*share.MinPiece + 5), "a/b/small": random(10), "a.b": random(share.MinPiece + 1), "a-/x": random(70_000), "none/": "",
		"ab": "", "z*": random(100), "links/to": "-> x", "links/x": random(share.BlockSize),
	}
}

// joined imports what is in dir path by path, in the order of names or in reverse.
func joined(t *testing.T, dir string, back bool, opt store.ImportOptions) *store.Imported {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	if back {
		slices.Reverse(paths)
	}
	opt.Name = filepath.Base(dir)
	im, err := store.ImportAll(context.Background(), paths, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Tree.Close() })
	return im
}

// Several paths make the same share as a folder that holds them.
func TestSeveralPathsAreOneFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "all")
	neighbours().make(t, dir)
	want := importDir(t, dir, store.ImportOptions{})
	st := openState(t, t.TempDir())
	for i := range 3 {
		im := joined(t, dir, i == 1, store.ImportOptions{State: st})
		if im.Manifest.ID() != want.Manifest.ID() {
			t.Fatalf("another share, of %d entries", im.Manifest.Len())
		}
		if all := want.Manifest.Layout().Bytes(); i == 0 && im.Hashed != all || i > 0 && (im.Hashed != 0 || im.Cached != all) {
			t.Errorf("the %d. time %d bytes were hashed and %d known", i+1, im.Hashed, im.Cached)
		}
		to := t.TempDir()
		p := openPart(t, to, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		if _, err := p.Finish(context.Background()); err != nil {
			t.Fatal(err)
		}
		sameOnDisk(t, filepath.Join(to, "all"), dir)
	}
}

func TestAJoinedShareNoticesAChangeInOnePart(t *testing.T) {
	testrig.Slow(t)
	dir := filepath.Join(t.TempDir(), "all")
	neighbours().make(t, dir)
	im := joined(t, dir, false, store.ImportOptions{})
	if err := os.WriteFile(filepath.Join(dir, "a", "big"), []byte(random(2*share.MinPiece+5)), 0o666); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, share.BlockSize)
	for i, e := range im.Manifest.Entries() {
		p, n := im.Manifest.Layout().PiecesOf(i)
		if n == 0 {
			continue
		}
		_, err := im.Tree.ReadRun(p, 0, 1, buf)
		if e.Path == "a/big" && (!errors.Is(err, share.ErrChanged) || !strings.Contains(err.Error(), "a/big")) || e.Path != "a/big" && err != nil {
			t.Errorf("%s: %v", e.Path, err)
		}
	}
	im.Tree.Close()
	if _, err := im.Tree.ReadRun(0, 0, 1, buf); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := im.Tree.Proof(1); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := im.Tree.ReadRun(share.Piece(im.Manifest.Layout().Pieces()), 0, 1, buf); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

func TestWhatIsWrongWithSeveralPathsIsListedTogether(t *testing.T) {
	dir := t.TempDir()
	tree{"one/f": "x", "two/g": "y", "three/one/h": "z"}.make(t, dir)
	for _, at := range []string{"one/pipe", "two/below/pipe"} {
		listen(t, filepath.Join(dir, at))
	}
	at := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(dir, n))
		}
		return out
	}
	_, err := store.ImportAll(context.Background(), at("one", "two"), store.ImportOptions{Name: "n"})
	var bad *store.ProblemsError
	if !errors.As(err, &bad) || len(bad.Problems) != 2 || bad.Problems[0].Path != "one/pipe" || bad.Problems[1].Path != "two/below/pipe" {
		t.Errorf("got %v", err)
	}
	_, err = store.ImportAll(context.Background(), at("one", "three/one"), store.ImportOptions{Name: "n"})
	if err == nil || !strings.Contains(err.Error(), `both be "one"`) {
		t.Errorf("got %v", err)
	}
	if _, err = store.ImportAll(context.Background(), at("one", "nowhere"), store.ImportOptions{Name: "n"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// listen makes a socket, which cannot be shared.
func listen(t *testing.T, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { l.Close() })
}

func TestWhatIsExcludedIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	tree{"one/f": "x", "one/g": "y", "one/sub/g": "z", "h": "w"}.make(t, dir)
	listen(t, filepath.Join(dir, "one", "sub", "pipe"))
	var last store.ImportProgress
	opt := store.ImportOptions{Name: "n", Progress: func(p store.ImportProgress) { last = p }, Exclude: func(p string) bool { return strings.HasSuffix(p, "/g") || strings.HasSuffix(p, "pipe") }}
	im, err := store.ImportAll(context.Background(), []string{filepath.Join(dir, "one"), filepath.Join(dir, "h")}, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Tree.Close()
	if m := im.Manifest; m.Len() != 2 || m.Entry(0).Path != "h" || m.Entry(1).Path != "one/f" || im.Excluded != 3 {
		t.Errorf("%d left out, shared %d entries", im.Excluded, m.Len())
	}
	if last != (store.ImportProgress{Files: 2, TotalFiles: 2, Bytes: 2, Total: 2, Hashed: 2}) {
		t.Errorf("progress ended at %+v", last)
	}
	for _, path := range []string{"one", "h"} {
		opt := store.ImportOptions{Exclude: func(string) bool { return true }}
		if _, err := store.Import(context.Background(), filepath.Join(dir, path), opt); err == nil || !strings.Contains(err.Error(), "nothing is left") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
