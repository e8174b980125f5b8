package daemon

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/catalog"
)

// Two entries that cannot be served, for one folder that has two names, look out for changes, and each looks again when it hears of one, or after
// a while. That one has looked again is no change, or they would keep each other awake for ever, where nothing changes at all.
func TestEntriesOfAFolderWithTwoNamesDoNotWakeEachOtherForEver(t *testing.T) {
	t.Parallel()
	one, again := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(one, "f"), []byte("x"), 0o600))
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
		mu.Lock()
		awake, told = told, map[catalog.ID]bool{}
		mu.Unlock()
	}
	if looks > 3 {
		t.Errorf("after they have looked %d times one is still told of a change", looks)
	}
}
