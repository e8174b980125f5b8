package store

import (
	"errors"
	"io/fs"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// stamped is a file of a share that must be what it was.
//
// A file that nobody touched is read as it is. If only its change time differs, it
// may still be what it was: renaming, linking or chmod sets that. It may also have
// been edited and given its old time back. So what is read of it is compared with
// its block hashes. It stays a part of the share until a block turns out to differ.
type stamped struct {
	m    *share.Manifest
	in   *vfs.Handles
	name string               // below in
	is   func(vfs.Stamp) bool // it is what it was
	like func(vfs.Stamp) bool // it may be what it was, if its blocks are
	open func() (vfs.File, error)
	ours bool  // we write to it ourselves, and it stays open for that
	size int64 // of one that is not ours
}

// stampedAs returns a file below in whose stamp was was.
func stampedAs(m *share.Manifest, in *vfs.Handles, name string, was vfs.Stamp) stamped {
	return stamped{m, in, name, was.Is, was.Like, func() (vfs.File, error) { return in.OpenSeen(name) }, false, was.Size}
}

// read reads bytes of the file: s.Len of them, or it is an error. proofOf returns the
// hashes of a piece's blocks.
func (f stamped) read(s share.Span, dst []byte, proofOf func(share.Piece) ([]share.Hash, error)) error {
	err := f.readIf(f.is, s, dst)
	if errors.Is(err, share.ErrChanged) {
		return f.readChecked(s, dst, proofOf)
	}
	return err
}

// readChecked reads blocks that may have changed.
func (f stamped) readChecked(s share.Span, dst []byte, proofOf func(share.Piece) ([]share.Hash, error)) error {
	l := f.m.Layout()
	buf := make([]byte, share.BlockSize)
	for done := 0; done < s.Len; {
		p, b := l.At(s.Entry, s.Offset+int64(done))
		whole := l.RunSpan(p, b, 1)
		if err := f.readLike(whole, buf); err != nil {
			return err
		}
		values, err := proofOf(p)
		if err != nil {
			return err
		}
		if f.m.BlockValue(p, b, buf[:whole.Len]) != values[b] {
			return f.changed(s.Entry, nil)
		}
		from := s.Offset + int64(done) - whole.Offset
		done += copy(dst[done:s.Len], buf[from:whole.Len])
	}
	return nil
}

// readLike reads what the caller checks.
func (f stamped) readLike(s share.Span, dst []byte) error { return f.readIf(f.like, s, dst) }

// readIf reads bytes of the file if it is the same, before and after.
func (f stamped) readIf(same func(vfs.Stamp) bool, s share.Span, dst []byte) error {
	if f.ours {
		if err := f.byName(same, s.Entry); err != nil {
			return err // openFile may make a file
		}
	}
	if s.Offset == 0 && int64(s.Len) == f.size { // it is read as a whole: it need not stay open, nor be looked for
		v, err := f.open()
		if err != nil {
			return f.unopened(same, s.Entry, err)
		}
		defer v.Close()
		return f.readOpen(v, same, s, dst)
	}
	fresh := false
	h, err := f.in.Files.Get(s.Entry, func() (vfs.File, error) { fresh = true; return f.open() })
	if err != nil {
		return f.unopened(same, s.Entry, err)
	}
	defer f.in.Files.Put(h)
	// A file that was opened by its name just now is the one of that name, and what it looks like
	// after it was read is what it looked like before.
	if !f.ours && !fresh {
		if err := f.byName(same, s.Entry); err != nil {
			return err
		}
	}
	return f.readOpen(h.V, same, s, dst)
}

// unopened is why the file could not be opened.
func (f stamped) unopened(same func(vfs.Stamp) bool, entry int, err error) error {
	if e := f.byName(same, entry); e != nil {
		return e // what is not a file cannot be opened
	}
	return f.changed(entry, err)
}

// readOpen reads bytes of the open file if it is the same after that.
func (f stamped) readOpen(v vfs.File, same func(vfs.Stamp) bool, s share.Span, dst []byte) error {
	n, err := v.ReadAt(dst[:s.Len], s.Offset)
	if info, err := v.Stat(); err != nil || info.Type != 0 || !same(info.Stamp()) {
		return f.changed(s.Entry, err)
	}
	if n < s.Len {
		return err
	}
	return nil
}

// byName checks the file by its name, so that one that was replaced is noticed though the old
// one is still open.
func (f stamped) byName(same func(vfs.Stamp) bool, entry int) error {
	if info, err := f.in.Lstat(f.name); err != nil || info.Type != 0 || !same(info.Stamp()) {
		return f.changed(entry, err)
	}
	return nil
}

// changed is the error for an entry that is not what it was. If the file cannot be
// checked for a passing reason, the error stays as it is.
func (f stamped) changed(entry int, err error) error {
	if !f.ours {
		f.in.Files.Drop(entry)
	}
	if err != nil && !gone(err) && !vfs.Blocked(f.in, f.name) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	return share.ErrChanged
}

var errGone = words.Error(share.ErrChanged, "it is not there any more")

// gone says whether an error means that the file is not there for us any more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || vfs.NotDir(err)
}
