package share

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Glob is a pattern for paths in a share: each part of it between slashes is a pattern
// of path.Match, and ** matches any number of parts. What matches a folder
// matches all that is in it. A literal path matches itself, whatever
// characters are in it.
type Glob struct {
	text  string
	parts []string
}

// Globs match what any of them matches.
type Globs []Glob

// ParseGlobs reads patterns. The error names each invalid one, and wraps path.ErrBadPattern.
func ParseGlobs(texts []string) (out Globs, err error) {
	for _, t := range texts {
		g, e := parseGlob(t)
		out, err = append(out, g), errors.Join(err, e)
	}
	return out, err
}

// PatternError is a text that is not a pattern.
type PatternError struct{ Text, Why string }

func (e *PatternError) Error() string {
	return fmt.Sprintf("%q is not a pattern for paths: %s", e.Text, e.Why)
}

func (e *PatternError) Unwrap() error { return path.ErrBadPattern }

func parseGlob(text string) (Glob, error) {
	whole := strings.TrimSuffix(text, "/")
	g := Glob{whole, strings.Split(whole, "/")}
	for _, p := range g.parts {
		switch _, err := path.Match(p, ""); {
		case whole == "":
			return g, &PatternError{text, "it is empty"}
		case p == "" || p == "." || p == "..":
			return g, &PatternError{text, "no part of it may be empty, . or .."}
		case err != nil:
			return g, &PatternError{text, `each [ needs its ], with characters or ranges such as a-z between them, and each \ a character after it`}
		}
	}
	return g, nil
}

// In returns the patterns for the paths of m: a pattern that matches none of them and begins
// with the name of m is used without that name, as paths are often shown with it.
func (gs Globs) In(m *Manifest) Globs {
	out := slices.Clone(gs)
	for i, g := range out {
		below, named := strings.CutPrefix(g.text+"/", m.Name+"/")
		if !named || g.matchesIn(m) {
			continue
		}
		if below == "" {
			below = "**"
		}
		if g, err := parseGlob(below); err == nil {
			out[i] = g
		}
	}
	return out
}

func (g Glob) matchesIn(m *Manifest) bool {
	for _, e := range m.Entries() {
		if g.match(e.Path) {
			return true
		}
	}
	return false
}

// Match says whether one of the patterns matches a path, or a folder above it.
func (gs Globs) Match(p string) bool {
	for _, g := range gs {
		if g.match(p) {
			return true
		}
	}
	return false
}

func (g Glob) match(p string) bool {
	if rest, ok := strings.CutPrefix(p, g.text); ok && (rest == "" || rest[0] == '/') {
		return true
	}
	parts := strings.Split(p, "/")
	star, next := -1, 0 // the last ** so far, and the part it would match next
	for i, at := 0, 0; i < len(g.parts); {
		switch {
		case g.parts[i] == "**":
			star, next = i, at
			i++
			continue
		case at < len(parts):
			if ok, _ := path.Match(g.parts[i], parts[at]); ok {
				i, at = i+1, at+1
				continue
			}
		}
		if star < 0 || next >= len(parts) {
			return false
		}
		next++
		i, at = star+1, next
	}
	return true
}
