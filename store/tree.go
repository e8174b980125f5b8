package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/piecelease/fetcher/share"
)

// Source is a share that can be read and proven. Tree and Partial are Sources.
type Source interface {
	Manifest() *share.Manifest
	// Proof is the hashes of p's blocks. The caller must not change them.
	Proof(p share.Piece) ([]share.Hash, error)
	// ReadRun reads the n blocks of p from first on into dst, which must hold
	// them, and says how many bytes they are.
	//
	// Errors wrap ErrNotYet for a piece that is not there yet, share.ErrChanged
	// when the file is no longer what it was, fs.ErrClosed after Close, and
	// fs.ErrInvalid for what the share does not have.
	ReadRun(p share.Piece, first share.Block, n int, dst []byte) (int, error)
}

// ErrNotYet is what a Partial says of a piece that is not verified.
var ErrNotYet = errors.New("piece is not here yet")

// Tree is a share whose files are all there: imported, or fetched to the end.
type Tree struct {
	m       *share.Manifest
	place   place
	stamps  []stamp // by entry
	slotMap *slotMap
	slots   *slotFile
	handles *handles
	closed  atomic.Bool
}

// newTree owns at.dir and slots.
func newTree(m *share.Manifest, at place, stamps []stamp, slots *slotFile, maxOpen int) *Tree {
	return &Tree{
		m: m, place: at, stamps: stamps,
		slotMap: newSlotMap(m), slots: slots,
		handles: newHandles(at.dir, maxOpen),
	}
}

// Manifest is the share's manifest.
func (t *Tree) Manifest() *share.Manifest { return t.m }

// Path is where the share lies.
func (t *Tree) Path() string { return t.place.path }

// Close closes all files. Reads after it fail with fs.ErrClosed; those under way
// finish.
func (t *Tree) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	return errors.Join(t.handles.close(), t.slots.close())
}

// ReadRun reads blocks; see Source. The file's size and time are looked at
// before and after.
func (t *Tree) ReadRun(p share.Piece, first share.Block, n int, dst []byte) (int, error) {
	l := t.m.Layout()
	if !l.ValidRun(p, first, n) {
		return 0, invalidRun(p, first, n)
	}
	return t.read(l.RunSpan(p, first, n), dst)
}

func invalidRun(p share.Piece, first share.Block, n int) error {
	return fmt.Errorf("%d blocks from %d of piece %d: %w", n, first, p, fs.ErrInvalid)
}

func (t *Tree) read(s share.Span, dst []byte) (int, error) {
	if t.closed.Load() {
		return 0, fs.ErrClosed
	}
	if len(dst) < s.Len {
		return 0, io.ErrShortBuffer
	}
	p := t.m.Entries[s.Entry].Path
	n, err := readStamped(t.handles, t.place.file(p), s, dst, t.stamps[s.Entry])
	if err != nil {
		if !t.m.Single() {
			p = path.Join(t.m.Name, p)
		}
		err = fmt.Errorf("read %s: %w", p, err)
	}
	return n, err
}

// readStamped reads bytes of a file that must be what it was.
func readStamped(in *handles, name string, s share.Span, dst []byte, was stamp) (int, error) {
	// By name, so that a file that was replaced is noticed though the old one
	// is still open.
	if info, err := in.lstat(name); err != nil || info.Type != 0 || info.stamp() != was {
		return 0, in.changed(s.Entry, err)
	}
	h, err := in.files.get(s.Entry, func() (File, error) { return in.open(name) })
	if err != nil {
		return 0, in.changed(s.Entry, err)
	}
	defer in.files.put(h)
	n, err := h.v.ReadAt(dst[:s.Len], s.Offset)
	if info, err := h.v.Stat(); err != nil || info.stamp() != was {
		return 0, in.changed(s.Entry, err)
	}
	if n < s.Len {
		return 0, err
	}
	return n, nil
}

// changed is the error for an entry that is not what it was. A file that cannot
// be looked at for a reason of this moment keeps that error.
func (h *handles) changed(entry int, err error) error {
	h.files.drop(entry)
	if err != nil && !gone(err) {
		return err
	}
	return share.ErrChanged
}

// gone says whether an error means that the file is not there for us any more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || notDir(err)
}

// Proof is the hashes of a piece's blocks; see Source. They are kept; one that
// is lost is made again from the file.
func (t *Tree) Proof(p share.Piece) ([]share.Hash, error) {
	if !t.m.Layout().Valid(p) {
		return nil, invalidRun(p, 0, 0)
	}
	if t.closed.Load() {
		return nil, fs.ErrClosed
	}
	return proof(t.m, t.slotMap, t.slots, p, func(dst []byte) error {
		_, err := t.read(t.m.Layout().PieceSpan(p), dst)
		return err
	})
}

// proof looks a proof up, and makes it again if it is lost or damaged.
func proof(m *share.Manifest, at *slotMap, slots *slotFile, p share.Piece, read func(dst []byte) error) ([]share.Hash, error) {
	if only := m.OnlyBlock(p); only != nil {
		return only, nil
	}
	slot, n := at.of(p)
	if values, err := slots.get(slot, n); err == nil && m.CheckProof(p, values) == nil {
		return values, nil
	}
	s := m.Layout().PieceSpan(p)
	data := make([]byte, s.Len)
	if err := read(data); err != nil {
		return nil, err
	}
	_, pieces := m.Layout().PiecesOf(s.Entry)
	values, value := share.HashPiece(nil, data, s.Offset, pieces == 1)
	if value != m.PieceValue(p) {
		return nil, fmt.Errorf("%s, piece %d: %w", m.Entries[s.Entry].Path, p, share.ErrChanged)
	}
	slots.put(slot, values)
	return values, slots.flush()
}
