package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

// editBack overwrites a byte of a file and gives the file its old time back.
func editBack(t testing.TB, name string, at int64) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	f.ReadAt(b, at)
	b[0]++
	f.WriteAt(b, at)
	f.Close()
	if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func needsChangeTimes(t testing.TB) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("no change times here")
	}
}

// An edited file is not served, even with its old size and time. The share ends at the
// edit, and the file is named.
func TestAnEditWithTheTimeSetBackIsNoticedWhileServing(t *testing.T) {
	needsChangeTimes(t)
	dir := filepath.Join(t.TempDir(), "stuff")
	tree{"a": "aaa", "b": random(3 * share.BlockSize), "c": "ccc"}.make(t, dir)
	im := importDir(t, dir, store.ImportOptions{})
	o := store.NewOffers()
	var told []string
	o.OnGone(func(_ share.ID, why string) { told = append(told, why) })
	o.Add(im.Tree)
	editBack(t, filepath.Join(dir, "b"), 2*share.BlockSize+5)
	b, _ := im.Manifest.Layout().PiecesOf(1)
	buf := make([]byte, 3*share.BlockSize)
	if n, r := o.ReadRun(im.Manifest.ID(), b, 0, 2, buf); n != 2*share.BlockSize || r.Status != wire.OK {
		t.Error("blocks that are as they were:", n, r)
	}
	if n, r := o.ReadRun(im.Manifest.ID(), b, 0, 3, buf); n != 0 || r.Status != wire.Gone {
		t.Error("a block that is not:", n, r)
	}
	if len(told) != 1 || !strings.Contains(told[0], "stuff/b") {
		t.Errorf("told %q", told)
	}
}

// Renamed and back, linked, or given other permissions, a file stays part of the share.
func TestAFileOfWhichOnlyTheInodeChangedIsServed(t *testing.T) {
	needsChangeTimes(t)
	dir := filepath.Join(t.TempDir(), "stuff")
	content := random(3*share.BlockSize + 7)
	tree{"a": content}.make(t, dir)
	name := filepath.Join(dir, "a")
	for what, touch := range map[string]func() error{
		"permissions": func() error { return os.Chmod(name, 0o640) },
		"link":        func() error { return os.Link(name, name+".link") },
		"rename": func() error {
			return errors.Join(os.Rename(name, name+".x"), os.Rename(name+".x", name))
		},
	} {
		t.Run(what, func(t *testing.T) {
			im := importDir(t, dir, store.ImportOptions{})
			at, _ := im.Manifest.Layout().PiecesOf(0)
			o := store.NewOffers()
			o.OnGone(func(_ share.ID, why string) { t.Error("gone:", why) })
			o.Add(im.Tree)
			if err := touch(); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, len(content))
			if n, r := o.ReadRun(im.Manifest.ID(), at, 0, 4, buf); r.Status != wire.OK || string(buf[:n]) != content {
				t.Error(n, r)
			}
		})
	}
}

// readParts reads an entry of a share that is done, in steps of an odd length.
func readParts(p *store.Partial, entry int) (string, error) {
	var out []byte
	buf := make([]byte, 50_001)
	for {
		n, err := p.ReadAt(entry, buf, int64(len(out)))
		out = append(out, buf[:n]...)
		if err == io.EOF {
			return string(out), nil
		}
		if err != nil {
			return string(out), err
		}
	}
}

// The same for what was fetched, for a whole share and for a part of one; also
// where block hashes cannot be kept.
func TestAFetchedFileOfWhichOnlyTheInodeChangedIsRead(t *testing.T) {
	testrig.Slow(t)
	content := random(share.MinPiece + 3*share.BlockSize + 7)
	r := newRig(t, tree{"a": content, "b": "bbb"})
	for what, wanted := range map[string][]bool{"all": nil, "part": only(r.m, "a")} {
		for _, lost := range []bool{false, true} {
			d := storetest.New(1 << 30)
			p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Wanted: wanted})
			if err != nil {
				t.Fatal(err)
			}
			if err := copyWanted(p, r.im.Tree, wanted); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Finish(context.Background()); err != nil {
				t.Fatal(err)
			}
			if lost && wanted != nil { // of a part they lie in NAME.partial
				p.Close()
				if err := d.FS().Remove("stuff.partial/hashes"); err != nil {
					t.Fatal(err)
				}
				if p, err = store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Wanted: wanted}); err != nil {
					t.Fatal(err)
				}
			}
			info, _ := d.FS().Lstat("stuff/a")
			d.SetMTime("stuff/a", info.MTime)
			if got, err := readParts(p, 0); err != nil || got != content {
				t.Errorf("%s, hashes lost %v: %d bytes, %v", what, lost, len(got), err)
			}
			f, _ := d.FS().Edit("stuff/a")
			f.WriteAt([]byte{content[100_000] + 1}, 100_000)
			f.Close()
			d.SetMTime("stuff/a", info.MTime)
			if got, err := readParts(p, 0); !errors.Is(err, share.ErrChanged) || len(got) > 100_000 {
				t.Errorf("%s, hashes lost %v: edited: %d bytes, %v", what, lost, len(got), err)
			}
			p.Close()
		}
	}
}

// An edit with the time set back makes another share, also after a restart; other
// permissions only cause the file to be read again.
func TestAnEditWithTheTimeSetBackIsAnotherShare(t *testing.T) {
	needsChangeTimes(t)
	dir, state := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": random(1000), "b": random(2000), "c": random(4000)}.make(t, dir)
	again := func(what string, hashed int64) share.ID {
		t.Helper()
		im := importDir(t, dir, store.ImportOptions{State: openState(t, state)})
		if im.Hashed != hashed {
			t.Errorf("%s: %d bytes hashed, want %d", what, im.Hashed, hashed)
		}
		return im.Manifest.ID()
	}
	first := again("new", 7000)
	if again("unchanged", 0) != first {
		t.Error("unchanged, and another share")
	}
	os.Chmod(filepath.Join(dir, "a"), 0o640)
	if again("other permissions", 1000) != first {
		t.Error("other permissions, and another share")
	}
	editBack(t, filepath.Join(dir, "b"), 7)
	if again("edited", 2000) == first {
		t.Error("edited, and the same share")
	}
	again("unchanged again", 0)
}

// What was fetched is known, and not hashed when it is shared or fetched again:
// the change times that a transfer itself causes are recorded when it has caused them.
func TestWhatWasFetchedIsNotHashedWhenSharedOrFetchedAgain(t *testing.T) {
	for what, tr := range map[string]tree{
		"folder": {"a": random(1000), "run*": random(2000)},
		"file":   {"one": random(3000)},
		"part":   {"a": random(1000), "run*": random(2000), "b": random(500)},
	} {
		t.Run(what, func(t *testing.T) {
			src, dst, state := filepath.Join(t.TempDir(), "stuff"), t.TempDir(), t.TempDir()
			tr.make(t, src)
			if what == "file" {
				src = filepath.Join(src, "one")
			}
			im := importDir(t, src, store.ImportOptions{})
			selections := [][]bool{nil}
			if what == "part" {
				selections = [][]bool{only(im.Manifest, "a", "run"), nil}
			}
			for _, wanted := range selections {
				p := openPart(t, dst, im.Manifest, store.PartialOptions{State: openState(t, state), Wanted: wanted})
				if err := copyWanted(p, im.Tree, wanted); err != nil {
					t.Fatal(err)
				}
				if _, err := p.Finish(context.Background()); err != nil {
					t.Fatal(err)
				}
				p.Close()
			}
			target := filepath.Join(dst, im.Manifest.Name)
			again := importDir(t, target, store.ImportOptions{State: openState(t, state)})
			if again.Hashed != 0 || again.Manifest.ID() != im.Manifest.ID() {
				t.Errorf("shared: %d bytes hashed", again.Hashed)
			}
		})
	}
}

// The files of a part that lie at the target are hashed in the next run only if
// they may have changed; one that has is in the way, and not believed.
func TestAnEditOfAPlacedFileIsNoticedByTheNextRun(t *testing.T) {
	r := newRig(t, tree{"a": random(1000), "b": random(2000), "c": "c"})
	d := storetest.New(1 << 30)
	reads := 0
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "read" && strings.HasPrefix(op.Name, "stuff/") {
			reads++
		}
		return nil
	}
	fetch := func(paths ...string) error {
		reads = 0
		wanted := only(r.m, paths...)
		p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Wanted: wanted, Workers: 1})
		if err != nil {
			return err
		}
		defer p.Close()
		if err := copyWanted(p, r.im.Tree, wanted); err != nil {
			return err
		}
		_, err = p.Finish(context.Background())
		return err
	}
	touch := func(name string, edit bool) {
		info, err := d.FS().Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		if edit {
			f, _ := d.FS().Edit(name)
			f.WriteAt([]byte("edited"), 7)
			f.Close()
		}
		d.SetMTime(name, info.MTime)
	}
	step := func(what string, want int, paths ...string) {
		t.Helper()
		if err := fetch(paths...); err != nil || reads != want {
			t.Errorf("%s: %d reads, want %d: %v", what, reads, want, err)
		}
	}
	step("first", 0, "a", "b")
	step("again", 0, "a", "b")
	touch("stuff/a", false)
	step("touched", 1, "a", "b")
	step("known again", 0, "a", "b")
	step("one more", 0, "a", "b", "c")
	touch("stuff/b", true)
	if err := fetch("b"); !errors.Is(err, share.ErrExists) {
		t.Error("edited and wanted:", err)
	}
	step("edited and not wanted", 1, "a")
}

// Records of the previous version have no change times. They are not misread: the
// files that they name are hashed, and taken if they are the share's.
func TestOlderNotesAreNotMisread(t *testing.T) {
	testrig.Slow(t)
	im, src := sampleShare(t)
	dir, state := t.TempDir(), t.TempDir()
	fetchOnly(t, dir, im, "a", "many")
	note := filepath.Join(dir, "stuff.partial", "placed")
	older(t, note, 36, 28)
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	want := 0
	for i, e := range im.Manifest.Entries() {
		if strings.HasPrefix(e.Path, "a/") || strings.HasPrefix(e.Path, "many/") {
			_, n := im.Manifest.Layout().PiecesOf(i)
			want += n
		}
	}
	if n := p.Verified().Count(); n != want {
		t.Errorf("%d pieces verified, want %d", n, want)
	}
	copyAll(t, p, im.Tree)
	at, err := p.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, at, src)

	importDir(t, src, store.ImportOptions{State: openState(t, state)})
	list, _ := filepath.Glob(filepath.Join(state, "imports", "*"))
	older(t, list[0], 2+len(src)+36, 24)
	again := importDir(t, src, store.ImportOptions{State: openState(t, state)})
	if all := im.Manifest.Layout().Bytes(); again.Hashed != all || again.Manifest.ID() != im.Manifest.ID() {
		t.Errorf("%d of %d bytes hashed", again.Hashed, all)
	}
	if again := importDir(t, src, store.ImportOptions{State: openState(t, state)}); again.Hashed != 0 {
		t.Errorf("then %d bytes hashed", again.Hashed)
	}
}

// older turns a record into one of version 1: without the change time, which is 16
// bytes before the end of each of its items. They begin after head and have size
// bytes.
func older(t testing.TB, name string, head, size int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	payload := b[16 : len(b)-32]
	old := append([]byte("fetr\x01"), b[5:8]...)
	kept := append([]byte(nil), payload[:head]...)
	for items := payload[head:]; len(items) > 0; items = items[size:] {
		kept = append(append(kept, items[:size-16]...), items[size-8:size]...)
	}
	old = append(binary.LittleEndian.AppendUint64(old, uint64(len(kept))), kept...)
	sum := blake3.Sum256(old)
	if err := os.WriteFile(name, append(old, sum[:]...), 0o666); err != nil {
		t.Fatal(err)
	}
}
