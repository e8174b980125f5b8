package daemon

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/store"
)

// watch learns from the system which served files change. It is there for speed: what it misses,
// because a tree has too many folders or the system reports nothing, the next scheduled check
// finds.
type watch struct {
	w       *fsnotify.Watcher
	changed func(id catalog.ID, chmod bool) // chmod: no more than the mode of a file
	done    chan struct{}

	calls sync.Mutex // held while w is called, and taken before mu

	mu    sync.Mutex                                  // guards the fields below; not held while w is called, which may wait until run has read what it has to tell
	at    map[string]folderID                         // the folders that are watched, by their paths
	dirs  map[folderID]map[string]map[catalog.ID]bool // ... the entries that hear of them, by the paths that these know them by
	paths map[catalog.ID][]string                     // the served paths; much else may change beside them
}

// folderID is one folder, which has several paths if it is mounted a second time: the system tells of it by one of them only.
type folderID struct {
	device, inode uint64
	path          string // where it has no such numbers
}

// maxFolders is how many folders are watched for all entries together.
const maxFolders = 20_000

// newWatch starts watching; a nil watch reports nothing.
func newWatch(changed func(id catalog.ID, chmod bool)) (*watch, error) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		return nil, nil // elsewhere each file in a folder would be kept open
	}
	w, err := fsnotify.NewBufferedWatcher(256)
	if err != nil {
		return nil, err
	}
	h := watching(w, changed)
	go h.run() // close waits for it
	return h, nil
}

func watching(w *fsnotify.Watcher, changed func(id catalog.ID, chmod bool)) *watch {
	return &watch{w: w, changed: changed, done: make(chan struct{}), at: map[string]folderID{}, dirs: map[folderID]map[string]map[catalog.ID]bool{}, paths: map[catalog.ID][]string{}}
}

// set makes the folders below its paths, as they are now, those of which changes are reported to an entry. What changes meanwhile
// in a folder that is one of them before and after is reported.
func (h *watch) set(id catalog.ID, paths []string) {
	if h == nil {
		return
	}
	var all []string
	for _, p := range paths {
		real := leadsTo(p, 0)
		if all = append(all, real); real != p { // the link itself may change, too
			all = append(all, p)
		}
	}
	h.mu.Lock()
	h.paths[id] = append(h.paths[id], all...)
	h.mu.Unlock()
	now := map[string]bool{}
	for _, p := range all {
		h.addReal(id, p, now)
	}
	h.mu.Lock()
	h.paths[id] = all
	h.mu.Unlock()
	h.drop(id, now)
}

// addReal adds the folders of one path, and follows no links. They are put into now.
func (h *watch) addReal(id catalog.ID, p string, now map[string]bool) {
	folder := func(at string) bool {
		now[at] = now[at] || h.folder(id, at)
		return now[at]
	}
	for at := filepath.Dir(p); !folder(at) && at != filepath.Dir(at); { // where it may vanish, or come back
		at = filepath.Dir(at)
	}
	filepath.WalkDir(p, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir():
			return nil // the import reports what cannot be read
		case at != p && store.IsStage(at):
			return fs.SkipDir // of a fetch into the same folder
		case !folder(at):
			return fs.SkipAll
		}
		return nil
	})
}

// leadsTo follows the links of a path, also to where nothing is now; after too many links it stops.
func leadsTo(p string, links int) string {
	if real, err := filepath.EvalSymlinks(p); err == nil || links > 20 || p == filepath.Dir(p) {
		return cmp.Or(real, p)
	}
	dir := leadsTo(filepath.Dir(p), links)
	p = filepath.Join(dir, filepath.Base(p))
	to, err := os.Readlink(p)
	switch {
	case err != nil:
		return p
	case !filepath.IsAbs(to):
		to = filepath.Join(dir, to)
	}
	return leadsTo(to, links+1)
}

// folder watches one folder; false means that it cannot be watched, and drop is to forget it.
func (h *watch) folder(id catalog.ID, at string) bool {
	h.calls.Lock()
	defer h.calls.Unlock()
	now, err := folderOf(at)
	if err != nil {
		return false
	}
	left, ok := h.hears(id, at, now)
	if len(left) > 0 {
		h.unwatch([]string{at}, left)
	}
	return ok && h.w.Add(at) == nil // even if watched: it may be another folder by now
}

// hears makes a folder one of those of which changes are reported to an entry; it is not ok if no more can be watched. Where another folder was
// before, the paths that are left to that are returned.
func (h *watch) hears(id catalog.ID, at string, now folderID) (left []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, known := h.at[at]
	if !known && len(h.at) >= maxFolders {
		return nil, false
	}
	ids := h.dirs[was][at]
	if !known {
		ids = map[catalog.ID]bool{}
	}
	ids[id] = true
	if was != now {
		delete(h.dirs[was], at)
		left = slices.Collect(maps.Keys(h.dirs[was]))
		if h.dirs[now] == nil {
			h.dirs[now] = map[string]map[catalog.ID]bool{}
		}
		h.at[at], h.dirs[now][at] = now, ids
	}
	return left, true
}

// remove stops all reports to an entry.
func (h *watch) remove(id catalog.ID) {
	if h == nil {
		return
	}
	h.mu.Lock()
	delete(h.paths, id)
	h.mu.Unlock()
	h.drop(id, nil)
}

// drop stops the reports to an entry about folders but those to keep.
func (h *watch) drop(id catalog.ID, keep map[string]bool) {
	h.calls.Lock()
	defer h.calls.Unlock()
	h.unwatch(h.forget(id, keep))
}

// forget is drop for what is known here. It returns the paths that no entry knows a folder by any more, and those that are left to such folders.
func (h *watch) forget(id catalog.ID, keep map[string]bool) (gone, left []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for dir, all := range h.dirs {
		before := len(all)
		for at, ids := range all {
			if !keep[at] {
				delete(ids, id)
			}
			if len(ids) == 0 {
				delete(all, at)
				delete(h.at, at)
				gone = append(gone, at)
			}
		}
		if len(all) == 0 {
			delete(h.dirs, dir)
		} else if len(all) < before {
			left = slices.AppendSeq(left, maps.Keys(all))
		}
	}
	return gone, left
}

// unwatch ends the watch of folders by paths that are gone, and begins that by those that are left to them. What changes in between is missed.
// Called with calls.
func (h *watch) unwatch(gone, left []string) {
	for _, at := range gone {
		h.end(at)
	}
	for _, at := range left {
		_ = h.w.Add(at)
	}
}

// end ends the watch of a folder. It fails for one that has gone, which is not watched anyway. Where another folder that is watched
// has taken the name of one since, by a move or a mount, fsnotify knows the name and no watch, and dereferences nil: nothing is left to be done then.
func (h *watch) end(at string) {
	defer func() { _ = recover() }()
	_ = h.w.Remove(at)
}

func (h *watch) run() {
	defer close(h.done)
	for {
		select {
		case e, open := <-h.w.Events:
			if !open {
				return
			}
			h.tell(e.Name, e.Op == fsnotify.Chmod)
		case err, open := <-h.w.Errors:
			if !open {
				return
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				h.tell("", false)
			}
		}
	}
}

// tell reports a change to the entries whose folder has the file, or to all if that is unknown.
func (h *watch) tell(file string, chmod bool) {
	if info, err := os.Lstat(file); err == nil && info.IsDir() {
		if store.IsStage(file) {
			return // of a fetch into the same folder
		}
		chmod = false // what is in it may not be found any more
	}
	told := map[catalog.ID]bool{}
	h.mu.Lock()
	for _, at := range []string{file, filepath.Dir(file)} {
		for known, ids := range h.dirs[h.at[at]] {
			known = filepath.Join(known, strings.TrimPrefix(file, at))
			for id := range ids {
				told[id] = told[id] || slices.ContainsFunc(h.paths[id], func(p string) bool { return within(known, p) || within(p, known) })
			}
		}
	}
	for id := range h.paths {
		told[id] = told[id] || file == ""
	}
	h.mu.Unlock()
	for id, is := range told {
		if is {
			h.changed(id, chmod)
		}
	}
}

// within reports whether a path is another, or lies below it.
func within(at, above string) bool {
	return at == above || strings.HasPrefix(at, strings.TrimSuffix(above, string(filepath.Separator))+string(filepath.Separator))
}

func (h *watch) close() {
	if h != nil {
		h.w.Close()
		<-h.done
	}
}
