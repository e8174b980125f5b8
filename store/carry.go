package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Below the target there may be a mount point. What belongs behind one cannot be moved there: it is copied into the
// folder where it belongs, compared with its hash, made durable, and moved to its place from there. That some of it is
// copied is noted in NAME.partial: what a killed run has left of that is removed by the next.

// carriedNote is a file in NAME.partial, there once something was to be copied.
const carriedNote = "carried"

// carries notes that something is to be copied.
func (p *Partial) carries() error {
	if p.sel.carried {
		return nil
	}
	f, err := p.stage.Create(carriedNote, false)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	p.sel.carried = true
	if err == nil {
		f.Close()
	}
	return nil
}

// dropCopies removes what a killed run has left. What cannot be removed is in nobody's way.
func (p *Partial) dropCopies() {
	if _, err := p.stage.Lstat(carriedNote); err != nil {
		return
	}
	p.sel.carried = true
	for i, e := range p.m.Entries() {
		switch e.Kind {
		case share.File:
			vfs.RemoveFile(p.dir, p.beside(i))
		case share.Symlink:
			if target, err := p.dir.Readlink(p.beside(i)); err == nil && target == e.Target {
				p.dir.Remove(p.beside(i))
			}
		}
	}
}

// beside is where the copy of an entry lies until it is complete. The name has the ID of the share, and so is no other
// program's.
func (p *Partial) beside(entry int) string {
	return path.Join(p.m.Name, path.Dir(p.m.Entry(entry).Path), fmt.Sprintf(".%s.%d.new", p.m.ID(), entry))
}

// carryFile puts a file, which looks like was, in its place on another file system. There may be reads while it is copied.
func (p *Partial) carryFile(ctx context.Context, entry int, was vfs.Stamp) error {
	to := p.beside(entry)
	if err := p.carries(); err != nil {
		return err
	}
	if err := vfs.RemoveFile(p.dir, to); err != nil {
		return err
	}
	from := path.Join(p.staging, "data", p.m.Entry(entry).Path)
	st, err := p.copyFile(ctx, entry, from, to)
	if err == nil {
		err = p.moveFile(entry, to, st)
	}
	if err != nil {
		return errors.Join(err, vfs.RemoveFile(p.dir, to))
	}
	if info, err := p.dir.Lstat(from); err == nil && info.Stamp() == was { // not what others put there while it was copied
		p.dir.Remove(from) // what stays of it goes with NAME.partial
	}
	return nil
}

// copyFile makes a durable copy of a file, and fails if it is not what belongs into the share.
func (p *Partial) copyFile(ctx context.Context, entry int, from, to string) (st vfs.Stamp, err error) {
	e := p.m.Entry(entry)
	src, err := p.dir.Open(from)
	if err != nil {
		return st, err
	}
	defer src.Close()
	dst, err := p.dir.Create(to, e.Exec)
	if err != nil {
		return st, err
	}
	defer dst.Close()
	var hashes []share.Hash
	buf := make([]byte, min(e.Size, 1<<share.PieceExp(e.Size)))
	for off := int64(0); off < e.Size; off += int64(len(buf)) {
		if err := context.Cause(ctx); err != nil {
			return st, err
		}
		b := buf[:min(int64(len(buf)), e.Size-off)]
		if n, err := src.ReadAt(b, off); n < len(b) {
			if err == io.EOF {
				err = errTouched
			}
			return st, err
		}
		if _, err := dst.WriteAt(b, off); err != nil {
			return st, err
		}
		_, h := share.HashPiece(nil, b, off, e.Size == int64(len(b)))
		hashes = append(hashes, h)
	}
	if share.FileRoot(hashes) != e.Root {
		return st, errTouched
	}
	if err := dst.Sync(); err != nil {
		return st, err
	}
	info, err := dst.Stat()
	return info.Stamp(), err
}

// carryLink puts the symlink of an entry in the place of another, on another file system.
func (p *Partial) carryLink(entry int) error {
	e, at := p.m.Entry(entry), p.beside(entry)
	if err := p.carries(); err != nil {
		return err
	}
	if err := p.dir.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.dir.Symlink(e.Target, at); err != nil {
		return err
	}
	err := p.moveOver(entry, at, path.Join(p.m.Name, e.Path))
	if err != nil {
		p.dir.Remove(at)
	}
	return err
}
