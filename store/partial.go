package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Partial is a share being fetched. It lies in NAME.partial beside its target:
//
//	lock       held while somebody works on it
//	manifest   the share's, as received
//	data       the file, or the folder with the files so far
//	hashes     block hashes of verified pieces, in slots
//	bits       epoch and verified pieces
//	marks      what the files in data look like
//
// A piece passes through these states:
//
//	            Write            Complete            Sync
//	nothing ────────► written ────────────► here ──────────► durable
//	   ▲                 │                   │
//	   └─────────────────┴── Sync failed ────┘
//
// A piece that is here can be read and proven; one that is durable survives
// kill -9 and power cuts.
type Partial struct {
	m       *share.Manifest
	opt     PartialOptions
	dir     vfs.FS // the folder that holds the target
	ownDir  bool
	stage   vfs.FS // NAME.partial
	staging string
	path    string // of the target, for the import cache and for people
	lock    io.Closer
	slotMap *slotMap
	slots   *slotFile
	handles *vfs.Handles
	recent  recent
	marks   marks
	sel     selection
	early   atomic.Int64           // bytes written to large files
	twins   func(path string) bool // says which paths some file systems may take for others of the share; nil: none
	aside   []string               // where what was in the way at the opening is now, below NAME.partial
	syncing sync.Mutex             // held by Sync, Finish, Close

	life    sync.RWMutex // read-held by Write and reads; Finish and Close take it to shut them out
	tree    *Tree        // once finished
	over    bool         // nothing more goes through NAME.partial
	closed  bool         // Close was called
	offered bool         // the tree outlives Close

	mu      sync.Mutex // guards the fields below; never held across disk work
	epoch   uint64
	have    *share.Set // here
	durable *share.Set
	bytes   int64 // of the pieces in have
	batch   batch
	again   map[share.Piece][]bool // lost pieces: which blocks were written since
	losses  uint64                 // grows with each loss
	untrue  bool                   // the bits on disk may name a lost piece
	made    []bool                 // by entry: files and links that exist
	watch   watch                  // files that others may change
	ending  ending                 // what Finish is doing
}

// batch is what happened since the last Sync.
type batch struct {
	done    []share.Piece            // completed
	touched map[share.Piece]struct{} // written to
	dirs    map[string]struct{}      // folders with a new name inside
	lost    []share.Piece            // to be reported: lost, or not what their bit said
	broken  map[int]struct{}         // files that were written and could not be closed well
}

// PartialOptions configure a Partial. The zero value works.
type PartialOptions struct {
	State    *State                        // gets the block hashes when all is there, and helps to recognise a target; default: none
	Workers  int                           // for hashing a target that exists; default 0: one per core
	MaxOpen  int                           // files kept open, and folders; default DefaultMaxOpen
	Wanted   []bool                        // by entry: what is to be fetched; default nil: all. See Partial.Select
	Repair   bool                          // a target that differs is made equal to the share. See repair.go
	Like     []string                      // files and folders with older versions of the share: what is equal is taken from there
	Taking   func(path string, read int64) // told now and then which file is searched for that, and how many bytes were read; may be nil
	Unread   func(path string, err error)  // told what of Like cannot be read: nothing is taken from there; may be nil
	Note     bool                          // a part that lies at the target gets a NAME.partial that says so: what comes there later is told from it
	OnlyHere bool                          // nothing is to be fetched: if not all that is wanted is in its place, that is ErrNotHere
	FS       vfs.FS                        // where OpenPartial looks dir up, slash-separated; default: this machine
}

// ErrNotHere says that something that should be in its place is not there.
var ErrNotHere = errors.New("something that should be here is not")

const (
	partialSuffix = ".partial"
	maxName       = 255 // bytes, on nearly every file system
)

// OpenPartial starts or resumes fetching m into the folder dir, which must exist.
//
// If the target is there already and identical, the Partial has every piece and
// Finish only says where; if it differs, the error wraps share.ErrExists, and
// ErrRepairable if Repair could fix that. It wraps share.ErrHeld if another process works on the share, share.ErrDiskFull
// if what is missing cannot fit, and share.ErrPath if this system cannot hold the
// names, or the target is the state directory of a node, or for the node alone there. ctx ends the hashing of a target.
func OpenPartial(ctx context.Context, dir string, m *share.Manifest, opt PartialOptions) (*Partial, error) {
	var d vfs.FS
	var abs string
	var err error
	if opt.FS != nil {
		abs = path.Join("/", dir)
		d, err = opt.FS.Sub(path.Clean(dir))
	} else {
		d, abs, err = locateDir(dir)
		if err == nil && onState(abs, m.Name) {
			d.Close()
			err = words.Error(share.ErrPath, "%s would be in a part of a node's state directory that is for that node alone; fetch into another folder", m.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("fetch into %s: %w", dir, err)
	}
	p, err := openPartial(ctx, d, abs, m, opt)
	if err != nil {
		d.Close()
		return nil, err
	}
	p.ownDir = true
	return p, nil
}

// OpenPartialIn is OpenPartial in a folder that stays the caller's.
func OpenPartialIn(ctx context.Context, dir vfs.FS, m *share.Manifest, opt PartialOptions) (*Partial, error) {
	return openPartial(ctx, dir, "/", m, opt)
}

func newPartial(dir vfs.FS, dirPath string, m *share.Manifest, opt PartialOptions) *Partial {
	p := &Partial{
		m: m, opt: opt, dir: dir, staging: stagingName(m), path: filepath.Join(dirPath, m.Name), slotMap: newSlotMap(m),
	}
	p.clear()
	p.sel.wanted = wantedOf(m, opt.Wanted)
	return p
}

func openPartial(ctx context.Context, dir vfs.FS, dirPath string, m *share.Manifest, opt PartialOptions) (_ *Partial, err error) {
	p := newPartial(dir, dirPath, m, opt)
	if bad := share.PortabilityProblems(m, runtime.GOOS, p.sel.wanted); bad.Count > 0 {
		return nil, bad
	}
	p.twins = share.Twins(m)
	defer func() {
		if err != nil {
			p.release()
			err = fmt.Errorf("fetch %s into %s: %w", m.Name, dirPath, err)
		}
	}()
	found, err := p.openStage()
	if err != nil {
		return nil, err
	}
	if done, err := p.look(ctx, found); err != nil || done {
		return p, err
	}
	if opt.OnlyHere {
		return nil, ErrNotHere
	}
	if !found {
		if !p.sel.here && len(p.opt.Like) == 0 { // all of it needs room: without that, nothing is made
			if err := p.hasRoom(); err != nil {
				return nil, err
			}
		}
		if err := p.begin(); err != nil {
			return nil, err
		}
	}
	if err := p.resume(ctx); err != nil {
		return nil, err
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	if err := p.hasRoom(); err != nil {
		return nil, err
	}
	return p, nil
}

// stageDir stands for NAME.partial among the folders with new names, which
// otherwise are those below data.
const stageDir = "/"

// file is where an entry lies below handles.top.
func (p *Partial) file(entry int) string {
	if p.m.Single() {
		return "data"
	}
	return p.m.Entry(entry).Path
}

// Manifest is the share's manifest.
func (p *Partial) Manifest() *share.Manifest { return p.m }

// Aside returns where things that are not ours were moved to, below the folder of the target,
// because they were in the way of the share in NAME.partial when it was opened.
func (p *Partial) Aside() (out []string) {
	for _, at := range p.aside {
		out = append(out, path.Join(p.staging, at))
	}
	return out
}

// Epoch grows with each opening; it makes the tokens of leases grow across restarts.
func (p *Partial) Epoch() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// Verified returns the pieces that are here. The set is the caller's.
func (p *Partial) Verified() *share.Set {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have.Clone()
}

// Write puts verified bytes in their place: whole blocks of piece from first on.
// Calls may run at the same time. data stays the caller's. After an error the
// bytes count as not written; it wraps share.ErrDiskFull when there is no room.
func (p *Partial) Write(piece share.Piece, first share.Block, data []byte) error {
	return p.write(piece, first, data, func(s share.Span) error { return p.writeAt(s, data) })
}

// write is Write, with how to write the bytes.
func (p *Partial) write(piece share.Piece, first share.Block, data []byte, how func(share.Span) error) error {
	l := p.m.Layout()
	n := (len(data) + share.BlockSize - 1) / share.BlockSize
	if !l.ValidRun(piece, first, n) || l.RunSpan(piece, first, n).Len != len(data) {
		return fmt.Errorf("write %d bytes: %w", len(data), invalidRun(piece, first, n))
	}
	p.life.RLock()
	defer p.life.RUnlock()
	if p.over || p.tree != nil {
		return fs.ErrClosed
	}
	s := l.RunSpan(piece, first, n)
	if p.isPlaced(s.Entry) {
		return nil // it is there, and the user's by now
	}
	// Before and after: a Sync that fails meanwhile must know of the piece, and
	// one that succeeds meanwhile may have come too early for these bytes.
	losses := p.touch(piece)
	err := how(s)
	p.touch(piece)
	if err != nil {
		return p.writeError(s.Entry, err)
	}
	p.rewritten(piece, first, n, losses)
	return nil
}

// touch notes that a piece is written to. It returns how many losses there were.
func (p *Partial) touch(piece share.Piece) (losses uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch.touched[piece] = struct{}{}
	if _, begun := p.watch.pending[piece]; !begun && !p.have.Has(piece) {
		p.watch.pending[piece] = false
	}
	return p.losses
}

// rewritten notes blocks of a lost piece that were written again, unless there
// was a further loss while they were.
func (p *Partial) rewritten(piece share.Piece, first share.Block, n int, losses uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if blocks := p.again[piece]; blocks != nil && p.losses == losses {
		for i := range n {
			blocks[int(first)+i] = true
		}
	}
}

func (p *Partial) writeError(entry int, err error) error {
	if errors.Is(err, share.ErrDiskFull) {
		return share.NoRoom(p.need())
	}
	return fmt.Errorf("write %s: %w", p.m.Entry(entry).Path, err)
}

// isMade says whether an entry's file exists.
func (p *Partial) isMade(entry int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made[entry]
}

// openFile opens an entry's file for writing, and creates it if it is new; then hold
// is held.
func (p *Partial) openFile(entry int) (f vfs.File, err error) {
	if !p.isMade(entry) {
		if f, err = p.createFile(entry); err == nil {
			p.stampNew(entry, f)
		}
		return f, err
	}
	name := p.file(entry)
	err = p.handles.In(path.Dir(name), true, func(d vfs.FS) (err error) {
		f, err = d.Edit(path.Base(name))
		return err
	})
	return f, err
}

// createFile creates an entry's file. It has no mark until it is written to: an empty one counts
// as ours. What it looks like is not known yet. hold is held.
func (p *Partial) createFile(entry int) (f vfs.File, err error) {
	name := p.file(entry)
	err = p.handles.In(path.Dir(name), true, func(d vfs.FS) (err error) {
		f, err = d.Create(path.Base(name), p.m.Entry(entry).Exec)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		err = p.taken(entry)
	}
	if err != nil {
		return f, err
	}
	p.mu.Lock()
	p.made[entry] = true
	p.mu.Unlock()
	p.newName(path.Dir(name))
	return f, nil
}

// stampNew notes what a new file looks like; hold is held.
func (p *Partial) stampNew(entry int, f vfs.File) {
	info, _ := f.Stat() // where that fails, nothing is known
	p.mu.Lock()
	p.watch.was[entry] = info.Stamp()
	p.mu.Unlock()
}

// newName notes that a folder has a new name inside.
func (p *Partial) newName(dir string) {
	if p.m.Single() {
		dir = stageDir
	}
	p.mu.Lock()
	p.batch.dirs[dir] = struct{}{}
	p.mu.Unlock()
}

// closedFile is told how closing a file went: some systems report only then that
// bytes were lost.
func (p *Partial) closedFile(entry int, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch.broken[entry] = struct{}{}
}

// Complete says that all blocks of piece are written, and their hashes, checked
// against the manifest, are values, which it keeps. From now on the piece can be
// read and proven; it is durable after the next Sync.
func (p *Partial) Complete(piece share.Piece, values []share.Hash) {
	if !p.m.Layout().Valid(piece) {
		return
	}
	p.life.RLock()
	defer p.life.RUnlock()
	if p.over || p.tree != nil {
		return
	}
	if p.m.OnlyBlock(piece) == nil {
		slot, _ := p.slotMap.of(piece)
		p.slots.put(slot, values)
	}
	p.mu.Lock()
	for p.watch.pending[piece] { // somebody may have changed it since it was begun
		p.watch.pending[piece] = false
		p.mu.Unlock()
		bad, err := p.wrong(context.Background(), []share.Piece{piece})
		p.mu.Lock()
		if len(bad) > 0 || err != nil {
			p.lose(piece)
			p.mu.Unlock()
			return
		}
	}
	delete(p.watch.pending, piece)
	if slices.Contains(p.again[piece], false) {
		// Some of its bytes were lost after they had been written.
		p.batch.lost = append(p.batch.lost, piece)
		p.mu.Unlock()
		return
	}
	delete(p.again, piece)
	if p.have.Add(piece) {
		p.bytes += int64(p.m.Layout().PieceLen(piece))
		p.batch.done = append(p.batch.done, piece)
	}
	p.mu.Unlock()
	p.noteRecent()
	entry := p.m.Layout().PieceSpan(piece).Entry
	if _, n := p.m.Layout().PiecesOf(entry); n == 1 {
		p.handles.Files.Drop(entry) // nobody will write it again
	}
}

// has says whether a piece is here.
func (p *Partial) has(piece share.Piece) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have.Has(piece)
}

// ReadRun reads blocks of a piece that is here; see Source.
func (p *Partial) ReadRun(piece share.Piece, first share.Block, n int, dst []byte) (int, error) {
	l := p.m.Layout()
	if !l.ValidRun(piece, first, n) {
		return 0, invalidRun(piece, first, n)
	}
	p.life.RLock()
	defer p.life.RUnlock()
	if p.tree != nil {
		return p.tree.ReadRun(piece, first, n, dst)
	}
	return p.read(piece, l.RunSpan(piece, first, n), dst)
}

// read needs life to be read-held.
func (p *Partial) read(piece share.Piece, s share.Span, dst []byte) (int, error) {
	if p.over {
		return 0, fs.ErrClosed
	}
	if len(dst) < s.Len {
		return 0, io.ErrShortBuffer
	}
	if !p.has(piece) {
		return 0, ErrNotYet
	}
	return p.readSpan(s, dst)
}

// Proof is the hashes of the blocks of a piece that is here; see Source. A piece
// that turns out not to be what its bit says is lost: the next Sync reports it.
func (p *Partial) Proof(piece share.Piece) ([]share.Hash, error) {
	if !p.m.Layout().Valid(piece) {
		return nil, invalidRun(piece, 0, 0)
	}
	p.life.RLock()
	defer p.life.RUnlock()
	if p.tree != nil {
		return p.tree.Proof(piece)
	}
	return p.proof(piece)
}

// proof needs life to be read-held.
func (p *Partial) proof(piece share.Piece) ([]share.Hash, error) {
	if p.over {
		return nil, fs.ErrClosed
	}
	if !p.has(piece) {
		return nil, ErrNotYet
	}
	values, err := proof(p.m, p.slotMap, p.slots, piece, func(s share.Span, dst []byte) error {
		return p.stamped(s.Entry).readLike(s, dst)
	})
	if errors.Is(err, share.ErrChanged) {
		p.mu.Lock()
		p.lose(piece)
		p.mu.Unlock()
	}
	return values, err
}
