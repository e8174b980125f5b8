package daemon

import (
	"cmp"
	"errors"
	"io/fs"
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

	mu    sync.Mutex // guards the fields below; not held while w is called, which may wait until run has read what it has to tell
	dirs  map[string]map[catalog.ID]bool
	paths map[catalog.ID][]string // the served paths; much else may change beside them
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
	h := &watch{w: w, changed: changed, done: make(chan struct{}), dirs: map[string]map[catalog.ID]bool{}, paths: map[catalog.ID][]string{}}
	go h.run() // close waits for it
	return h, nil
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
	return h.hears(id, at) && h.w.Add(at) == nil // even if watched: it may be another folder by now
}

// hears makes a folder one of those of which changes are reported to an entry; false means that no more can be watched.
func (h *watch) hears(id catalog.ID, at string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dirs[at] == nil {
		if len(h.dirs) >= maxFolders {
			return false
		}
		h.dirs[at] = map[catalog.ID]bool{}
	}
	h.dirs[at][id] = true
	return true
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
	for _, at := range h.forget(id, keep) {
		h.unwatch(at)
	}
}

// forget is drop for what is known here: it returns the folders that are of no entry any more.
func (h *watch) forget(id catalog.ID, keep map[string]bool) (unheard []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, ids := range h.dirs {
		if keep[at] {
			continue
		}
		if delete(ids, id); len(ids) == 0 {
			delete(h.dirs, at)
			unheard = append(unheard, at)
		}
	}
	return unheard
}

// unwatch ends the watch of a folder. It fails for one that has gone, which is not watched anyway. Where another folder that is watched
// has taken the name of one since, by a move or a mount, fsnotify knows the name and no watch, and dereferences nil: nothing is left to be done then.
func (h *watch) unwatch(at string) {
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
	if info, err := os.Lstat(file); err == nil && info.IsDir() && store.IsStage(file) {
		return // of a fetch into the same folder
	}
	told := map[catalog.ID]bool{}
	h.mu.Lock()
	for _, at := range []string{file, filepath.Dir(file)} {
		for id := range h.dirs[at] {
			told[id] = told[id] || slices.ContainsFunc(h.paths[id], func(p string) bool { return within(file, p) || within(p, file) })
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
