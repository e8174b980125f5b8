//go:build unix

package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// A user who puts a file of theirs into NAME.partial by a hard link, such as an older
// version, keeps it as it is: it is not written to under the name that we see.
func TestAFileWithAnotherNameElsewhereIsNotWrittenTo(t *testing.T) {
	testrig.Slow(t)
	big := random(12 * share.MinPiece)
	im := importDir(t, func() string {
		dir := filepath.Join(t.TempDir(), "stuff")
		tree{"big": big}.make(t, dir)
		return dir
	}(), store.ImportOptions{})
	dir := t.TempDir()
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	check(t, copyPiece(p, im.Tree, 0, 16))
	check(t, p.Close())
	mine := filepath.Join(dir, "older")
	old := big[:share.MinPiece] + strings.Repeat("mine", 3*share.MinPiece/4)
	check(t, os.WriteFile(mine, []byte(old), 0o666))
	data := filepath.Join(dir, "stuff.partial", "data", "big")
	check(t, os.Remove(data))
	check(t, os.Link(mine, data))

	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	_, err := p.Finish(t.Context())
	check(t, err)
	if got, err := os.ReadFile(mine); string(got) != old {
		t.Errorf("it was written to: %d bytes, %v", len(got), err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "stuff", "big")); string(got) != big {
		t.Errorf("the share has %d other bytes, %v", len(got), err)
	}
}

// A hard link to a file that is being fetched, made to look at it meanwhile, changes nothing.
func TestAFileThatIsLookedAtUnderAnotherNameIsGoneOnWith(t *testing.T) {
	testrig.Slow(t)
	im := importDir(t, func() string {
		dir := filepath.Join(t.TempDir(), "stuff")
		tree{"big": random(4 * share.MinPiece)}.make(t, dir)
		return dir
	}(), store.ImportOptions{})
	dir := t.TempDir()
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	check(t, copyPiece(p, im.Tree, 0, 16))
	check(t, p.Close())
	check(t, os.Link(filepath.Join(dir, "stuff.partial", "data", "big"), filepath.Join(dir, "preview")))
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	if n := p.Verified().Count(); n != 1 || len(p.Aside()) > 0 {
		t.Errorf("%d pieces, moved: %v", n, p.Aside())
	}
}

// If folders of NAME.partial are renamed, moved away or replaced while a fetch runs, the
// result is not a share that lacks what was in them.
func TestFoldersThatAreMovedWhileAFetchRunsAreNoticed(t *testing.T) {
	testrig.Slow(t)
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a/b/big": random(3 * share.MinPiece), "small": "x"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	for name, vandal := range map[string]func(stage, away string) error{
		"a folder renamed": func(stage, away string) error {
			return os.Rename(filepath.Join(stage, "data", "a"), filepath.Join(stage, "data", "c"))
		},
		"a folder replaced by a link": func(stage, away string) error {
			return errors.Join(os.Rename(filepath.Join(stage, "data", "a", "b"), away), os.Symlink(away, filepath.Join(stage, "data", "a", "b")))
		},
		"data replaced": func(stage, away string) error {
			data := filepath.Join(stage, "data")
			return errors.Join(os.Rename(data, away), os.Mkdir(data, 0o777))
		},
		"all replaced": func(stage, away string) error {
			return errors.Join(os.Rename(stage, away), os.MkdirAll(filepath.Join(stage, "data"), 0o777))
		},
	} {
		for _, only := range []bool{false, true} {
			dir := t.TempDir()
			var opt store.PartialOptions
			if only {
				opt.Wanted = []bool{true, false}
			}
			p := openPart(t, dir, im.Manifest, opt)
			copyAll(t, p, im.Tree)
			_, err := p.Sync()
			check(t, err)
			check(t, vandal(filepath.Join(dir, "stuff.partial"), filepath.Join(dir, "away")))
			_, err = p.Finish(t.Context())
			got, e := os.ReadFile(filepath.Join(dir, "stuff", "a", "b", "big"))
			if err == nil && (e != nil || len(got) != 3*share.MinPiece) {
				t.Errorf("%s, a part of it wanted: %v: it is reported done, and has %d bytes: %v", name, only, len(got), e)
			}
			if info, e := os.Lstat(filepath.Join(dir, "stuff", "a", "b")); err == nil && (e != nil || !info.IsDir()) {
				t.Errorf("%s, a part of it wanted: %v: it is reported done, with %v, %v", name, only, info, e)
			}
			p.Close() // reports once more what is lost
		}
	}
}

// A folder of a share that was moved elsewhere, with a link in its place, is a change,
// not a temporary trouble.
func TestAFolderThatWasMovedOutOfASharedOneIsAChange(t *testing.T) {
	src, away := filepath.Join(t.TempDir(), "stuff"), filepath.Join(t.TempDir(), "away")
	tree{"a/b/f": "some"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	check(t, os.Rename(filepath.Join(src, "a"), away))
	check(t, os.Symlink(away, filepath.Join(src, "a")))
	if _, err := im.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Error(err)
	}
}

// A file in a folder of older versions may claim to be larger than any disk.
func TestAGiantIsNoOlderVersion(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "store-test-")
	if err != nil {
		t.Skip("no file system in memory here, and no other has such files")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"big": random(3 * share.MinPiece)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	for _, size := range []int64{1 << 62, 1<<63 - 1} {
		giant := filepath.Join(dir, "giant")
		check(t, os.WriteFile(giant, nil, 0o666))
		if err := os.Truncate(giant, size); err != nil {
			t.Skip(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			p, err := store.OpenPartial(ctx, t.TempDir(), im.Manifest, store.PartialOptions{Like: []string{dir}})
			if err == nil {
				p.Close()
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%d bytes: still looking", size)
		}
	}
}
