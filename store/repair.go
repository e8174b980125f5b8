package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// A target that differs can be repaired, if that is asked for. What is right stays as
// it is. What is missing or wrong is fetched into NAME.partial, except for the pieces that
// the wrong files have (take.go). When all of a file is here, verified and durable, it
// is renamed over the wrong one, so that at each moment one of them is there, whole;
// a wrong file is never written to, nor is what it links to. A file that has changed
// since it was checked is left alone, and is an error. So is anything of another kind:
// nobody knows what a folder holds.
//
// What the share does not have, and what is not wanted, is ignored.

// ErrRepairable says that a target differs from the share in a way that PartialOptions.Repair
// could fix.
var ErrRepairable = errors.New("it can be repaired")

// repairable is an error about such a target.
type repairable struct{ error }

func (e repairable) Unwrap() []error { return []error{e.error, ErrRepairable} }

// isWrong notes what stands at the target in place of a wanted file or link, as it looks
// now: to be replaced, if that was asked for and is allowed.
func (p *Partial) isWrong(entry int, info vfs.Info, why string, way *inTheWay) {
	e := p.m.Entry(entry)
	switch {
	case !replaceable(info, e):
		way.block(e.Path, ofAnotherKind(info, e.Kind))
	case p.opt.Repair:
		p.willReplace(entry, info)
	default:
		way.add(e.Path, why)
	}
}

// replaceable reports whether a repair may put an entry in the place of what stands there.
func replaceable(info vfs.Info, e share.Entry) bool {
	return info.Type == 0 && e.Kind == share.File || info.Type == fs.ModeSymlink && e.Kind != share.Dir
}

func ofAnotherKind(info vfs.Info, k share.Kind) string {
	return fmt.Sprintf("is a %s here, but a %s in the share", kindOf(info.Type), kindName(k))
}

func (p *Partial) ofAnotherKind(info vfs.Info) error {
	k := share.Dir
	if p.m.Single() {
		k = share.File
	}
	return fmt.Errorf("%w: %s %s", share.ErrExists, p.m.Name, ofAnotherKind(info, k))
}

// blocked says what in a folder at the target no repair would replace; nil if there is nothing of the kind.
func (p *Partial) blocked(dir vfs.FS) error {
	if p.m.Single() {
		return nil
	}
	var way inTheWay
	for _, e := range p.m.Entries() {
		switch info, err := dir.Lstat(e.Path); {
		case err != nil && vfs.Blocked(dir, e.Path):
			way.block(e.Path, notAFolder)
		case err == nil && !replaceable(info, e) && !(info.Type.IsDir() && e.Kind == share.Dir):
			way.block(e.Path, ofAnotherKind(info, e.Kind))
		}
	}
	return way.err()
}

// notAFolder is said of a path that leads through something else.
const notAFolder = "lies below something that is not a folder"

func (p *Partial) willReplace(entry int, info vfs.Info) {
	if p.sel.wrong == nil {
		p.sel.wrong = map[int]vfs.Stamp{}
	}
	p.sel.wrong[entry] = info.Stamp()
}

// notOfAnother fails if something that is to be replaced is in the place of two entries, and has the name of only one: this file
// system does not tell the two apart.
func (p *Partial) notOfAnother() error {
	if len(p.sel.wrong) == 0 {
		return nil
	}
	at := map[vfs.Stamp][]int{} // the entries in the place of what looks so
	for _, st := range p.sel.wrong {
		at[st] = nil
	}
	for i, e := range p.m.Entries() {
		info, err := p.sel.out.Lstat(e.Path)
		if entries, wrong := at[info.Stamp()]; wrong && err == nil {
			at[info.Stamp()] = append(entries, i)
		}
	}
	for _, entries := range at {
		for _, i := range entries {
			if len(entries) == 1 || !p.wants(i) && !p.isPlaced(i) {
				continue
			}
			if err := p.sel.out.Exactly(p.m.Entry(i).Path); err != nil { // else it has several names in truth
				return err
			}
		}
	}
	return nil
}

// kindOf names the kind of something on a disk.
func kindOf(t fs.FileMode) string {
	switch {
	case t == 0:
		return "file"
	case t.IsDir():
		return "folder"
	}
	return vfs.Special(t)
}

func kindName(k share.Kind) string {
	return map[share.Kind]string{share.File: "file", share.Dir: "folder", share.Symlink: "symlink"}[k]
}

// Replaces returns the paths in the share of what stands at the target, differs from the
// share, and will be replaced when the right one is here; in order.
func (p *Partial) Replaces() (out []string) {
	p.life.RLock()
	defer p.life.RUnlock()
	for _, entry := range slices.Sorted(maps.Keys(p.sel.wrong)) {
		out = append(out, p.m.Entry(entry).Path)
	}
	return out
}

// moveOver moves what lies at from in the folder of the target to the place of an entry,
// which must be free, or taken by what is to be replaced. life is held.
func (p *Partial) moveOver(entry int, from, to string) error {
	if _, wrong := p.sel.wrong[entry]; wrong {
		info, err := p.dir.Lstat(to)
		switch {
		case err == nil && !p.stillWrong(entry, info):
			return fmt.Errorf("%w: it %s", share.ErrExists, p.sinceFound(entry, info))
		case err == nil:
			if err = p.dir.Rename(from, to); err == nil && info.Links > 1 {
				p.unlinked(entry)
			}
			return err
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	err := p.dir.Move(from, to)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %w", share.ErrExists, err)
	}
	return err
}

// unlinked notes what other names of a wrong file look like, now that the one of an entry is taken: that sets its change time.
func (p *Partial) unlinked(entry int) {
	was := p.sel.wrong[entry]
	now := was
	for i, st := range p.sel.wrong {
		if i == entry || st != was || was.Inode == 0 {
			continue
		}
		if now == was {
			now = restamp(p.sel.out, p.m.Entry(i).Path, was)
		}
		p.sel.wrong[i] = now
	}
}

// stillWrong says whether what stands at the place of an entry is what was found there,
// and is to be replaced.
func (p *Partial) stillWrong(entry int, now vfs.Info) bool {
	was, wrong := p.sel.wrong[entry]
	return wrong && was.Still(now.Stamp())
}

// sinceFound says what has happened to the place of an entry since it was looked at. Where the inode alone differs, it may be another
// file with the same times, and nobody knows the hash of the one that was there: the next opening looks at it again.
func (p *Partial) sinceFound(entry int, now vfs.Info) string {
	if was, wrong := p.sel.wrong[entry]; wrong && was.Renumbered(now) {
		return "has a different inode number than when it was looked at; if it is still the same file, repair it again"
	}
	return "was put there, or changed, while the share was fetched"
}

// newLink is where a symlink is made before it takes the place of another.
const newLink = "link.new"

// replaceLink puts the symlink of an entry in the place of another.
func (p *Partial) replaceLink(entry int) error {
	e := p.m.Entry(entry)
	if err := p.dropLink(); err != nil {
		return err
	}
	if err := p.stage.Symlink(e.Target, newLink); err != nil {
		return err
	}
	p.life.Lock()
	defer p.life.Unlock()
	err := p.moveOver(entry, path.Join(p.staging, newLink), path.Join(p.m.Name, e.Path))
	if vfs.OtherDisk(err) {
		err = p.carryLink(entry)
	}
	return err
}

// dropLink removes what a killed run has left of replaceLink.
func (p *Partial) dropLink() error {
	target, err := p.stage.Readlink(newLink)
	if err != nil {
		return nil // there is none
	}
	for _, e := range p.m.Entries() {
		if e.Kind == share.Symlink && e.Target == target {
			return p.stage.Remove(newLink)
		}
	}
	return nil // it is not ours
}
