package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// inPlace makes sure that what will be moved by its name is what was written to: that an open
// folder was moved, or another put in its place, is noticed only by checking.
func (p *Partial) inPlace() error {
	if p.handles == nil {
		return nil
	}
	if err := p.stillThere(); err != nil {
		return err
	}
	p.handles.LookAgain()
	same := func(d vfs.FS, name string, open vfs.FS) bool {
		a, err := d.Lstat(name)
		b, e := open.Lstat(".")
		return err == nil && e == nil && a.Inode == b.Inode && a.Type.IsDir()
	}
	if !same(p.dir, p.staging, p.stage) || !p.m.Single() && !same(p.stage, "data", p.handles.Top) {
		return fmt.Errorf("%w: %s was moved or replaced by another program", share.ErrChanged, p.staging)
	}
	if p.sel.out != nil && !same(p.dir, p.m.Name, p.sel.out.Top) {
		return words.Error(ErrMoved, "%s was moved or replaced by another program while the share was fetched into it; move it back, or run the same command again to fetch into what is there now", p.path)
	}
	return nil
}

// ErrMoved says that the folder that is fetched into was moved, and that what is at its path is not what was fetched.
var ErrMoved = fmt.Errorf("%w: the folder was moved", share.ErrChanged)

// stillThere makes sure that the folder that is fetched into is the one at its path: that it was moved,
// and another is there, is noticed only by looking.
func (p *Partial) stillThere() error {
	if !p.ownDir || p.opt.FS != nil {
		return nil
	}
	at := filepath.Dir(p.path)
	d, err := vfs.Dir(at)
	switch {
	case err == nil:
		defer d.Close()
		if sameNames(d, p.dir, ".", p.staging, p.m.Name) {
			return nil
		}
	case !errors.Is(err, fs.ErrNotExist) && !vfs.NotDir(err):
		return err
	}
	return words.Error(ErrMoved, "the folder %s was moved by another program, and what was fetched went with it; move it back, or fetch into it at its new place", at)
}

// sameNames says whether each name is the same thing in two open folders.
func sameNames(a, b vfs.FS, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		x, e := a.Lstat(name)
		y, err := b.Lstat(name)
		return x.Inode != y.Inode || (e == nil) != (err == nil)
	})
}
