package daemon

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

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
