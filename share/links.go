package share

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// linkProblems adds to out what is wrong with the symlinks of m, whose entries must be sorted:
// targets that no system can hold, and links that lead out of the share.
//
// A link is resolved as a kernel would, step by step through the entries
// themselves, so x -> . with l -> x/x/../.. is seen to leave. What does not exist,
// or is a file, is passed as if it were a directory, because it may become one. A
// circle leads nowhere, and so not out.
//
// Each link is resolved once, so there are at most as many steps as there are names in all
// targets, whatever the manifest says, and each is one search among the sorted
// paths. No tree is built: the memory is 28 bytes for each link.
func linkProblems(m *Manifest, out *PathError) {
	_, _, n := m.Count()
	w := walker{m: m, links: make([]link, 0, n)}
	for i, e := range m.Entries() {
		if e.Kind == Symlink {
			w.links = append(w.links, link{entry: int32(i), bad: badTarget(e.Target) != ""})
		}
	}
	for i := range w.links {
		e := m.Entry(int(w.links[i].entry))
		why := badTarget(e.Target)
		if why == "" && w.leaves(int32(i)) {
			why = "leaves the share"
		}
		if why != "" {
			out.add(e.Path, "is a link to %q, which %s", e.Target, why)
		}
	}
}

// badTarget says what is wrong with a link's target in itself; "" if nothing.
func badTarget(target string) string {
	switch {
	case target == "":
		return "is empty"
	case target[0] == '/':
		return "is absolute"
	}
	return badText(target)
}

// A spot is something that is there: the first len bytes of the path of an entry. The
// root has none.
type spot struct{ entry, len int32 }

// A link is being resolved, or has been.
type link struct {
	entry int32
	up    int32  // the link that waits for this one, by its index; -1 if none does
	at    spot   // what is reached
	below int32  // how many steps below at, among what does not exist
	next  uint16 // where the rest of the target begins
	state linkState
	bad   bool // the target is invalid, so the link is passed like a file
}

type linkState uint8

const (
	unknown linkState = iota // nobody has followed it yet
	walking
	arrived
	outside // beyond the root
	nowhere // a circle of links
)

type walker struct {
	m     *Manifest
	links []link // by entry
}

// leaves says whether a link, by its index, leads out of the share.
func (w *walker) leaves(i int32) bool {
	if w.links[i].state == unknown {
		w.start(i, -1)
		w.follow(i)
	}
	return w.links[i].state == outside
}

// follow resolves a link, and first each link that it leads through.
func (w *walker) follow(i int32) {
	for i >= 0 {
		l := &w.links[i]
		if l.state == walking {
			if via := w.walk(l); via >= 0 {
				w.start(via, i)
				i = via
			}
			continue
		}
		if l.up >= 0 { // goes on from where l leads, or ends as l does
			up := &w.links[l.up]
			if l.state == arrived {
				up.at, up.below = l.at, l.below
			} else {
				up.state = l.state
			}
		}
		i = l.up
	}
}

func (w *walker) start(i, up int32) {
	l := &w.links[i]
	l.state, l.up = walking, up
	l.at = w.above(spot{l.entry, int32(len(w.m.Entry(int(l.entry)).Path))})
}

// walk resolves l until it is done, or comes to a link that is not resolved yet: it returns
// the index of that link, and else -1.
func (w *walker) walk(l *link) (via int32) {
	target := w.m.Entry(int(l.entry)).Target
	for int(l.next) < len(target) {
		name, _, _ := strings.Cut(target[l.next:], "/")
		l.next = uint16(min(int(l.next)+len(name)+1, len(target)))
		switch {
		case name == "" || name == ".":
		case name == ".." && l.below > 0:
			l.below--
		case name == ".." && l.at.len == 0:
			l.state = outside
			return -1
		case name == "..":
			l.at = w.above(l.at)
		case l.below > 0:
			l.below++
		default:
			if via := w.enter(l, name); via >= 0 || l.state != walking {
				return via
			}
		}
	}
	l.state = arrived
	return -1
}

// enter moves l to what is called name in its present place. It returns what walk does.
func (w *walker) enter(l *link, name string) (via int32) {
	at, ok := w.find(l.at, name)
	if !ok {
		l.below++
		return -1
	}
	i, isLink := slices.BinarySearchFunc(w.links, at.entry, func(x link, entry int32) int { return cmp.Compare(x.entry, entry) })
	if !isLink || w.links[i].bad || int(at.len) < len(w.m.Entry(int(at.entry)).Path) {
		l.at = at
		return -1
	}
	switch through := &w.links[i]; through.state {
	case unknown:
		return int32(i)
	case walking:
		l.state = nowhere
	case arrived:
		l.at, l.below = through.at, through.below
	default:
		l.state = through.state
	}
	return -1
}

// above is the directory that s is in.
func (w *walker) above(s spot) spot {
	path := w.m.Entry(int(s.entry)).Path[:s.len]
	return spot{s.entry, int32(max(0, strings.LastIndexByte(path, '/')))}
}

// find returns what is called name in dir: an entry, or a directory that one implies.
func (w *walker) find(dir spot, name string) (spot, bool) {
	at := w.m.Entry(int(dir.entry)).Path[:dir.len]
	for _, end := range []string{"", "/"} {
		i, found := sort.Find(w.m.Len(), func(i int) int { return -compare(w.m.Entry(i).Path, at, name, end) })
		if n := dir.len + int32(len(name)) + min(1, dir.len); found {
			return spot{int32(i), n}, true
		}
	}
	return spot{}, false
}

// compare compares a path with that of name in dir, or with end "/" with the paths of
// all that is in it.
func compare(path, dir, name, end string) int {
	slash := ""
	if dir != "" {
		slash = "/"
	}
	for _, part := range [...]string{dir, slash, name, end} {
		n := min(len(part), len(path))
		if c := strings.Compare(path[:n], part); c != 0 {
			return c
		}
		path = path[n:]
	}
	if end == "" {
		return len(path)
	}
	return 0
}
