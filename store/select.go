package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// A share of which only some files are wanted is finished file by file: each is
// moved from NAME.partial/data to its place below NAME when all of them are there.
// NAME.partial stays and says what was moved, so that a later transfer that wants
// more goes on from there. Once NAME exists in this way, the rest is put into it
// file by file as well; with the last one NAME.partial goes.
//
//	placed   which files lie below NAME, and what they looked like then
//
// The note is durable before the target is made. A file that it names is
// below NAME and looks as noted, or it is still in data, or it is ours no more.
// What else lies below NAME is not looked at, and what is in the way of a file is
// never replaced.

// selection is what is wanted of a share, and what of it lies at the target.
type selection struct {
	wanted []bool            // by entry; nil: all. Guarded by Partial.mu
	wrong  map[int]vfs.Stamp // by entry: what stands at the target and is to be replaced, as it was looked at

	// Written with Partial.life held, read with it read-held.
	placed map[int]vfs.Stamp // by entry: files below the target
	out    *vfs.Handles      // the target's folder; nil while there is none
	done   bool              // all that was wanted lies there

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

// missing is how many bytes are wanted and not here; mu is held.
func (p *Partial) missing() (bytes int64) {
	l := p.m.Layout()
	if p.sel.wanted == nil {
		return l.Bytes() - p.bytes
	}
	for i, wanted := range p.sel.wanted {
		if !wanted {
			continue
		}
		first, n := l.PiecesOf(i)
		for piece := first; piece < first+share.Piece(n); piece++ {
			if !p.have.Has(piece) {
				bytes += int64(l.PieceLen(piece))
			}
		}
	}
	return bytes
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

// readPlaced reads the note, if there is one. One that cannot be read, as an older
// one, still says that the target is filled file by file; what is there is hashed.
func (p *Partial) readPlaced() error {
	b, err := vfs.ReadRecord(p.stage, "placed", vfs.PlacedRecord, placedHead+placedLen*p.m.Len())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !errors.Is(err, vfs.ErrRecord) {
		return err
	}
	p.sel.placed = map[int]vfs.Stamp{}
	if len(b) < placedHead || (len(b)-placedHead)%placedLen != 0 || string(b[:placedHead]) != string(p.m.ID().Bytes()) {
		return nil
	}
	for b = b[placedHead:]; len(b) >= placedLen; b = b[placedLen:] {
		entry := int(binary.LittleEndian.Uint32(b))
		if uint(entry) >= uint(p.m.Len()) || p.m.Entry(entry).Kind != share.File {
			continue
		}
		p.sel.placed[entry] = vfs.Stamp{
			Size:  p.m.Entry(entry).Size,
			MTime: int64(binary.LittleEndian.Uint64(b[4:])),
			CTime: int64(binary.LittleEndian.Uint64(b[12:])),
			Inode: binary.LittleEndian.Uint64(b[20:]),
		}
	}
	return nil
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

// look says whether all that is wanted lies at the target; found is that there is
// a NAME.partial.
func (p *Partial) look(ctx context.Context, found bool) (done bool, err error) {
	if found {
		if err := p.readPlaced(); err != nil {
			return false, err
		}
	}
	if p.opt.Repair && !p.m.Single() && p.sel.placed == nil {
		p.sel.placed = map[int]vfs.Stamp{}
	}
	if !p.byFile() {
		return p.checkTarget(ctx)
	}
	if done, err := p.checkFiles(ctx); err != nil || !done {
		return false, err
	}
	if !found {
		if p.stage != nil { // of a run that was killed when it had removed nearly all of it
			err = p.dropStage()
		}
		p.recognise()
		return true, err
	}
	if err := p.resume(ctx); err != nil {
		return false, err
	}
	p.sel.done = true
	if _, whole, err := p.toPlace(); err != nil || !whole {
		return true, err
	}
	if err := p.makeWhole(); err != nil {
		return true, err
	}
	return true, p.dropStage()
}

// portability is the names that this system cannot hold, of what is wanted.
func (p *Partial) portability(goos string) []share.PathProblem {
	bad := share.PortabilityProblems(p.m, goos)
	if p.sel.wanted == nil {
		return bad
	}
	return slices.DeleteFunc(bad, func(x share.PathProblem) bool {
		i, ok := p.m.Find(x.Path)
		return ok && !p.sel.wanted[i]
	})
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

// checkFiles looks at what lies below the target of what was placed there and of
// what is wanted. A wanted file that is there already is taken as it is if it is
// identical; one that differs is an error that wraps share.ErrExists. done says
// that all that is wanted is there.
func (p *Partial) checkFiles(ctx context.Context) (done bool, err error) {
	info, err := p.dir.Lstat(p.m.Name)
	if errors.Is(err, fs.ErrNotExist) {
		p.sel.placed = nil
		return false, nil
	}
	if err == nil && !info.Type.IsDir() {
		err = fmt.Errorf("%w: %s is something else than in the share", share.ErrExists, p.m.Name)
	}
	if err != nil {
		return false, err
	}
	if err := p.openOut(); err != nil {
		return false, err
	}
	if p.sel.placed == nil {
		p.sel.placed = map[int]vfs.Stamp{}
	}
	var way inTheWay
	var same []found // files to compare, and
	var at []int     // ... their entries
	missing, alike := 0, 0
	for i, e := range p.m.Entries() {
		info, err := p.sel.out.Lstat(e.Path)
		there := err == nil
		like := false
		if was, ok := p.sel.placed[i]; ok {
			if there && info.Type == 0 && was.Is(info.Stamp()) {
				p.madeName(e.Path)
				continue
			}
			like = there && info.Type == 0 && was.Like(info.Stamp())
			delete(p.sel.placed, i) // changed, gone, or never moved
		}
		switch {
		case like: // wanted now or not, its bytes tell
			alike++
			same, at = append(same, foundFile(e.Path, info)), append(at, i)
		case !p.wants(i):
		case err != nil && p.sel.out.Blocked(e.Path):
			way.block(e.Path, "has something else where a folder should be")
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		case !there:
			missing++
		case e.Kind == share.File && info.Type == 0 && info.Size == e.Size && (!vfs.HasExec || info.Exec == e.Exec):
			same, at = append(same, foundFile(e.Path, info)), append(at, i)
		default:
			ok, err := p.isThere(e, info)
			if err != nil {
				return false, err
			}
			p.madeName(e.Path)
			if !ok {
				p.isWrong(i, info, "is not what it is in the share", &way)
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
		p.writePlaced(p.sel.placed) // else they are hashed once more the next time
	}
	return missing == 0 && len(p.sel.wrong) == 0, way.err()
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

// isThere says whether a folder or link is what the share has.
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
	known := p.opt.State.recall(place{name: p.m.Name, path: p.path}, files)
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
			return aim{name: f.path, slot: p.slotMap.first[entries[todo[k]]], room: slotsOf(f.stamp.Size), stamp: f.stamp}
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
			way.block(e.Path, f.err.Error())
		case share.FileRoot(f.pieces) != e.Root:
			p.isWrong(entry, files[todo[k]].info(), "differs", way)
		default:
			p.sel.placed[entry] = f.stamp
		}
	}
	return nil
}

// openOut opens the target's folder.
func (p *Partial) openOut() error {
	d, err := p.dir.Sub(p.m.Name)
	if err == nil {
		p.sel.out = vfs.NewHandles(d, p.opt.MaxOpen)
	}
	return err
}

// addPlaced makes the pieces of placed files durable ones.
func (p *Partial) addPlaced() {
	for entry := range p.sel.placed {
		first, n := p.m.Layout().PiecesOf(entry)
		for piece := first; piece < first+share.Piece(n); piece++ {
			p.durable.Add(piece)
		}
	}
}

// recognise is resume for a share of which all that is wanted lies at the target,
// and for which there is no NAME.partial.
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

// ---- reading ----

// ReadAt reads bytes of an entry's file that the caller knows to be written, or
// to be here; blocks of a piece that is not complete are read as well. It says
// how many bytes there were, with io.EOF if the file ends before dst is full.
func (p *Partial) ReadAt(entry int, dst []byte, off int64) (int, error) {
	if entry < 0 || entry >= p.m.Len() || p.m.Entry(entry).Kind != share.File || off < 0 {
		return 0, fmt.Errorf("read entry %d at %d: %w", entry, off, fs.ErrInvalid)
	}
	s, end := clip(p.m.Entry(entry).Size, off, len(dst))
	s.Entry = entry
	if s.Len == 0 {
		return 0, end
	}
	p.life.RLock()
	defer p.life.RUnlock()
	n, err := 0, error(nil)
	switch {
	case p.tree != nil:
		n, err = p.tree.read(s, dst)
	case p.over:
		err = fs.ErrClosed
	case p.isPlaced(entry) || p.handles == nil:
		n, err = p.readSpan(s, dst)
	default:
		n, err = p.readFresh(s, dst)
	}
	if err == nil {
		err = end
	}
	return n, err
}

// readFresh reads bytes of a file that is fetched; what is here of it may be in
// pieces that are not complete, of which no hashes are known. life is read-held.
func (p *Partial) readFresh(s share.Span, dst []byte) (int, error) {
	release := p.hold(s.Entry)
	if err := p.inspect(s.Entry); err != nil {
		release()
		return 0, err
	}
	if _, untouched := p.known(s.Entry); !untouched {
		release()
		return p.readSpan(s, dst) // or fail
	}
	defer release()
	h, err := p.handles.Files.Get(s.Entry, func() (vfs.File, error) { return p.openFile(s.Entry) })
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", p.m.Entry(s.Entry).Path, err)
	}
	defer p.handles.Files.Put(h)
	if n, err := h.V.ReadAt(dst[:s.Len], s.Offset); n < s.Len {
		return 0, fmt.Errorf("read %s: %w", p.m.Entry(s.Entry).Path, err)
	}
	return s.Len, nil
}

// clip is what of n bytes from off on a file of size bytes has, and io.EOF if that
// is not all.
func clip(size, off int64, n int) (share.Span, error) {
	if left := max(0, size-off); int64(n) > left {
		return share.Span{Offset: off, Len: int(left)}, io.EOF
	}
	return share.Span{Offset: off, Len: n}, nil
}

// readSpan reads bytes from where an entry lies now; life is read-held.
func (p *Partial) readSpan(s share.Span, dst []byte) (int, error) {
	placed := p.isPlaced(s.Entry)
	if !placed && p.handles == nil {
		return 0, ErrNotYet
	}
	err := p.stamped(s.Entry).read(s, dst, p.proof)
	if err == nil {
		return s.Len, nil
	}
	if !placed && errors.Is(err, share.ErrChanged) {
		defer p.hold(s.Entry)()
		p.inspect(s.Entry) // the next Sync hashes it
	}
	return 0, fmt.Errorf("read %s: %w", path.Join(p.m.Name, p.m.Entry(s.Entry).Path), err)
}

// stamped is the file of an entry, where it lies now; life is held. While it is
// fetched we change it ourselves, so that its blocks alone tell what it is.
func (p *Partial) stamped(entry int) stamped {
	if p.isPlaced(entry) {
		return stampedAs(p.m, p.sel.out, p.m.Entry(entry).Path, p.sel.placed[entry])
	}
	return stamped{p.m, p.handles, p.file(entry),
		func(now vfs.Stamp) bool {
			m, ok := p.known(entry)
			return ok && m.Stamp.Is(now)
		},
		func(vfs.Stamp) bool { return true },
		func() (vfs.File, error) { return p.openFile(entry) }, true}
}

// ---- the end ----

// place puts what is wanted, and all of it is here, to its place below the
// target. syncing is held. It may be called again after an error.
func (p *Partial) place() error {
	if p.sel.done && p.doneStill() {
		return nil
	}
	todo, whole, err := p.toPlace()
	if err == nil && p.handles == nil {
		err = ErrNotYet
	}
	if err != nil {
		return err
	}
	if err := p.readyFiles(todo); err != nil {
		return err
	}
	all := maps.Clone(todo)
	maps.Copy(all, p.sel.placed)
	if err := p.writePlaced(all); err != nil {
		return err
	}
	if err := p.makeFolders(todo); err != nil {
		return err
	}
	if err := p.clearWay(todo); err != nil {
		return err
	}
	if err := p.moveFiles(todo); err != nil {
		return err
	}
	if err := p.makeLinks(); err != nil {
		return err
	}
	if err := p.syncOut(); err != nil {
		return err
	}
	if !maps.Equal(all, p.sel.placed) { // to move a file sets its change time
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

// toPlace is the files to be moved, and whether the share is whole then.
func (p *Partial) toPlace() (todo map[int]vfs.Stamp, whole bool, err error) {
	todo, whole = map[int]vfs.Stamp{}, true
	var absent share.Piece
	for i := range p.m.Len() {
		switch {
		case !p.wants(i):
			whole = false
		case p.m.Entry(i).Kind == share.File && !p.isPlaced(i):
			todo[i] = vfs.Stamp{}
			absent += p.absent(i)
		}
	}
	if absent > 0 {
		err = fmt.Errorf("%d pieces are missing: %w", absent, ErrNotYet)
	}
	return todo, whole, err
}

// absent is the number of pieces of an entry that are not durable.
func (p *Partial) absent(entry int) (absent share.Piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, n := p.m.Layout().PiecesOf(entry)
	for piece := first; piece < first+share.Piece(n); piece++ {
		if !p.durable.Has(piece) {
			absent++
		}
	}
	return absent
}

// readyFiles makes files what they will be, and durable, in data.
func (p *Partial) readyFiles(todo map[int]vfs.Stamp) error {
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		e := p.m.Entry(i)
		if err := p.makeEntry(i, e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		st, err := p.finalStamp(i)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		todo[i] = st
	}
	p.mu.Lock()
	dirs := slices.Sorted(maps.Keys(p.batch.dirs))
	p.mu.Unlock()
	return p.syncDirsOf(p.handles, dirs)
}

// makeFolders makes the folders that are wanted below the target, and durable, so
// that what is moved into them can be found after a power cut.
func (p *Partial) makeFolders(todo map[int]vfs.Stamp) error {
	if p.sel.out == nil {
		if err := vfs.EnsureDir(p.dir, p.m.Name); err != nil {
			return err
		}
		if info, err := p.dir.Lstat(p.m.Name); err == nil && !info.Type.IsDir() {
			return fmt.Errorf("%w: %s is no folder", share.ErrExists, p.m.Name)
		}
		p.life.Lock()
		err := p.openOut()
		p.life.Unlock()
		if err != nil {
			return err
		}
	}
	p.sel.out.Made = func(string) {} // madeName is told of all
	for i, e := range p.m.Entries() {
		if _, moves := todo[i]; !moves && !(e.Kind != share.File && p.wants(i)) {
			continue
		}
		dir := path.Dir(e.Path)
		if e.Kind == share.Dir {
			dir = e.Path
		}
		if err := p.sel.out.In(dir, true, func(vfs.FS) error { return nil }); err != nil {
			if p.sel.out.Blocked(dir + "/") {
				err = fmt.Errorf("%w: %w", share.ErrExists, err)
			}
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		p.madeName(dir)
	}
	if err := p.syncOut(); err != nil {
		return err
	}
	return p.dir.SyncDir(".")
}

// clearWay makes sure that the places of files are free. One that was moved
// before, of which only the old name is left, is done.
func (p *Partial) clearWay(todo map[int]vfs.Stamp) error {
	var way inTheWay
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		e := p.m.Entry(i)
		info, err := p.sel.out.Lstat(e.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && p.sel.out.Blocked(e.Path):
			way.block(e.Path, "has something else where a folder should be")
		case err != nil:
			return err
		case p.stillWrong(i, info):
		case info.Inode != 0 && info.Stamp() == todo[i]:
			p.handles.Files.Drop(i)
			if err := p.dir.Remove(path.Join(p.staging, "data", e.Path)); err != nil {
				return err
			}
			p.life.Lock()
			p.put(i, restamp(p.sel.out, e.Path, todo[i]))
			p.life.Unlock()
			delete(todo, i)
		default:
			way.block(e.Path, "was put there, or changed, meanwhile")
		}
	}
	return way.err()
}

// put notes that a file is at its place; life is held.
func (p *Partial) put(entry int, st vfs.Stamp) {
	if p.sel.placed == nil {
		p.sel.placed = map[int]vfs.Stamp{}
	}
	p.sel.placed[entry] = st
	p.madeName(p.m.Entry(entry).Path)
}

// moveFiles moves files to their places. Nobody reads one meanwhile.
func (p *Partial) moveFiles(todo map[int]vfs.Stamp) error {
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		if err := p.moveFile(i, todo[i]); err != nil {
			return fmt.Errorf("%s: %w", p.m.Entry(i).Path, err)
		}
	}
	return nil
}

func (p *Partial) moveFile(entry int, st vfs.Stamp) error {
	p.life.Lock()
	defer p.life.Unlock()
	p.handles.Files.Drop(entry) // an open file cannot be moved on every system
	name := p.m.Entry(entry).Path
	err := p.moveOver(entry, path.Join(p.staging, "data", name), path.Join(p.m.Name, name))
	if err == nil {
		p.put(entry, restamp(p.sel.out, name, st))
	}
	return err
}

// restamp is what a file looks like after it was moved or renamed. If it is another
// by now, what it was stands, and readers find out.
func restamp(in *vfs.Handles, name string, was vfs.Stamp) vfs.Stamp {
	if info, err := in.Lstat(name); err == nil && was.Like(info.Stamp()) {
		return info.Stamp()
	}
	return was
}

// makeLinks makes the links that are wanted, below the target.
func (p *Partial) makeLinks() error {
	for i, e := range p.m.Entries() {
		if e.Kind != share.Symlink || !p.wants(i) {
			continue
		}
		err := p.sel.out.In(path.Dir(e.Path), false, func(d vfs.FS) error {
			err := d.Symlink(e.Target, path.Base(e.Path))
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
			if target, e2 := d.Readlink(path.Base(e.Path)); e2 == nil && target == e.Target {
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
		p.madeName(e.Path)
	}
	return nil
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
	if len(dirs) > manyFiles {
		if err := p.syncAll(nil); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for _, dir := range dirs {
		if err := h.In(dir, false, func(d vfs.FS) error { return d.SyncDir(".") }); err != nil {
			return fmt.Errorf("sync folder %s: %w", dir, err)
		}
	}
	return nil
}

// makeWhole ends the work on a share of which every file has come to its place.
// NAME.partial is not needed any more, but for what finish does next.
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
