package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// apart is a folder of which the part at is on another disk, for all that moving and creating show.
type apart struct {
	vfs.FS
	at   string
	full bool // that disk is
	dies bool // it takes what is written to a new file, and then nothing any more, as after a kill
	late bool // what was copied stays, as after a kill between the two
}

// dead is a file on a disk that dies.
type dead struct{ vfs.File }

func (dead) Sync() error { return syscall.EIO }

func (d apart) Remove(name string) error {
	if d.dies && strings.HasPrefix(name, d.at) || d.late && strings.HasPrefix(name, "stuff.partial/data/") {
		return syscall.EIO
	}
	return d.FS.Remove(name)
}

func (d apart) crosses(from, to string) error {
	if strings.HasPrefix(from, d.at) != strings.HasPrefix(to, d.at) {
		return &os.LinkError{Op: "renameat", Old: from, New: to, Err: syscall.EXDEV}
	}
	return nil
}

func (d apart) Move(from, to string) error {
	if err := d.crosses(from, to); err != nil {
		return err
	}
	return d.FS.Move(from, to)
}

func (d apart) Rename(from, to string) error {
	if err := d.crosses(from, to); err != nil {
		return err
	}
	return d.FS.Rename(from, to)
}

func (d apart) Create(name string, exec bool) (vfs.File, error) {
	if d.full && strings.HasPrefix(name, d.at) {
		return nil, syscall.ENOSPC
	}
	f, err := d.FS.Create(name, exec)
	if d.dies && err == nil && strings.HasPrefix(name, d.at) {
		f = dead{f}
	}
	return f, err
}

// damaged is a copy of which much below sub differs, or is missing.
func damaged(t *testing.T) *mended {
	x := newMended(t, tree{"top": "here", "sub/big": random(2*share.MinPiece + 5), "sub/two": "2", "sub/none": "", "sub/run*": "#!", "sub/link": "-> two"})
	x.write("sub/big", "wrong")
	for _, name := range []string{"sub/two", "sub/none", "sub/run", "sub/link", "top"} {
		x.must(os.Remove(x.path(name)))
	}
	x.must(os.Symlink("elsewhere", x.path("sub/link")))
	return x
}

// What belongs behind a mount point below the target is put there, whole or not at all.
func TestAMountPointBelowTheTargetIsNoObstacle(t *testing.T) {
	testrig.Slow(t)
	x := damaged(t)
	dir, err := vfs.Dir(x.dir)
	x.must(err)
	defer dir.Close()
	finish := func(full bool) error {
		p, err := store.OpenPartialIn(t.Context(), apart{FS: dir, at: "stuff/", full: full}, x.im.Manifest, store.PartialOptions{Repair: true})
		x.must(err)
		defer p.Close()
		for piece := range share.FullSet(x.im.Manifest.Layout().Pieces()).Minus(p.Verified()).All() {
			x.must(copyPiece(p, x.im.Tree, piece, 4))
		}
		_, err = p.Finish(context.Background())
		return err
	}
	if err := finish(true); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("nothing could be made there: %v", err)
	}
	if b, err := os.ReadFile(x.path("sub/big")); string(b) != "wrong" {
		t.Errorf("%.20q, %v: the wrong file is gone before the right one is there", b, err)
	}
	big, _ := x.im.Manifest.Find("sub/big")
	x.must(os.WriteFile(x.path(path.Join("sub", fmt.Sprintf(".%s.%d.new", x.im.Manifest.ID(), big))), []byte("of a killed run"), 0o600))
	x.must(finish(false))
	x.check()
}

// What a killed run has left of a copy is removed, though what was to be copied is not wanted any more, or came otherwise.
func TestNothingIsLeftOfACopyThatWasNotCompleted(t *testing.T) {
	testrig.Slow(t)
	for _, way := range []string{"not wanted", "came otherwise", "discarded"} {
		x := damaged(t)
		dir, err := vfs.Dir(x.dir)
		x.must(err)
		defer dir.Close()
		p, err := store.OpenPartialIn(t.Context(), apart{FS: dir, at: "stuff/", dies: true}, x.im.Manifest, store.PartialOptions{Repair: true})
		x.must(err)
		for piece := range share.FullSet(x.im.Manifest.Layout().Pieces()).Minus(p.Verified()).All() {
			x.must(copyPiece(p, x.im.Tree, piece, 4))
		}
		if _, err := p.Finish(context.Background()); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		p.Close()
		left := func() string {
			list, err := filepath.Glob(x.path("sub/.*.new"))
			x.must(err)
			return strings.Join(list, " ")
		}
		if left() == "" {
			t.Fatal("nothing was left")
		}
		switch way {
		case "discarded":
			_, _, err := store.Discard(x.dir, x.im.Manifest)
			x.must(err)
		case "not wanted":
			openPart(t, x.dir, x.im.Manifest, store.PartialOptions{Repair: true, Wanted: only(x.im.Manifest, "top")}).Close()
		default:
			for _, e := range x.im.Manifest.Entries() {
				os.Remove(x.path(e.Path))
			}
			x.must(os.CopyFS(x.at, os.DirFS(x.original)))
			openPart(t, x.dir, x.im.Manifest, store.PartialOptions{Repair: true}).Close()
		}
		if got := left(); got != "" {
			t.Errorf("%s: left %s", way, got)
		}
	}
}

// What was copied does not stay in NAME.partial as well, for as long as that stays.
func TestWhatWasCopiedIsNotKeptTwice(t *testing.T) {
	testrig.Slow(t)
	x := damaged(t)
	dir, err := vfs.Dir(x.dir)
	x.must(err)
	defer dir.Close()
	opt := store.PartialOptions{Repair: true, Wanted: only(x.im.Manifest, "sub")}
	p, err := store.OpenPartialIn(t.Context(), apart{FS: dir, at: "stuff/", late: true}, x.im.Manifest, opt)
	x.must(err)
	x.must(copyWanted(p, x.im.Tree, opt.Wanted))
	_, err = p.Finish(context.Background())
	x.must(err)
	x.must(p.Close())
	twice := filepath.Join(x.dir, "stuff.partial", "data", "sub", "big")
	_, err = os.Lstat(twice)
	x.must(err)
	openPart(t, x.dir, x.im.Manifest, opt).Close()
	if _, err := os.Lstat(twice); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if b, err := os.ReadFile(x.path("sub/big")); len(b) < share.MinPiece {
		t.Error("and not in its place:", err)
	}
	x.must(os.WriteFile(twice, []byte("mine"), 0o600))
	openPart(t, x.dir, x.im.Manifest, opt).Close()
	if _, err := os.Lstat(twice); err != nil {
		t.Error("what is not ours is gone:", err)
	}
}
