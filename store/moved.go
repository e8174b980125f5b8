package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

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
	same, err := sameFolder(p.dir, p.staging, p.stage)
	if err == nil && same && !p.m.Single() {
		same, err = sameFolder(p.stage, "data", p.handles.Top)
	}
	if err == nil && !same {
		err = fmt.Errorf("%w: %s was moved or replaced by another program", share.ErrChanged, p.staging)
	}
	if err != nil || p.sel.out == nil {
		return err
	}
	if same, err = sameFolder(p.dir, p.m.Name, p.sel.out.Top); err == nil && !same {
		err = words.Error(ErrMoved, "%s was moved or replaced by another program while the share was fetched into it; move it back, or run the same command again to fetch into what is there now", p.path)
	}
	return err
}

// sameFolder says whether what is at name in d is an open folder.
func sameFolder(d vfs.FS, name string, open vfs.FS) (bool, error) {
	a, there, err := lookAt(d, name)
	if err != nil || !there || !a.Type.IsDir() {
		return false, err
	}
	b, there, err := lookAt(open, ".")
	return there && a.Inode == b.Inode, err
}

// lookAt describes what is at a name, if anything is. That it cannot be looked at does not mean that it was moved.
func lookAt(d vfs.FS, name string) (info vfs.Info, there bool, err error) {
	info, err = d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return info, false, nil
	}
	return info, err == nil, err
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
		if same, err := sameNames(d, p.dir, ".", p.staging, p.m.Name); same || err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist) && !vfs.NotDir(err):
		return err
	}
	return words.Error(ErrMoved, "the folder %s was moved by another program, or its disk was unmounted, and what was fetched went with it; bring it back, or fetch into it at its new place", at)
}

// sameNames says whether each name is the same thing in two open folders.
func sameNames(a, b vfs.FS, names ...string) (bool, error) {
	for _, name := range names {
		x, inA, err := lookAt(a, name)
		if err != nil {
			return false, err
		}
		y, inB, err := lookAt(b, name)
		if err != nil || inA != inB || x.Inode != y.Inode {
			return false, err
		}
	}
	return true, nil
}

// lookAgain has what is at a path looked at by its names from now on: a folder that is kept open may have been moved. It fails if all of it was.
func lookAgain(in *vfs.Handles, path string) error {
	in.LookAgain()
	if vfs.Moved(in.Top) {
		return fmt.Errorf("%s: %w", path, errGone)
	}
	return nil
}
