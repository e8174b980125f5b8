package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// What somebody has put into data, where a file of the share was before it got its place, stays: when the share is whole, and when
// that is found again, or given up, later.
func TestWhatOthersPutIntoDataStaysWhenTheShareIsFoundWhole(t *testing.T) {
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a": "some", "b": "other"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	for name, later := range map[string]func(dir string){
		"found again": func(dir string) {
			p := openPart(t, dir, im.Manifest, store.PartialOptions{})
			_, err := p.Finish(t.Context())
			check(t, err)
			check(t, p.Close())
		},
		"given up": func(dir string) {
			_, _, err := store.Discard(dir, im.Manifest)
			check(t, err)
		},
	} {
		dir := t.TempDir()
		p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: []bool{true, false}})
		copyAll(t, p, im.Tree)
		_, err := p.Finish(t.Context())
		check(t, err)
		check(t, p.Close())
		mine := filepath.Join(dir, "stuff.partial", "data", "a")
		check(t, os.WriteFile(mine, []byte("mine, precious"), 0o666))
		p = openPart(t, dir, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		_, err = p.Finish(t.Context())
		check(t, err)
		check(t, p.Close())
		if got, err := os.ReadFile(mine); string(got) != "mine, precious" {
			t.Errorf("%s: it is gone at the end: %q, %v", name, got, err)
		}
		later(dir)
		if got, err := os.ReadFile(mine); string(got) != "mine, precious" {
			t.Errorf("%s: it is gone: %q, %v", name, got, err)
		}
	}
}

// So it does in the run that began NAME.partial.
func TestWhatOthersPutIntoDataDuringARepairStays(t *testing.T) {
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": "some", "b": "other"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	tree{"a": "some"}.make(t, filepath.Join(dir, "stuff"))
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Repair: true})
	mine := filepath.Join(dir, "stuff.partial", "data", "a")
	check(t, os.WriteFile(mine, []byte("mine, precious"), 0o666))
	copyAll(t, p, im.Tree)
	_, err := p.Finish(t.Context())
	check(t, err)
	check(t, p.Close())
	if got, err := os.ReadFile(mine); string(got) != "mine, precious" {
		t.Errorf("it is gone: %q, %v", got, err)
	}
}

// What somebody has put into data while a fetch ran stays, though the system was started anew, in good order, after that.
func TestWhatOthersPutIntoDataStaysOverAReboot(t *testing.T) {
	l := newLostRig(t)
	check(t, vfs.WriteFile(l.d.FS(), "stuff.partial/data/small", "stuff.partial/x", []byte("mine"), true))
	check(t, l.p.Close())
	l.d.NoSyncAll = false
	check(t, l.d.FS().SyncAll())
	l.d.Restart(1)
	l.open()
	at := l.p.Aside()
	if len(at) != 1 {
		t.Fatalf("aside is %q", at)
	}
	if b, err := vfs.ReadFile(l.d.FS(), at[0], 100); string(b) != "mine" {
		t.Errorf("it holds %q, %v", b, err)
	}
}

// A file that was edited after a kill, in the middle of a write to it, is not removed if there is another kill after what was edited
// was found wrong, and before that was noted.
func TestAFileEditedBetweenTwoKillsIsNotRemoved(t *testing.T) {
	l := newLostRig(t)
	silent := func() { // no mark is written any more
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind == "write" && strings.HasSuffix(op.Name, "/marks") {
				return errDisk
			}
			return nil
		}
	}
	kill := func() {
		l.d.Fault = nil
		l.d.Kill()
	}
	l.write(0, 0, 15)
	marks := 0
	l.d.Fault = func(op storetest.Op) error {
		if op.Kind == "write" && strings.HasSuffix(op.Name, "/marks") {
			if marks++; marks > 1 {
				return errDisk // after the write
			}
		}
		return nil
	}
	l.write(0, 15, 16)
	l.complete(0)
	if n, err := l.p.Sync(); n != 1 {
		t.Fatal(n, err)
	}
	kill()
	const mine, second = "stuff.partial/data/big", int64(1e9)
	f, err := l.d.FS().Edit(mine)
	check(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("mine", share.MinPiece/4)), 0)
	check(t, err)
	l.d.SetMTime(mine, 10*second)
	l.open()
	at := append(l.p.Aside(), mine)
	silent()
	l.p.Sync() // what is in doubt is hashed
	kill()
	l.d.SetMTime("stuff.partial/marks", 20*second)
	l.open()
	at = append(l.p.Aside(), at...)
	b, err := vfs.ReadFile(l.d.FS(), at[0], 1<<30)
	if !strings.HasPrefix(string(b), "minemine") {
		t.Errorf("%s has %d bytes, %v", at[0], len(b), err)
	}
}
