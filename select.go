package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"strings"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Priority is how urgent a file is. Pieces of more urgent files are fetched before
// any of less urgent ones.
type Priority = leasemgr.Priority

// The priorities. A file with PrioritySkip is not fetched, and not created.
const (
	PrioritySkip   = leasemgr.Skip
	PriorityLow    = leasemgr.Low
	PriorityNormal = leasemgr.Normal // the zero value
	PriorityHigh   = leasemgr.High
)

var (
	// ErrNothingSelected says that nothing in the share was selected to be fetched.
	ErrNothingSelected = errors.New("nothing in the share is selected")
	// ErrSkipped says that a file cannot be read because it is not to be fetched.
	ErrSkipped = actors.ErrSkipped
)

// selector returns what the options choose of a share; nil is all of it.
func (o FetchOptions) selector() (func(*share.Manifest) ([]Priority, error), error) {
	only, err := share.ParseGlobs(o.Only)
	skip, err2 := share.ParseGlobs(o.Skip)
	first, err3 := share.ParseGlobs(o.First)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	if len(only)+len(skip)+len(first) == 0 && o.Select == nil {
		return nil, nil
	}
	return func(m *share.Manifest) ([]Priority, error) {
		only, skip, first := only.In(m), skip.In(m), first.In(m)
		out, some := make([]Priority, m.Len()), false
		for i, e := range m.Entries() {
			switch {
			case len(only) > 0 && !only.Match(e.Path) || skip.Match(e.Path):
				out[i] = PrioritySkip
			case first.Match(e.Path):
				out[i] = PriorityHigh
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

// Check returns the error with which a fetch of a share would end because these options choose nothing of it.
func (o FetchOptions) Check(m *share.Manifest) error {
	choose, err := o.selector()
	if err == nil && choose != nil {
		_, err = choose(m)
	}
	return err
}

// noneOf returns the error that says why nothing of a share is selected.
func (o FetchOptions) noneOf(m *share.Manifest) error {
	why := "no path in %s is wanted"
	switch {
	case len(o.Only) > 0 && len(o.Skip) > 0:
		why = "no path in %s matches " + quoted(o.Only) + " without also matching " + quoted(o.Skip)
	case len(o.Only) > 0:
		why = "no path in %s matches " + quoted(o.Only)
	case len(o.Skip) > 0:
		why = "every path in %s matches " + quoted(o.Skip)
	}
	return fmt.Errorf("%w: "+why, ErrNothingSelected, m.Name)
}

// quoted lists patterns in words, safe in a format string.
func quoted(globs []string) string {
	var out []string
	for _, g := range globs {
		out = append(out, strings.ReplaceAll(fmt.Sprintf("%q", g), "%", "%%"))
	}
	return strings.Join(out, " or ")
}

// SetPriority sets the priority of the files whose paths match a pattern, as in
// FetchOptions.Only. Skipping all that is missing finishes the transfer. It is an
// error before the list of files is here, and once the transfer is finishing.
func (t *Transfer) SetPriority(ctx context.Context, pattern string, p Priority) error {
	globs, err := share.ParseGlobs([]string{pattern})
	if err != nil {
		return err
	}
	m := t.Manifest()
	if m == nil {
		return actors.ErrOpening
	}
	globs = globs.In(m)
	var entries []int
	for i := range m.Entries() {
		if globs.Match(m.Entry(i).Path) {
			entries = append(entries, i)
		}
	}
	if len(entries) == 0 {
		return fmt.Errorf("%w: no path in %s matches %q", ErrNothingSelected, m.Name, pattern)
	}
	select {
	case <-t.done:
		return actors.ErrFinishing
	default:
	}
	return t.node.program.SetPriority(ctx, t.handle, actors.SetPriority{Entries: entries, Priority: p})
}

// unreadable are the files and folders among the older versions of a share that cannot be read.
type unreadable struct {
	first string
	err   error
	count int
}

func (u *unreadable) add(path string, err error) {
	if u.count++; u.count == 1 {
		u.first, u.err = path, err
	}
}

func (u *unreadable) warn(log *slog.Logger) {
	what, err := u.first, u.err
	if u.count > 1 {
		what += fmt.Sprintf(" and %d more", u.count-1)
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok { // its path is said already
		err = at.Err
	}
	if u.count > 0 {
		log.Warn(what+" cannot be read, so nothing is taken from there", "error", err)
	}
}

// Replaces returns the paths in the share of what lies at the target, differs from the share,
// and is replaced when the right bytes are here: known once the place on disk is open,
// with Planned. There are some only with FetchOptions.Repair.
func (t *Transfer) Replaces() []string {
	if p := t.place(); p != nil {
		return p.Replaces()
	}
	return nil
}

// WasHere reports whether anything of the share was in DIR when the transfer began: some of its data in DIR/NAME.partial,
// chosen or not, or something in the place of what was chosen: known with Planned.
func (t *Transfer) WasHere() bool {
	p := t.place()
	return p != nil && p.WasHere()
}

// Made yields the files and links that this transfer has put in their place, by their entries in the list of files, and what each looked
// like then; what was there already, and was left as it was, is not among them.
func (t *Transfer) Made() iter.Seq2[int, vfs.Stamp] {
	if p := t.place(); p != nil {
		return p.Made()
	}
	return func(func(int, vfs.Stamp) bool) {}
}

// choosing is choose, and keeps the list of files if nothing is selected: it says what the share is called.
func (t *Transfer) choosing(choose func(*share.Manifest) ([]Priority, error)) func(*share.Manifest) ([]Priority, error) {
	if choose == nil {
		return nil
	}
	return func(m *share.Manifest) ([]Priority, error) {
		out, err := choose(m)
		if err != nil {
			t.lists(m)
		}
		return out, err
	}
}

func (t *Transfer) lists(m *share.Manifest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manifest = m
}
