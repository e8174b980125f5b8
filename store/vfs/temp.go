package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"sync"

	"github.com/piecelease/fetcher/share"
)

// Temp is the folder of a State in which files are written before they get their
// name: temp/N, for the lowest N that no other process has locked. What lies in it when
// it is taken was left by a killed process, and is removed. A folder without a lock that
// is not empty, and files whose names are not numbers, are not ours, and stay.
type Temp struct {
	mu   sync.Mutex // guards the fields below
	dir  string
	lock io.Closer // nil: no folder is taken
	n    uint64    // names given
}

// Name is a name that nobody has used.
func (t *Temp) Name(d FS) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lock == nil {
		if err := t.take(d); err != nil {
			return "", err
		}
	}
	t.n++
	return fmt.Sprintf("%s/%d", t.dir, t.n), nil
}

// take takes a folder and empties it; mu is held.
func (t *Temp) take(d FS) error {
	if err := EnsureDir(d, "temp"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		dir := fmt.Sprintf("temp/%d", i)
		if err := EnsureDir(d, dir); err != nil {
			return err
		}
		if ours, err := isTemp(d, dir); err != nil {
			return err
		} else if !ours {
			continue
		}
		lock, err := d.Lock(path.Join(dir, "lock"))
		if errors.Is(err, share.ErrHeld) {
			continue
		}
		if err != nil {
			return err
		}
		if err := empty(d, dir); err != nil {
			lock.Close()
			return err
		}
		t.dir, t.lock = dir, lock
		return nil
	}
}

// isTemp says whether temp/N is a folder of ours, or an empty one.
func isTemp(d FS, dir string) (bool, error) {
	switch info, err := d.Lstat(path.Join(dir, "lock")); {
	case NotDir(err):
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return info.Type == 0, err
	}
	list, err := d.ReadDir(dir)
	return len(list) == 0, err
}

// empty removes from a folder the files that Name has named.
func empty(d FS, dir string) error {
	list, err := d.ReadDir(dir)
	for _, e := range list {
		if n, bad := strconv.ParseUint(e.Name, 10, 64); bad == nil && e.Name == strconv.FormatUint(n, 10) {
			err = errors.Join(err, RemoveFile(d, path.Join(dir, e.Name)))
		}
	}
	return err
}

// Close releases the folder. What is in it stays, until somebody takes it.
func (t *Temp) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lock == nil {
		return nil
	}
	err := t.lock.Close()
	t.lock = nil
	return err
}
