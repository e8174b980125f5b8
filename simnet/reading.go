package simnet

import (
	"bytes"
	"errors"
	"time"

	"github.com/piecelease/fetcher/actors"
)

// Reading is a reader of a file of a share while it is fetched, who checks
// every byte.
type Reading struct {
	f     *Fetch
	entry int
	path  string // where the content has the file
	at    int64
	to    int64
	began time.Duration
	first time.Duration // until the first bytes were there; 0: not yet
	took  time.Duration // until all were; 0: not yet
	err   error
}

// Read begins to read n bytes of a file from off on, as they come.
func (f *Fetch) Read(entry int, off, n int64) *Reading {
	e := f.c.Manifest.Entry(entry)
	r := &Reading{f: f, entry: entry, path: f.c.paths[entry], at: off, to: min(off+n, e.Size), began: f.x.net.Elapsed()}
	f.x.host.Read(r)
	return r
}

// ReadAhead is how many bytes a Reading requests ahead of its position.
const ReadAhead = 4 << 20

// Of is the fetch that is read from, Path the file's path in the share, and Left the
// bytes that are still to be read.
func (r *Reading) Of() *Fetch             { return r.f }
func (r *Reading) Path() string           { return r.f.c.Manifest.Entry(r.entry).Path }
func (r *Reading) Left() (from, to int64) { return r.at, r.to }

// First is how long it took until the first bytes were there, and Took until all
// were; 0: not yet. Err is why no more can be read.
func (r *Reading) First() time.Duration { return r.first }
func (r *Reading) Took() time.Duration  { return r.took }
func (r *Reading) Err() error           { return r.err }

// Got is for a Host: the next bytes were read.
func (r *Reading) Got(is []byte) {
	f := r.f
	now := f.x.net.Elapsed()
	if r.first == 0 {
		r.first = now - r.began
	}
	was := make([]byte, len(is))
	file, err := f.c.files.Open(r.path)
	must(err)
	_, err = file.ReadAt(was, r.at)
	must(errors.Join(err, file.Close()))
	end := r.at + int64(len(is))
	if !bytes.Equal(is, was) {
		f.x.net.ref.broken(f.x.id, "reader", "bytes %d to %d of %s, as read, are not those that were shared", r.at, end, r.path)
	}
	if r.at = end; r.at == r.to {
		r.took = now - r.began
	}
}

// Failed is for a Host: no more can be read.
func (r *Reading) Failed(err error) { r.err = err }

// Read implements Host.
func (m modelled) Read(r *Reading) {
	e := r.f.c.Manifest.Entry(r.entry)
	m.program.BeginReading(r.f.handle, actors.OpenReader{Path: e.Path}, func(o actors.ReaderOpened) {
		if r.err = o.Err; r.err != nil {
			return
		}
		if o.Entry != r.entry {
			m.net.ref.broken(m.id, "reader", "%q was opened as entry %d; it is entry %d", e.Path, o.Entry, r.entry)
		}
		r.goOn(actors.MoveReader{Reader: o.Reader, Ahead: ReadAhead})
	})
}

// goOn waits for the next bytes, checks them, and continues.
func (r *Reading) goOn(m actors.MoveReader) {
	f, life := r.f, r.f.life
	m.Offset = r.at
	f.x.program.HearByte(f.handle, m, func(ready actors.ReaderReady) {
		switch {
		case f.x.life != life || f.x.program == nil:
			r.err = errors.New("the node has gone")
			return
		case ready.Err != nil:
			r.err = ready.Err // ErrFinishing: the file is there
			return
		}
		is := make([]byte, min(ready.End, r.to)-r.at)
		if _, err := f.partial.ReadAt(r.entry, is, r.at); err != nil {
			f.x.net.ref.broken(f.x.id, "reader", "%s at %d: %v", r.path, r.at, err)
		}
		r.Got(is)
		if r.at < r.to {
			r.goOn(m)
			return
		}
		f.x.program.CloseReader(f.handle, m.Reader)
	})
}

// Choose adds entries of the share to what is fetched, or removes them.
func (f *Fetch) Choose(wanted bool, entries ...int) {
	f.x.host.Choose(f, wanted, entries)
}

// Choose implements Host.
func (m modelled) Choose(f *Fetch, wanted bool, entries []int) {
	m.program.BeginChoice(f.handle, entries, wanted)
}
