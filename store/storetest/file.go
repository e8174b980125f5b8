package storetest

import (
	"errors"
	"io"
	"io/fs"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// file is an open file.
type file struct {
	d     *Disk
	n     *node
	name  string
	life  int
	write bool

	closed bool // guarded by d.mu
}

func (f *file) begin(kind string) error {
	err := f.d.begin(kind, f.name, f.life)
	if err == nil && f.closed {
		err = &fs.PathError{Op: kind, Path: f.name, Err: fs.ErrClosed}
	}
	return err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("read"); err != nil {
		return 0, err
	}
	n := int(min(int64(len(b)), max(0, f.n.size-off)))
	for done := 0; done < n; {
		at := (off + int64(done)) / PageSize
		from := (off + int64(done)) % PageSize
		part := b[done:min(n, done+int(PageSize-from))]
		if page := f.n.page(at); page != nil {
			copy(part, page[from:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	defer f.d.mu.Unlock()
	err := f.begin("write")
	if errors.Is(err, ErrPower) || f.closed {
		return 0, err
	}
	if !f.write {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrPermission}
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	f.d.written(f.n)
	done := 0
	var fresh []page // for the pages that this write needs anew
	for done < len(b) {
		at, from := (off+int64(done))/PageSize, int((off+int64(done))%PageSize)
		part := b[done:min(len(b), done+PageSize-from)]
		old := f.n.page(at)
		if old == nil {
			if f.d.free < PageSize {
				return done, &fs.PathError{Op: "write", Path: f.name, Err: share.ErrDiskFull}
			}
			f.d.free -= PageSize
		}
		p := f.d.commonPage(part)
		common := p != nil
		if !common {
			p = old
			if old == nil || f.n.shared(at) {
				if len(fresh) == 0 {
					fresh = make([]page, min(chunkPages, (from+len(b)-done+PageSize-1)/PageSize))
				}
				p, fresh = &fresh[0], fresh[1:]
			}
			if p != old && old != nil {
				*p = *old
			}
			copy(p[from:], part)
		}
		f.n.put(at, p, common)
		done += len(part)
		f.n.size = max(f.n.size, off+int64(done))
	}
	return done, err
}

// CloneRange is for vfs.Clone. It takes room as a write does.
func (f *file) CloneRange(off int64, from vfs.File, fromOff, n int64) error {
	if f.d.Clone == nil {
		return errors.ErrUnsupported
	}
	b := make([]byte, n)
	if k, err := from.ReadAt(b, fromOff); int64(k) < n {
		return err
	}
	f.d.Clone(b)
	_, err := f.WriteAt(b, off)
	return err
}

func (f *file) Sync() error {
	defer f.d.mu.Unlock()
	err := f.begin("sync")
	if !errors.Is(err, ErrPower) && !f.closed {
		f.n.sync(err == nil)
	}
	return err
}

func (f *file) Stat() (vfs.Info, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("stat"); err != nil {
		return vfs.Info{}, err
	}
	return f.n.info(), nil
}

func (f *file) Close() error {
	defer f.d.mu.Unlock()
	err := f.d.begin("close", f.name, f.life)
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.life == f.d.life {
		f.d.open--
	}
	return err
}
