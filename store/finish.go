package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Finish ends a transfer that has every piece: it creates what has no bytes (empty
// files and folders, links), makes everything durable and gives it its name. It returns
// where the share lies now. From then on the Partial reads from there, as a Tree
// does. If not everything is wanted (Select), what is wanted is moved to its place
// below that name, and NAME.partial stays.
//
// What exists at the target is never replaced, except for what was to be repaired: the
// error wraps share.ErrExists then, and everything stays as it is.
//
// What somebody else has touched is hashed again first. ctx ends that early, with its
// cause; Finish may be called again then.
func (p *Partial) Finish(ctx context.Context) (string, error) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	if p.over {
		return "", fs.ErrClosed
	}
	defer p.phase(ctx, "", 0)
	err := p.finish(ctx)
	if err == nil {
		err = p.stillThere()
	}
	if err != nil {
		return "", fmt.Errorf("finish %s: %w", p.m.Name, err)
	}
	return p.path, nil
}

// finish needs syncing to be held. It may be called again after an error.
func (p *Partial) finish(ctx context.Context) error {
	if p.tree == nil {
		if err := p.giveName(ctx); err != nil || p.tree == nil {
			return err
		}
	}
	if p.stage == nil {
		return nil
	}
	return p.dropStage()
}

// errTouched is why a file may not get its name yet: somebody else has touched it
// since it was verified.
var errTouched = fmt.Errorf("%w: another program is writing to it", share.ErrChanged)

// giveName puts what is verified in its place.
func (p *Partial) giveName(ctx context.Context) (err error) {
	for range maxTouches {
		var n int
		if n, err = p.sync(ctx, math.MaxInt64); err != nil {
			return err
		}
		if err = p.inPlace(); err != nil {
			return err
		}
		if p.byFile() {
			err = p.place(ctx)
		} else {
			err = p.rename(ctx, n)
		}
		if vfs.OtherDisk(err) && !p.byFile() && !p.m.Single() {
			err = p.placeAll(ctx)
		}
		if !errors.Is(err, errTouched) {
			break
		}
	}
	return err
}

// placeAll puts the whole share in its place file by file, where its folder cannot be renamed: on an overlay it
// may be of a layer below.
func (p *Partial) placeAll(ctx context.Context) error {
	if _, err := p.dir.Lstat(p.m.Name); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%w: %s was put there while the share was fetched", share.ErrExists, p.m.Name), err)
	}
	p.life.Lock()
	p.sel.placed = map[int]vfs.Stamp{}
	p.life.Unlock()
	return p.place(ctx)
}

// rename gives the whole share, of which n pieces are durable, its name.
func (p *Partial) rename(ctx context.Context, n int) error {
	if all := p.m.Layout().Pieces(); n < all {
		return fmt.Errorf("%w: %d of %d pieces are here", ErrNotYet, n, all)
	}
	if err := p.makeRest(ctx); err != nil {
		return err
	}
	return p.settle()
}

// makeRest makes what no Write made. Links come last.
func (p *Partial) makeRest(ctx context.Context) error {
	all := 0
	p.restSteps(func(_ int, _ share.Entry, steps int) error { all += steps; return nil })
	if err := p.phase(ctx, "making empty folders and files, and links", all); err != nil {
		return err
	}
	err := p.restSteps(func(i int, e share.Entry, steps int) error {
		if err := p.makeEntry(i, e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		return p.step(ctx, steps)
	})
	if err == nil {
		err = p.phase(ctx, "", 0)
	}
	if err != nil {
		return err
	}
	return p.syncNames()
}

func (p *Partial) makeEntry(i int, e share.Entry) error {
	name := p.file(i)
	p.mu.Lock()
	made := p.made[i]
	p.mu.Unlock()
	switch e.Kind {
	case share.Dir:
		return p.handles.In(name, true, func(vfs.FS) error { return nil })
	case share.Symlink:
		if made {
			return nil
		}
		err := p.handles.In(path.Dir(name), true, func(d vfs.FS) error { return d.Symlink(e.Target, path.Base(name)) })
		if err == nil {
			p.mu.Lock()
			p.made[i] = true
			p.mu.Unlock()
			p.newName(path.Dir(name))
		}
		return err
	}
	defer p.hold(i)()
	if !made {
		f, err := p.openFile(i)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	if !e.Exec {
		return nil
	}
	err := p.handles.In(path.Dir(name), false, func(d vfs.FS) error { return d.SetExec(path.Base(name)) })
	if err != nil {
		if keeps, why := p.findExec(); errors.Is(why, share.ErrDiskFull) {
			return why
		} else if why == nil && !keeps {
			return nil
		}
	}
	return err
}

// syncNames makes all new names durable.
func (p *Partial) syncNames() error {
	p.mu.Lock()
	dirs := maps.Clone(p.batch.dirs)
	p.mu.Unlock()
	if len(dirs) > manyFiles {
		if err := p.syncAll(nil); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return p.syncDirs(dirs)
}

// settle gives the data its name. There are no reads or writes meanwhile.
func (p *Partial) settle() error {
	p.life.Lock()
	defer p.life.Unlock()
	stamps, err := p.stamps()
	if err != nil {
		return err
	}
	slots := p.keepSlots(stamps)
	p.handles.Close() // an open folder cannot be moved on every system
	err = p.moveOver(0, path.Join(p.staging, "data"), p.m.Name)
	if err == nil {
		if err = p.openTree(stamps, slots); err == nil {
			p.renamedAll()
			return nil
		}
		slots.close()
		p.over = true // everything is there, but we cannot reach it
		return err
	}
	slots.close()
	if e := p.openData(); e != nil {
		p.over = true
		err = errors.Join(err, e)
	}
	return err
}

// openTree makes the share readable at its target.
func (p *Partial) openTree(stamps []vfs.Stamp, slots *slotFile) (err error) {
	at := location{name: p.m.Name, path: p.path}
	if p.m.Single() {
		at.base = p.m.Name
		at.dir, err = p.dir.Sub(".")
	} else {
		at.dir, err = p.dir.Sub(p.m.Name)
	}
	if err != nil {
		return err
	}
	p.tree = newTree(p.m, at, stamps, slots, p.opt.MaxOpen)
	if p.m.Single() {
		p.restampSingle()
	}
	return nil
}

// restampSingle notes what the share's only file looks like under its name: renaming
// a file sets its change time. Renaming the folder that it is in does not.
func (p *Partial) restampSingle() {
	t := p.tree
	was := t.stamps[0]
	t.stamps[0] = restamp(t.handles, t.where.base, was)
	if s := p.opt.State; s != nil && t.stamps[0] != was {
		s.remember(p.path, diskOf(t.where.dir), p.m, t.stamps)
	}
}

// stamps returns what all files look like, by entry, when they are what was verified. They are
// still those of p. All are looked at, so that all that was touched is hashed at once.
func (p *Partial) stamps() ([]vfs.Stamp, error) {
	err := eachOf(p.m.Len(), workersOr(p.opt.Workers), func(i int) error {
		e := p.m.Entry(i)
		if e.Kind != share.File {
			return nil
		}
		if _, err := p.finalStamp(i); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watch.was, nil
}

// finalStamp is what a complete file looks like. The error wraps errTouched if that
// is not what was verified.
func (p *Partial) finalStamp(entry int) (vfs.Stamp, error) {
	if err := p.inspect(entry); err != nil {
		return vfs.Stamp{}, err
	}
	now, ok := p.known(entry)
	switch {
	case !ok:
		return vfs.Stamp{}, errTouched
	case now.Size != p.m.Entry(entry).Size:
		return vfs.Stamp{}, share.ErrChanged
	}
	return now.Stamp, nil
}

// keepSlots keeps the block hashes beyond the end of NAME.partial: in the State,
// which also remembers the files, so that the share is recognised; else in
// memory. Both only save work, so a failure of either is no error.
func (p *Partial) keepSlots(stamps []vfs.Stamp) *slotFile {
	if s := p.opt.State; s != nil {
		if slots := s.takeSlots(p.slots, p.m, p.slotMap.total); slots != nil {
			s.remember(p.path, p.disk(), p.m, stamps)
			return slots
		}
	}
	slots := &slotFile{}
	for i := range p.m.Len() {
		if first, n := p.m.Layout().PiecesOf(i); slotsOf(p.m.Entry(i).Size) > 0 {
			copySlots(slots, p.slotMap.at(i), p.slots, p.slotMap, first, n)
		}
	}
	return slots
}

// disk is the ID of the file system of what is fetched.
func (p *Partial) disk() uint64 {
	if p.sel.out != nil {
		return diskOf(p.sel.out.Top)
	}
	return diskOf(p.dir)
}

// dropStage removes NAME.partial. What marks it as ours is removed last, and stays if
// others have put anything there.
func (p *Partial) dropStage() error {
	// The new name first: after a power cut there is one or the other.
	if err := p.dir.SyncDir("."); err != nil {
		return err
	}
	err := p.clearData()
	err = errors.Join(err, p.dropLink())
	p.dropCopies()
	p.dropOthers()
	if err == nil {
		p.marks.head = nil // they need not outlive it
	}
	p.closeFiles() // an open file cannot be removed on every system
	for _, name := range []string{"bits", "bits.new", "recent.0", "recent.1", "placed", "placed.new", carriedNote, "hashes", "manifest.new"} {
		err = errors.Join(err, vfs.RemoveFile(p.stage, name))
	}
	if err == nil { // until then they say what in data is ours
		err = vfs.RemoveFile(p.stage, "marks")
	}
	if err == nil {
		err = p.stage.SyncDir(".")
	}
	alone := false
	if err == nil {
		alone, err = p.onlyOurs()
	}
	if alone && err == nil {
		err = errors.Join(vfs.RemoveFile(p.stage, "manifest"), vfs.RemoveFile(p.stage, "lock"))
	}
	if err != nil {
		return err
	}
	p.closeStage()
	p.dir.Remove(p.staging) // fails if somebody has just begun again in it
	return nil
}

// onlyOurs says whether nothing is left in NAME.partial but what is removed last.
func (p *Partial) onlyOurs() (bool, error) {
	list, err := p.stage.ReadDir(".")
	return !slices.ContainsFunc(list, func(e vfs.DirEntry) bool { return e.Name != "manifest" && e.Name != "lock" }), err
}

// closeFiles closes what is open in NAME.partial besides data.
func (p *Partial) closeFiles() (err error) {
	p.recent.mu.Lock()
	p.recent.close()
	p.recent.mu.Unlock()
	p.marks.close()
	if p.slots != nil {
		err = p.slots.close()
		p.slots = nil
	}
	return err
}

// closeStage releases NAME.partial.
func (p *Partial) closeStage() (err error) {
	err = p.closeFiles()
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
		p.lock = nil
	}
	if p.stage != nil {
		err = errors.Join(err, p.stage.Close())
		p.stage = nil
	}
	return err
}

// Done says whether the share, or what is wanted of it, has its name, and where
// it lies. OpenPartial may already find it so.
func (p *Partial) Done() (path string, done bool) {
	p.life.RLock()
	defer p.life.RUnlock()
	if p.tree == nil && !p.sel.done {
		return "", false
	}
	return p.path, true
}

// Close makes durable what can be and releases NAME.partial, which stays for
// the next time unless the share is whole. A share that is done and among Offers
// can still be read until Offers releases it; if it is not whole, NAME.partial
// is held until then.
func (p *Partial) Close() error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	if p.closed {
		return nil
	}
	var err error
	if p.tree == nil && !p.over {
		_, err = p.sync(context.Background(), 0)
	}
	if p.lingers() {
		return err
	}
	return errors.Join(err, p.release())
}

// lingers closes a Partial that Offers still reads from NAME.partial.
func (p *Partial) lingers() bool {
	p.life.Lock()
	defer p.life.Unlock()
	p.closed = p.offered && p.sel.done && p.tree == nil && !p.over
	return p.closed
}

// lingering says whether the Partial is closed but kept by lingers.
func (p *Partial) lingering() bool {
	p.life.RLock()
	defer p.life.RUnlock()
	return p.closed && p.tree == nil && !p.over
}

// release closes everything; syncing is held, or nobody else has p yet.
func (p *Partial) release() error {
	p.life.Lock()
	defer p.life.Unlock()
	p.over, p.closed = true, true
	err := p.closeData()
	if p.tree != nil && !p.offered {
		err = p.tree.Close()
	}
	if p.sel.out != nil {
		err = errors.Join(err, p.sel.out.Close())
		p.sel.out = nil
	}
	err = errors.Join(err, p.closeStage())
	if p.ownDir {
		err = errors.Join(err, p.dir.Close())
	}
	return err
}

// closeData closes what is open of data, unless that has moved to the target.
func (p *Partial) closeData() error {
	if p.tree != nil || p.handles == nil {
		return nil
	}
	p.handles.Files.Clear()
	p.noteLate()
	if p.marks.f != nil && p.syncNames() != nil { // an opening may have failed that claimed nothing: the head that it has found stays
		p.marks.head = nil // what was removed may come back, and have no mark any more
	}
	return p.handles.Close()
}

// offer keeps what is done readable after Close, and returns false if that is too late.
func (p *Partial) offer() bool {
	p.life.Lock()
	defer p.life.Unlock()
	p.offered = p.offered || !p.closed
	return p.offered
}

// withdraw undoes offer.
func (p *Partial) withdraw() {
	p.life.Lock()
	p.offered = false
	if p.closed && p.tree != nil {
		p.tree.Close()
	}
	lingered := p.closed && p.tree == nil && !p.over
	p.life.Unlock()
	if lingered {
		p.release()
	}
}
