package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// place puts what is wanted, all of which is here, in its place below the
// target. syncing is held. It may be called again after an error.
func (p *Partial) place(ctx context.Context) error {
	if p.sel.done && p.doneStill() {
		return nil
	}
	todo, err := p.toPlace()
	if err == nil && p.handles == nil {
		err = ErrNotYet
	}
	if err != nil {
		return err
	}
	if err := p.stillPlaced(ctx); err != nil {
		return err
	}
	if err := p.readyFiles(ctx, todo); err != nil {
		return err
	}
	all := maps.Clone(todo)
	maps.Copy(all, p.sel.placed)
	if err := p.writePlaced(all); err != nil {
		return err
	}
	if err := p.makeFolders(ctx, todo); err != nil {
		return err
	}
	if err := p.clearWay(ctx, todo); err != nil {
		return err
	}
	if err := p.moveFiles(ctx, todo); err != nil {
		return err
	}
	if err := p.makeLinks(ctx); err != nil {
		return err
	}
	whole := p.isWhole()
	if err := p.syncOut(); err != nil {
		return err
	}
	if !maps.Equal(all, p.sel.placed) { // moving a file sets its change time
		if err := p.writePlaced(p.sel.placed); err != nil {
			return err
		}
	}
	if whole {
		return p.makeWhole()
	}
	p.life.Lock()
	p.sel.done = true
	p.life.Unlock()
	return nil
}

// doneStill says whether what is done is all that is wanted now.
func (p *Partial) doneStill() bool {
	for i := range p.m.Len() {
		if p.wants(i) && p.m.Entry(i).Kind == share.File && !p.isPlaced(i) {
			return false
		}
	}
	return true
}

// toPlace returns the files to be moved.
func (p *Partial) toPlace() (todo map[int]vfs.Stamp, err error) {
	todo = map[int]vfs.Stamp{}
	var absent share.Piece
	for i := range p.m.Len() {
		if p.wants(i) && p.m.Entry(i).Kind == share.File && !p.isPlaced(i) {
			todo[i] = vfs.Stamp{}
			absent += p.absent(i)
		}
	}
	if absent > 0 {
		err = fmt.Errorf("%w: %s missing", ErrNotYet, words.Count(int(absent), "piece"))
	}
	return todo, err
}

// absent is the number of pieces of an entry that are not durable.
func (p *Partial) absent(entry int) (absent share.Piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for piece := range p.m.Layout().EachOf(entry) {
		if !p.durable.Has(piece) {
			absent++
		}
	}
	return absent
}

// stillPlaced makes sure that the files that are wanted and were in their place before are what they were: since then hours may
// have passed, in which they are the user's. One that was touched is hashed again.
func (p *Partial) stillPlaced(ctx context.Context) error {
	if len(p.sel.placed) == 0 {
		return nil
	}
	var way inTheWay
	touched := map[int]vfs.Stamp{}
	p.sel.out.LookAgain()
	through := p.throughLinks()
	for _, i := range slices.Sorted(maps.Keys(p.sel.placed)) {
		e := p.m.Entry(i)
		if !p.wants(i) {
			continue
		}
		if linked := through(e.Path); linked != "" {
			way.block(e.Path, linkInTheWay(linked))
			continue
		}
		info, err := p.sel.out.Lstat(e.Path)
		switch {
		case err == nil && p.sel.placed[i].Is(info.Stamp()) && info.Type == 0:
			continue
		case err != nil && !gone(err):
			return err
		case err != nil:
			way.add(e.Path, "is missing: it was removed while the rest was fetched")
			continue
		}
		touched[i] = info.Stamp()
	}
	if err := waitQuiet(ctx, maps.Values(touched)); err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(touched)) {
		info, err := p.settled(ctx, i, touched[i])
		if err != nil {
			return err
		}
		st, same, err := p.hashPlaced(ctx, i, info)
		if err != nil {
			return err
		}
		if !same {
			way.add(p.m.Entry(i).Path, "was changed while the rest was fetched")
			continue
		}
		p.life.Lock()
		p.put(i, st)
		p.life.Unlock()
	}
	return way.err()
}

// settled looks at what is in the place of a file, and waits until it has settled, unless that was done when it looked like was.
func (p *Partial) settled(ctx context.Context, entry int, was vfs.Stamp) (vfs.Info, error) {
	info, err := p.sel.out.Lstat(p.m.Entry(entry).Path)
	if err == nil && !was.Still(info.Stamp()) {
		err = waitQuiet(ctx, slices.Values([]vfs.Stamp{info.Stamp()}))
	}
	return info, err
}

// hashPlaced says whether what is in the place of a file, and has settled, is what it is in the share, and stays so while it is read, and what
// it looks like.
func (p *Partial) hashPlaced(ctx context.Context, entry int, info vfs.Info) (st vfs.Stamp, same bool, err error) {
	e := p.m.Entry(entry)
	if info.Type != 0 || info.Size != e.Size {
		return st, false, nil
	}
	f, err := p.sel.out.OpenSeen(e.Path)
	if err != nil {
		return st, false, err
	}
	defer f.Close()
	if err := vfs.Flush(f); err != nil {
		return st, false, err
	}
	var buf []byte
	for piece := range p.m.Layout().EachOf(entry) {
		if ctx.Err() != nil {
			return st, false, context.Cause(ctx)
		}
		if _, right, err := p.hashPiece(f, piece, &buf); !right {
			return st, false, err
		}
	}
	now, err := f.Stat()
	return now.Stamp(), err == nil && now.Stamp().Still(info.Stamp()), err
}

// readyFiles gives files their final form, and makes them durable, in data.
func (p *Partial) readyFiles(ctx context.Context, todo map[int]vfs.Stamp) (err error) {
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		if err := p.step(ctx, 0); err != nil {
			return err
		}
		e := p.m.Entry(i)
		if err := p.makeEntry(i, e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		st, wrong := p.finalStamp(i)
		if err == nil && wrong != nil { // the others are looked at as well, so that what was touched is hashed at once
			err = fmt.Errorf("%s: %w", e.Path, wrong)
		}
		todo[i] = st
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	dirs := slices.Sorted(maps.Keys(p.batch.dirs))
	p.mu.Unlock()
	return p.syncDirsOf(p.handles, dirs)
}

// makeFolders makes the folders that are wanted below the target, and durable, so
// that what is moved into them can be found after a power cut.
func (p *Partial) makeFolders(ctx context.Context, todo map[int]vfs.Stamp) error {
	if p.sel.out == nil {
		if err := vfs.EnsureDir(p.dir, p.m.Name); err != nil {
			return err
		}
		if info, err := p.dir.Lstat(p.m.Name); err == nil && !info.Type.IsDir() {
			return fmt.Errorf("%w: %s is not a folder", share.ErrExists, p.m.Name)
		}
		p.life.Lock()
		err := p.openOut()
		p.life.Unlock()
		if err != nil {
			return err
		}
	}
	p.sel.out.Made = func(string) {} // madeName is called for all
	p.sel.out.LookAgain()
	all := 0
	p.folderSteps(todo, func(_, _ string, steps int) error { all += steps; return nil })
	if err := p.phase(ctx, "making folders", all); err != nil {
		return err
	}
	through := p.throughLinks()
	err := p.folderSteps(todo, func(name, dir string, steps int) error {
		if linked := through(name); linked != "" {
			return fmt.Errorf("%w: %q %s", share.ErrExists, name, linkInTheWay(linked))
		}
		if err := p.sel.out.In(dir, true, func(vfs.FS) error { return nil }); err != nil {
			if vfs.Blocked(p.sel.out, dir+"/") {
				err = fmt.Errorf("%w: %w", share.ErrExists, err)
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		p.madeName(dir)
		return p.step(ctx, steps)
	})
	if err == nil {
		err = p.phase(ctx, "", 0)
	}
	if err == nil {
		err = p.syncOut()
	}
	if err != nil {
		return err
	}
	return p.dir.SyncDir(".")
}

// clearWay makes sure that the places of files are free. A file that was moved before, and of
// which only the old name is left, is done, and so is one that is there as it is in the share.
func (p *Partial) clearWay(ctx context.Context, todo map[int]vfs.Stamp) error {
	var way inTheWay
	there := map[int]vfs.Stamp{}
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		e := p.m.Entry(i)
		info, err := p.sel.out.Lstat(e.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && vfs.Blocked(p.sel.out, e.Path):
			way.block(e.Path, notAFolder)
		case err != nil:
			return err
		case p.stillWrong(i, info):
		case info.Inode != 0 && todo[i].Still(info.Stamp()):
			if err := p.dropFile(i, todo[i], func() { p.moved(i, todo[i]) }); err != nil {
				return err
			}
			delete(todo, i)
		default:
			there[i] = info.Stamp()
		}
	}
	if err := waitQuiet(ctx, maps.Values(there)); err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(there)) {
		info, err := p.settled(ctx, i, there[i])
		if err != nil {
			return err
		}
		same, err := p.takeThere(ctx, i, info, todo[i], &way)
		if err != nil {
			return err
		}
		if same {
			delete(todo, i)
		}
	}
	return way.err()
}

// put notes that a file is in its place; life is held.
func (p *Partial) put(entry int, st vfs.Stamp) {
	if p.sel.placed == nil {
		p.sel.placed = map[int]vfs.Stamp{}
	}
	p.sel.placed[entry] = st
	p.madeName(p.m.Entry(entry).Path)
}

// moveFiles moves files to their places. There are no reads meanwhile.
func (p *Partial) moveFiles(ctx context.Context, todo map[int]vfs.Stamp) error {
	if err := p.phase(ctx, "moving files to their places", len(todo)); err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		err := p.moveFile(i, path.Join(p.staging, "data", p.m.Entry(i).Path), todo[i])
		if vfs.OtherDisk(err) {
			err = p.carryFile(ctx, i, todo[i])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.m.Entry(i).Path, err)
		}
		if err := p.step(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// moveFile moves what lies at from to the place of an entry.
func (p *Partial) moveFile(entry int, from string, st vfs.Stamp) error {
	p.life.Lock()
	defer p.life.Unlock()
	p.handles.Files.Drop(entry) // an open file cannot be moved on every system
	err := p.moveOver(entry, from, path.Join(p.m.Name, p.m.Entry(entry).Path))
	if err == nil {
		p.moved(entry, st)
	}
	return err
}

// moved notes that a file, which looked like st, was moved to its place; life is held.
func (p *Partial) moved(entry int, st vfs.Stamp) {
	st = restamp(p.sel.out, p.m.Entry(entry).Path, st)
	p.put(entry, st)
	p.makes(entry, st)
}

// restamp returns what a file looks like after it was moved or renamed. If it is a different
// file by now, the old stamp stays, and readers find out.
func restamp(in *vfs.Handles, name string, was vfs.Stamp) vfs.Stamp {
	info, err := in.Lstat(name)
	now := info.Stamp()
	if err != nil || !was.Like(now) || was.Inode != now.Inode {
		return was
	}
	if was.CTime < 0 && now.CTime > 0 {
		now.CTime = -now.CTime
	}
	return now
}

// makeLinks makes the links that are wanted, below the target.
func (p *Partial) makeLinks(ctx context.Context) error {
	links := 0
	for i, e := range p.m.Entries() {
		if e.Kind == share.Symlink && p.wants(i) {
			links++
		}
	}
	if err := p.phase(ctx, "making links", links); err != nil {
		return err
	}
	for i, e := range p.m.Entries() {
		if e.Kind != share.Symlink || !p.wants(i) {
			continue
		}
		was := false // there
		err := p.sel.out.In(path.Dir(e.Path), false, func(d vfs.FS) error {
			err := d.Symlink(e.Target, path.Base(e.Path))
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
			if target, e2 := d.Readlink(path.Base(e.Path)); e2 == nil && target == e.Target {
				was = true
				return nil
			}
			if _, wrong := p.sel.wrong[i]; wrong {
				return p.replaceLink(i)
			}
			return fmt.Errorf("%w: %w", share.ErrExists, err)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		if !was {
			p.life.Lock()
			p.makesLink(i, p.sel.out)
			p.life.Unlock()
		}
		p.madeName(e.Path)
		if err := p.step(ctx, 1); err != nil {
			return err
		}
	}
	return p.phase(ctx, "", 0)
}

// syncOut makes the new names below the target durable.
func (p *Partial) syncOut() error {
	err := p.syncDirsOf(p.sel.out, slices.Sorted(maps.Keys(p.sel.dirty)))
	if err == nil {
		clear(p.sel.dirty)
	}
	return err
}

// syncDirsOf makes the names in folders durable.
func (p *Partial) syncDirsOf(h *vfs.Handles, dirs []string) error {
	all := len(dirs) > manyFiles && vfs.SameDisk(h.Top, p.stage)
	if all {
		err := p.syncAll(nil)
		if all = err == nil; !all && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for _, dir := range dirs {
		if err := h.In(dir, false, func(d vfs.FS) error {
			if all && vfs.SameDisk(d, p.stage) { // else another file system is mounted there
				return nil
			}
			return d.SyncDir(".")
		}); err != nil {
			return fmt.Errorf("sync folder %s: %w", dir, err)
		}
	}
	return nil
}

// makeWhole ends the work on a share of which every file is in its place.
// NAME.partial is not needed any more, except for what finish does next.
func (p *Partial) makeWhole() error {
	p.life.Lock()
	defer p.life.Unlock()
	stamps := make([]vfs.Stamp, p.m.Len())
	for entry, st := range p.sel.placed {
		stamps[entry] = st
	}
	slots := p.keepSlots(stamps)
	if err := p.openTree(stamps, slots); err != nil {
		slots.close()
		return err
	}
	p.handles.Close()
	p.sel.out.Close()
	p.sel.out = nil
	return nil
}
