package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/piecelease/fetcher/share"
)

// dirFS is a folder of this machine.
type dirFS struct {
	root    *os.Root
	path    string   // of it, for errors
	private bool     // what is made here is for its owner alone
	all     *os.File // what SyncAll is called on; nil: opened for it
	on      *sight   // the file system
	kept    *kept    // the folder, open for what is done in it by name
}

// Dir is the folder at path, which must exist. A path that is a symlink is
// followed; nothing below it leads out.
func Dir(path string) (FS, error) {
	root, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	return dirFS{root: root, path: path, on: sightOf(root), kept: new(kept)}, nil
}

// Moved says whether an open folder is not the one at its path any more, as far as that can be told.
func Moved(d FS) bool {
	o, ok := d.(dirFS)
	if !ok {
		return false
	}
	open, err := o.root.Stat(".")
	if err != nil {
		return false
	}
	there, err := os.Stat(o.path)
	return errors.Is(err, fs.ErrNotExist) || NotDir(err) || err == nil && !os.SameFile(open, there)
}

// openRoot is os.OpenRoot, but checks first that path is a folder: opening a named pipe,
// for one, waits for a writer, and there may never be one.
func openRoot(path string) (*os.Root, error) {
	fi, err := os.Stat(path)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// PrivateDir is Dir, but what is made below it is for its owner alone.
func PrivateDir(path string) (FS, error) {
	root, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	return dirFS{root: root, path: path, private: true, on: new(sight), kept: new(kept)}, nil
}

// ErrNotPrivate says that others may use what is to be its owner's alone.
var ErrNotPrivate = errors.New("others may use it")

// Confine takes from others what they may do with a file and mode does not say. Where they may still read it or write to it
// after that, as on a disk that keeps no permissions, it is ErrNotPrivate.
func Confine(path string, mode fs.FileMode) error {
	for again := false; ; again = true {
		fi, err := os.Stat(path)
		if err != nil || runtime.GOOS == "windows" || fi.Mode().Perm()&^mode&0o066 == 0 {
			return err
		}
		if again {
			return ErrNotPrivate
		}
		os.Chmod(path, fi.Mode().Perm()&mode) // what it did is looked at
	}
}

func (d dirFS) Close() error {
	if d.all != nil {
		d.all.Close()
	}
	d.kept.close()
	return d.root.Close()
}

// HoldSync returns d with a SyncAll that reports every error from now on. On a folder opened
// only later, it would miss errors that were reported to another process.
func HoldSync(d FS) FS {
	if dir, ok := d.(dirFS); ok && dir.all == nil {
		if f, err := dir.root.Open("."); err == nil {
			dir.all = f
			return dir
		}
	}
	return d
}

// BootID names the present boot and mount: what was written under it and not
// synced can be read until it ends. It is empty where that cannot be known.
func (d dirFS) BootID() (id string) {
	d.withDir(".", func(f *os.File) error { id = bootID(f); return nil })
	return id
}

// DiskID names the file system: another one that is mounted in its place has another. It is 0 where that cannot be known, and
// stays the same as long as the file system exists.
func (d dirFS) DiskID() (id uint64) {
	d.withDir(".", func(f *os.File) error { id = diskID(f); return nil })
	return id
}

// SameDisk says whether two folders are known to be on the same file system, of which SyncAll makes all durable.
func SameDisk(a, b FS) bool {
	x, ok := a.(interface{ SameDisk(FS) bool })
	return ok && x.SameDisk(b)
}

// SameDisk is for the function of that name.
func (d dirFS) SameDisk(as FS) bool {
	x, ok := as.(dirFS)
	return ok && d.on.same(x.on)
}

// Full gives the errors of the system that mean a full disk, or a quota that is used up, their class.
func Full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || isFull(err) {
		return fmt.Errorf("%w: %w", share.ErrDiskFull, err)
	}
	return err
}

// told returns an error of root with the whole path in it, and marked if it means a full disk.
func (d dirFS) told(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		err = &fs.PathError{Op: e.Op, Path: d.whole(e.Path), Err: e.Err}
	case *os.LinkError:
		err = &os.LinkError{Op: e.Op, Old: d.whole(e.Old), New: d.whole(e.New), Err: e.Err}
		if errors.Is(e.Err, fs.ErrPermission) { // to write to the folder of the new name
			err = &fs.PathError{Op: "write", Path: filepath.Dir(d.whole(e.New)), Err: e.Err}
		}
	}
	return Full(err)
}

func (d dirFS) whole(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.path, name)
}

// local is name as this system writes it. It refuses what the system would read
// as something else, such as a device or another separator.
func local(op, name string) (string, error) {
	if runtime.GOOS != "windows" {
		return name, nil
	}
	l, err := filepath.Localize(name)
	if err != nil {
		return "", &fs.PathError{Op: op, Path: name, Err: share.ErrPath}
	}
	return l, nil
}

// regular refuses what is not a file: a named pipe or a device may never answer.
func regular(op, name string, info Info) error {
	if info.Type == 0 {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("it is a %s, not a file", Special(info.Type))}
}

// exists opens a file that exists. It is checked before it is opened, and again after,
// as it may be a different one by then.
func (d dirFS) exists(op, name string, flag int) (File, error) {
	info, err := d.Lstat(name)
	if err == nil {
		err = d.told(regular(op, name, info))
	}
	if err != nil {
		return nil, err
	}
	f, err := d.open(op, name, flag, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = d.told(regular(op, name, info))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d dirFS) Open(name string) (File, error) { return d.exists("open", name, os.O_RDONLY) }
func (d dirFS) Edit(name string) (File, error) { return d.exists("edit", name, os.O_RDWR) }

func (d dirFS) Create(name string, exec bool) (File, error) {
	perm := fs.FileMode(0o666)
	if exec {
		perm = 0o777
	}
	return d.open("create", name, os.O_RDWR|os.O_CREATE|os.O_EXCL, d.perm(perm))
}

// perm is the permissions of something new, before the umask.
func (d dirFS) perm(all fs.FileMode) fs.FileMode {
	if d.private {
		return all & 0o700
	}
	return all
}

func infoOf(fi fs.FileInfo) Info {
	return Info{
		Type:  fi.Mode().Type(),
		Size:  fi.Size(),
		MTime: fi.ModTime().UnixNano(),
		CTime: ctimeOf(fi),
		Inode: inodeOf(fi),
		Links: linksOf(fi),
		Exec:  HasExec && fi.Mode()&0o100 != 0,
		Room:  roomOf(fi),
	}
}

// HasExec says whether this system's files have an executable bit.
const HasExec = runtime.GOOS != "windows"

func (d dirFS) ReadDir(name string) ([]DirEntry, error) {
	name, err := local("readdir", name)
	if err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, onlyFolder, 0)
	if err != nil {
		return nil, d.told(err)
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	out := make([]DirEntry, len(list))
	for i, e := range list {
		out[i] = DirEntry{e.Name(), e.Type()}
	}
	return out, err
}

func (d dirFS) Readlink(name string) (string, error) {
	name, err := local("readlink", name)
	if err != nil {
		return "", err
	}
	target, err := d.root.Readlink(name)
	return filepath.ToSlash(target), d.told(err)
}

func (d dirFS) Mkdir(name string) error {
	name, err := local("mkdir", name)
	if err != nil {
		return err
	}
	return d.told(d.root.Mkdir(name, d.perm(0o777)))
}

func (d dirFS) Symlink(target, name string) error {
	name, err := local("symlink", name)
	if err != nil {
		return err
	}
	return d.told(d.root.Symlink(filepath.FromSlash(target), name))
}

func (d dirFS) SetExec(name string) error {
	if !HasExec {
		return nil
	}
	fi, err := d.root.Lstat(name)
	if err != nil || fi.Mode()&0o100 != 0 {
		return d.told(err)
	}
	perm := fi.Mode().Perm()
	return d.told(d.root.Chmod(name, perm|perm&0o444>>2|0o100))
}

func (d dirFS) Remove(name string) error {
	name, err := local("remove", name)
	if err != nil {
		return err
	}
	return d.told(d.root.Remove(name))
}

func (d dirFS) Rename(from, to string) error {
	from, err := local("rename", from)
	if err != nil {
		return err
	}
	to, err = local("rename", to)
	if err != nil {
		return err
	}
	return d.told(d.root.Rename(from, to))
}

func (d dirFS) Move(from, to string) error {
	from, err := local("rename", from)
	if err != nil {
		return err
	}
	to, err = local("rename", to)
	if err != nil {
		return err
	}
	err = d.moveNoReplace(from, to)
	if !errors.Is(err, errors.ErrUnsupported) {
		return d.told(err)
	}
	return d.told(d.moveByLook(from, to))
}

// moveByLook is for file systems that cannot rename without replacing. A file can
// be linked, which never replaces. A folder cannot; between the check and the
// rename only an empty folder could be replaced.
func (d dirFS) moveByLook(from, to string) error {
	if fi, err := d.root.Lstat(from); err == nil && fi.Mode().IsRegular() {
		switch err := d.root.Link(from, to); {
		case err == nil:
			return d.root.Remove(from)
		case errors.Is(err, fs.ErrExist):
			return err
		}
	}
	_, err := d.root.Lstat(to)
	if err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.root.Rename(from, to)
}

// withDir calls f with an open folder.
func (d dirFS) withDir(name string, f func(*os.File) error) error {
	name, err := local("open", name)
	if err != nil {
		return err
	}
	dir, err := d.root.OpenFile(name, onlyFolder, 0)
	if err != nil {
		return d.told(err)
	}
	defer dir.Close()
	return f(dir)
}

func (d dirFS) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be synced there; NTFS journals names itself
	}
	return d.told(d.withDir(name, func(f *os.File) error {
		err := f.Sync()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF) || errors.Is(err, errors.ErrUnsupported) {
			return nil // nor there: the file system has no sync of folders
		}
		return err
	}))
}

func (d dirFS) SyncAll() error {
	if d.all != nil {
		return d.told(d.on.syncAll(d.all))
	}
	return d.told(d.withDir(".", d.on.syncAll))
}

func (d dirFS) Free() (free int64, err error) {
	err = d.withDir(".", func(f *os.File) (err error) { free, err = freeOn(f); return })
	return free, err
}

func (d dirFS) Sub(name string) (FS, error) {
	name, err := local("open", name)
	if err != nil {
		return nil, err
	}
	fi, err := d.root.Stat(name)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, d.told(err)
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, d.told(err)
	}
	on := d.on
	if !d.private {
		on = on.below(fi, root)
	}
	return dirFS{root: root, path: filepath.Join(d.path, name), private: d.private, on: on, kept: new(kept)}, nil
}

func (d dirFS) Lock(name string) (io.Closer, error) {
	name, err := local("lock", name)
	if err != nil {
		return nil, err
	}
	for {
		f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|noWait, d.perm(0o666))
		if err != nil {
			return nil, d.told(err)
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", d.whole(name), err)
		}
		// Whoever held it may have removed the file before unlocking it: then this
		// lock is on nothing.
		have, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			there, err = d.root.Lstat(name)
			switch {
			case err != nil:
			case !there.Mode().IsRegular():
				err = fmt.Errorf("lock %s: it is a %s, not a file", d.whole(name), Special(there.Mode().Type()))
			case os.SameFile(have, there):
				d.on.see(f)
				return lock{f}, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, d.told(err)
		}
	}
}

// lock is a file that is locked.
type lock struct{ f *os.File }

func (l lock) Close() error { return errors.Join(unlockFile(l.f), l.f.Close()) }
