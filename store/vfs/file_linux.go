package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// What is done to each of many small files is done here with the system's own calls: an
// os.Root and an os.File take twice as long for the same. They are what os.Root calls in the
// end: a name of one part, in an open folder, and a symlink is not followed.

// descriptor is an open one that several may use at once. The last of them closes it: a disk that
// does not answer keeps nobody from closing what is on it.
type descriptor struct {
	mu    sync.Mutex
	fd    int
	users int
	over  bool // closed, or to be closed by the last user
}

// use calls do, again while it is interrupted.
func (d *descriptor) use(do func(fd int) error) error {
	d.mu.Lock()
	if d.over {
		d.mu.Unlock()
		return os.ErrClosed
	}
	d.users++
	fd := d.fd
	d.mu.Unlock()
	defer d.unused()
	return again(func() error { return do(fd) })
}

// again calls do until it is not interrupted.
func again(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}

func (d *descriptor) unused() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.over && d.users == 0 {
		unix.Close(d.fd)
	}
}

func (d *descriptor) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return os.ErrClosed
	}
	if d.over = true; d.users > 0 {
		return nil
	}
	if err := unix.Close(d.fd); err != unix.EINTR { // it is closed all the same
		return err
	}
	return nil
}

// kept is a folder that stays open from the first use on. The zero value is not open yet.
type kept struct {
	mu   sync.Mutex
	dir  *descriptor // nil: not open
	over bool
}

// use calls f with the open folder.
func (k *kept) use(root *os.Root, f func(dir int) error) error {
	k.mu.Lock()
	dir := k.dir
	k.mu.Unlock()
	if dir == nil {
		var err error
		if dir, err = k.open(root); err != nil {
			return err
		}
	}
	return dir.use(f)
}

func (k *kept) open(root *os.Root) (*descriptor, error) {
	f, err := root.OpenFile(".", onlyFolder, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.over:
		return nil, os.ErrClosed
	case k.dir == nil:
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		k.dir = &descriptor{fd: fd}
	}
	return k.dir, nil
}

func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over = true; k.dir != nil {
		k.dir.close()
	}
}

// at calls f with the open folder that a name is in, and the last part of the name.
func (d dirFS) at(op, name string, f func(dir int, base string) error) error {
	i := strings.LastIndexByte(name, '/')
	base := name[i+1:]
	do := func(dir int) error {
		err := f(dir, base)
		if err == nil || err == unix.EINTR {
			return err
		}
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	switch {
	case base == "" || base == "." || base == "..":
		return d.told(&fs.PathError{Op: op, Path: name, Err: unix.EISDIR})
	case i < 0:
		return d.told(d.kept.use(d.root, do))
	}
	return d.withDir(name[:i], func(dir *os.File) error {
		return d.told(again(func() error { return do(int(dir.Fd())) }))
	})
}

func (d dirFS) open(op, name string, flag int, perm fs.FileMode) (File, error) {
	out := &file{in: d.path, name: name, on: d.on, late: d.on.kind == fuse && flag&unix.O_ACCMODE == os.O_RDONLY}
	err := d.at(op, name, func(dir int, base string) (err error) {
		out.of.fd, err = unix.Openat(dir, base, flag|noWait|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm))
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
		return d.on.of(infoOf(fi)), nil
	}
	var st unix.Stat_t
	err := d.at("lstat", name, func(dir int, base string) error {
		return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return Info{}, err
	}
	return d.on.of(infoOfStat(&st)), nil
}

// file is an open file.
type file struct {
	of    descriptor
	in    string // the folder, for errors
	name  string
	on    *sight
	blind atomic.Bool // this one's times do not show every change; see Flush
	late  bool        // times show a change through a mapping only once it is written out. Not so for a file that is written to: to write it out would hide errors from Sync
}

func (f *file) use(op string, do func(fd int) error) error { return f.told(op, f.of.use(do)) }

func (f *file) told(op string, err error) error {
	if err == nil {
		return nil
	}
	return Full(&fs.PathError{Op: op, Path: filepath.Join(f.in, f.name), Err: err})
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
	if f.late {
		if err := f.Flush(); err != nil {
			return Info{}, err
		}
	}
	var st unix.Stat_t
	if err := f.use("stat", func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return Info{}, err
	}
	info := f.on.of(infoOfStat(&st))
	if f.blind.Load() {
		info = info.Unseen()
	}
	return info, nil
}

func (f *file) Sync() error { return f.use("sync", unix.Fsync) }

// Close closes the file, whatever it returns: at once, or once what is under way has ended.
func (f *file) Close() error { return f.told("close", f.of.close()) }
