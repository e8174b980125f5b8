package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

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
	sel     selection
	syncing sync.Mutex // held by Sync, Finish, Close

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
}

// batch is what happened since the last Sync.
type batch struct {
	done    []share.Piece            // completed
	touched map[share.Piece]struct{} // written to
	dirs    map[string]struct{}      // folders with a new name inside
	lost    []share.Piece            // to be reported: lost, or not what their bit said
	broken  map[int]struct{}         // files that were written and could not be closed well
}

// PartialOptions say how a Partial works. The zero value works.
type PartialOptions struct {
	State   *State // gets the block hashes when all is there, and helps to recognise a target; default: none
	Workers int    // for hashing a target that exists; default 0: one per core
	MaxOpen int    // files kept open, and folders; default DefaultMaxOpen
	Wanted  []bool // by entry: what is to be fetched; default nil: all. See Partial.Select
	FS      vfs.FS // where OpenPartial looks dir up, slash-separated; default: this machine
}

const (
	partialSuffix = ".partial"
	maxName       = 255 // bytes, on nearly every file system
)

// stagingName is NAME.partial, shortened where that would be too long a name.
func stagingName(m *share.Manifest) string {
	name := m.Name
	if len(name)+len(partialSuffix) > maxName {
		cut := maxName - len(partialSuffix) - 9
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "-" + m.ID().Short()
	}
	return name + partialSuffix
}

// OpenPartial starts or resumes fetching m into the folder dir, which must exist.
//
// If the target is there already and identical, the Partial has every piece and
// Finish only says where; if it differs, the error wraps share.ErrExists. It
// wraps share.ErrHeld if another process works on the share, share.ErrDiskFull
// if what is missing cannot fit, and share.ErrPath if this system cannot hold the
// names. ctx ends the hashing of a target.
func OpenPartial(ctx context.Context, dir string, m *share.Manifest, opt PartialOptions) (*Partial, error) {
	var d vfs.FS
	var abs string
	var err error
	if opt.FS != nil {
		abs = path.Join("/", dir)
		d, err = opt.FS.Sub(path.Clean(dir))
	} else {
		d, abs, err = locateDir(dir)
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

// locateDir opens the folder that a share is fetched into.
func locateDir(dir string) (vfs.FS, string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, "", err
	}
	d, err := vfs.Dir(abs)
	return d, abs, err
}

func openPartial(ctx context.Context, dir vfs.FS, dirPath string, m *share.Manifest, opt PartialOptions) (_ *Partial, err error) {
	p := &Partial{
		m: m, opt: opt, dir: dir, staging: stagingName(m), path: filepath.Join(dirPath, m.Name), slotMap: newSlotMap(m),
		have: share.NewSet(m.Layout().Pieces()), durable: share.NewSet(m.Layout().Pieces()),
		again: map[share.Piece][]bool{}, made: make([]bool, len(m.Entries)),
	}
	p.batch.clear()
	p.sel.wanted = wantedOf(m, opt.Wanted)
	if bad := p.portability(runtime.GOOS); len(bad) > 0 {
		return nil, &share.PathError{Problems: bad}
	}
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
	if !found {
		if err := p.begin(); err != nil {
			return nil, err
		}
	}
	if err := p.resume(); err != nil {
		return nil, err
	}
	if need, free := p.Need(); free >= 0 && need > free {
		return nil, share.NoRoom(need, free)
	}
	return p, nil
}

// openStage locks NAME.partial if it is there, and says so. It refuses one that
// is not this share's.
func (p *Partial) openStage() (found bool, err error) {
	for {
		info, err := p.dir.Lstat(p.staging)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err == nil && !info.Type.IsDir() {
			err = fmt.Errorf("%w: %s is no folder", share.ErrExists, p.staging)
		}
		if err != nil {
			return false, err
		}
		stage, err := p.dir.Sub(p.staging)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if err := p.ours(stage); err != nil {
			stage.Close()
			return false, err
		}
		lock, err := stage.Lock("lock")
		if err != nil {
			stage.Close()
			if _, e := p.dir.Lstat(p.staging); errors.Is(e, fs.ErrNotExist) {
				return false, nil // whoever had it has just removed it
			}
			if errors.Is(err, share.ErrHeld) {
				err = share.ErrHeld // by which file says nothing to a person
			}
			return false, fmt.Errorf("%s: %w", p.staging, err)
		}
		// Whoever had it may have finished and removed it meanwhile.
		if _, err := p.dir.Lstat(path.Join(p.staging, "lock")); errors.Is(err, fs.ErrNotExist) {
			lock.Close()
			stage.Close()
			continue
		}
		p.stage, p.lock = vfs.HoldSync(stage), lock
		_, err = stage.Lstat("manifest")
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return true, err
	}
}

// ours says whether a folder holds this transfer, or nothing yet. The manifest
// is durable in it before there is any data.
func (p *Partial) ours(stage vfs.FS) error {
	b, err := vfs.ReadFile(stage, "manifest", share.MaxManifest)
	switch {
	case err == nil && share.IDOf(b) == p.m.ID():
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s holds another share, %s", share.ErrExists, p.staging, share.IDOf(b))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	list, err := stage.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name != "lock" && e.Name != "manifest.new" {
			return fmt.Errorf("%w: %s is not a transfer of ours: it holds %q", share.ErrExists, p.staging, e.Name)
		}
	}
	return nil
}

// begin makes NAME.partial.
func (p *Partial) begin() (err error) {
	if p.stage == nil {
		if err := vfs.EnsureDir(p.dir, p.staging); err != nil {
			return err
		}
		stage, err := p.dir.Sub(p.staging)
		if err != nil {
			return err
		}
		p.stage = vfs.HoldSync(stage)
		if p.lock, err = p.stage.Lock("lock"); err != nil {
			return err
		}
		if err := p.ours(p.stage); err != nil {
			return err
		}
	}
	return vfs.WriteFile(p.stage, "manifest", "manifest.new", p.m.Bytes(), true)
}

// resume reads what is verified, and makes sure that the files are there.
func (p *Partial) resume() error {
	if err := p.readBits(); err != nil {
		return err
	}
	p.addPlaced()
	noted := p.readRecent()
	if noted != nil {
		p.durable.Union(noted) // for reconcile; adoptRecent puts it right
	}
	if err := p.openData(); err != nil {
		return err
	}
	if err := p.reconcile(); err != nil {
		return err
	}
	slots, err := openSlots(p.stage, "hashes", p.m.ID())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, vfs.ErrRecord) {
		return err
	}
	if err != nil {
		// Lost hashes are made again when they are asked for.
		if err := p.stage.Remove("hashes"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if slots, err = createSlots(p.stage, "hashes"); err != nil {
			return err
		}
		if err := slots.claim(p.m.ID()); err != nil {
			slots.close()
			return err
		}
	}
	p.slots = slots
	p.have = p.durable.Clone()
	for piece := range p.have.All() {
		p.bytes += int64(p.m.Layout().PieceLen(piece))
	}
	p.recent.bytes = p.bytes
	if noted != nil {
		if err := p.adoptRecent(noted); err != nil {
			return err
		}
	}
	p.epoch++
	if err := p.writeBits(p.durable); err != nil {
		return err
	}
	return p.dir.SyncDir(".")
}

// The bits record: the share's ID, the epoch, the number of pieces, the set.
const bitsHead = 36 + 8 + 4

func (p *Partial) readBits() error {
	pieces := p.m.Layout().Pieces()
	b, err := vfs.ReadRecord(p.stage, "bits", vfs.BitsRecord, bitsHead+(pieces+7)/8)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrRecord) {
		return nil // nothing is known to be verified
	}
	if err != nil {
		return err
	}
	if len(b) < bitsHead || string(b[:36]) != string(p.m.ID().Bytes()) || binary.LittleEndian.Uint32(b[44:]) != uint32(pieces) {
		return nil
	}
	set, err := share.ParseSet(pieces, b[bitsHead:])
	if err != nil {
		return nil
	}
	p.epoch, p.durable = binary.LittleEndian.Uint64(b[36:]), set
	return nil
}

func (p *Partial) writeBits(set *share.Set) error {
	return vfs.WriteFile(p.stage, "bits", "bits.new", encodeBits(p.m.ID(), p.epoch, set), true)
}

func encodeBits(id share.ID, epoch uint64, set *share.Set) []byte {
	b := binary.LittleEndian.AppendUint64(id.Bytes(), epoch)
	b = binary.LittleEndian.AppendUint32(b, uint32(set.Len()))
	return vfs.EncodeRecord(vfs.BitsRecord, append(b, set.Bytes()...))
}

// openData makes the folder for files and the cache of open ones. The single
// file of a share is made when the first byte comes.
func (p *Partial) openData() (err error) {
	var top vfs.FS = shared{p.stage}
	if !p.m.Single() {
		if err := vfs.EnsureDir(p.stage, "data"); err != nil {
			return err
		}
		if top, err = p.stage.Sub("data"); err != nil {
			return err
		}
	}
	p.handles = vfs.NewHandles(top, p.opt.MaxOpen)
	p.handles.Made = p.newName
	p.handles.Files.OnClose = p.closedFile
	return nil
}

// stageDir stands for NAME.partial among the folders with new names, which
// otherwise are those below data.
const stageDir = "/"

// file is where an entry lies below handles.top.
func (p *Partial) file(entry int) string {
	if p.m.Single() {
		return "data"
	}
	return p.m.Entries[entry].Path
}

// reconcile compares what is on disk with what the bits say. Files without a
// verified piece go, so that every file is made anew exactly once: two entries
// that this file system takes for one are noticed then. Pieces of files that are
// not there, or too short, are not verified.
func (p *Partial) reconcile() error {
	there := make(map[int]int64) // entry: size
	if err := p.sweep(p.handles.Top, "", there); err != nil {
		return err
	}
	l := p.m.Layout()
	for i := range p.m.Entries {
		first, n := l.PiecesOf(i)
		size, ok := there[i]
		p.made[i] = ok
		if p.isPlaced(i) {
			continue
		}
		for piece := first; piece < first+share.Piece(n); piece++ {
			if s := l.PieceSpan(piece); p.durable.Has(piece) && (!ok || size < s.Offset+int64(s.Len)) {
				p.durable.Remove(piece)
			}
		}
	}
	return nil
}

// sweep walks data and removes what is not to be kept.
func (p *Partial) sweep(d vfs.FS, prefix string, there map[int]int64) error {
	list, err := d.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		name := prefix + e.Name
		if p.m.Single() {
			if e.Name != "data" {
				continue
			}
			name = p.m.Name
		}
		if e.Type.IsDir() && !p.isFolder(name) {
			if err := vfs.RemoveAll(d, e.Name); err != nil {
				return err
			}
			continue
		}
		if e.Type.IsDir() {
			sub, err := d.Sub(e.Name)
			if err != nil {
				return err
			}
			// The run that made it may have ended before its names were durable.
			p.batch.dirs[path.Dir(name)], p.batch.dirs[name] = struct{}{}, struct{}{}
			err = p.sweep(sub, name+"/", there)
			sub.Close()
			if err != nil {
				return err
			}
			continue
		}
		entry, ok := slices.BinarySearchFunc(p.m.Entries, name, func(e share.Entry, name string) int { return strings.Compare(e.Path, name) })
		if ok && e.Type == 0 && p.m.Entries[entry].Kind == share.File && !p.isPlaced(entry) && p.anyVerified(entry) {
			info, err := d.Lstat(e.Name)
			if err != nil {
				return err
			}
			if info.Size <= p.m.Entries[entry].Size {
				there[entry] = info.Size
				continue
			}
		}
		if err := d.Remove(e.Name); err != nil {
			return err
		}
	}
	return nil
}

// isFolder says whether the share has a folder of this name.
func (p *Partial) isFolder(name string) bool {
	i, ok := slices.BinarySearchFunc(p.m.Entries, name, func(e share.Entry, name string) int { return strings.Compare(e.Path, name) })
	if ok {
		return p.m.Entries[i].Kind == share.Dir
	}
	i, _ = slices.BinarySearchFunc(p.m.Entries, name+"/", func(e share.Entry, name string) int { return strings.Compare(e.Path, name) })
	return i < len(p.m.Entries) && strings.HasPrefix(p.m.Entries[i].Path, name+"/")
}

func (p *Partial) anyVerified(entry int) bool {
	first, n := p.m.Layout().PiecesOf(entry)
	for piece := first; piece < first+share.Piece(n); piece++ {
		if p.durable.Has(piece) {
			return true
		}
	}
	return false
}

// Manifest is the share's manifest.
func (p *Partial) Manifest() *share.Manifest { return p.m }

// Epoch grows with each opening; it makes the tokens of leases grow over restarts.
func (p *Partial) Epoch() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// Verified is the pieces that are here. The set is the caller's.
func (p *Partial) Verified() *share.Set {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have.Clone()
}

// Need is how many bytes the disk must have room for, and how many fit; free is -1
// where that cannot be known. A piece that is missing needs no room where some of it
// was written before.
func (p *Partial) Need() (bytes, free int64) {
	p.life.RLock()
	defer p.life.RUnlock()
	return p.need()
}

// need needs life to be read-held.
func (p *Partial) need() (bytes, free int64) {
	free, err := p.dir.Free()
	if err != nil {
		free = -1
	}
	p.mu.Lock()
	bytes = p.missing()
	p.mu.Unlock()
	return bytes - p.taken(), free
}

// taken is how much of the disk the missing pieces have already.
func (p *Partial) taken() (bytes int64) {
	if p.handles == nil || p.tree != nil || p.over {
		return 0
	}
	for entry, b := range p.begun() {
		if info, err := p.handles.Lstat(p.file(entry)); err == nil {
			bytes += max(0, min(b.missing, info.Room-b.here))
		}
	}
	return bytes
}

// begun is a file of which some is missing.
type begun struct{ here, missing int64 } // bytes

// begun is those that are wanted, by entry.
func (p *Partial) begun() map[int]begun {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.m.Layout()
	out := map[int]begun{}
	for entry, made := range p.made {
		if !made || p.m.Entries[entry].Kind != share.File || p.sel.wanted != nil && !p.sel.wanted[entry] {
			continue
		}
		var here int64
		first, n := l.PiecesOf(entry)
		for piece := first; piece < first+share.Piece(n); piece++ {
			if p.have.Has(piece) {
				here += int64(l.PieceLen(piece))
			}
		}
		if size := p.m.Entries[entry].Size; here < size {
			out[entry] = begun{here, size - here}
		}
	}
	return out
}

// Write puts verified bytes at their place: whole blocks of piece from first on.
// Calls may run at the same time. data stays the caller's. After an error the
// bytes count as not written; it wraps share.ErrDiskFull when there is no room.
func (p *Partial) Write(piece share.Piece, first share.Block, data []byte) error {
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
	h, err := p.handles.Files.Get(s.Entry, func() (vfs.File, error) { return p.openFile(s.Entry) })
	if err != nil {
		return p.writeError(s.Entry, err)
	}
	defer p.handles.Files.Put(h)
	// Before and after: a Sync that fails meanwhile must know of the piece, and
	// one that succeeds meanwhile may have come too early for these bytes.
	losses := p.touch(piece)
	_, err = h.V.WriteAt(data, s.Offset)
	p.touch(piece)
	if err != nil {
		return p.writeError(s.Entry, err)
	}
	p.rewritten(piece, first, n, losses)
	return nil
}

// touch notes that a piece is written to. It says how many losses there were.
func (p *Partial) touch(piece share.Piece) (losses uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch.touched[piece] = struct{}{}
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
	return fmt.Errorf("write %s: %w", p.m.Entries[entry].Path, err)
}

// openFile opens an entry's file for writing, and makes it if it is new.
func (p *Partial) openFile(entry int) (f vfs.File, err error) {
	p.mu.Lock()
	made := p.made[entry]
	p.mu.Unlock()
	name := p.file(entry)
	err = p.handles.In(path.Dir(name), true, func(d vfs.FS) (err error) {
		if made {
			f, err = d.Edit(path.Base(name))
			return err
		}
		f, err = d.Create(path.Base(name), p.m.Entries[entry].Exec)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w: another file of the share has this name on this file system (%w)", share.ErrPath, err)
		}
		return err
	})
	if err != nil || made {
		return f, err
	}
	p.mu.Lock()
	p.made[entry] = true
	p.mu.Unlock()
	p.newName(path.Dir(name))
	return f, nil
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

// closedFile hears how closing a file went: some systems tell only then that
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
		if p.isPlaced(s.Entry) {
			return p.stamped(s.Entry).readLike(s, dst)
		}
		_, err := p.readSpan(s, dst)
		return err
	})
	if errors.Is(err, share.ErrChanged) {
		p.mu.Lock()
		p.lose(piece)
		p.mu.Unlock()
	}
	return values, err
}

// lose makes a piece unverified; mu is held. It must be written again as a whole.
func (p *Partial) lose(piece share.Piece) {
	if p.have.Has(piece) {
		p.have.Remove(piece)
		p.bytes -= int64(p.m.Layout().PieceLen(piece))
	}
	if p.durable.Has(piece) {
		p.durable.Remove(piece)
		p.untrue = true
	}
	p.losses++
	p.again[piece] = make([]bool, p.m.Layout().Blocks(piece))
	p.batch.lost = append(p.batch.lost, piece)
}
