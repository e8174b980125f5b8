package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// ImportOptions are the options of Import. The zero value works.
type ImportOptions struct {
	Links    LinkMode             // what to do with symlinks; default: keep them
	Workers  int                  // files and pieces hashed at once; default 0: one per core
	Name     string               // the share's name; default: that of the file or folder
	Exclude  func(string) bool    // true for a path in the share leaves it out, and all below it; default: nothing
	State    *State               // remembers hashes, so that importing again hashes nothing; default: none
	Progress func(ImportProgress) // called at most ten times a second, and at the end; one call at a time
	MaxOpen  int                  // files the Tree keeps open; default DefaultMaxOpen
	Of       *share.Manifest      // what was fetched, and should lie there; an incomplete fetch that it has is not left out
	FS       vfs.FS               // where path is looked up, slash-separated; default: this machine
}

// ErrNothingLeft says that all that is in a folder is to be left out.
var ErrNothingLeft = errors.New("everything in it is excluded, so nothing is left to share")

// ImportProgress is how far an import is.
type ImportProgress struct {
	Files, TotalFiles int
	Bytes, Total      int64 // done, and in all
	Hashed            int64 // bytes read and hashed; the others done were remembered
}

// Imported is a share made of what lies on disk.
type Imported struct {
	Manifest *share.Manifest
	Tree     *Tree    // serves it; the caller closes it
	Hashed   int64    // bytes read and hashed
	Cached   int64    // bytes known from an earlier import
	Skipped  int      // symlinks left out, as LinksSkip wants
	Excluded int      // files and folders left out, as Exclude wants
	Warnings []string // for people: what is no error here, but may be where the share is fetched
}

// Import makes a share of the file or folder at path, which stays where it is.
// A path that is itself a symlink is followed.
//
// What cannot be shared is listed in a *ProblemsError (or a *share.PathError for
// names) before anything is hashed, and nothing is shared then. A file that
// changes while it is hashed is hashed once more, and listed if it changes again.
func Import(ctx context.Context, path string, opt ImportOptions) (*Imported, error) {
	im, err := importPath(ctx, path, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return im, nil
}

func importPath(ctx context.Context, path string, opt ImportOptions) (*Imported, error) {
	im, err := newImporting(path, opt)
	if err != nil {
		return nil, err
	}
	todo, err := im.prepare(ctx)
	if err == nil {
		var out *Imported
		if out, err = im.run(ctx, todo); err == nil {
			return out, nil
		}
	}
	im.where.dir.Close()
	return nil, err
}

func newImporting(path string, opt ImportOptions) (*importing, error) {
	at, err := locate(path, opt.FS)
	var where *fs.PathError
	if errors.As(err, &where) { // it has the whole path
		err = where.Err
	}
	if err != nil {
		return nil, err
	}
	if opt.Name != "" {
		at.name = opt.Name
	}
	return &importing{opt: opt, where: at, sharing: opt.FS == nil}, nil
}

// importing is one run of Import, or the check of a target that exists.
type importing struct {
	opt     ImportOptions
	where   location
	sharing bool // it is of this machine, and for others: state directories are left out

	found             []found
	targets           map[string]string // of symlinks, by their paths
	skipped, excluded int
	alike             bool                 // all files can be executed, or none can
	known             recalled             // by found: what the cache says
	roots             []share.Hash         // by found: of files that were hashed
	pieces            map[int][]share.Hash // by found: of files that have more than one
	places            []int64              // by found: its first slot; nil if there are no slots
	bad               problems             // files that could not be hashed
	slots             *slotFile
	temp              string   // the slots' name in the State until they have an ID
	trouble           []string // problems that are no reason to stop

	mu   sync.Mutex // guards pieces, bad, done and last
	done ImportProgress
	last time.Time
}

// prepare finds out what is to be shared, and which files must be hashed for that.
func (im *importing) prepare(ctx context.Context) (todo []int, err error) {
	if err := im.scan(ctx); err != nil {
		return nil, err
	}
	if len(im.found) == 0 && im.excluded > 0 {
		if len(im.trouble) > 0 {
			return nil, words.Error(ErrNothingLeft, "nothing is left to share: %s", strings.Join(im.trouble, "; "))
		}
		return nil, ErrNothingLeft
	}
	if _, err := im.manifest(false); err != nil {
		return nil, err
	}
	return im.plan(), nil
}

// run hashes what prepare has found.
func (im *importing) run(ctx context.Context, todo []int) (*Imported, error) {
	if err := im.hash(ctx, todo); err != nil {
		return nil, err
	}
	m, err := im.manifest(true)
	if err != nil {
		im.discardSlots()
		return nil, err
	}
	t := im.finish(m)
	return &Imported{
		Manifest: m,
		Tree:     t,
		Hashed:   im.done.Hashed,
		Cached:   im.done.Total - min(im.done.Total, im.done.Hashed),
		Skipped:  im.skipped,
		Excluded: im.excluded,
		Warnings: append(im.trouble, warnings(m, im.skipped)...),
	}, nil
}

func warnings(m *share.Manifest, skipped int) (out []string) {
	if skipped > 0 {
		out = append(out, "left out: "+words.Count(skipped, "symlink"))
	}
	bad := share.PortabilityProblems(m, "", nil)
	for _, p := range bad.Problems {
		out = append(out, fmt.Sprintf("%q %s", p.Path, p.Why))
	}
	if more := bad.Count - len(bad.Problems); more > 0 {
		out = append(out, fmt.Sprintf("and %d more such names, %d in all", more, bad.Count))
	}
	return out
}

// scan finds what there is, and refuses what cannot be shared.
func (im *importing) scan(ctx context.Context) error {
	if im.sharing && ownOfState(im.where.path) != "" {
		return words.Error(share.ErrPath, "what is secret in the state directory of a node, such as its private key, is never shared")
	}
	s := scan{links: im.opt.Links, exclude: im.opt.Exclude, sharing: im.sharing, of: im.opt.Of}
	if im.sharing && im.opt.State != nil {
		s.key, _ = im.opt.State.fs.Lstat("key") // without one there is none to leave out
	}
	if im.where.base == "" {
		if err := s.walk(ctx, im.where.dir); err != nil {
			return err
		}
	} else {
		info, err := im.where.dir.Lstat(im.where.base)
		if err != nil {
			return err
		}
		e := vfs.Look(im.where.dir, vfs.DirEntry{Name: im.where.base, Type: info.Type})
		e.Left = s.exclude != nil && s.exclude(im.where.name)
		if err := s.entry(ctx, im.where.dir, im.where.name, e); err != nil {
			return err
		}
		if len(s.left) > 0 {
			return words.Error(share.ErrPath, "the private key of this node is never shared")
		}
	}
	im.found, im.targets, im.skipped, im.excluded, im.trouble = s.found, s.targets, s.skipped, s.excluded, s.left
	im.alike = !s.mixed()
	return s.bad.err()
}

// manifest makes the share's manifest, or before hashing one without content, whose errors
// tell of bad paths and links.
func (im *importing) manifest(content bool) (*share.Manifest, error) {
	name := im.where.name
	if im.where.base == "" {
		name += "/" // a folder, even if it holds one file of its own name
	}
	return share.ManifestOf(name, len(im.found), func(yield func(share.Entry) bool) {
		for i := range im.found {
			if !yield(im.entry(i, content)) {
				return
			}
		}
	})
}

// entry is the entry of what was found at i.
func (im *importing) entry(i int, content bool) share.Entry {
	f := &im.found[i]
	e := share.Entry{Path: f.path, Kind: f.kind, Target: im.targets[f.path]}
	switch {
	case f.kind != share.File:
	case !content:
		e.Root = share.EmptyRoot
	case im.known.of(i).m != nil:
		k := im.known.of(i).entry()
		e.Size, e.Exec, e.Root, e.Pieces = f.stamp.Size, im.execOf(f), k.Root, k.Pieces
	default:
		e.Size, e.Exec, e.Root, e.Pieces = f.stamp.Size, im.execOf(f), im.roots[i], im.pieces[i]
	}
	return e
}

// plan finds out which files must be hashed.
func (im *importing) plan() (todo []int) {
	im.known = im.opt.State.recall(im.where, im.found)
	im.roots, im.pieces = make([]share.Hash, len(im.found)), map[int][]share.Hash{}
	var slot int64
	for i, f := range im.found {
		if im.places != nil {
			im.places[i] = slot
		}
		if f.kind != share.File {
			continue
		}
		room := slotsOf(f.stamp.Size)
		im.done.TotalFiles++
		im.done.Total += f.stamp.Size
		if im.known.of(i).m != nil {
			im.done.Files++
			im.done.Bytes += f.stamp.Size
		} else {
			if todo == nil {
				todo = make([]int, 0, len(im.found)-i)
			}
			todo = append(todo, i)
		}
		if slot += room; room > 0 && im.places == nil {
			im.places = make([]int64, len(im.found)) // those before, and this one, begin at 0
		}
	}
	return todo
}

// hash hashes files, and gathers the block hashes of all.
func (im *importing) hash(ctx context.Context, todo []int) (err error) {
	defer im.report(true)
	if len(todo) == 0 && im.opt.State != nil {
		m, err := im.manifest(true)
		if err != nil {
			return err
		}
		if im.slots = im.opt.State.keptSlots(m.ID()); im.slots != nil {
			return nil
		}
	}
	im.openSlots()
	defer func() {
		if err != nil {
			im.discardSlots()
		}
	}()
	h := &hashing{handles: vfs.NewHandles(shared{im.where.dir}, 0), workers: workersOr(im.opt.Workers), slots: im.slots, progress: im.progress}
	defer h.handles.Close()
	if err := h.all(ctx, toHash{
		n: len(todo),
		file: func(k int) aim {
			f := &im.found[todo[k]]
			return aim{im.where.file(f.path), im.place(todo[k]), slotsOf(f.stamp.Size), f.stamp}
		},
		done: func(k int, f *hashed) { im.took(todo[k], f) },
	}); err != nil {
		return err
	}
	if e := h.trouble.Load(); e != nil {
		im.forgetful(*e)
	}
	return im.bad.err()
}

// took notes the result for the file found at i.
func (im *importing) took(i int, f *hashed) {
	at := &im.found[i]
	at.stamp, at.exec, im.roots[i] = f.stamp, f.exec, share.FileRoot(f.pieces)
	if f.err == nil && len(f.pieces) < 2 {
		return
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.pieces[i] = f.pieces; f.err != nil {
		im.bad.add(at.path, f.err)
	}
}

// shared is an FS that stays open when it is closed.
type shared struct{ vfs.FS }

func (shared) Close() error { return nil }

// openSlots makes the place for block hashes, in the State or in memory, and
// fills in those that are known.
func (im *importing) openSlots() {
	im.slots = &slotFile{}
	if im.opt.State == nil {
		return
	}
	if err := im.slotsIn(im.opt.State); err != nil {
		im.forgetful(err)
	}
}

// slotsIn makes the place for block hashes in s.
func (im *importing) slotsIn(s *State) error {
	temp, err := s.temp.Name(s.fs)
	if err != nil {
		return err
	}
	slots, err := createSlots(s.fs, temp)
	if err != nil {
		return err
	}
	im.slots, im.temp = slots, temp
	return im.copyKnown()
}

// forgetful goes on without keeping block hashes. They only save work: what is
// not kept is made again when it is asked for.
func (im *importing) forgetful(err error) {
	im.discardSlots()
	im.trouble = append(im.trouble, fmt.Sprintf("hashes are not remembered: %v", err))
}

func (im *importing) discardSlots() {
	im.slots.close()
	if im.temp != "" {
		im.opt.State.fs.Remove(im.temp)
	}
	im.slots, im.temp = &slotFile{}, ""
}

// copyKnown takes over the block hashes of files that are not hashed again.
func (im *importing) copyKnown() error {
	open := map[share.ID]*slotFile{}
	defer func() {
		for _, s := range open {
			s.close()
		}
	}()
	for i := range im.found {
		k := im.known.of(i)
		if k.m == nil || slotsOf(im.found[i].stamp.Size) == 0 {
			continue
		}
		from := open[k.m.ID()]
		if from == nil {
			if from = im.opt.State.keptSlots(k.m.ID()); from == nil {
				from = &slotFile{}
			}
			open[k.m.ID()] = from
		}
		first, n := k.m.Layout().PiecesOf(k.at)
		if err := copySlots(im.slots, im.place(i), from, k.slots, first, n); err != nil {
			return err
		}
	}
	return nil
}

// finish keeps what is to be remembered, and makes the Tree. Nothing that was found is needed
// after it: of a million files, it is half of the memory.
func (im *importing) finish(m *share.Manifest) *Tree {
	im.placeSlots(m)
	im.known, im.roots, im.pieces, im.places = nil, nil, nil, nil
	stamps := make([]vfs.Stamp, len(im.found))
	for i := range im.found {
		stamps[i] = im.found[i].stamp
	}
	im.found = nil
	st := im.opt.State
	if st != nil {
		if err := st.remember(im.where.path, diskOf(im.where.dir), m, stamps); err != nil {
			im.trouble = append(im.trouble, fmt.Sprintf("the share is not remembered: %v", err))
		}
		if of := im.opt.Of; of != nil && of.ID() != m.ID() { // what is left of it is still looked for
			st.SaveManifest(of)
		}
	}
	return newTree(m, im.where, stamps, im.slots, im.opt.MaxOpen)
}

// placeSlots moves the block hashes to where the share's are looked for.
func (im *importing) placeSlots(m *share.Manifest) {
	final := newSlotMap(m)
	for i := range im.found {
		if im.found[i].kind == share.File && final.at(i) != im.place(i) {
			// A file changed its size while it was hashed, and the places of those
			// behind it moved. This is too rare to be worth more than starting over.
			im.discardSlots()
			return
		}
	}
	if im.temp == "" {
		return
	}
	st := im.opt.State
	err := im.slots.claim(m.ID())
	if err == nil {
		err = st.fs.Rename(im.temp, "hashes/"+m.ID().String())
	}
	if err != nil {
		im.forgetful(err)
	}
}

func (im *importing) progress(bytes int64, files int) {
	im.mu.Lock()
	im.done.Bytes += bytes
	im.done.Hashed += bytes
	im.done.Files += files
	im.mu.Unlock()
	im.report(false)
}

// report reports the progress, but not too often.
func (im *importing) report(end bool) {
	if im.opt.Progress == nil {
		return
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	now := time.Now()
	if !end && now.Sub(im.last) < 100*time.Millisecond {
		return
	}
	im.last = now
	done := im.done
	done.Bytes, done.Files = min(done.Bytes, done.Total), min(done.Files, done.TotalFiles)
	im.opt.Progress(done)
}
