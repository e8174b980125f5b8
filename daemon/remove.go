package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// removeFiles removes what this node made for an entry: files and links that look as they did when they were put in their place, and are what
// was fetched, and folders that are then empty. kept says why something stays.
func (d *Daemon) removeFiles(ctx context.Context, e catalog.Entry, m *share.Manifest, made map[int]vfs.Stamp) (gone []string, kept string) {
	dir := leadsTo(e.Dir, 0)
	if at := unmounted(e, []string{dir}); at != "" {
		return []string{}, fmt.Sprintf("nothing is mounted at %s, where a disk was before, so nothing was removed: what was fetched may be on that disk; remove it by hand", at)
	}
	found, err := store.Find(e.Dir, e.Share)
	if err != nil {
		found = store.Found{}
	}
	if at := filepath.Join(dir, e.Title); e.Path == "" && len(made)+len(found.Placed) > 0 && !absent(at) {
		e.Path = at // not all was in its place yet
	}
	gone, kept = discarded(e, found)
	if why := d.stays(e); e.Path == "" || why != "" {
		return gone, cmp.Or(why, kept)
	}
	if m == nil {
		if m, err = d.node.Manifest(ctx, e.Share.String(), nil); err != nil {
			return gone, "the list of files is not here any more, so nothing in " + e.Path + " was removed"
		}
	}
	if len(made) == 0 && !onlyFolders(e, m) && !absent(e.Path) {
		return gone, fmt.Sprintf("nothing at %s is known to have been put there by this node, so all of it stays; remove it by hand", e.Path)
	}
	imp, err := store.Import(ctx, e.Path, store.ImportOptions{Of: m})
	if err != nil {
		return gone, unlooked(e.Path, err)
	}
	defer imp.Tree.Close()
	if why := d.stays(e); why != "" { // to read all of it may have taken hours
		return gone, why
	}
	more, why := removeMade(e, m, made, imp)
	return append(gone, more...), cmp.Or(why, kept)
}

// unlooked says why nothing was removed at a path that cannot be looked at.
func unlooked(path string, err error) string {
	_, gone := os.Lstat(path) // err may be about one file of many
	switch bad := (*store.ProblemsError)(nil); {
	case errors.Is(gone, fs.ErrNotExist):
		return fmt.Sprintf("there is nothing at %s any more, so nothing was removed there", path)
	case errors.As(err, &bad):
		return fmt.Sprintf("nothing in %s was removed, because some of it cannot be read; remove it by hand. What cannot be read:%s", path, bad.List())
	default:
		return fmt.Sprintf("nothing in %s was removed, because it cannot be read: %s; remove it by hand", path, words.Plain(err))
	}
}

// stays says why all of an entry stays where it is; empty: what the node made of it need not.
func (d *Daemon) stays(e catalog.Entry) (why string) {
	switch o, ok := besides(d.all(), e); {
	case e.Path == "":
		return ""
	case e.Found:
		return wasThere(e.Path)
	case leadsTo(e.Path, 0) != e.Path: // it had no links in it
		return fmt.Sprintf("%s is now a link, or lies behind one, so all of it stays; remove it by hand", e.Path)
	case ok:
		return fmt.Sprintf("entry %d uses what is at %s too, so all of it stays", o, e.Path)
	}
	return ""
}

// wasThere says why what is at a path stays, if some of it was not made by the node as far as is known.
func wasThere(path string) string {
	return fmt.Sprintf("some of %s may have been there before this node fetched it, so all of it stays; remove it by hand", path)
}

// removeMade removes what a node made for an entry, if it is still what was imported, and that is what was fetched.
func removeMade(e catalog.Entry, m *share.Manifest, made map[int]vfs.Stamp, imp *store.Imported) (gone []string, kept string) {
	top := e.Path
	if m.Single() {
		top = filepath.Dir(e.Path)
	}
	root, err := vfs.Dir(top)
	if err != nil {
		return gone, words.Plain(err)
	}
	defer root.Close()
	if m.Single() {
		if is, ok := imp.Manifest.Find(m.Entry(0).Path); !ok || !isStill(root, imp, is, filepath.Base(e.Path), m.Entry(0), made[0]) {
			return gone, fmt.Sprintf("this node did not make %s, or it was changed; it stays", e.Path)
		}
		if err := root.Remove(filepath.Base(e.Path)); err != nil {
			return gone, words.Plain(err)
		}
		return append(gone, e.Path), ""
	}
	ever, dirs := everChosen(e, m), map[string]bool{}
	var failed error // to remove what this node made
	for i, f := range m.Entries() {
		was, mine := made[i]
		if !mine && !(f.Kind == share.Dir && ever(f)) {
			continue
		}
		for at := path.Dir(f.Path); at != "."; at = path.Dir(at) {
			dirs[at] = true
		}
		if is, ok := imp.Manifest.Find(f.Path); ok && isStill(root, imp, is, f.Path, f, was) {
			if err := root.Remove(f.Path); err == nil {
				gone = append(gone, filepath.Join(e.Path, filepath.FromSlash(f.Path)))
			} else if f.Kind != share.Dir || errors.Is(err, fs.ErrPermission) { // a folder may hold files of others by now
				failed = err
			}
		}
	}
	failed = cmp.Or(failed, dropEmpty(root, dirs))
	if info, err := os.Lstat(e.Path); failed == nil && err == nil && info.IsDir() {
		if err = os.Remove(e.Path); err == nil {
			return gone, ""
		} else if errors.Is(err, fs.ErrPermission) {
			failed = err
		}
	}
	if failed != nil {
		return gone, words.Plain(failed)
	}
	return gone, notMade(e.Path)
}

// everChosen returns a function that reports whether a file of the share was chosen for an entry at some time.
func everChosen(e catalog.Entry, m *share.Manifest) func(share.Entry) bool {
	ever := []func(share.Entry) bool{chosenBy(catalog.Choice{Only: e.Only, Skip: e.Skip}, m)}
	for _, c := range e.Earlier {
		ever = append(ever, chosenBy(c, m))
	}
	return func(f share.Entry) bool {
		return slices.ContainsFunc(ever, func(chosen func(share.Entry) bool) bool { return chosen(f) })
	}
}

// onlyFolders reports whether nothing but folders of the share was ever chosen for an entry: of these, nothing is known.
func onlyFolders(e catalog.Entry, m *share.Manifest) bool {
	ever := everChosen(e, m)
	for _, f := range m.Entries() {
		if f.Kind != share.Dir && ever(f) {
			return false
		}
	}
	return true
}

// chosenBy returns a function that reports whether a choice has a file of the share.
func chosenBy(c catalog.Choice, m *share.Manifest) func(share.Entry) bool {
	only, err := share.ParseGlobs(c.Only)
	skip, err2 := share.ParseGlobs(c.Skip)
	if errors.Join(err, err2) != nil { // the catalog has checked them
		return func(share.Entry) bool { return false }
	}
	only, skip = only.In(m), skip.In(m)
	return func(f share.Entry) bool { return (len(c.Only) == 0 || only.Match(f.Path)) && !skip.Match(f.Path) }
}

// isStill reports whether what lies at name is entry is of what was imported, as it was then, and is what f was when it was
// put there, which looked like made.
func isStill(root vfs.FS, imp *store.Imported, is int, name string, f share.Entry, made vfs.Stamp) bool {
	was := imp.Manifest.Entry(is)
	if was.Kind != f.Kind || was.Size != f.Size || was.Root != f.Root || was.Target != f.Target {
		return false
	}
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return false
	case f.Kind == share.Dir:
		return info.Type.IsDir()
	case !made.Still(info.Stamp()) && !made.Renumbered(info): // others have put it there
		return false
	case f.Kind == share.Symlink:
		target, err := root.Readlink(name)
		return err == nil && info.Type == fs.ModeSymlink && target == f.Target
	}
	return imp.Tree.IsStill(is, info)
}

// discarded removes what an entry has fetched of an incomplete share.
func discarded(e catalog.Entry, found store.Found) (gone []string, kept string) {
	gone = []string{}
	switch {
	case found.Path == "":
		return gone, ""
	case found.Copy:
		return gone, fmt.Sprintf("%s is a copy that this node did not make, and stays", found.Path)
	case e.Found:
		return gone, wasThere(found.Path)
	case withOthers(e, found):
		return gone, fmt.Sprintf("%s also has what another fetch of the same share brought, and stays", found.Path)
	}
	at, kept, err := store.Discard(e.Dir, found.Manifest)
	switch {
	case err != nil:
		return gone, fmt.Sprintf("%s stays: %s", found.Path, words.Plain(err))
	case kept != "":
		return gone, notMade(kept)
	case at == "": // it has gone meanwhile
		return gone, ""
	}
	return append(gone, at), ""
}

// withOthers reports whether a NAME.partial is also that of others, who have begun files, or put them in their place, that were never chosen for an entry.
func withOthers(e catalog.Entry, found store.Found) bool {
	ever := everChosen(e, found.Manifest)
	begun := func(f share.Entry) bool {
		info, err := os.Lstat(filepath.Join(found.Path, "data", filepath.FromSlash(f.Path)))
		return err == nil && info.Size() > 0
	}
	for _, f := range found.Manifest.Entries() {
		if f.Kind == share.File && !ever(f) && (found.Placed[f.Path] || begun(f)) {
			return true
		}
	}
	return false
}

// besides returns another entry, of all, that has files in the place of a fetch, or has that place among its files.
func besides(all []*keeper, e catalog.Entry) (other catalog.ID, ok bool) {
	var inside []fs.FileInfo // folders in e.Path
	var points []string
	apart := map[string]bool{} // paths that are none of inside
	for _, k := range all {
		o := k.entry()
		if o.ID == e.ID {
			continue
		}
		at := o.Paths
		if o.Kind == catalog.Fetch {
			if o.Path != "" {
				at = []string{o.Path}
			} else if o.Title != "" { // it is being fetched
				at = []string{filepath.Join(o.Dir, o.Title)}
			}
		}
		for _, p := range at {
			if p = leadsTo(p, 0); lies(p, e.Path) || lies(e.Path, p) {
				return o.ID, true
			}
			if inside == nil {
				inside, points = foldersIn(e.Path), mountPoints()
			}
			below := func(at string) bool {
				return at != p && within(at, p) && (lies(e.Path, at) || isOne(at, inside))
			}
			if mountsOne(p, inside, apart) || slices.ContainsFunc(points, below) {
				return o.ID, true
			}
		}
	}
	return 0, false
}

// foldersIn returns the folder at a path, if there is one, and those below it.
func foldersIn(top string) []fs.FileInfo {
	out := []fs.FileInfo{}
	filepath.WalkDir(top, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			if info, err := e.Info(); err == nil {
				out = append(out, info)
			}
		}
		return nil
	})
	return out
}

// isOne reports whether what is at a path is one of some folders, by whatever name.
func isOne(at string, of []fs.FileInfo) bool {
	in, err := os.Stat(at)
	return err == nil && slices.ContainsFunc(of, func(f fs.FileInfo) bool { return os.SameFile(in, f) })
}

// mountsOne reports whether a path is, or lies below, one of some folders, by whatever name: one that is mounted a second time.
// Paths that are none of them are put into apart.
func mountsOne(at string, of []fs.FileInfo, apart map[string]bool) bool {
	for ; !apart[at]; at = filepath.Dir(at) {
		if isOne(at, of) {
			return true
		}
		apart[at] = true
	}
	return false
}

// lies reports whether a path is another, or lies below it, also by another name: that of a second mount, or one with other capitals where
// these do not count.
func lies(at, above string) bool {
	if within(at, above) {
		return true
	}
	top, err := os.Stat(above)
	for err == nil {
		if in, err := os.Stat(at); err == nil && os.SameFile(in, top) && (in.IsDir() || lies(filepath.Dir(at), filepath.Dir(above))) {
			return true // a file of two names in two folders is not lost with one of them
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	return false
}

// dropEmpty removes those folders that are empty; with each, dirs has all that are above it. What else has the name of one stays, and so does
// what a link leads to. It fails if the user may not remove one.
func dropEmpty(root vfs.FS, dirs map[string]bool) (failed error) {
	all := slices.Sorted(maps.Keys(dirs)) // the outer ones first
	real := map[string]bool{".": true}
	for _, at := range all {
		info, err := root.Lstat(at)
		real[at] = real[path.Dir(at)] && err == nil && info.Type.IsDir()
	}
	for _, at := range slices.Backward(all) {
		if real[at] {
			if err := root.Remove(at); errors.Is(err, fs.ErrPermission) { // folders that are not empty stay
				failed = cmp.Or(failed, err)
			}
		}
	}
	return failed
}

// notMade says why some of a path stays.
func notMade(path string) string {
	return path + " has files that this node did not make, or that were changed; they stay"
}
