package fetcher

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// Priority is how urgent a file is. Pieces of more urgent files are fetched before
// any of less urgent ones.
type Priority = leasemgr.Priority

// The priorities there are. A file with PrioritySkip is not fetched, and not made.
const (
	PrioritySkip   = leasemgr.Skip
	PriorityLow    = leasemgr.Low
	PriorityNormal = leasemgr.Normal // the zero value
	PriorityHigh   = leasemgr.High
)

var (
	// ErrNothingSelected says that nothing in the share is what was to be fetched.
	ErrNothingSelected = errors.New("nothing in the share is selected")
	// ErrSkipped says that a file cannot be read because it is not to be fetched.
	ErrSkipped = actors.ErrSkipped
)

// glob is a pattern for paths in a share: each part of it between slashes is one
// of path.Match, and ** stands for any number of parts. What matches a folder
// matches all that is in it.
type glob struct {
	text  string
	parts []string
}

func parseGlob(text string) (glob, error) {
	g := glob{text, strings.Split(strings.TrimSuffix(text, "/"), "/")}
	for _, p := range g.parts {
		if _, err := path.Match(p, ""); err != nil || p == "" || p == "." || p == ".." {
			return g, fmt.Errorf("%q is no pattern for paths in a share: %w", text, path.ErrBadPattern)
		}
	}
	return g, nil
}

func parseGlobs(texts []string) (out []glob, err error) {
	for _, t := range texts {
		g, e := parseGlob(t)
		out, err = append(out, g), errors.Join(err, e)
	}
	return out, err
}

// match says whether g matches a path, or a folder above it.
func (g glob) match(p string) bool {
	parts := strings.Split(p, "/")
	star, next := -1, 0 // the last ** so far, and the part it would swallow next
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

func anyMatch(globs []glob, p string) bool {
	for _, g := range globs {
		if g.match(p) {
			return true
		}
	}
	return false
}

// selector is what the options choose of a share; nil is all of it.
func (o FetchOptions) selector() (func(*share.Manifest) ([]Priority, error), error) {
	only, err := parseGlobs(o.Only)
	skip, err2 := parseGlobs(o.Skip)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if len(only) == 0 && len(skip) == 0 && o.Select == nil {
		return nil, nil
	}
	return func(m *share.Manifest) ([]Priority, error) {
		out, some := make([]Priority, len(m.Entries)), false
		for i, e := range m.Entries {
			switch {
			case len(only) > 0 && !anyMatch(only, e.Path) || anyMatch(skip, e.Path):
				out[i] = PrioritySkip
			case o.Select != nil:
				out[i] = o.Select(e)
			}
			some = some || out[i] != PrioritySkip
		}
		if !some {
			return nil, o.noneOf(m)
		}
		return out, nil
	}, nil
}

// noneOf says why nothing of a share is selected.
func (o FetchOptions) noneOf(m *share.Manifest) error {
	why := "none of its %d entries is wanted"
	switch {
	case len(o.Only) > 0 && len(o.Skip) > 0:
		why = "of its %d entries none matches " + quoted(o.Only) + " and not " + quoted(o.Skip)
	case len(o.Only) > 0:
		why = "of its %d entries none matches " + quoted(o.Only)
	case len(o.Skip) > 0:
		why = "each of its %d entries matches " + quoted(o.Skip)
	}
	return fmt.Errorf("%w: %s: "+why, ErrNothingSelected, m.Name, len(m.Entries))
}

// quoted is patterns in words, safe in a format.
func quoted(globs []string) string {
	var out []string
	for _, g := range globs {
		out = append(out, strings.ReplaceAll(fmt.Sprintf("%q", g), "%", "%%"))
	}
	return strings.Join(out, ", ")
}

// SetPriority says how urgent the files are from now on whose paths match a
// pattern as in FetchOptions.Only. Skipping all that is missing finishes the
// transfer. It is an error before the list of files is here, and once the transfer
// finishes.
func (t *Transfer) SetPriority(ctx context.Context, pattern string, p Priority) error {
	g, err := parseGlob(pattern)
	if err != nil {
		return err
	}
	m := t.Manifest()
	if m == nil {
		return actors.ErrOpening
	}
	var entries []int
	for i := range m.Entries {
		if g.match(m.Entries[i].Path) {
			entries = append(entries, i)
		}
	}
	if len(entries) == 0 {
		return fmt.Errorf("%w: %s: of its %d entries none matches %q", ErrNothingSelected, m.Name, len(m.Entries), pattern)
	}
	select {
	case <-t.done:
		return actors.ErrFinishing
	default:
	}
	return t.node.program.SetPriority(ctx, t.id, actors.SetPriority{Entries: entries, Priority: p})
}
