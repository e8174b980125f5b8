package share

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// PortabilityProblems returns what is wrong with the paths of m on one system, named
// as GOOS names it: what it cannot hold, or cannot keep apart, though others can; in the
// order of the entries. With goos "" it is what any of Linux, macOS and Windows
// cannot. A directory is named once, not with each file below it. Of wanted, by entry, it is about
// those paths at or below which there is something wanted; nil is everything.
//
// The paths are walked for each system that folds names, to find hashes of folded names that
// occur twice in a folder, and then once more: paths are kept only for these.
func PortabilityProblems(m *Manifest, goos string, wanted []bool) *PathError {
	c := checker{m: m, out: &PathError{}}
	for _, s := range systems() {
		if goos == "" || goos == s.goos || goos != "darwin" && goos != "windows" && s.goos == "linux" {
			c.systems = append(c.systems, s)
		}
	}
	var hashes []uint64
	for i, s := range c.systems {
		if s.fold != nil && !m.single {
			hashes = slices.Grow(hashes[:0], m.nodes)
			c.twins[i] = twins(m, s.fold, hashes)
			c.first[i] = make([]string, len(c.twins[i]))
		}
	}
	c.name(m.Name, m.Name)
	c.wanted = wanted
	w := walk[level]{look: func(path, name string, up level) level {
		c.name(path, name)
		return c.fold(path, name, up)
	}}
	for _, e := range m.Entries() {
		if !m.single { // its one path is the name
			w.to(e.Path)
		}
		if e.Kind == Symlink {
			c.link(e.Path, e.Target)
		}
	}
	return c.out
}

// system is how one operating system's names differ from others'. Each
// function's answer ends so that " on " and the system's name can follow; "" is
// no objection.
type system struct {
	goos, called string
	name         func(name string) string
	link         func(path, target string) string
	fold         func(name string) string // equal for names that are the same to this system
}

func systems() []system {
	return []system{
		{goos: "linux", called: "Linux", name: linuxName},
		{goos: "darwin", called: "macOS", name: darwinName, fold: darwinFold},
		{goos: "windows", called: "Windows", name: windowsName, link: windowsLink, fold: func(s string) string {
			if isASCII(s) {
				return strings.ToLower(s)
			}
			return strings.ToLower(strings.ToUpper(s)) // rune by rune, as NTFS does; it does not normalise
		}},
	}
}

func darwinFold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return norm.NFD.String(cases.Fold().String(norm.NFD.String(s)))
}

// maxName is the longest name in bytes on Linux, in UTF-16 units elsewhere.
const maxName = 255

func linuxName(name string) string {
	if len(name) > maxName {
		return fmt.Sprintf("ends in a name of %d bytes, and a name may have %d", len(name), maxName)
	}
	return ""
}

func darwinName(name string) string {
	if n := utf16Len(name); n > maxName {
		return fmt.Sprintf("ends in a name of %d characters, and a name may have %d", n, maxName)
	}
	return ""
}

// windowsForbidden is what no name may hold there; control characters are refused everywhere.
const windowsForbidden = `\<>:"|?*`

func windowsName(name string) string {
	if i := strings.IndexAny(name, windowsForbidden); i >= 0 {
		return fmt.Sprintf("holds %q, which no name may hold", name[i])
	}
	if last := name[len(name)-1]; last == '.' || last == ' ' {
		return "ends in a dot or a space, which is dropped"
	}
	if isDevice(name) {
		return "is the name of a device"
	}
	return darwinName(name)
}

// isDevice knows the names that mean a device on Windows, whatever follows
// their first dot ("Naming Files, Paths, and Namespaces", Microsoft).
func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if n, ok := strings.CutPrefix(base, port); ok && utf8.RuneCountInString(n) == 1 && strings.Contains("0123456789¹²³", n) {
			return true
		}
	}
	return false
}

// windowsLink checks a target as Windows sees it, which removes ".." from the
// text before it follows anything.
func windowsLink(path, target string) string {
	if i := strings.IndexAny(target, windowsForbidden); i >= 0 {
		return fmt.Sprintf("is a link to %q, which holds %q, and no name may hold that", target, target[i])
	}
	depth := strings.Count(path, "/")
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return fmt.Sprintf("is a link to %q, which leaves the share", target)
			}
		default:
			depth++
		}
	}
	return ""
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

type checker struct {
	m       *Manifest
	wanted  []bool // by entry; nil: all
	systems []system
	twins   [maxSystems][]uint64 // by system: what twins returns
	first   [maxSystems][]string // by system: for each of these, the first path that has it
	out     *PathError
}

const maxSystems = 3

// level is what is known of a path.
type level struct {
	hash   uint64
	merged [maxSystems]bool // by system: it, or a directory above, is the same as another
}

// A walk goes through paths in order, directory by directory. T is what is known
// of a file or a directory.
type walk[T any] struct {
	look  func(path, name string, above T) T
	prev  string
	above []component[T] // of prev, outermost first
}

type component[T any] struct {
	end   int // in the path
	known T
}

// to visits each component of p that the path before did not have.
func (w *walk[T]) to(p string) {
	same := commonPrefix(w.prev, p)
	for n := len(w.above); n > 0 && (w.above[n-1].end > same || !ends(p, w.above[n-1].end)); n-- {
		w.above = w.above[:n-1]
	}
	w.prev = p
	var up T
	start := 0
	if n := len(w.above); n > 0 {
		up = w.above[n-1].known
		start = w.above[n-1].end + 1
	}
	for start < len(p) {
		end := len(p)
		if i := strings.IndexByte(p[start:], '/'); i >= 0 {
			end = start + i
		}
		up = w.look(p[:end], p[start:end], up)
		w.above = append(w.above, component[T]{end, up})
		start = end + 1
	}
}

// ends says whether a component of p ends at end.
func ends(p string, end int) bool { return end == len(p) || p[end] == '/' }

// name asks each system about one name, at the end of path.
func (c *checker) name(path, name string) {
	var why [maxSystems]string
	for i, s := range c.systems {
		why[i] = s.name(name)
	}
	c.object(path, "%s on %s", why)
}

func (c *checker) link(path, target string) {
	var why [maxSystems]string
	for i, s := range c.systems {
		if s.link != nil {
			why[i] = s.link(path, target)
		}
	}
	c.object(path, "%s on %s", why)
}

// seed is for hashes of names, which nobody outside this process sees.
var seed = maphash.MakeSeed()

// below is the hash of a name in a directory whose hash is dir.
func below(dir uint64, name string) uint64 {
	return bits.RotateLeft64(dir, 23)*0x9e3779b97f4a7c15 + maphash.String(seed, name)
}

// twins returns the hashes, in order, of folded names that occur more than once in a directory: all of those, and hardly
// any others. It uses hashes, which is empty, as its memory.
func twins(m *Manifest, fold func(name string) string, hashes []uint64) []uint64 {
	w := walk[uint64]{look: func(_, name string, up uint64) uint64 {
		hashes = append(hashes, below(up, fold(name)))
		return below(up, name)
	}}
	for _, e := range m.Entries() {
		w.to(e.Path)
	}
	slices.Sort(hashes)
	n := 0 // the first of them are what is found
	for i := 1; i < len(hashes); i++ {
		if h := hashes[i]; h == hashes[i-1] && (n == 0 || h != hashes[n-1]) {
			hashes[n] = h
			n++
		}
	}
	return slices.Clone(hashes[:n])
}

// Twins returns a function that says of which paths of files and directories of m macOS, on whose disks capitals do not matter,
// nor how a letter is written, takes the name for that of another in the same directory; and hardly of any others. It is nil
// if there are none.
func Twins(m *Manifest) func(path string) bool {
	if m.single {
		return nil
	}
	same := twins(m, darwinFold, make([]uint64, 0, m.nodes))
	if len(same) == 0 {
		return nil
	}
	return func(path string) bool {
		var dir uint64
		name, rest, more := strings.Cut(path, "/")
		for ; more; name, rest, more = strings.Cut(rest, "/") {
			dir = below(dir, name)
		}
		_, ok := slices.BinarySearch(same, below(dir, darwinFold(name)))
		return ok
	}
}

// fold notes where the path before name is, to a system, the same as an earlier one, which is in the same directory: what
// is below a directory that is the same as another is not looked at.
func (c *checker) fold(path, name string, up level) level {
	next := level{below(up.hash, name), up.merged}
	var twin [maxSystems]string // the earlier one
	for i, s := range c.systems {
		if up.merged[i] || len(c.twins[i]) == 0 {
			continue
		}
		folded := s.fold(name)
		at, ok := slices.BinarySearch(c.twins[i], below(up.hash, folded))
		if !ok {
			continue
		}
		first := &c.first[i][at]
		if *first == "" {
			*first = path
		} else if other, same := strings.CutPrefix(*first, path[:len(path)-len(name)]); same && s.fold(other) == folded {
			next.merged[i] = true
			twin[i] = *first
		}
	}
	c.object(path, "is the same as %q on %s", twin)
	return next
}

// object notes what the systems object to path, equal objections in one sentence: text is about an objection and who has it.
func (c *checker) object(path, text string, why [maxSystems]string) {
	for i := range why {
		o, who := why[i], ""
		if o == "" || !c.wants(path) {
			continue
		}
		for j := i; j < len(c.systems); j++ {
			if why[j] != o {
				continue
			}
			if who != "" {
				who += " and "
			}
			who += c.systems[j].called
			why[j] = ""
		}
		c.out.add(path, text, o, who)
	}
}

// wants says whether what is at path is wanted, or something below it.
func (c *checker) wants(path string) bool {
	if c.wanted == nil {
		return true
	}
	if i, ok := c.m.Find(path); ok {
		return c.wanted[i]
	}
	from := sort.Search(c.m.Len(), func(i int) bool { return compare(c.m.Entry(i).Path, "", path, "/") >= 0 })
	to := sort.Search(c.m.Len(), func(i int) bool { return compare(c.m.Entry(i).Path, "", path, "/") > 0 })
	return slices.Contains(c.wanted[from:to], true)
}
