package share

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// PortabilityProblems is everything about the paths of m that one system, named
// as GOOS names it, cannot hold, or cannot keep apart, though others can; in the
// order of the entries. With goos "" it is what any of Linux, macOS and Windows
// cannot. A directory is named once, not with each file below it.
func PortabilityProblems(m *Manifest, goos string) []PathProblem {
	c := checker{}
	for _, s := range systems() {
		if goos == "" || goos == s.goos || goos != "darwin" && goos != "windows" && s.goos == "linux" {
			c.systems = append(c.systems, s)
		}
	}
	c.name(m.Name, m.Name)
	c.folded = make([]map[edge]held, len(c.systems))
	for i, s := range c.systems {
		if s.fold != nil {
			c.folded[i] = make(map[edge]held, len(m.Entries))
		}
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		if !m.single { // its one path is the name
			c.path(e.Path)
		}
		if e.Kind == Symlink {
			c.link(e)
		}
	}
	return c.out
}

// system is what sets one operating system's names apart from others'. Each
// function's answer ends so that " on " and the system's name can follow; "" is
// no objection.
type system struct {
	goos, called string
	name         func(name string) string
	link         func(e *Entry) string
	fold         func(name string) string // equal for names that are one to this system
}

func systems() []system {
	fold := cases.Fold()
	return []system{
		{goos: "linux", called: "Linux", name: linuxName},
		{goos: "darwin", called: "macOS", name: darwinName, fold: func(s string) string {
			if isASCII(s) {
				return strings.ToLower(s)
			}
			return norm.NFD.String(fold.String(norm.NFD.String(s)))
		}},
		{goos: "windows", called: "Windows", name: windowsName, link: windowsLink, fold: func(s string) string {
			if isASCII(s) {
				return strings.ToLower(s)
			}
			return strings.ToLower(strings.ToUpper(s)) // rune by rune, as NTFS does; it does not normalise
		}},
	}
}

// maxName is the longest name in bytes on Linux, in UTF-16 units elsewhere.
const maxName = 255

func linuxName(name string) string {
	if len(name) > maxName {
		return fmt.Sprintf("has %d bytes in its last name, too many", len(name))
	}
	return ""
}

func darwinName(name string) string {
	if n := utf16Len(name); n > maxName {
		return fmt.Sprintf("has %d characters in its last name, too many", n)
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

// windowsLink looks at a target as Windows does, which takes ".." away from the
// text before it follows anything.
func windowsLink(e *Entry) string {
	if strings.ContainsAny(e.Target, windowsForbidden) {
		return fmt.Sprintf("is a link to %q, which cannot be one", e.Target)
	}
	depth := strings.Count(e.Path, "/")
	for name := range strings.SplitSeq(e.Target, "/") {
		switch name {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return fmt.Sprintf("is a link to %q, which leaves the share", e.Target)
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

// checker walks the paths of a manifest in order.
type checker struct {
	systems []system
	folded  []map[edge]held // by system: the tree as it holds it
	above   []level         // the directories of the path before, outermost first
	prev    string
	out     []PathProblem
}

// held is a name in a folded tree.
type held struct {
	at   spot
	path string // the first to have it
}

// level is a component of the path that was walked last.
type level struct {
	end    int              // of the component, in its path
	at     [maxSystems]spot // by system: its place in the folded tree
	merged [maxSystems]bool // by system: it, or a directory above, is one with another
}

const maxSystems = 3

// path looks at the components of p that the path before did not have.
func (c *checker) path(p string) {
	same := commonPrefix(c.prev, p)
	for n := len(c.above); n > 0 && (c.above[n-1].end > same || !ends(p, c.above[n-1].end)); n-- {
		c.above = c.above[:n-1]
	}
	c.prev = p
	var up level
	start := 0
	if n := len(c.above); n > 0 {
		up = c.above[n-1]
		start = up.end + 1
	}
	for start < len(p) {
		end := len(p)
		if i := strings.IndexByte(p[start:], '/'); i >= 0 {
			end = start + i
		}
		c.name(p[:end], p[start:end])
		up = c.fold(p[:end], p[start:end], up)
		c.above = append(c.above, up)
		start = end + 1
	}
}

// ends says whether a component of p ends at end.
func ends(p string, end int) bool { return end == len(p) || p[end] == '/' }

// name asks each system about one name, at the end of path.
func (c *checker) name(path, name string) {
	c.ask(path, func(_ int, s *system) string { return s.name(name) })
}

func (c *checker) link(e *Entry) {
	c.ask(e.Path, func(_ int, s *system) string {
		if s.link == nil {
			return ""
		}
		return s.link(e)
	})
}

// fold puts name into each system's tree below up, and says so where another is
// there already.
func (c *checker) fold(path, name string, up level) level {
	next := level{end: len(path)}
	var twin [maxSystems]string
	for i := range c.systems {
		if c.folded[i] == nil {
			continue
		}
		key := edge{up.at[i], c.systems[i].fold(name)}
		h, ok := c.folded[i][key]
		if !ok {
			h = held{spot(len(c.folded[i]) + 1), path}
			c.folded[i][key] = h
		}
		next.at[i] = h.at
		next.merged[i] = up.merged[i] || h.path != path
		if next.merged[i] && !up.merged[i] {
			twin[i] = fmt.Sprintf("is the same as %q", h.path)
		}
	}
	c.ask(path, func(i int, _ *system) string { return twin[i] })
	return next
}

// ask collects the objections of all systems to path, equal ones in one sentence.
func (c *checker) ask(path string, why func(i int, s *system) string) {
	var objections [maxSystems]string
	for i := range c.systems {
		objections[i] = why(i, &c.systems[i])
	}
	for i := range c.systems {
		o := objections[i]
		if o == "" {
			continue
		}
		var who []string
		for j := i; j < len(c.systems); j++ {
			if objections[j] == o {
				who = append(who, c.systems[j].called)
				objections[j] = ""
			}
		}
		c.out = append(c.out, PathProblem{path, o + " on " + strings.Join(who, " and ")})
	}
}
