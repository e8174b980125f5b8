package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// look says whether all that is wanted lies at the target; found says whether there is
// a NAME.partial.
func (p *Partial) look(ctx context.Context, found bool) (done bool, err error) {
	if found {
		p.dropCopies()
		if err := p.readPlaced(); err != nil {
			return false, err
		}
	}
	if p.opt.Repair && !p.m.Single() && p.sel.placed == nil {
		p.sel.placed = map[int]vfs.Stamp{}
	}
	if !p.byFile() {
		return p.checkTarget(ctx, found)
	}
	if done, err := p.checkFiles(ctx); err != nil || !done {
		return false, err
	}
	if err := p.stillPlaced(ctx); err != nil {
		return false, err
	}
	whole := found && p.isWhole()
	if p.stage != nil { // an earlier run may have been killed before it did so
		if err := p.syncOut(); err != nil {
			return false, err
		}
	}
	if !found && p.sel.wanted != nil && p.opt.Note {
		if found, err = p.noteThere(); err != nil {
			return false, err
		}
	}
	if !found {
		if p.stage != nil { // of a run that was killed when it had removed nearly all of it
			err = p.dropStage()
		}
		p.recognise()
		return true, err
	}
	if err := p.resume(ctx); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		p.leaveStage() // its disk is full, for example: what is wanted is here all the same
		return true, nil
	}
	p.sel.done = true
	if !whole {
		return true, nil
	}
	if err := p.makeWhole(); err != nil {
		return true, err
	}
	return true, p.dropStage()
}

// noteThere begins a NAME.partial that says what lies at the target. Where nothing can be written there is none; it is an
// error if another process has just begun one.
func (p *Partial) noteThere() (noted bool, err error) {
	if err = p.begin(); err == nil {
		err = p.writePlaced(p.sel.placed)
	}
	if err != nil && (p.stage == nil || p.lock != nil) {
		return false, nil
	}
	return err == nil, err
}

// checkTarget looks at a target that exists: done says that it is the share; found, whether there is a NAME.partial.
func (p *Partial) checkTarget(ctx context.Context, found bool) (done bool, err error) {
	info, err := p.dir.Lstat(p.m.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.sel.here = true
	at := location{name: p.m.Name, path: p.path}
	switch {
	case p.m.Single() && info.Type == 0:
		at.base = p.m.Name
		at.dir, err = p.dir.Sub(".")
	case !p.m.Single() && info.Type.IsDir():
		at.dir, err = p.dir.Sub(p.m.Name)
	case p.m.Single() && info.Type == fs.ModeSymlink && p.opt.Repair:
		p.willReplace(0, info)
		return false, nil
	default:
		err = p.ofAnotherKind(info)
		if p.m.Single() && info.Type == fs.ModeSymlink {
			err = repairable{err}
		}
	}
	if err != nil {
		return false, err
	}
	im := &importing{opt: ImportOptions{Workers: p.opt.Workers, State: p.opt.State, MaxOpen: p.opt.MaxOpen}, where: at}
	if p.tree, err = im.compare(ctx, p.m, sync.OnceValue(p.keepsExec)); err != nil {
		defer at.dir.Close()
		if !errors.Is(err, share.ErrExists) {
			return false, err
		}
		if p.opt.Repair { // of one file
			p.willReplace(0, info)
			return false, nil
		}
		return false, cmp.Or(p.blocked(at.dir), error(repairable{err}))
	}
	if found && p.wasMoved() {
		p.renamedAll()
	}
	all := share.FullSet(p.m.Layout().Pieces())
	p.have, p.durable, p.bytes = all, all.Clone(), p.m.Layout().Bytes()
	if p.stage != nil {
		return true, p.dropStage()
	}
	return true, nil
}

// inTheWay lists what keeps files from their place below the target.
type inTheWay struct {
	list    []string
	count   int
	blocked bool // by something that cannot be repaired
}

func (w *inTheWay) add(p, why string) {
	if w.count++; w.count <= maxProblems {
		w.list = append(w.list, fmt.Sprintf("%q %s", p, why))
	}
}

// block adds what cannot be repaired.
func (w *inTheWay) block(p, why string) {
	w.blocked = true
	w.add(p, why)
}

func (w *inTheWay) err() error {
	if w.count == 0 {
		return nil
	}
	if w.count > len(w.list) {
		w.list = append(w.list, fmt.Sprintf("and %d more", w.count-len(w.list)))
	}
	err := fmt.Errorf("%w: %s", share.ErrExists, strings.Join(w.list, "; "))
	if !w.blocked {
		return repairable{err}
	}
	return err
}

// checkFiles checks which placed and which wanted files lie below the target. A wanted
// file that is there already is taken as it is if it is identical; one that differs is
// an error that wraps share.ErrExists. done says that all that is wanted is there.
func (p *Partial) checkFiles(ctx context.Context) (done bool, err error) {
	if there, err := p.openTarget(); err != nil || !there {
		return false, err
	}
	var way inTheWay
	var same []found // files to compare
	var at []int     // ... and their entries
	missing, alike := 0, 0
	through, keepsExec := p.throughLinks(), sync.OnceValue(p.keepsExec)
	for i, e := range p.m.Entries() {
		info, err := p.sel.out.Lstat(e.Path)
		linked := through(e.Path)
		there := err == nil && linked == ""
		noted, still, like := p.noted(i, info, there)
		if there && e.Kind != share.Dir && (noted || p.wants(i)) {
			p.sel.here = true
		}
		switch {
		case still:
		case like: // wanted now or not, its bytes decide
			alike++
			same, at = append(same, foundFile(e.Path, info)), append(at, i)
		case !p.wants(i):
		case linked != "":
			way.block(e.Path, linkInTheWay(linked))
		case err != nil && vfs.Blocked(p.sel.out, e.Path):
			way.block(e.Path, notAFolder)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		case !there:
			missing++
		case e.Kind == share.File && info.Type == 0 && info.Size == e.Size && (info.Exec == e.Exec || info.NoExec || !keepsExec()):
			same, at = append(same, foundFile(e.Path, info)), append(at, i)
		default:
			ok, err := p.isThere(e, info)
			if err != nil {
				return false, err
			}
			p.madeName(e.Path)
			if !ok {
				p.isWrong(i, info, "is not like the one in the share", &way)
			}
		}
	}
	if err := way.err(); err != nil {
		return false, err
	}
	if err := p.adopt(ctx, same, at, &way); err != nil {
		return false, err
	}
	if alike > 0 && way.err() == nil {
		p.writePlaced(p.sel.placed) // if this fails, they are hashed again the next time
	}
	return missing == 0 && len(p.sel.wrong) == 0, cmp.Or(way.err(), p.notOfAnother())
}

// noted says whether an earlier run has noted that an entry is in its place, and whether what is there now is still that, or
// like it. If it is not still that, the note is forgotten: it was changed, is gone, or was never moved.
func (p *Partial) noted(entry int, now vfs.Info, there bool) (noted, still, like bool) {
	was, noted := p.sel.placed[entry]
	if !noted {
		return false, false, false
	}
	if there {
		p.madeName(p.m.Entry(entry).Path)
		if now.Type == 0 && was.Is(now.Stamp()) {
			return true, true, false
		}
	}
	delete(p.sel.placed, entry)
	return true, false, there && now.Type == 0 && was.Like(now.Stamp())
}

// throughLinks returns a function that returns which part of the path above an entry, below the target, is a
// symlink; empty: none is. What lies behind one may be another entry of the share, or not of it at all.
func (p *Partial) throughLinks() func(name string) string {
	known := map[string]string{".": ""}
	var above func(name string) string
	above = func(name string) string {
		dir := path.Dir(name)
		linked, ok := known[dir]
		if !ok {
			if linked = above(dir); linked == "" {
				if info, err := p.sel.out.Lstat(dir); err == nil && info.Type == fs.ModeSymlink {
					linked = dir
				}
			}
			known[dir] = linked
		}
		return linked
	}
	return above
}

func linkInTheWay(at string) string {
	return fmt.Sprintf("lies below %q, which is a symlink here, and not a folder", at)
}

// openTarget opens the folder that is the target, and says whether there is one.
func (p *Partial) openTarget() (there bool, err error) {
	info, err := p.dir.Lstat(p.m.Name)
	if errors.Is(err, fs.ErrNotExist) {
		p.sel.placed = nil
		return false, nil
	}
	if err == nil && !info.Type.IsDir() {
		err = p.ofAnotherKind(info)
	}
	if err != nil {
		return false, err
	}
	if p.sel.placed == nil {
		p.sel.placed = map[int]vfs.Stamp{}
	}
	return true, p.openOut()
}

// madeName notes that a name below the target, and those of the folders above it,
// may not be durable.
func (p *Partial) madeName(name string) {
	if p.sel.dirty == nil {
		p.sel.dirty = map[string]struct{}{}
	}
	for name != "." {
		name = path.Dir(name)
		if _, noted := p.sel.dirty[name]; noted {
			return
		}
		p.sel.dirty[name] = struct{}{}
	}
}

// isThere says whether a folder or link is as in the share.
func (p *Partial) isThere(e share.Entry, info vfs.Info) (ok bool, err error) {
	switch {
	case e.Kind == share.Dir:
		return info.Type.IsDir(), nil
	case e.Kind == share.Symlink && info.Type == fs.ModeSymlink:
		err = p.sel.out.In(path.Dir(e.Path), false, func(d vfs.FS) error {
			target, err := d.Readlink(path.Base(e.Path))
			ok = target == e.Target
			return err
		})
	}
	return ok, err
}

// adopt takes the files that are identical to the share's, as they are. One that
// is wanted and differs is in the way.
func (p *Partial) adopt(ctx context.Context, files []found, entries []int, way *inTheWay) error {
	if len(files) == 0 {
		return nil
	}
	known := p.opt.State.recall(location{dir: p.sel.out.Top, name: p.m.Name, path: p.path}, files)
	var todo []int // indexes in files
	for i, entry := range entries {
		e := p.m.Entry(entry)
		if known.of(i).m == nil {
			todo = append(todo, i)
		} else if known.of(i).entry().Root == e.Root {
			p.sel.placed[entry] = files[i].stamp
		} else if p.wants(entry) {
			p.isWrong(entry, files[i].info(), "differs", way)
		}
	}
	p.slots = &slotFile{}
	h := &hashing{handles: vfs.NewHandles(shared{p.sel.out.Top}, 0), workers: workersOr(p.opt.Workers), slots: p.slots, progress: func(int64, int) {}}
	defer h.handles.Close()
	got := make([]*hashed, len(todo))
	if err := h.all(ctx, toHash{
		n: len(todo),
		file: func(k int) aim {
			f := &files[todo[k]]
			return aim{name: f.path, slot: p.slotMap.at(entries[todo[k]]), room: slotsOf(f.stamp.Size), stamp: f.stamp}
		},
		done: func(k int, f *hashed) { got[k] = f },
	}); err != nil {
		return err
	}
	for k, f := range got {
		entry := entries[todo[k]]
		e := p.m.Entry(entry)
		switch {
		case (f.err != nil || share.FileRoot(f.pieces) != e.Root) && !p.wants(entry): // in nobody's way
		case f.err != nil:
			return uncompared(e.Path, f.err)
		case share.FileRoot(f.pieces) != e.Root:
			p.isWrong(entry, files[todo[k]].info(), "differs", way)
		default:
			p.sel.placed[entry] = f.stamp
		}
	}
	return nil
}

// wasMoved says whether an earlier run must have moved all of the share to its target, and was killed before it had done more: nothing of it is
// left in NAME.partial but the bits that say that all was there. They go first; what belongs to others may keep the rest for good.
func (p *Partial) wasMoved() bool {
	_, data := p.stage.Lstat("data")
	_, bits := p.stage.Lstat("bits")
	return errors.Is(data, fs.ErrNotExist) && bits == nil && p.readBits() == nil && p.durable.Count() == p.m.Layout().Pieces()
}

// openOut opens the target's folder.
func (p *Partial) openOut() error {
	d, err := p.dir.Sub(p.m.Name)
	if err == nil {
		p.sel.out = vfs.NewHandles(d, p.opt.MaxOpen)
		p.sel.out.Exact = p.twins
	}
	return err
}

// addPlaced adds the pieces of placed files to the durable ones.
func (p *Partial) addPlaced() {
	for entry := range p.sel.placed {
		for piece := range p.m.Layout().EachOf(entry) {
			p.durable.Add(piece)
		}
	}
}

// recognise is resume for a share that has no NAME.partial, as all that is wanted of it
// lies at the target.
func (p *Partial) recognise() {
	p.addPlaced()
	p.have = p.durable.Clone()
	for piece := range p.have.All() {
		p.bytes += int64(p.m.Layout().PieceLen(piece))
	}
	if p.slots == nil {
		p.slots = &slotFile{}
	}
	p.sel.done = true
}

// leaveStage leaves NAME.partial as it is, and goes on as if there were none.
func (p *Partial) leaveStage() {
	p.closeData()
	p.closeStage()
	p.handles = nil
	p.clear()
	p.recognise()
}

// clear makes a Partial what it is before anything of NAME.partial but the note was read.
func (p *Partial) clear() {
	p.have, p.durable, p.bytes = share.NewSet(p.m.Layout().Pieces()), share.NewSet(p.m.Layout().Pieces()), 0
	p.again, p.untrue, p.made, p.recent.renew = map[share.Piece][]bool{}, false, make([]bool, p.m.Len()), nil
	p.watch.was, p.watch.doubts, p.watch.pending = make([]vfs.Stamp, p.m.Len()), map[int]doubt{}, map[share.Piece]bool{}
	p.batch.clear()
}

// uncompared is the error about what lies at the target and cannot be read now: whether it differs is not known.
func uncompared(path string, err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok { // it would name the path again
		err = at.Err
	}
	return fmt.Errorf("%q cannot be compared with the share: %w", path, err)
}

// compare checks whether what lies at the place is the share m; if not, the error
// wraps share.ErrExists and says why. Contents are only read if all else agrees. keepsExec says whether the place keeps
// executable bits, and is called where one differs.
func (im *importing) compare(ctx context.Context, m *share.Manifest, keepsExec func() bool) (*Tree, error) {
	differs := func(why string, args ...any) error {
		return fmt.Errorf("%w: %s", share.ErrExists, fmt.Sprintf(why, args...))
	}
	if err := im.scan(ctx); err != nil {
		var bad *ProblemsError
		if ctx.Err() != nil || !errors.As(err, &bad) {
			return nil, err
		}
		first := bad.Problems[0]
		if errors.Is(first.Err, errKind) || errors.Is(first.Err, share.ErrPath) || errors.Is(first.Err, share.ErrLimit) {
			return nil, differs("%q: %v", first.Path, first.Err)
		}
		return nil, uncompared(first.Path, first.Err)
	}
	for i := range max(len(im.found), m.Len()) {
		switch {
		case i >= len(im.found) || i < m.Len() && im.found[i].path > m.Entry(i).Path:
			return nil, differs("%q is missing", m.Entry(i).Path)
		case i >= m.Len() || im.found[i].path < m.Entry(i).Path:
			return nil, differs("%q is not in the share", im.found[i].path)
		}
		if e, f := m.Entry(i), im.found[i]; e.Kind != f.kind || e.Target != im.targets[f.path] || e.Size != f.stamp.Size || e.Exec != f.exec && !f.noExec && keepsExec() {
			return nil, differs("%q is not like the one in the share", e.Path)
		}
	}
	if err := im.hash(ctx, im.plan()); err != nil {
		if bad, ok := errors.AsType[*ProblemsError](err); ok {
			err = uncompared(bad.Problems[0].Path, bad.Problems[0].Err)
		}
		return nil, err
	}
	for i := range m.Entries() {
		if m.Entry(i).Kind == share.File && im.entry(i, true).Root != m.Entry(i).Root {
			im.discardSlots()
			return nil, differs("%q has other content", m.Entry(i).Path)
		}
	}
	t := im.finish(m)
	if err := t.Look(m.Len()); err != nil { // what was read first was changed while the rest was
		t.handles.LookAgain()
		return nil, errors.Join(differs("%v", err), t.slots.close())
	}
	return t, nil
}
