package store

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// A share of which only some files are wanted is finished file by file: each is
// moved from NAME.partial/data to its place below NAME when all of them are there.
// NAME.partial stays and says what was moved, so that a later transfer that wants
// more goes on from there. Once NAME exists in this way, the rest is put into it
// file by file as well; after the last one NAME.partial is removed.
//
//	placed   which files lie below NAME, and what they looked like then
//
// The note is durable before the target is created. A file that it names is
// below NAME and looks as noted, or is still in data, or is no longer ours.
// Anything else below NAME is ignored, and what is in the way of a file is
// never replaced.

// selection is what is wanted of a share, and what of it lies at the target.
type selection struct {
	wanted []bool // by entry; nil: all. Guarded by Partial.mu

	// Written with Partial.life held, read with it read-held.
	wrong  map[int]vfs.Stamp // by entry: what stands at the target and is to be replaced, as it looked then
	placed map[int]vfs.Stamp // by entry: files below the target
	exec   execKnown         // whether the target keeps executable bits
	out    *vfs.Handles      // the target's folder; nil while there is none
	done   bool              // all that was wanted lies there

	made    map[int]vfs.Stamp // by entry: files and links that this run has put at the target, one by one
	renamed bool              // ... which it has made of all of data at once
	here    bool              // something of the share was here when it was opened

	carried bool // some of it lies on another file system than NAME.partial

	dirty map[string]struct{} // folders below the target with names that may not be durable
}

// Select says which entries are wanted from now on; nil is all of them. Need and
// Finish are about those.
func (p *Partial) Select(wanted []bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sel.wanted = wantedOf(p.m, wanted)
}

// wantedOf is wanted, or nil if that is everything.
func wantedOf(m *share.Manifest, wanted []bool) []bool {
	if wanted == nil || m.Single() || !slices.Contains(wanted, false) {
		return nil
	}
	return slices.Clone(wanted)
}

// wants says whether an entry is wanted.
func (p *Partial) wants(entry int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sel.wanted == nil || p.sel.wanted[entry]
}

// missing returns how many bytes are wanted and not here; mu is held.
func (p *Partial) missing() (bytes int64) {
	l := p.m.Layout()
	if p.sel.wanted == nil {
		return l.Bytes() - p.bytes
	}
	for i, wanted := range p.sel.wanted {
		if !wanted {
			continue
		}
		for piece := range l.EachOf(i) {
			if !p.have.Has(piece) {
				bytes += int64(l.PieceLen(piece))
			}
		}
	}
	return bytes
}

// Lies says whether a file of the share lies in its place at the target, when all that is wanted does.
func (p *Partial) Lies(entry int) bool {
	p.life.RLock()
	defer p.life.RUnlock()
	return p.tree != nil || p.isPlaced(entry)
}

// isWhole says whether all of the share lies at the target if what is wanted does: the rest was put there by earlier runs, whose names
// may not be durable, and nobody has touched it since.
func (p *Partial) isWhole() bool {
	through := p.throughLinks()
	for i, e := range p.m.Entries() {
		if p.wants(i) {
			continue
		}
		info, err := p.sel.out.Lstat(e.Path)
		was, there := p.sel.placed[i]
		there = there && info.Type == 0 && was.Is(info.Stamp())
		if err == nil && e.Kind != share.File {
			there, err = p.isThere(e, info)
		}
		if err != nil || !there || through(e.Path) != "" {
			return false
		}
		p.madeName(e.Path)
	}
	return true
}

// takeThere takes what is in the place of a wanted file as it is, if it is what it is in the share: it may have become wanted only when
// what was there had been looked at, or was put there since. Else it is in the way. What data has of it looks like ready.
func (p *Partial) takeThere(ctx context.Context, entry int, info vfs.Info, ready vfs.Stamp, way *inTheWay) (same bool, err error) {
	e := p.m.Entry(entry)
	st, same, err := p.hashPlaced(ctx, entry, info)
	switch {
	case err != nil:
		return false, err
	case same && (info.Exec == e.Exec || info.NoExec || !p.keepsExec()):
		return true, p.dropFile(entry, ready, func() { p.put(entry, st) })
	case p.opt.Wanted == nil || p.opt.Wanted[entry]:
		way.block(e.Path, p.sinceFound(entry, info))
	case !replaceable(info, e):
		way.block(e.Path, ofAnotherKind(info, e.Kind))
	default:
		way.add(e.Path, "is there already, and differs")
	}
	return false, nil
}

// dropFile removes what data has of a file that is in its place, and has done note that. What does not look like was any more stays: others have put it there.
func (p *Partial) dropFile(entry int, was vfs.Stamp, done func()) error {
	p.life.Lock()
	defer p.life.Unlock()
	p.handles.Files.Drop(entry)
	at := path.Join(p.staging, "data", p.m.Entry(entry).Path)
	if info, err := p.dir.Lstat(at); err == nil && was.Still(info.Stamp()) {
		if err := p.dir.Remove(at); err != nil {
			return err
		}
	}
	done()
	return nil
}

// isPlaced says whether an entry is a file below the target. life is held, or
// nobody else has p yet.
func (p *Partial) isPlaced(entry int) bool {
	_, ok := p.sel.placed[entry]
	return ok
}

// byFile says whether the target is filled file by file.
func (p *Partial) byFile() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.m.Single() && (p.sel.wanted != nil || p.sel.placed != nil)
}

// ---- the note ----

// The note: the share's ID, then for each file, rising, its entry, time, change time
// and inode.
const (
	placedHead = 36
	placedLen  = 4 + 8 + 8 + 8
)

// readPlaced reads the note, if there is one. A note that cannot be read, such as an old
// version, still means that the target is filled file by file; what is there is hashed.
func (p *Partial) readPlaced() (err error) {
	p.sel.placed, err = readPlaced(p.stage, p.m)
	return err
}

// readPlaced reads the note in the folder stage; nil: there is none.
func readPlaced(stage vfs.FS, m *share.Manifest) (map[int]vfs.Stamp, error) {
	b, err := vfs.ReadRecord(stage, "placed", vfs.PlacedRecord, placedHead+placedLen*m.Len())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, vfs.ErrRecord) {
		return nil, err
	}
	placed := map[int]vfs.Stamp{}
	if len(b) < placedHead || (len(b)-placedHead)%placedLen != 0 || string(b[:placedHead]) != string(m.ID().Bytes()) {
		return placed, nil
	}
	for b = b[placedHead:]; len(b) >= placedLen; b = b[placedLen:] {
		entry := int(binary.LittleEndian.Uint32(b))
		if uint(entry) >= uint(m.Len()) || m.Entry(entry).Kind != share.File {
			continue
		}
		placed[entry] = vfs.Stamp{
			Size:  m.Entry(entry).Size,
			MTime: int64(binary.LittleEndian.Uint64(b[4:])),
			CTime: int64(binary.LittleEndian.Uint64(b[12:])),
			Inode: binary.LittleEndian.Uint64(b[20:]),
		}
	}
	return placed, nil
}

// Made yields what this run has put at the target, or the one before just when it was killed, by entry, and what it looked like then: files and
// links. What it found there, and left as it was, is not among them.
func (p *Partial) Made() iter.Seq2[int, vfs.Stamp] {
	return func(yield func(int, vfs.Stamp) bool) {
		p.life.RLock()
		defer p.life.RUnlock()
		for i, e := range p.m.Entries() {
			st, made := p.sel.made[i]
			if p.sel.renamed && e.Kind == share.File {
				st, made = p.tree.stamps[i], true
			}
			if made && !yield(i, st) {
				return
			}
		}
	}
}

// makes notes that an entry was put at the target, and what it looks like there; life is held.
func (p *Partial) makes(entry int, st vfs.Stamp) {
	if p.sel.made == nil {
		p.sel.made = map[int]vfs.Stamp{}
	}
	p.sel.made[entry] = st
}

// renamedAll is makes for all of the share; life is held.
func (p *Partial) renamedAll() {
	p.sel.renamed = true
	for i, e := range p.m.Entries() {
		if e.Kind == share.Symlink {
			p.makesLink(i, p.tree.handles)
		}
	}
}

// makesLink is makes for a link, which at has; one that has gone again was not made.
func (p *Partial) makesLink(entry int, at *vfs.Handles) {
	if info, err := at.Lstat(p.m.Entry(entry).Path); err == nil {
		p.makes(entry, info.Stamp())
	}
}

// WasHere says whether anything of the share was here when it was opened: pieces, wanted or not, what an earlier run has put
// in its place, or something, right or wrong, in the place of what is wanted; folders do not count.
func (p *Partial) WasHere() bool {
	p.life.RLock()
	defer p.life.RUnlock()
	return p.sel.here
}

func (p *Partial) writePlaced(placed map[int]vfs.Stamp) error {
	return vfs.WriteFile(p.stage, "placed", "placed.new", encodePlaced(p.m.ID(), placed), true)
}

func encodePlaced(id share.ID, placed map[int]vfs.Stamp) []byte {
	b := append([]byte(nil), id.Bytes()...)
	for _, entry := range slices.Sorted(maps.Keys(placed)) {
		b = binary.LittleEndian.AppendUint32(b, uint32(entry))
		b = binary.LittleEndian.AppendUint64(b, uint64(placed[entry].MTime))
		b = binary.LittleEndian.AppendUint64(b, uint64(placed[entry].CTime))
		b = binary.LittleEndian.AppendUint64(b, placed[entry].Inode)
	}
	return vfs.EncodeRecord(vfs.PlacedRecord, b)
}

// ---- a target that exists ----
