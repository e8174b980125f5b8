package share

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A PathProblem is one reason why a path cannot exist, here or anywhere.
type PathProblem struct {
	Path string
	Why  string // continues a sentence that begins with the path
}

// PathError lists paths that were refused. It wraps ErrPath.
type PathError struct {
	Problems []PathProblem // the first 100
	Count    int           // of all
}

const maxListed = 100

// add adds a problem, which is spelled out only if it is listed.
func (e *PathError) add(path, why string, args ...any) {
	if e.Count++; e.Count <= maxListed {
		e.Problems = append(e.Problems, PathProblem{path, fmt.Sprintf(why, args...)})
	}
}

func (e *PathError) Error() string {
	var b strings.Builder
	b.WriteString("paths that are unsafe, or that cannot exist on this system:")
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %q %s", p.Path, p.Why)
	}
	if more := e.Count - len(e.Problems); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more, %d in all", more, e.Count)
	}
	return b.String()
}

func (e *PathError) Unwrap() error { return ErrPath }

// problems is everything about the paths of m that is refused on every system, in
// the order of the entries, which must be sorted by path.
func (m *Manifest) problems() *PathError {
	out := &PathError{}
	if strings.Contains(m.Name, "/") {
		out.add(m.Name, "holds a / and cannot be the name of a share")
	} else if m.Name == "." || m.Name == ".." {
		out.add(m.Name, "cannot be the name of a share")
	} else if why := badPath(m.Name); why != "" {
		out.add(m.Name, "%s", why)
	}
	// above holds the entries whose path is a prefix of the present one, shortest first:
	// every entry that could lie above it is among them, because everything that sorts
	// between a path and its extension has the path as its prefix.
	var above []Entry
	prev := ""
	for i, e := range m.Entries() {
		if why := badPath(e.Path); why != "" {
			out.add(e.Path, "%s", why)
		}
		if i > 0 && e.Path == prev {
			out.add(e.Path, "is listed twice")
			continue
		}
		same := commonPrefix(prev, e.Path)
		for len(above) > 0 && len(above[len(above)-1].Path) > same {
			above = above[:len(above)-1]
		}
		for _, a := range above {
			if a.Path == "" || len(a.Path) >= len(e.Path) || e.Path[len(a.Path)] != '/' {
				continue
			}
			if a.Kind == Dir {
				out.add(a.Path, "is listed as an empty folder and holds %q", e.Path)
			} else {
				out.add(e.Path, "is below %q, which is not a folder", a.Path)
			}
			break
		}
		above = append(above, Entry{Path: e.Path, Kind: e.Kind})
		prev = e.Path
	}
	linkProblems(m, out)
	return out
}

// badPath says what is wrong with a path in itself; "" if nothing.
func badPath(p string) string {
	switch {
	case p == "":
		return "is an empty path"
	case p[0] == '/':
		return "is absolute"
	}
	if why := badText(p); why != "" {
		return why
	}
	for rest, more := p, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		switch name {
		case "":
			return "has an empty component"
		case ".":
			return `has a "." component`
		case "..":
			return `has a ".." component`
		}
	}
	return ""
}

// badText says what is in s that no path and no link target may hold.
func badText(s string) string {
	switch {
	case len(s) > MaxPath:
		return fmt.Sprintf("is longer than %d bytes", MaxPath)
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsRune(s, 0):
		return "holds a NUL"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "holds a control character"
	}
	return ""
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
