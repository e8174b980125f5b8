package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What is done to each of many small files is done here with the system's own calls: an
// os.Root and an os.File take twice as long for the same. They are what os.Root calls in the
// end: a name of one part, in an open folder, and a symlink is not followed.

// kept is a folder that stays open from the first use on. The zero value is not open yet.
type kept struct {
	mu   sync.RWMutex // held while dir is used
	dir  *os.File     // nil: not open
	over bool
}

// use calls f with the open folder.
func (k *kept) use(root *os.Root, f func(dir int) error) error {
	k.mu.RLock()
	if k.dir == nil {
		k.mu.RUnlock()
		if err := k.open(root); err != nil {
			return err
		}
		k.mu.RLock()
	}
	defer k.mu.RUnlock()
	if k.over {
		return os.ErrClosed
	}
	return f(int(k.dir.Fd()))
}

func (k *kept) open(root *os.Root) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return os.ErrClosed
	}
	if k.dir == nil {
		k.dir, err = root.OpenFile(".", onlyFolder, 0)
	}
	return err
}

func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over = true; k.dir != nil {
		k.dir.Close()
	}
}

// at calls f with the open folder that a name is in, and the last part of the name.
func (d dirFS) at(op, name string, f func(dir int, base string) error) error {
	i := strings.LastIndexByte(name, '/')
	base := name[i+1:]
	do := func(dir int) error {
		for {
			err := f(dir, base)
			if err == nil {
				return nil
			}
			if err != unix.EINTR {
				return d.told(&fs.PathError{Op: op, Path: name, Err: err})
			}
		}
	}
	switch {
	case base == "" || base == "." || base == "..":
		return d.told(&fs.PathError{Op: op, Path: name, Err: unix.EISDIR})
	case i < 0:
		return d.kept.use(d.root, do)
	}
	return d.withDir(name[:i], func(dir *os.File) error { return do(int(dir.Fd())) })
}

func (d dirFS) open(op, name string, flag int, perm fs.FileMode) (File, error) {
	out := &file{in: d.path, name: name, blind: d.blind}
	err := d.at(op, name, func(dir int, base string) (err error) {
		out.fd, err = unix.Openat(dir, base, flag|noWait|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm))
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (d dirFS) openSeen(name string) (File, error) { return d.open("open", name, os.O_RDONLY, 0) }

func (d dirFS) Lstat(name string) (Info, error) {
	if name == "." {
		fi, err := d.root.Lstat(name)
		if err != nil {
			return Info{}, d.told(err)
		}
		return infoOf(fi, d.blind), nil
	}
	var st unix.Stat_t
	err := d.at("lstat", name, func(dir int, base string) error {
		return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return Info{}, err
	}
	return infoOfStat(&st, d.blind), nil
}

// file is an open file.
type file struct {
	mu    sync.RWMutex // held while fd is used
	fd    int          // -1: closed
	in    string       // the folder, for errors
	name  string
	blind bool
}

// use calls f with the file's descriptor, again while it is interrupted.
func (f *file) use(op string, do func(fd int) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	err := error(os.ErrClosed)
	for f.fd >= 0 {
		if err = do(f.fd); err != unix.EINTR {
			break
		}
	}
	return f.told(op, err)
}

func (f *file) told(op string, err error) error {
	if err == nil {
		return nil
	}
	return full(&fs.PathError{Op: op, Path: filepath.Join(f.in, f.name), Err: err})
}

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		err = f.use("read", func(fd int) (err error) {
			m, err = unix.Pread(fd, b[n:], off+int64(n))
			return err
		})
		if n += max(m, 0); err == nil && m == 0 {
			err = io.EOF
		}
	}
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		err = f.use("write", func(fd int) (err error) {
			m, err = unix.Pwrite(fd, b[n:], off+int64(n))
			return err
		})
		if n += max(m, 0); err == nil && m == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (f *file) Stat() (Info, error) {
	var st unix.Stat_t
	if err := f.use("stat", func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return Info{}, err
	}
	return infoOfStat(&st, f.blind), nil
}

func (f *file) Sync() error { return f.use("sync", unix.Fsync) }

// Flush leaves the disk's own cache alone, which syncing each of many files would
// not.
func (f *file) Flush() error {
	return f.use("sync_file_range", func(fd int) error {
		err := unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
			err = unix.Fsync(fd)
		}
		return err
	})
}

// Close waits for what is under way. Whatever it returns, the file is closed.
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return f.told("close", os.ErrClosed)
	}
	err := unix.Close(f.fd)
	if f.fd = -1; err == unix.EINTR { // it is closed all the same
		return nil
	}
	return f.told("close", err)
}
