package vfs

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"
)

// Of returns an io/fs.FS as a read-only FS: what would change it fails with
// errors.ErrUnsupported. The times of its files are not relied on. It stays the caller's.
func Of(f fs.FS) FS { return readOnly{f} }

type readOnly struct{ fs.FS }

var errReadOnly = errors.ErrUnsupported

func plainInfo(i fs.FileInfo) Info {
	out := Info{Type: i.Mode().Type(), Size: i.Size(), CTime: -1, Exec: i.Mode()&0o100 != 0}
	if t := i.ModTime(); t.After(time.Unix(0, 0)) {
		out.MTime = t.UnixNano()
	}
	return out
}

func (r readOnly) Open(name string) (File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	at, _ := f.(io.ReaderAt)
	return &readOnlyFile{fs: r.FS, name: name, at: at, f: f}, nil
}

func (r readOnly) Lstat(name string) (Info, error) {
	i, err := fs.Lstat(r.FS, name)
	if err != nil {
		return Info{}, err
	}
	return plainInfo(i), nil
}

func (r readOnly) ReadDir(name string) ([]DirEntry, error) {
	list, err := fs.ReadDir(r.FS, name)
	var out []DirEntry
	for _, e := range list {
		out = append(out, DirEntry{e.Name(), e.Type()})
	}
	return out, err
}

func (r readOnly) Readlink(name string) (string, error) { return fs.ReadLink(r.FS, name) }

func (r readOnly) Sub(name string) (FS, error) {
	d, err := fs.Sub(r.FS, name)
	return readOnly{d}, err
}

func (readOnly) Create(string, bool) (File, error)       { return nil, errReadOnly }
func (readOnly) Edit(string) (File, error)               { return nil, errReadOnly }
func (readOnly) Mkdir(string) error                      { return errReadOnly }
func (readOnly) Symlink(string, string) error            { return errReadOnly }
func (readOnly) SetExec(string) error                    { return errReadOnly }
func (readOnly) Remove(string) error                     { return errReadOnly }
func (readOnly) Rename(string, string) error             { return errReadOnly }
func (readOnly) Move(string, string) error               { return errReadOnly }
func (readOnly) SyncDir(string) error                    { return errReadOnly }
func (readOnly) SyncAll() error                          { return errReadOnly }
func (readOnly) Lock(string) (io.Closer, error)          { return nil, errReadOnly }
func (readOnly) Free() (int64, error)                    { return -1, nil }
func (readOnly) Close() error                            { return nil }
func (*readOnlyFile) WriteAt([]byte, int64) (int, error) { return 0, errReadOnly }
func (*readOnlyFile) Sync() error                        { return errReadOnly }

// readOnlyFile reads a file at any place. If the file cannot do that itself, it is sought in,
// or reopened and read from its beginning.
type readOnlyFile struct {
	fs   fs.FS
	name string
	at   io.ReaderAt // nil: it cannot be read at any place

	mu  sync.Mutex // guards the fields below
	f   fs.File
	pos int64
}

func (r *readOnlyFile) ReadAt(p []byte, off int64) (int, error) {
	if r.at != nil {
		return r.at.ReadAt(p, off)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.seek(off); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r.f, p)
	r.pos += int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func (r *readOnlyFile) seek(off int64) error {
	if off == r.pos {
		return nil
	}
	if s, ok := r.f.(io.Seeker); ok {
		pos, err := s.Seek(off, io.SeekStart)
		r.pos = pos
		return err
	}
	if off < r.pos {
		f, err := r.fs.Open(r.name)
		if err != nil {
			return err
		}
		r.f.Close()
		r.f, r.pos = f, 0
	}
	n, err := io.CopyN(io.Discard, r.f, off-r.pos)
	r.pos += n
	return err
}

func (r *readOnlyFile) Stat() (Info, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.f.Stat()
	if err != nil {
		return Info{}, err
	}
	return plainInfo(i), nil
}

func (r *readOnlyFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.f.Close()
}
