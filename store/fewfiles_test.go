//go:build unix

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/store/vfs"
)

// narrow is a folder in a process that may have a few files open.
type narrow struct {
	vfs.FS
	open *atomic.Int32
	most int32
}

func (n narrow) Open(name string) (vfs.File, error) {
	if n.open.Add(1) > n.most {
		n.open.Add(-1)
		return nil, syscall.EMFILE
	}
	f, err := n.FS.Open(name)
	return narrowFile{f, n.open}, err
}

type narrowFile struct {
	vfs.File
	open *atomic.Int32
}

func (f narrowFile) Close() error {
	f.open.Add(-1)
	return f.File.Close()
}

// A process that may have fewer files open than it hashes at once opens some of them later.
func TestFilesAreHashedThoughFewMayBeOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const files = 4 * batchFiles
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at, err := vfs.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int32{1, 2} {
		top := narrow{shared{at}, new(atomic.Int32), batchFiles + workers - 2}
		h := &hashing{handles: vfs.NewHandles(top, 0), workers: int(workers), slots: &slotFile{}, progress: func(int64, int) {}}
		var whole atomic.Int32
		err := h.all(t.Context(), toHash{n: files, file: func(i int) aim {
			info, err := at.Lstat(fmt.Sprint(i))
			if err != nil {
				t.Error(err)
			}
			return aim{name: fmt.Sprint(i), stamp: info.Stamp()}
		}, done: func(_ int, f *hashed) {
			if f.err != nil {
				t.Error(f.err)
			}
			whole.Add(1)
		}})
		if err != nil || whole.Load() != files || top.open.Load() != 0 {
			t.Errorf("%d workers: %d files, %d still open: %v", workers, whole.Load(), top.open.Load(), err)
		}
	}
}
