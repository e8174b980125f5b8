package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/piecelease/fetcher/share"
)

// FS is every operation on a disk: on one folder and what lies below it. Dir
// is the real one; package storetest has one that fails and forgets.
//
// Names are slash-separated and relative, "." is the folder itself, and no name
// leads out of it, not even through a symlink. Errors are those of io/fs
// (fs.ErrNotExist, fs.ErrExist, ...); those that mean a full disk wrap
// share.ErrDiskFull. All methods may be called concurrently.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create makes a file for reading and writing; fs.ErrExist if the name is taken.
	Create(name string, exec bool) (File, error)
	// Edit opens a file that exists for reading and writing.
	Edit(name string) (File, error)
	// Lstat describes a name; a symlink is not followed.
	Lstat(name string) (Info, error)
	// ReadDir lists a folder, in no order.
	ReadDir(name string) ([]DirEntry, error)
	// Readlink returns a symlink's target, slash-separated.
	Readlink(name string) (string, error)
	Mkdir(name string) error
	Symlink(target, name string) error
	// SetExec lets everyone who may read the file execute it.
	SetExec(name string) error
	// Remove removes a file, a symlink or an empty folder.
	Remove(name string) error
	// Rename moves a file and replaces what is there.
	Rename(from, to string) error
	// Move moves a file or folder; fs.ErrExist if the name is taken.
	Move(from, to string) error
	// SyncDir makes the names in a folder durable, as far as the file system can.
	SyncDir(name string) error
	// SyncAll makes everything on the file system durable, or wraps errors.ErrUnsupported.
	SyncAll() error
	// Sub is the folder name as an FS of its own, to be closed.
	Sub(name string) (FS, error)
	// Lock takes a lock file, creating it if need be, until the lock is closed or
	// the process ends. It never waits: the error wraps share.ErrHeld when
	// somebody has it.
	Lock(name string) (io.Closer, error)
	// Free returns the number of bytes that still fit, -1 if that cannot be known.
	Free() (int64, error)
	Close() error
}

// File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the bytes and the size durable, though not the name. When it
	// fails, what was written since the last Sync may be gone for good.
	Sync() error
	Stat() (Info, error)
}

// Info describes a file.
type Info struct {
	Type  fs.FileMode // the type bits only
	Size  int64       // bytes
	MTime int64       // nanoseconds since 1970
	CTime int64       // when the inode last changed, in units of its own; 0 where that is not known, negative where no time can be relied on
	Inode uint64      // 0 where there is none
	Links int         // names that the file has; 0 where that is not known
	Exec  bool        // the owner's x
	Room  int64       // bytes that it takes on the disk; 0 where that is not known

	NoExec bool // no file on that disk can have an x: that there is none says nothing
}

// Unseen is i where times do not show every change.
func (i Info) Unseen() Info {
	i.CTime = -max(i.CTime, 1, -i.CTime)
	return i
}

// Flush writes out what was changed of a file through a mapping. A later change then shows
// in the file's times; without it, a change of the same page does not. Where that cannot be done,
// Stat says from then on that no time can be relied on. It makes nothing durable.
func Flush(f File) error {
	if f, ok := f.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// DirEntry is one name in a folder.
type DirEntry struct {
	Name string
	Type fs.FileMode // the type bits only
}

// Stamp recognises a file that was not touched since it was taken.
type Stamp struct {
	Size  int64
	MTime int64
	CTime int64
	Inode uint64
}

// Stamp returns a stamp that recognises the file until somebody touches it.
func (i Info) Stamp() Stamp { return Stamp{i.Size, i.MTime, i.CTime, i.Inode} }

// Is says whether nobody touched the file. Where no time can be relied on it never does.
func (s Stamp) Is(now Stamp) bool { return s == now && s.CTime >= 0 }

// Still says whether nobody touched the file as far as its times tell, even where they cannot be relied on, and that
// may be known of only one of the two.
func (s Stamp) Still(now Stamp) bool {
	if s.CTime < 0 != (now.CTime < 0) {
		now.CTime = -now.CTime
	}
	return s == now
}

// Renumbered says whether it may be the same file with another inode number: some file systems make the numbers up (FAT, exFAT, some that a
// program is behind). A file has one name there; and where no change time is kept, it is that of the last write once the number is another.
// Or another file was put in its place, and given its time.
func (s Stamp) Renumbered(now Info) bool {
	return now.Type == 0 && now.Links <= 1 && s.renumbered(now.Stamp())
}

func (s Stamp) renumbered(now Stamp) bool {
	if now.Inode = s.Inode; now.CTime == now.MTime {
		now.CTime = s.CTime
	}
	return s.Still(now)
}

// Like says whether at most the change time differs: the file was renamed,
// linked or given other permissions; or it was edited, and its time set back. Or it may have another inode number.
func (s Stamp) Like(now Stamp) bool {
	if s.renumbered(now) {
		return true
	}
	now.CTime = s.CTime
	return s == now
}

// How coarse a file's time may be: a file touched twice within that can look
// untouched. A time of whole seconds may be from a file system that has only whole, or
// only even, seconds.
const (
	mtimeGrain  = 20 * time.Millisecond
	coarseGrain = 2 * time.Second
)

// SettlesIn returns how long it takes until every later change of a file shows in its times.
func (s Stamp) SettlesIn(now time.Time) time.Duration {
	written := s.MTime
	if s.CTime > 0 {
		written = min(written, s.CTime) // no write leaves a later one: it was made up
	}
	return max(settlesIn(written, now), settlesIn(s.CTime, now))
}

func settlesIn(t int64, now time.Time) time.Duration {
	grain := mtimeGrain
	if t%int64(time.Second) == 0 {
		grain = coarseGrain
	}
	age := max(0, now.Sub(time.Unix(0, t))) // it may be by a clock that is ahead of ours
	return max(0, grain-age)
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(d FS, name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: share.ErrLimit}
	}
	b := make([]byte, info.Size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF && n == len(b) {
		err = nil
	}
	return b[:n], err
}

// WriteFile puts b under name whole or not at all: written beside it, synced if
// durable is wanted, and renamed. The temporary name is the caller's own.
func WriteFile(d FS, name, temp string, b []byte, durable bool) (err error) {
	if err := d.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.Create(temp, false)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		d.Remove(temp)
		return err
	}
	if durable {
		return d.SyncDir(path.Dir(name))
	}
	return nil
}

// EnsureDir makes a folder unless it exists.
func EnsureDir(d FS, name string) error {
	if err := d.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// RemoveFile removes a file. It is no error if there is none, and what is not a file stays.
func RemoveFile(d FS, name string) error {
	info, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Type != 0 {
		return nil
	}
	if err == nil {
		err = d.Remove(name)
	}
	return err
}

// Special names the kind of something that is not a file.
func Special(t fs.FileMode) string {
	switch {
	case t.IsDir():
		return "folder"
	case t&fs.ModeNamedPipe != 0:
		return "named pipe"
	case t&fs.ModeSocket != 0:
		return "socket"
	case t&fs.ModeSymlink != 0:
		return "symlink"
	case t&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
