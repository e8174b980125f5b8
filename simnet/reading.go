package simnet

import (
	"bytes"
	"errors"
	"time"

	"github.com/piecelease/fetcher/actors"
)

// Reading is somebody who reads a file of a share while it is fetched, and looks at
// every byte.
type Reading struct {
	f     *Fetch
	entry int
	path  string // where the content has the file
	at    int64
	to    int64
	began time.Duration
	first time.Duration // until the first bytes were there; 0: they are not
	took  time.Duration // until all were; 0: they are not
	err   error
}

// Read has somebody read n bytes of a file from off on, as they come. Only the
// worlds of simnet itself have readers.
func (f *Fetch) Read(entry int, off, n int64) *Reading {
	if f.x.net.tier != nil {
		panic("simnet: no readers in this tier")
	}
	e := f.c.Manifest.Entries[entry]
	r := &Reading{f: f, entry: entry, path: f.c.paths[entry], at: off, to: min(off+n, e.Size), began: f.x.net.Elapsed()}
	id := f.c.ID()
	f.x.program.BeginReading(id, actors.OpenReader{Path: e.Path, Ahead: readAhead}, func(o actors.ReaderOpened) {
		if r.err = o.Err; r.err != nil {
			return
		}
		if o.Entry != entry {
			f.x.net.ref.broken(f.x.id, "reader", "%q is entry %d, not %d", e.Path, o.Entry, entry)
		}
		r.goOn(actors.MoveReader{Reader: o.Reader, Ahead: readAhead})
	})
	return r
}

const readAhead = 4 << 20

// goOn waits for the next bytes, looks at them, and goes on.
func (r *Reading) goOn(m actors.MoveReader) {
	f, life := r.f, r.f.life
	m.Offset = r.at
	f.x.program.HearByte(f.c.ID(), m, func(ready actors.ReaderReady) {
		switch {
		case f.x.life != life || f.x.program == nil:
			r.err = errors.New("the node has gone")
			return
		case ready.Err != nil:
			r.err = ready.Err // ErrFinishing: the file is there
			return
		}
		now := f.x.net.Elapsed()
		if r.first == 0 {
			r.first = now - r.began
		}
		r.look(min(ready.End, r.to))
		if r.at < r.to {
			r.goOn(m)
			return
		}
		r.took = now - r.began
		f.x.program.CloseReader(f.c.ID(), m.Reader)
	})
}

// look compares the bytes up to end with those that were made.
func (r *Reading) look(end int64) {
	is, was := make([]byte, end-r.at), make([]byte, end-r.at)
	_, err := r.f.partial.ReadAt(r.entry, is, r.at)
	file, ferr := r.f.c.files.Open(r.path)
	must(ferr)
	_, ferr = file.ReadAt(was, r.at)
	must(ferr)
	must(file.Close())
	if err != nil || !bytes.Equal(is, was) {
		r.f.x.net.ref.broken(r.f.x.id, "reader", "bytes %d to %d of %s are not what they were: %v", r.at, end, r.path, err)
	}
	r.at = end
}

// Choose has entries of the share fetched from now on, or no more.
func (f *Fetch) Choose(wanted bool, entries ...int) {
	f.x.program.BeginChoice(f.c.ID(), entries, wanted)
}
