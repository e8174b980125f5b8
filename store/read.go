package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// ReadAt reads bytes of an entry's file that the caller knows to be written, or
// to be here; blocks of a piece that is not complete are read as well. It returns
// how many bytes there were, with io.EOF if the file ends before dst is full.
func (p *Partial) ReadAt(entry int, dst []byte, off int64) (int, error) {
	if entry < 0 || entry >= p.m.Len() || p.m.Entry(entry).Kind != share.File || off < 0 {
		return 0, fmt.Errorf("read entry %d at %d: %w", entry, off, fs.ErrInvalid)
	}
	s, end := clip(p.m.Entry(entry).Size, off, len(dst))
	s.Entry = entry
	if s.Len == 0 {
		return 0, end
	}
	p.life.RLock()
	defer p.life.RUnlock()
	n, err := 0, error(nil)
	switch {
	case p.tree != nil:
		n, err = p.tree.read(s, dst)
	case p.over:
		err = fs.ErrClosed
	case p.isPlaced(entry) || p.handles == nil:
		n, err = p.readSpan(s, dst)
	default:
		n, err = p.readFresh(s, dst)
	}
	if err == nil {
		err = end
	}
	return n, err
}

// readFresh reads bytes of a file that is fetched; what is here of it may be in
// pieces that are not complete, of which no hashes are known. life is read-held.
func (p *Partial) readFresh(s share.Span, dst []byte) (int, error) {
	release := p.hold(s.Entry)
	if err := p.inspect(s.Entry); err != nil {
		release()
		return 0, err
	}
	if _, untouched := p.known(s.Entry); !untouched {
		release()
		return p.readSpan(s, dst) // or fail
	}
	defer release()
	h, err := p.handles.Files.Get(s.Entry, func() (vfs.File, error) { return p.openFile(s.Entry) })
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", p.m.Entry(s.Entry).Path, err)
	}
	defer p.handles.Files.Put(h)
	if n, err := h.V.ReadAt(dst[:s.Len], s.Offset); n < s.Len {
		return 0, fmt.Errorf("read %s: %w", p.m.Entry(s.Entry).Path, err)
	}
	if err := p.inspect(s.Entry); err != nil {
		return 0, err
	}
	if _, untouched := p.known(s.Entry); !untouched { // since the look before
		return 0, fmt.Errorf("read %s: %w", path.Join(p.m.Name, p.m.Entry(s.Entry).Path), share.ErrChanged)
	}
	return s.Len, nil
}

// clip returns the part of n bytes from off on that a file of size bytes has, with io.EOF if
// that is not all.
func clip(size, off int64, n int) (share.Span, error) {
	if left := max(0, size-off); int64(n) > left {
		return share.Span{Offset: off, Len: int(left)}, io.EOF
	}
	return share.Span{Offset: off, Len: n}, nil
}

// readSpan reads bytes from where an entry lies now; life is read-held.
func (p *Partial) readSpan(s share.Span, dst []byte) (int, error) {
	placed := p.isPlaced(s.Entry)
	if !placed && p.handles == nil {
		return 0, ErrNotYet
	}
	err := p.stamped(s.Entry).read(s, dst, p.proof)
	if err == nil {
		return s.Len, nil
	}
	if !placed && errors.Is(err, share.ErrChanged) {
		defer p.hold(s.Entry)()
		p.inspect(s.Entry) // the next Sync hashes it
	}
	return 0, fmt.Errorf("read %s: %w", path.Join(p.m.Name, p.m.Entry(s.Entry).Path), err)
}

// stamped returns the file of an entry, where it lies now; life is held. While it is
// fetched we change it ourselves, so only its blocks show whether it is right.
func (p *Partial) stamped(entry int) stamped {
	if p.isPlaced(entry) {
		return stampedAs(p.m, p.sel.out, p.m.Entry(entry).Path, p.sel.placed[entry])
	}
	return stamped{p.m, p.handles, p.file(entry),
		func(now vfs.Stamp) bool {
			m, ok := p.known(entry)
			return ok && m.Stamp.Is(now)
		},
		func(vfs.Stamp) bool { return true },
		func() (vfs.File, error) { return p.openFile(entry) }, true, 0}
}

// lookAtAll compares the sizes and times of the files in their place with what they were, as [Tree.Look] does.
func (p *Partial) lookAtAll() error {
	if err := p.lookAgain(); err != nil {
		return err
	}
	for i := range p.m.Len() {
		if err := p.lookAt(i); errors.Is(err, share.ErrChanged) {
			return fmt.Errorf("%s: %w", path.Join(p.m.Name, p.m.Entry(i).Path), err)
		}
	}
	return nil
}

// lookAgain is lookAgain for what is in its place.
func (p *Partial) lookAgain() error {
	p.life.RLock()
	defer p.life.RUnlock()
	switch {
	case p.tree != nil:
		return lookAgain(p.tree.handles, p.path)
	case p.sel.done && p.sel.out != nil:
		return lookAgain(p.sel.out, p.path)
	}
	return nil
}

// lookAt is lookAtAll for one entry. Others may go on in between.
func (p *Partial) lookAt(entry int) error {
	p.life.RLock()
	defer p.life.RUnlock()
	var f stamped
	switch {
	case p.m.Entry(entry).Kind != share.File:
		return nil
	case p.tree != nil:
		f = p.tree.stamped(entry)
	case p.sel.done && p.isPlaced(entry) && p.sel.out != nil:
		f = p.stamped(entry)
	default:
		return nil
	}
	return f.byName(f.like, entry)
}
