package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Source is a share that can be read and proven. Tree and Partial are Sources.
type Source interface {
	Manifest() *share.Manifest
	// Proof returns the hashes of p's blocks. The caller must not change them.
	Proof(p share.Piece) ([]share.Hash, error)
	// ReadRun reads the n blocks of p from first on into dst, which must hold
	// them, and returns how many bytes they are.
	//
	// Errors wrap ErrNotYet for a piece that is not there yet, share.ErrChanged
	// when the file is no longer what it was, fs.ErrClosed after Close, and
	// fs.ErrInvalid for what the share does not have.
	ReadRun(p share.Piece, first share.Block, n int, dst []byte) (int, error)
}

// ErrNotYet is the error of a Partial for a piece that is not verified.
var ErrNotYet = errors.New("not here yet")

// Tree is a share whose files are all there: imported, or fetched to the end.
type Tree struct {
	m       *share.Manifest
	parts   []*Tree       // if it has several: they have the files
	starts  []share.Piece // the first piece of each
	where   location
	stamps  []vfs.Stamp // by entry
	slotMap *slotMap
	slots   *slotFile
	handles *vfs.Handles
	closed  atomic.Bool

	looking             sync.Mutex // guards the fields below
	lookPart, lookEntry int        // where Look goes on
}

// newTree returns a Tree that owns at.dir and slots.
func newTree(m *share.Manifest, at location, stamps []vfs.Stamp, slots *slotFile, maxOpen int) *Tree {
	return &Tree{
		m: m, where: at, stamps: stamps,
		slotMap: newSlotMap(m), slots: slots,
		handles: vfs.NewHandles(at.dir, maxOpen),
	}
}

// Manifest is the share's manifest.
func (t *Tree) Manifest() *share.Manifest { return t.m }

// Path is where the share lies.
func (t *Tree) Path() string { return t.where.path }

// Close closes all files. Reads after it fail with fs.ErrClosed; those under way
// finish.
func (t *Tree) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	if t.parts != nil {
		var err error
		for _, p := range t.parts {
			err = errors.Join(err, p.Close())
		}
		return err
	}
	return errors.Join(t.handles.Close(), t.slots.close())
}

// ReadRun reads blocks; see Source. The file's size and times are checked
// before and after.
func (t *Tree) ReadRun(p share.Piece, first share.Block, n int, dst []byte) (int, error) {
	l := t.m.Layout()
	if !l.ValidRun(p, first, n) {
		return 0, invalidRun(p, first, n)
	}
	if part, q := t.part(p); part != nil {
		return part.ReadRun(q, first, n, dst)
	}
	return t.read(l.RunSpan(p, first, n), dst)
}

// part returns the part that has piece p, and its number there; nil if there are no parts.
func (t *Tree) part(p share.Piece) (*Tree, share.Piece) {
	i, exact := slices.BinarySearch(t.starts, p)
	if !exact {
		i--
	}
	if i < 0 {
		return nil, 0
	}
	for i+1 < len(t.starts) && t.starts[i+1] == p {
		i++ // the parts before have no pieces
	}
	return t.parts[i], p - t.starts[i]
}

func invalidRun(p share.Piece, first share.Block, n int) error {
	return fmt.Errorf("%d blocks from block %d of piece %d: %w", n, first, p, fs.ErrInvalid)
}

func (t *Tree) read(s share.Span, dst []byte) (int, error) {
	if t.closed.Load() {
		return 0, fs.ErrClosed
	}
	if len(dst) < s.Len {
		return 0, io.ErrShortBuffer
	}
	err := t.stamped(s.Entry).read(s, dst, t.Proof)
	if err != nil {
		return 0, t.named(s.Entry, err)
	}
	return s.Len, nil
}

// Look compares the sizes and times of the next n files and folders, going round, with what they were. An
// error that wraps share.ErrChanged names a file that differs, or what was moved away. What cannot be checked now is passed over.
func (t *Tree) Look(n int) error {
	t.looking.Lock()
	defer t.looking.Unlock()
	parts := t.parts
	if parts == nil {
		parts = []*Tree{t}
	}
	for range min(n, t.m.Len()) {
		p := parts[t.lookPart]
		if t.lookEntry == 0 {
			if err := lookAgain(p.handles, p.where.path); err != nil {
				return err
			}
		}
		if t.lookEntry < p.m.Len() && p.m.Entry(t.lookEntry).Kind == share.File {
			f := p.stamped(t.lookEntry)
			if err := f.byName(f.like, t.lookEntry); errors.Is(err, share.ErrChanged) {
				return p.named(t.lookEntry, err)
			}
		}
		if t.lookEntry++; t.lookEntry >= p.m.Len() {
			t.lookPart, t.lookEntry = (t.lookPart+1)%len(parts), 0
		}
	}
	return nil
}

// IsStill says whether now, which is what the file of an entry looks like, is what it was. Where nothing but the inode differs, it is
// read, and its blocks decide.
func (t *Tree) IsStill(entry int, now vfs.Info) bool {
	was := t.stamps[entry]
	if now.Type != 0 || was.Still(now.Stamp()) {
		return now.Type == 0
	}
	return was.Renumbered(now) && t.reads(entry) == nil
}

// reads reads all of the file that has an entry's name now; each block that may have changed is hashed.
func (t *Tree) reads(entry int) error {
	t.handles.Files.Drop(entry)
	for p := range t.m.Layout().EachOf(entry) {
		dst := make([]byte, t.m.Layout().PieceLen(p))
		if _, err := t.ReadRun(p, 0, t.m.Layout().Blocks(p), dst); err != nil {
			return err
		}
	}
	return nil
}

// named is an error about an entry's file.
func (t *Tree) named(entry int, err error) error {
	p := t.m.Entry(entry).Path
	if !t.m.Single() {
		p = path.Join(t.m.Name, p)
	}
	return fmt.Errorf("%s: %w", p, err)
}

// stamped is the file of an entry.
func (t *Tree) stamped(entry int) stamped {
	return stampedAs(t.m, t.handles, t.where.file(t.m.Entry(entry).Path), t.stamps[entry])
}

// Proof returns the hashes of a piece's blocks; see Source. They are kept; one that
// is lost is made again from the file.
func (t *Tree) Proof(p share.Piece) ([]share.Hash, error) {
	if !t.m.Layout().Valid(p) {
		return nil, invalidRun(p, 0, 0)
	}
	if t.closed.Load() {
		return nil, fs.ErrClosed
	}
	if part, q := t.part(p); part != nil {
		return part.Proof(q)
	}
	return proof(t.m, t.slotMap, t.slots, p, func(s share.Span, dst []byte) error {
		return t.stamped(s.Entry).readLike(s, dst)
	})
}

// proof looks a proof up, and makes it again if it is lost or damaged. What was
// read for that is checked.
func proof(m *share.Manifest, at *slotMap, slots *slotFile, p share.Piece, read func(s share.Span, dst []byte) error) ([]share.Hash, error) {
	if only := m.OnlyBlock(p); only != nil {
		return only, nil
	}
	slot, n := at.of(p)
	if values, err := slots.get(slot, n); err == nil && m.CheckProof(p, values) == nil {
		return values, nil
	}
	s := m.Layout().PieceSpan(p)
	data := make([]byte, s.Len)
	if err := read(s, data); err != nil {
		return nil, err
	}
	_, pieces := m.Layout().PiecesOf(s.Entry)
	values, value := share.HashPiece(nil, data, s.Offset, pieces == 1)
	if value != m.PieceValue(p) {
		return nil, fmt.Errorf("%s, piece %d: %w", m.Entry(s.Entry).Path, p, share.ErrChanged)
	}
	slots.put(slot, values)
	return values, slots.flush()
}
