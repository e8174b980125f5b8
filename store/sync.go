package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// SyncError says what a Partial lost: the disk accepted bytes and then failed to keep
// them, or a piece is not what its bit says. The pieces are no longer verified;
// those in progress must be forgotten, and all their blocks written again.
type SyncError struct {
	Lost []share.Piece // rising, at least one
	Err  error         // nil if nothing else failed
}

func (e *SyncError) Error() string {
	if e.Err == nil {
		return words.Count(len(e.Lost), "piece") + " to be fetched again: wrong on disk"
	}
	return fmt.Sprintf("%s to be fetched again: %v", words.Count(len(e.Lost), "piece"), e.Err)
}

func (e *SyncError) Unwrap() error { return e.Err }

// LostPieces returns Lost, for callers that know the error only by this method.
func (e *SyncError) LostPieces() []share.Piece { return e.Lost }

func (b *batch) clear() {
	*b = batch{touched: map[share.Piece]struct{}{}, dirs: map[string]struct{}{}, broken: map[int]struct{}{}}
}

// Sync makes all completed pieces durable: their bytes and block hashes first,
// then their bits. It returns how many pieces are durable then.
//
// After an error the next Sync retries everything that is not lost (see SyncError).
// The error wraps share.ErrDiskFull when there is no room.
func (p *Partial) Sync() (durable int, err error) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	if p.over {
		return 0, fs.ErrClosed
	}
	return p.sync(context.Background(), hashAtOnce)
}

// sync needs syncing to be held. It hashes at most hash bytes of what others have touched,
// until ctx ends; the rest is left to the next sync, or the next opening.
func (p *Partial) sync(ctx context.Context, hash int64) (int, error) {
	if p.tree != nil {
		return p.m.Layout().Pieces(), nil
	}
	err := p.renewRecent(ctx)
	b := p.takeBatch()
	if len(b.done) > 0 {
		err = errors.Join(err, p.commit(&b))
		p.inspectFiles(b.touched)
	}
	err = errors.Join(err, p.hashDoubts(ctx, hash))
	p.mu.Lock()
	lost := append(b.lost, p.batch.lost...)
	p.batch.lost = nil
	p.mu.Unlock()
	if e := p.takeBack(len(lost) > 0); e != nil {
		err = errors.Join(err, e)
	} else {
		p.settleDoubts()
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		err = &SyncError{slices.Compact(lost), err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(lost) == 0 && errors.Is(err, share.ErrDiskFull) {
		err = fmt.Errorf("%s is needed: %w", share.Size(p.missing()), err)
	}
	return p.durable.Count(), err
}

// takeBack takes back what the disk says of lost pieces, so that they are not
// believed after a kill. The next Sync retries what fails.
func (p *Partial) takeBack(lost bool) (err error) {
	if lost {
		err = p.dropRecent()
	}
	p.mu.Lock()
	untrue, bits := p.untrue, p.durable.Clone()
	p.untrue = false
	p.mu.Unlock()
	if !untrue {
		return err
	}
	if e := p.writeBits(bits); e != nil {
		p.mu.Lock()
		p.untrue = true
		p.mu.Unlock()
		err = errors.Join(err, fmt.Errorf("record which pieces are here: %w", e))
	}
	return err
}

// takeBatch takes what happened so far. If there is nothing to make durable,
// only the losses are taken.
func (p *Partial) takeBatch() batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseBroken(nil)
	b := p.batch
	if len(b.done) == 0 {
		p.batch.lost = nil
		return batch{lost: b.lost}
	}
	p.batch.clear()
	return b
}

// loseBroken marks as lost what was written to files that could not be closed without error;
// mu is held. b may be nil.
func (p *Partial) loseBroken(b *batch) {
	if len(p.batch.broken) > 0 {
		p.loseFiles(p.batch.broken, b)
		p.batch.broken = map[int]struct{}{}
	}
}

// commit makes b durable. What fails is put back, or lost; mu is not held.
func (p *Partial) commit(b *batch) error {
	synced, err := p.syncData(b)
	p.mu.Lock()
	p.loseFiles(synced.bad, b)
	p.loseBroken(b)
	for piece := range b.touched {
		if !synced.covers(p.m.Layout().PieceSpan(piece).Entry) {
			p.batch.touched[piece] = struct{}{}
		}
	}
	if err != nil {
		p.batch.done = append(p.batch.done, b.done...)
		maps.Copy(p.batch.dirs, b.dirs)
		p.mu.Unlock()
		return err
	}
	set := p.durable.Clone()
	for _, piece := range b.done {
		set.Add(piece)
	}
	p.mu.Unlock()
	err = p.writeBits(set)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.batch.done = append(p.batch.done, b.done...)
		return fmt.Errorf("record which pieces are here: %w", err)
	}
	again := map[share.Piece]struct{}{} // written anew since b was taken: the next sync is for these bytes
	for _, piece := range p.batch.done {
		again[piece] = struct{}{}
	}
	for _, piece := range b.done {
		if _, anew := again[piece]; p.have.Has(piece) && !anew {
			p.durable.Add(piece)
		} else { // found wrong meanwhile
			p.untrue = true
		}
	}
	return nil
}

// loseFiles marks as lost everything that was written to files since they were last
// durable, in b, which may be nil, and after; mu is held.
func (p *Partial) loseFiles(files map[int]struct{}, b *batch) {
	if len(files) == 0 {
		return
	}
	lose := func(b *batch) {
		for piece := range b.touched {
			if _, bad := files[p.m.Layout().PieceSpan(piece).Entry]; bad && !p.durable.Has(piece) {
				p.lose(piece)
			}
		}
		b.done = slices.DeleteFunc(b.done, func(piece share.Piece) bool { return !p.have.Has(piece) })
	}
	lose(&p.batch)
	if b != nil {
		lose(b)
	}
}

// synced is what became of the files of a batch.
type synced struct {
	all  bool             // everything on the file system was synced
	good map[int]struct{} // files whose bytes are durable
	bad  map[int]struct{} // files whose bytes may be lost for good
}

// covers says whether what was written to a file needs no further sync, for
// better or worse.
func (s synced) covers(entry int) bool {
	_, good := s.good[entry]
	_, bad := s.bad[entry]
	return s.all || good || bad
}

// manyFiles is the number of files from which one sync of the whole file system is cheaper
// than one of each file.
const manyFiles = 8

// syncData makes the bytes and hashes of completed pieces durable. Block hashes
// that are lost after all only cost hashing a piece again.
func (p *Partial) syncData(b *batch) (s synced, err error) {
	if err := p.slots.flush(); err != nil {
		return s, fmt.Errorf("write block hashes: %w", err)
	}
	p.marks.flush()
	files := map[int]struct{}{}
	for _, piece := range b.done {
		files[p.m.Layout().PieceSpan(piece).Entry] = struct{}{}
	}
	if len(files)+len(b.dirs) > manyFiles {
		err := p.syncAll(b)
		if err == nil || !errors.Is(err, errors.ErrUnsupported) {
			return synced{all: err == nil}, err
		}
	}
	s = synced{good: map[int]struct{}{}, bad: map[int]struct{}{}}
	for _, entry := range slices.Sorted(maps.Keys(files)) {
		if e := p.syncFile(entry); e != nil {
			s.bad[entry] = struct{}{}
			err = errors.Join(err, fmt.Errorf("sync %s: %w", p.m.Entry(entry).Path, e))
		} else {
			s.good[entry] = struct{}{}
		}
	}
	if err != nil {
		return s, err
	}
	if err := p.slots.f.Sync(); err != nil {
		return s, fmt.Errorf("sync block hashes: %w", err)
	}
	return s, p.syncDirs(b.dirs)
}

// syncAll makes everything on the file system durable. If that fails, all that was
// written and not durable is lost, of b, which may be nil, and after it, even in files
// that are not wanted now: the disk reports a failure only once.
func (p *Partial) syncAll(b *batch) error {
	err := p.stage.SyncAll()
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	files := map[int]struct{}{}
	for _, b := range []*batch{b, &p.batch} {
		if b == nil {
			continue
		}
		for piece := range b.touched {
			files[p.m.Layout().PieceSpan(piece).Entry] = struct{}{}
		}
	}
	p.loseFiles(files, b)
	return fmt.Errorf("sync: %w", err)
}

// syncDirs makes the names in folders durable.
func (p *Partial) syncDirs(dirs map[string]struct{}) error {
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		var err error
		if dir == stageDir {
			err = p.stage.SyncDir(".")
		} else {
			err = p.handles.In(dir, false, func(d vfs.FS) error { return d.SyncDir(".") })
		}
		if err != nil {
			return fmt.Errorf("sync folder %s: %w", dir, err)
		}
	}
	return nil
}

// syncFiles makes the bytes of files durable, at an opening.
func (p *Partial) syncFiles(files []int) error {
	if len(files) > manyFiles {
		if err := p.syncAll(nil); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for _, entry := range files {
		if err := p.syncFile(entry); err != nil {
			return fmt.Errorf("sync %s: %w", p.m.Entry(entry).Path, err)
		}
	}
	return nil
}

func (p *Partial) syncFile(entry int) error {
	h, err := p.handles.Files.Get(entry, func() (vfs.File, error) { return p.openFile(entry) })
	if err != nil {
		return err
	}
	defer p.handles.Files.Put(h)
	return h.V.Sync()
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
	delete(p.watch.pending, piece)
	p.losses++
	p.again[piece] = make([]bool, p.m.Layout().Blocks(piece))
	p.batch.lost = append(p.batch.lost, piece)
}
