package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"path"
	"slices"
	"sync"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// What is complete but not yet synced is lost in a power cut, and must not be
// believed after one. It survives the end of the process, though, even by
// kill -9: the system has the bytes and writes them in its own time. So the
// pieces that are here are noted, without a sync, together with the boot they
// were written under, and believed if the system is still in that boot.
//
//	recent.0, recent.1   boot ID, share ID, pieces that are here
//
// There are two, written in turn and in place: a kill may tear one, and
// replacing a file by its name would wait for the disk. Both are believed.
//
// A system that has no boot ID believes the durable bits only.

// booted is an FS that knows the boot: the ID stays the same for as long as what
// was written and not synced can still be read.
type booted interface{ BootID() string }

// bootOf is the present boot, or "".
func bootOf(d vfs.FS) string {
	if b, ok := d.(booted); ok {
		if id := b.BootID(); len(id) <= maxBootID {
			return id
		}
	}
	return ""
}

const (
	recentEvery = 2 << 20 // bytes completed between two notes
	recentCost  = 64      // ... and at least this many times the bytes of a note
	maxBootID   = 255
)

// recent is when the last note was written.
type recent struct {
	boot string

	mu    sync.Mutex  // one note at a time; guards the fields below
	bytes int64       // complete at the last note
	notes [2]vfs.File // nil: not open
	next  int         // the one to write

	renew []share.Piece // noted by earlier runs, without a bit; guarded by Partial.syncing
}

var recentNames = [2]string{"recent.0", "recent.1"}

// write puts a note in place of the older one.
func (r *recent) write(stage vfs.FS, b []byte) (err error) {
	f := &r.notes[r.next]
	if *f == nil {
		if *f, err = stage.Edit(recentNames[r.next]); err != nil {
			*f, err = stage.Create(recentNames[r.next], false)
		}
		if err != nil {
			*f = nil
			return err
		}
	}
	if _, err = (*f).WriteAt(b, 0); err == nil {
		r.next = 1 - r.next
	}
	return err
}

// close closes the files; mu is held, or nobody else is left.
func (r *recent) close() {
	for i, f := range r.notes {
		if f != nil {
			f.Close() // the notes are only a help
			r.notes[i] = nil
		}
	}
}

// noteRecent writes down what is here, now and then. A failure is retried with the
// next piece: the note is only a help.
func (p *Partial) noteRecent() {
	if p.recent.boot == "" || !p.recent.mu.TryLock() {
		return // another call does it
	}
	defer p.recent.mu.Unlock()
	p.mu.Lock()
	here, every := p.bytes, max(recentEvery, recentCost*int64(p.have.Len()/8))
	if here-p.recent.bytes < every {
		p.mu.Unlock()
		return
	}
	have := p.have.Clone()
	p.mu.Unlock()
	if err := p.slots.flush(); err != nil {
		return
	}
	p.marks.flush()
	b := append(recentHead(p.recent.boot, p.m.ID(), have.Len()), have.Bytes()...)
	if err := p.recent.write(p.stage, vfs.EncodeRecord(vfs.RecentRecord, b)); err == nil {
		p.recent.bytes = here
	}
}

// readRecent returns the pieces noted under the present boot.
func (p *Partial) readRecent() *share.Set {
	pieces := p.m.Layout().Pieces()
	head := recentHead(p.recent.boot, p.m.ID(), pieces)
	noted := share.NewSet(pieces)
	if p.recent.boot == "" {
		return noted
	}
	for _, name := range recentNames {
		set := p.readNote(name, head)
		if set == nil {
			vfs.RemoveFile(p.stage, name) // a longer one would show behind a new one
			continue
		}
		noted.Union(set)
	}
	return noted
}

// readNote returns the pieces of a note that begins with head; nil if there is none.
func (p *Partial) readNote(name string, head []byte) *share.Set {
	pieces := p.m.Layout().Pieces()
	b, err := vfs.ReadRecord(p.stage, name, vfs.RecentRecord, len(head)+(pieces+7)/8)
	if err != nil || !bytes.HasPrefix(b, head) {
		return nil
	}
	set, err := share.ParseSet(pieces, b[len(head):])
	if err != nil {
		return nil
	}
	return set
}

// recentHead is what stands before the set in the note.
func recentHead(boot string, id share.ID, pieces int) []byte {
	b := append([]byte{byte(len(boot))}, boot...)
	b = append(b, id.Bytes()...)
	return binary.LittleEndian.AppendUint32(b, uint32(pieces))
}

// dropRecent removes the notes: they name pieces that are lost. These could
// still be read, for a while, but no sync would write them.
func (p *Partial) dropRecent() (err error) {
	p.recent.mu.Lock()
	defer p.recent.mu.Unlock()
	p.recent.bytes = math.MinInt64 / 2 // the next piece brings a new one
	p.recent.close()
	if p.recent.boot != "" {
		for _, name := range recentNames {
			err = errors.Join(err, vfs.RemoveFile(p.stage, name))
		}
	}
	return err
}

// renewRecent writes anew what earlier runs have noted, so that the sync that follows makes it durable: one may have failed
// just before the kill. The next succeeds without these bytes then, which can still be read. What is not right is
// lost; what cannot be written is tried again by the next sync.
func (p *Partial) renewRecent(ctx context.Context) (err error) {
	var buf []byte
	p.recent.renew = slices.DeleteFunc(p.recent.renew, func(piece share.Piece) bool {
		if err == nil {
			err = cmp.Or(context.Cause(ctx), p.renewPiece(piece, &buf))
		}
		return err == nil || !p.has(piece)
	})
	return err
}

func (p *Partial) renewPiece(piece share.Piece, buf *[]byte) error {
	s := p.m.Layout().PieceSpan(piece)
	if !p.has(piece) || p.isPlaced(s.Entry) {
		return nil
	}
	err := p.change(s.Entry, false, func(f vfs.File) error {
		if _, right, _ := p.hashPiece(f, piece, buf); !right {
			p.mu.Lock()
			p.lose(piece)
			p.mu.Unlock()
			return nil
		}
		_, err := f.WriteAt((*buf)[:s.Len], s.Offset)
		return err
	})
	if err != nil {
		return p.writeError(s.Entry, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have.Has(piece) {
		p.batch.touched[piece] = struct{}{}
		p.batch.done = append(p.batch.done, piece)
	}
	return nil
}

// adoptRecent makes the next Sync make the noted pieces durable, except for those that
// have a bit. Notes of pieces whose file is not what it was are removed: it may have its
// old size again, though not its bytes, when they are read next.
func (p *Partial) adoptRecent(noted, bits *share.Set) error {
	untrue := false
	for piece := range noted.All() {
		if !p.have.Has(piece) {
			untrue = true
			continue
		}
		if bits.Has(piece) {
			continue
		}
		p.durable.Remove(piece)
		p.recent.renew = append(p.recent.renew, piece)
		p.batch.touched[piece] = struct{}{}
		p.newName(path.Dir(p.m.Entry(p.m.Layout().PieceSpan(piece).Entry).Path))
	}
	if untrue {
		return p.dropRecent()
	}
	return nil
}
