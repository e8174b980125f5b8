//go:build !linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
)

// kept is nothing here: see file_linux.go.
type kept struct{}

func (*kept) close() {}

// sight is nothing here: see sight_linux.go.
type sight struct{}

func sightOf(*os.Root) *sight                     { return nil }
func (*sight) below(fs.FileInfo, *os.Root) *sight { return nil }
func (*sight) same(*sight) bool                   { return false }
func (*sight) see(*os.File)                       {}
func (*sight) syncAll(*os.File) error             { return errors.ErrUnsupported }

func (d dirFS) open(op, name string, flag int, perm fs.FileMode) (File, error) {
	name, err := local(op, name)
	if err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, flag|noWait, perm)
	if err != nil {
		return nil, d.told(err)
	}
	return osFile{f}, nil
}

func (d dirFS) openSeen(name string) (File, error) { return d.Open(name) }

func (d dirFS) Lstat(name string) (Info, error) {
	name, err := local("lstat", name)
	if err != nil {
		return Info{}, err
	}
	fi, err := d.root.Lstat(name)
	if err != nil {
		return Info{}, d.told(err)
	}
	return infoOf(fi), nil
}

type osFile struct {
	*os.File
}

func (f osFile) Flush() error { return flush(f.File) }

func (f osFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	return n, Full(err)
}

func (f osFile) Sync() error  { return Full(f.File.Sync()) }
func (f osFile) Close() error { return Full(f.File.Close()) }

func (f osFile) Stat() (Info, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(fi), nil
}
