package store

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// ending is what Finish is doing, for those who wait: a list of files of some hundred
// kilobytes can name as many folders that are to be made.
type ending struct {
	what      string // empty: nothing that is counted
	made, all int
}

// phase says what is done next, and how often. It fails if ctx has ended.
func (p *Partial) phase(ctx context.Context, what string, all int) error {
	p.mu.Lock()
	p.ending = ending{what: what, all: all}
	p.mu.Unlock()
	return p.step(ctx, 0)
}

// step says that n more of it are done. It fails if ctx has ended.
func (p *Partial) step(ctx context.Context, n int) error {
	p.mu.Lock()
	p.ending.made += n
	p.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Finishing says what Finish is doing, if that takes many steps; else it is empty.
func (p *Partial) Finishing() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending.what == "" {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d", p.ending.what, p.ending.made, p.ending.all)
}

// foldersBelow is how many folders path has, itself among them, that are not above or equal to
// before, which comes before it in a manifest.
func foldersBelow(before, path string) int {
	same := 0 // the end of what both begin with
	for i := 0; i <= len(path) && i <= len(before); i++ {
		atEnd := func(s string) bool { return i == len(s) || s[i] == '/' }
		if atEnd(path) && atEnd(before) {
			same = i
		}
		if i == len(path) || i == len(before) || path[i] != before[i] {
			break
		}
	}
	rest := strings.TrimPrefix(path[same:], "/")
	if rest == "" {
		return 0
	}
	return 1 + strings.Count(rest, "/")
}

// folderSteps calls f for each entry that needs a folder below the target, with its path, that
// folder, and how many folders that is besides those of the entries before.
func (p *Partial) folderSteps(todo map[int]vfs.Stamp, f func(name, dir string, steps int) error) error {
	before := ""
	for i, e := range p.m.Entries() {
		if _, moves := todo[i]; !moves && !(e.Kind != share.File && p.wants(i)) {
			continue
		}
		dir := path.Dir(e.Path)
		if e.Kind == share.Dir {
			dir = e.Path
		}
		if dir == "." {
			continue // the target itself: nothing is above it
		}
		steps := foldersBelow(before, dir)
		before = dir
		if err := f(e.Path, dir, steps); err != nil {
			return err
		}
	}
	return nil
}

// restSteps calls f for each entry for which makeRest has something to do, in its order, with
// how many folders, links, files or modes that is.
func (p *Partial) restSteps(f func(i int, e share.Entry, steps int) error) error {
	for _, kind := range []share.Kind{share.File, share.Dir, share.Symlink} {
		before := ""
		for i, e := range p.m.Entries() {
			if e.Kind != kind {
				continue
			}
			steps := 1
			switch {
			case kind == share.Dir:
				steps, before = foldersBelow(before, e.Path), e.Path
			case kind == share.File && e.Size > 0 && !e.Exec:
				steps = 0
			}
			if err := f(i, e, steps); err != nil {
				return err
			}
		}
	}
	return nil
}
