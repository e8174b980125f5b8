package daemon

import (
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/piecelease/fetcher/catalog"
)

// twoNames returns a folder that has a second name, by a mount, and a watch; told returns which entries it has told of a change since the last call.
func twoNames(t *testing.T) (one, again string, h *watch, told func() map[catalog.ID]bool) {
	t.Helper()
	one, again = t.TempDir(), t.TempDir()
	if err := syscall.Mount(one, again, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("NOT TESTED: a mount needs root:", err)
	}
	t.Cleanup(func() { syscall.Unmount(again, syscall.MNT_DETACH) })
	var mu sync.Mutex
	ids := map[catalog.ID]bool{}
	h, err := newWatch(func(id catalog.ID, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		ids[id] = true
	})
	must(t, err)
	t.Cleanup(h.close)
	return one, again, h, func() map[catalog.ID]bool {
		mu.Lock()
		defer mu.Unlock()
		out := ids
		ids = map[catalog.ID]bool{}
		return out
	}
}

// A change of a folder that is served by two names, one of them that of a second mount, is told of to both entries, and still to one when the
// other is removed.
func TestAChangeBehindASecondMountIsNoticed(t *testing.T) {
	t.Parallel()
	one, again, h, told := twoNames(t)
	all := map[catalog.ID]bool{}
	heard := func(id catalog.ID) bool {
		for range 100 {
			maps.Copy(all, told())
			if all[id] {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		return false
	}
	h.set(1, []string{one})
	h.set(2, []string{again})
	must(t, os.WriteFile(filepath.Join(again, "f"), []byte("x"), 0o600))
	for _, id := range []catalog.ID{1, 2} {
		if !heard(id) {
			t.Errorf("entry %d hears nothing", id)
		}
	}
	h.remove(1)
	told()
	clear(all)
	must(t, os.WriteFile(filepath.Join(again, "g"), []byte("x"), 0o600))
	if !heard(2) {
		t.Error("entry 2 hears nothing any more once the other is removed")
	}
}

// Two entries that cannot be served, for one folder that has two names, look out for changes, and each looks again when it hears of one, or after
// a while. That one has looked again is no change, or they would keep each other awake for ever, where nothing changes at all.
func TestEntriesOfAFolderWithTwoNamesDoNotWakeEachOtherForEver(t *testing.T) {
	t.Parallel()
	one, again, h, told := twoNames(t)
	must(t, os.WriteFile(filepath.Join(one, "f"), []byte("x"), 0o600))
	at := map[catalog.ID][]string{1: {one}, 2: {again}}
	for id, paths := range at {
		h.set(id, paths)
	}
	awake := map[catalog.ID]bool{1: true} // it has waited long enough
	looks := 0
	for ; len(awake) > 0 && looks < 20; looks++ {
		for id := range awake { // as a keeper does; see missing and lookOut
			h.remove(id)
			h.set(id, at[id])
		}
		awake = told()
	}
	if looks > 3 {
		t.Errorf("after they have looked %d times one is still told of a change", looks)
	}
}

// A folder that is moved and removed before its watcher hears of the first keeps everybody in the watcher waiting until the error of that is
// read, and whoever looks for folders to watch does not keep its reader from it.
func TestAFolderThatWasMovedAndRemovedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	src, other := t.TempDir(), t.TempDir()
	w, err := fsnotify.NewWatcher()
	must(t, err)
	h := watching(w, func(catalog.ID, bool) {}) // whose reader is this test
	must(t, os.Mkdir(filepath.Join(src, "a"), 0o700))
	h.set(7, []string{src})
	must(t, os.Rename(filepath.Join(src, "a"), filepath.Join(src, "b")))
	must(t, os.Remove(filepath.Join(src, "b")))
	<-w.Events // that there is no a
	<-w.Events // ... and a b; the error is next
	var sets atomic.Int64
	var over atomic.Bool
	var looks sync.WaitGroup
	looks.Go(func() {
		for !over.Load() {
			h.set(8, []string{other})
			sets.Add(1)
		}
	})
	for before := int64(-1); sets.Load() != before; time.Sleep(20 * time.Millisecond) {
		before = sets.Load()
	}
	told := make(chan bool)
	go func() {
		defer close(told)
		h.tell(src, false)
	}()
	select {
	case <-told:
	case <-time.After(5 * time.Second):
		t.Fatal("the reader waits for whoever looks for folders to watch")
	}
	over.Store(true)
	<-w.Errors
	looks.Wait()
	must(t, w.Close())
}
