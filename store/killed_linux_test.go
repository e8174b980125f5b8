package store_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// mortal is a disk whose process dies with the n-th write to a file of data, before
// it can record anything about it.
type mortal struct {
	vfs.FS
	left *int
}

func (d mortal) BootID() string { return d.FS.(interface{ BootID() string }).BootID() }

func (d mortal) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return mortal{sub, d.left}, err
}

func (d mortal) Create(name string, exec bool) (vfs.File, error) {
	f, err := d.FS.Create(name, exec)
	if name == "big" || name == "small" {
		f = mortalFile{f, d.left}
	}
	return f, err
}

type mortalFile struct {
	vfs.File
	left *int
}

func (f mortalFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	if *f.left--; *f.left == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return n, err
}

// A process is killed with kill -9 right after it wrote to a file, and before it could
// record that: nothing is hashed again, and what was verified is still there.
func TestAfterARealKillNothingIsHashedAgain(t *testing.T) {
	testrig.Slow(t)
	big, small := make([]byte, 6*share.MinPiece), make([]byte, 100)
	chance := rand.NewChaCha8([32]byte{1}) // the same in both processes
	chance.Read(big)
	chance.Read(small)
	r := newRig(t, tree{"big": string(big), "small": string(small)})
	if dir := os.Getenv("STORE_TEST_DIE_IN"); dir != "" {
		r.fetchUntilKilled(t, dir)
	}
	t.Parallel()
	for _, writes := range []int{50, 97, 1, 2, 18, 90}[:testrig.Most(6, 2)] {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestAfterARealKillNothingIsHashedAgain$")
		cmd.Env = append(os.Environ(), "STORE_TEST_DIE_IN="+dir, "STORE_TEST_WRITES="+strconv.Itoa(writes))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("it was not killed: %v: %s", err, out)
		}
		p := openPart(t, dir, r.m, store.PartialOptions{})
		if want := (writes - 1) / 16; p.Verified().Count() < want-2 { // how far the records lag
			t.Errorf("killed at write %d: %d pieces are here of %d", writes, p.Verified().Count(), want)
		}
		if got := store.HashedAgain(p); got != 0 {
			t.Errorf("killed at write %d: %d bytes hashed again", writes, got)
		}
		copyAll(t, p, r.im.Tree)
		at, err := p.Finish(context.Background())
		check(t, err)
		if list, err := os.ReadDir(dir); len(list) != 1 {
			t.Errorf("killed at write %d: left over: %v (%v)", writes, list, err)
		}
		got, err := os.ReadFile(filepath.Join(at, "big"))
		if string(got) != string(big) {
			t.Errorf("killed at write %d: other bytes (%v)", writes, err)
		}
	}
}

func (r rig) fetchUntilKilled(t *testing.T, dir string) {
	left, err := strconv.Atoi(os.Getenv("STORE_TEST_WRITES"))
	check(t, err)
	here, err := vfs.Dir(dir)
	check(t, err)
	p, err := store.OpenPartialIn(t.Context(), mortal{here, &left}, r.m, store.PartialOptions{})
	check(t, err)
	for piece := range share.Piece(r.m.Layout().Pieces()) {
		check(t, copyPiece(p, r.im.Tree, piece, 1))
	}
	t.Fatal("it lives")
}
