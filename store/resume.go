package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"syscall"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// openStage locks NAME.partial if it is there, and says so. It refuses one that
// is not this share's.
func (p *Partial) openStage() (found bool, err error) {
	for {
		info, err := p.dir.Lstat(p.staging)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err == nil && !info.Type.IsDir() {
			err = fmt.Errorf("%w: %s is not a folder", share.ErrExists, p.staging)
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
		readOnly := errors.Is(err, syscall.EROFS) // nothing is written there: it needs no lock
		if err != nil && !readOnly {
			stage.Close()
			if _, e := p.dir.Lstat(p.staging); errors.Is(e, fs.ErrNotExist) {
				return false, nil // whoever had it has just removed it
			}
			if errors.Is(err, share.ErrHeld) {
				err = share.ErrHeld // the name of the lock file tells a person nothing
			}
			return false, fmt.Errorf("%s: %w", p.staging, err)
		}
		// Whoever had it may have finished and removed it meanwhile.
		if _, err := p.dir.Lstat(path.Join(p.staging, "lock")); !readOnly && errors.Is(err, fs.ErrNotExist) {
			lock.Close()
			stage.Close()
			continue
		}
		p.stage, p.lock, p.recent.boot = vfs.HoldSync(stage), lock, bootOf(stage)
		_, err = stage.Lstat("manifest")
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err == nil {
			err = p.keepManifest()
		}
		return true, err
	}
}

// keepManifest makes the name of the manifest durable before there is any data: the run that wrote it may have
// ended before that. Without it, what is there belongs to nobody.
func (p *Partial) keepManifest() error {
	if _, err := p.stage.Lstat("data"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.stage.SyncDir(".")
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
		left := e.Name == newLink && e.Type == fs.ModeSymlink // the power failed while everything was removed
		if e.Name != "lock" && e.Name != "manifest.new" && !left {
			return fmt.Errorf("%w: %s was not made by fetcher: it holds %q", share.ErrExists, p.staging, e.Name)
		}
	}
	return nil
}

// begin creates NAME.partial.
func (p *Partial) begin() (err error) {
	if p.stage == nil {
		if err := p.lockStage(); err != nil {
			return err
		}
	}
	return vfs.WriteFile(p.stage, "manifest", "manifest.new", p.m.Bytes(), true)
}

// lockStage makes the folder NAME.partial, unless it is there, and locks it.
func (p *Partial) lockStage() error {
	if err := vfs.EnsureDir(p.dir, p.staging); err != nil {
		return err
	}
	stage, err := p.dir.Sub(p.staging)
	if err != nil {
		return err
	}
	p.stage, p.recent.boot = vfs.HoldSync(stage), bootOf(stage)
	if p.lock, err = p.stage.Lock("lock"); err != nil {
		return err
	}
	return p.ours(p.stage)
}

// resume reads what is verified, and makes sure that the files are there and that
// nobody has touched them. ctx ends the hashing of those that somebody has.
func (p *Partial) resume(ctx context.Context) error {
	if err := p.readBits(); err != nil {
		return err
	}
	p.addPlaced()
	bits, noted := p.durable.Clone(), p.readRecent()
	p.durable.Union(noted) // for reconcile; adoptRecent puts it right
	if err := p.openData(); err != nil {
		return err
	}
	if err := p.marks.open(p.stage, p.marksHead()); err != nil {
		return err
	}
	hashed, err := p.reconcile(ctx)
	if err != nil {
		return err
	}
	if err := p.openHashes(); err != nil {
		return err
	}
	p.have = p.durable.Clone()
	for piece := range p.have.All() {
		p.bytes += int64(p.m.Layout().PieceLen(piece))
	}
	p.recent.bytes = p.bytes
	p.sel.here = p.sel.here || p.bytes > 0
	if err := p.adoptRecent(noted, bits); err != nil {
		return err
	}
	p.epoch++
	if err := p.writeBits(p.durable); err != nil {
		return err
	}
	for _, entry := range hashed { // not before the bits of what is wrong are gone
		p.marks.put(entry, mark{Stamp: p.watch.was[entry]})
	}
	if err := p.marks.claim(p.marksHead()); err != nil {
		return err
	}
	return p.dir.SyncDir(".")
}

// openHashes opens the block hashes. Lost ones are made again when they are asked for.
func (p *Partial) openHashes() error {
	slots, err := openSlots(p.stage, "hashes", p.m.ID())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, vfs.ErrRecord) {
		return err
	}
	if err != nil {
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
	return nil
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

// openData creates the folder for files and the cache of open ones. The single
// file of a share is created when the first byte comes.
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
	p.handles.Made, p.handles.Exact = p.newName, p.twins
	p.handles.Files.OnClose = p.closedFile
	return nil
}

// reconcile compares what is on disk with what the bits say. Files of ours without
// a verified piece are removed, so that every file is created exactly once: two entries
// that this file system takes for one are noticed then. Pieces of files that are
// not there, or too short, are not verified. Files that somebody else has touched
// are hashed again, and returned.
func (p *Partial) reconcile(ctx context.Context) ([]int, error) {
	s := sweep{p: p, kept: map[int]vfs.Info{}}
	p.newName(".")
	if err := s.folder(p.handles.Top, ""); err != nil {
		return nil, err
	}
	l := p.m.Layout()
	for i := range p.m.Len() {
		info, ok := s.kept[i]
		p.made[i] = ok
		if p.isPlaced(i) {
			continue
		}
		for piece := range l.EachOf(i) {
			if s := l.PieceSpan(piece); p.durable.Has(piece) && (!ok || info.Size < s.Offset+int64(s.Len)) {
				p.durable.Remove(piece)
			}
		}
	}
	touched, err := p.hashTouched(ctx, s.kept)
	if err != nil {
		return nil, err
	}
	for _, entry := range touched {
		if len(p.piecesIn(p.durable, entry)) == 0 { // nothing of it is the share's
			p.made[entry] = false
			p.handles.Files.Drop(entry) // it was hashed, and what is open would be written to wherever it is moved
			err = errors.Join(err, p.setAside(p.file(entry)))
		}
	}
	return touched, err
}

// maxTouches is how often a file that changes while it is hashed is hashed.
const maxTouches = 3

// hashTouched hashes the verified pieces of files that are not what they were after
// our last write, and returns these files. Pieces that are wrong are not verified
// any more.
func (p *Partial) hashTouched(ctx context.Context, files map[int]vfs.Info) (touched []int, err error) {
	for _, entry := range slices.Sorted(maps.Keys(files)) {
		m, now := p.marks.get(entry), files[entry].Stamp()
		p.watch.was[entry] = now
		switch {
		case m.Is(now):
		case m.maybe(now) && p.marks.announced(now):
			p.watch.doubts[entry] = doubt{left: p.piecesIn(p.durable, entry)}
		default:
			touched = append(touched, entry)
		}
	}
	todo := touched
	for try := 0; len(todo) > 0; try++ {
		var pieces []share.Piece
		var stamps []vfs.Stamp
		for _, entry := range todo {
			pieces = append(pieces, p.piecesIn(p.durable, entry)...)
			stamps = append(stamps, p.watch.was[entry])
		}
		bad := pieces // of files that keep changing
		if try < maxTouches {
			if err := p.settleFiles(ctx, todo, stamps); err != nil {
				return nil, err
			}
			if bad, err = p.wrong(ctx, pieces); err != nil {
				return nil, err
			}
		}
		for _, piece := range bad {
			p.durable.Remove(piece)
		}
		if todo = p.changing(todo); try == maxTouches {
			break
		}
	}
	return touched, nil
}

// settleFiles waits until files are durable, and each later change to them shows.
func (p *Partial) settleFiles(ctx context.Context, files []int, stamps []vfs.Stamp) error {
	if err := p.syncFiles(files); err != nil {
		return err
	}
	return waitQuiet(ctx, slices.Values(stamps))
}

// changing returns the files that are no longer what they just were.
func (p *Partial) changing(files []int) (still []int) {
	for _, entry := range files {
		info, err := p.handles.Lstat(p.file(entry))
		if now := info.Stamp(); err != nil || !now.Still(p.watch.was[entry]) {
			p.watch.was[entry] = now
			still = append(still, entry)
		}
	}
	return still
}
