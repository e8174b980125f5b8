package vfs

import (
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// askAtOnce is how many names of a folder one goroutine asks about, at least.
const askAtOnce = 128

// list asks whether a file may be read instead of opening it: two system calls for
// each file instead of seven. It asks about many on all cores.
func (d dirFS) list(want func(name string) bool) (out []Listed, err error) {
	err = d.withDir(".", func(dir *os.File) error {
		names, err := dir.Readdirnames(-1)
		if err != nil {
			return err
		}
		out = make([]Listed, len(names))
		for i, name := range names {
			out[i] = Listed{DirEntry: DirEntry{Name: name}, Left: !want(name)}
		}
		fd := int(dir.Fd())
		ask := func(part []Listed) {
			for i := range part {
				if l := &part[i]; !l.Left && !l.ask(fd, d.on) {
					l.Name = "" // it is gone
				}
			}
		}
		var others sync.WaitGroup
		for part := range slices.Chunk(out, max(askAtOnce, len(out)/runtime.GOMAXPROCS(0)+1)) {
			if len(part) == len(out) {
				ask(part)
				break
			}
			others.Go(func() { ask(part) })
		}
		others.Wait()
		out = slices.DeleteFunc(out, func(l Listed) bool { return l.Name == "" })
		return nil
	})
	return out, err
}

// ask fills in what the folder open as dir says of a name, if there is one.
func (l *Listed) ask(dir int, on *sight) (there bool) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, l.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		l.Info = on.of(infoOfStat(&st))
		if l.Type = l.Info.Type; l.Type == 0 {
			err = unix.Faccessat(dir, l.Name, unix.R_OK, unix.AT_EACCESS)
		}
	}
	if err != nil && err != unix.ENOENT {
		l.Err = &fs.PathError{Op: "open", Path: l.Name, Err: err}
	}
	return err != unix.ENOENT
}

func infoOfStat(st *unix.Stat_t) Info {
	return Info{
		Type:  typeOfMode(st.Mode),
		Size:  st.Size,
		MTime: st.Mtim.Nano(),
		CTime: st.Ctim.Nano(),
		Inode: st.Ino,
		Links: int(st.Nlink),
		Exec:  st.Mode&0o100 != 0,
		Room:  st.Blocks * 512,
	}
}

func typeOfMode(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}
