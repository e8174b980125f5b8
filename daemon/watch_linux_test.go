package daemon

import (
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

// A change of a folder that is served by two names, one of them that of a second mount, is told of to both entries, and still to one when the
// other is removed.
func TestAChangeBehindASecondMountIsNoticed(t *testing.T) {
	t.Parallel()
	one, again := t.TempDir(), t.TempDir()
	if err := syscall.Mount(one, again, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("NOT TESTED: a mount needs root:", err)
	}
	t.Cleanup(func() { syscall.Unmount(again, syscall.MNT_DETACH) })
	var mu sync.Mutex
	told := map[catalog.ID]bool{}
	h, err := newWatch(func(id catalog.ID, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		told[id] = true
	})
	must(t, err)
	defer h.close()
	heard := func(id catalog.ID) bool {
		for range 100 {
			mu.Lock()
			is := told[id]
			mu.Unlock()
			if is {
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
	mu.Lock()
	clear(told)
	mu.Unlock()
	must(t, os.WriteFile(filepath.Join(again, "g"), []byte("x"), 0o600))
	if !heard(2) {
		t.Error("entry 2 hears nothing any more once the other is removed")
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
