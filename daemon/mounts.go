package daemon

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// roots are the paths at which the files of an entry are.
func roots(e catalog.Entry) []string {
	if e.Kind == catalog.Serve {
		return e.Paths
	}
	return []string{e.Path}
}

// notMounted says why what is at the paths of an entry may lack what a disk has that is not mounted; nil if nothing says so. A path that is not
// there is found by whoever reads it.
func notMounted(e catalog.Entry) error {
	paths := slices.Clone(roots(e))
	for i, p := range paths {
		if absent(p) {
			return nil
		}
		paths[i] = leadsTo(p, 0)
	}
	if m := unmounted(e, paths); m != "" {
		return fmt.Errorf("nothing is mounted at %s, where a disk was before. The entry is served again when the disk is back. To have it served without that disk, remove the entry and add it again", m)
	}
	if e.Kind == catalog.Serve && e.Files > 0 && !slices.ContainsFunc(paths, hasFiles) {
		return fmt.Errorf("it had %s, and has none now: what it had was removed, or is on a disk that is not mounted. It is served again when there are files. If they are gone for good, remove the entry", words.Count(int(e.Files), "file"))
	}
	return nil
}

// unmounted returns where a disk was mounted that has files of an entry at some paths, and is not any more; "" if all are.
func unmounted(e catalog.Entry, paths []string) string {
	for _, m := range e.Mounts { // an earlier version of this program, or of Linux, took subvolumes for disks
		ours := func(p string) bool { return within(p, m) || within(m, p) } // else a link leads elsewhere by now
		if !apart(m) && slices.ContainsFunc(paths, ours) {
			return m
		}
	}
	return ""
}

// hasFiles reports whether there is anything but folders at a path, as far as that can be known.
func hasFiles(at string) (found bool) {
	filepath.WalkDir(at, func(_ string, e fs.DirEntry, err error) error {
		if found = err != nil || !e.IsDir(); found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// mountsOf returns the folders at, above and below the paths of an entry at which the disks are mounted that have the files of m. A disk
// that went since the files were read counts too: without it, the next look would take what it lacks for a new version.
func mountsOf(e catalog.Entry, m *share.Manifest) (out []string) {
	paths, tops := roots(e), map[string]string{} // by the first name in the share
	seen := map[string]bool{}
	for _, p := range paths {
		real := leadsTo(p, 0)
		tops[""], tops[filepath.Base(p)] = real, real
		out = append(out, mountedAbove(real, seen)...)
	}
	for _, f := range m.Entries() {
		name, rest := "", f.Path
		if len(paths) > 1 {
			name, rest, _ = strings.Cut(f.Path, "/")
		}
		top := tops[name]
		at := filepath.Join(top, filepath.FromSlash(rest))
		if f.Kind != share.Dir {
			at = filepath.Dir(at)
		}
		if within(at, top) {
			out = append(out, mountedAbove(at, seen)...)
		}
	}
	return stillAway(e.Mounts, out)
}

// mountedAbove returns the folders at and above a path at which disks are mounted, but for those that were seen.
func mountedAbove(at string, seen map[string]bool) (out []string) {
	for ; !seen[at]; at = filepath.Dir(at) {
		if seen[at] = true; mounted(at) {
			out = append(out, at)
		}
	}
	return out
}

// stillAway returns where disks are mounted now, and where they were and are not any more.
func stillAway(was, now []string) []string {
	for _, at := range was {
		if !slices.Contains(now, at) && !mounted(at) {
			now = append(now, at)
		}
	}
	return now
}

// mounted reports whether a disk other than that of the folder above is mounted at a folder.
func mounted(at string) bool { return apart(at) && !isSubvolume(itself(at)) }

// apart reports whether a folder has another device number than the one above: a disk is mounted at it, or it is a subvolume.
func apart(at string) bool {
	in, err := os.Stat(itself(at))
	above, err2 := os.Stat(filepath.Dir(at))
	return err == nil && err2 == nil && vfs.Device(in) != vfs.Device(above)
}

// itself is a folder by its own name for itself: if something is mounted there only when it is used, it is mounted then.
func itself(at string) string { return at + string(filepath.Separator) + "." }
