//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// ends fails if f waits for ever.
func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal(what, "waits for a pipe")
	}
}

// pipe puts a named pipe in place of what is there.
func pipe(t *testing.T, name string) {
	t.Helper()
	check(t, os.RemoveAll(name))
	check(t, syscall.Mkfifo(name, 0o666))
}

// A named pipe that nobody writes to stands where we look for a file or a folder of
// ours: nothing waits for it, and it stays.
func TestNothingWaitsForANamedPipe(t *testing.T) {
	testrig.Slow(t)
	for _, name := range []string{"manifest", "lock", "bits", "hashes", "marks", "recent.0", "placed", "data", "data/a", "data/dir"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
			tree{"a": random(3 * share.MinPiece), "dir/b": random(100)}.make(t, src)
			im := importDir(t, src, store.ImportOptions{})
			p := openPart(t, dir, im.Manifest, store.PartialOptions{})
			for _, piece := range []share.Piece{0, 1, 3} {
				check(t, copyPiece(p, im.Tree, piece, 16))
			}
			check(t, p.Close())
			at := filepath.Join(dir, "stuff.partial", name)
			pipe(t, at)
			ends(t, "Find", func() { store.Find(dir, im.Manifest.ID()) })
			ends(t, "OpenPartial", func() {
				p, err := store.OpenPartial(t.Context(), dir, im.Manifest, store.PartialOptions{})
				if err == nil {
					p.Close()
				}
				t.Log(err)
			})
		})
	}
}

func TestNothingOfAStateWaitsForANamedPipe(t *testing.T) {
	testrig.Slow(t)
	dir, src := t.TempDir(), filepath.Join(t.TempDir(), "stuff")
	sample().make(t, src)
	st := openState(t, dir)
	im := importDir(t, src, store.ImportOptions{State: st})
	check(t, st.SavePort(1))
	check(t, st.SaveRanking(nil))
	list, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, name := range append(list, filepath.Join(dir, "port"), filepath.Join(dir, "ranking"), filepath.Join(dir, "key"), filepath.Join(dir, "key.lock")) {
		if fi, err := os.Stat(name); err != nil || !fi.IsDir() {
			pipe(t, name)
		}
	}
	pipe(t, filepath.Join(dir, "temp"))
	ends(t, "the state", func() {
		st, err := store.OpenState(dir)
		check(t, err)
		defer st.Close()
		st.Key()
		st.LoadPort()
		st.LoadRanking()
		st.SaveManifest(im.Manifest)
		st.Manifest(im.Manifest.ID())
		st.OpenFleet(im.Manifest.ID())
		store.Import(t.Context(), src, store.ImportOptions{State: st})
	})
}

// Nor does anything wait that is given the path of one.
func TestAPathThatIsANamedPipeIsRefused(t *testing.T) {
	at := filepath.Join(t.TempDir(), "pipe")
	pipe(t, at)
	im := importDir(t, t.TempDir(), store.ImportOptions{})
	for what, f := range map[string]func() error{
		"Import": func() error { _, err := store.Import(t.Context(), at, store.ImportOptions{}); return err },
		"OpenPartial": func() error {
			_, err := store.OpenPartial(t.Context(), at, im.Manifest, store.PartialOptions{})
			return err
		},
		"Find":      func() error { _, err := store.Find(at, im.Manifest.ID()); return err },
		"OpenState": func() error { _, err := store.OpenState(at); return err },
		"Dir":       func() error { _, err := vfs.Dir(at); return err },
	} {
		ends(t, what, func() {
			if err := f(); err == nil {
				t.Error(what, "takes a pipe")
			}
		})
	}
}
