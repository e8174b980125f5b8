package store

import (
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// writeAt writes to a file.
func (p *Partial) writeAt(s share.Span, data []byte) error {
	once := s.Offset == 0 && int64(len(data)) == p.m.Entry(s.Entry).Size
	if once {
		if done, err := p.writeNew(s.Entry, data); done {
			return err
		}
	}
	return p.change(s.Entry, once, func(f vfs.File) error {
		_, err := f.WriteAt(data, s.Offset)
		if _, pieces := p.m.Layout().PiecesOf(s.Entry); err == nil && pieces >= earlyEvery/share.MinPiece {
			if now := p.early.Add(int64(len(data))); now/earlyEvery != (now-int64(len(data)))/earlyEvery {
				vfs.BeginFlush(f)
			}
		}
		return err
	})
}

// earlyEvery is how many bytes are written to large files between two hints to begin
// writing them out. Small files are left to the sync of the whole file system.
const earlyEvery = 8 << 20

// change changes a file that nobody else has touched, or notes that somebody has. With once
// f writes all of the file.
func (p *Partial) change(entry int, once bool, f func(vfs.File) error) error {
	defer p.hold(entry)()
	isNew := false
	h, err := p.handles.Files.Get(entry, func() (vfs.File, error) {
		isNew = !p.isMade(entry)
		return p.openFile(entry)
	})
	if err == nil {
		defer p.handles.Files.Put(h)
		err = p.writing(entry)
	}
	if !isNew || err != nil {
		if e := p.inspect(entry); e != nil {
			return e // it may be why the file cannot be opened
		}
	}
	if err != nil {
		return err
	}
	err = f(h.V)
	p.wrote(entry, h.V, once && err == nil)
	return err
}

// wholeWrite is how many bytes a kill lets us write to a new file as a whole or not at all: those
// of a page. Such a file needs no mark before that: it is empty, or has the share's bytes.
const wholeWrite = 4 << 10

// writeNew makes a file with all its bytes, unless it is made already. It does not stay open:
// nobody will write it again.
func (p *Partial) writeNew(entry int, data []byte) (done bool, err error) {
	defer p.hold(entry)()
	if p.isMade(entry) {
		return false, nil
	}
	f, err := p.createFile(entry)
	if err != nil {
		return true, err
	}
	defer func() { p.closedFile(entry, f.Close()) }()
	if len(data) > wholeWrite {
		p.stampNew(entry, f)
		err = p.writing(entry)
	}
	if err == nil {
		_, err = f.WriteAt(data, 0)
		p.wrote(entry, f, err == nil)
	}
	return true, err
}
