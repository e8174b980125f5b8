package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// sweep is a walk through data. What we made and do not need is removed. What others put
// there stays where it is, or if it stands where something of the share will be,
// is moved to the folder others:
//
//	others/N/NAME   something that was in the way
type sweep struct {
	p    *Partial
	kept map[int]vfs.Info // by entry: files with verified pieces
	ran  [2]int64         // when files were made whose marks may be lost; zero: not known yet
}

// folder walks a folder of data, whose path is prefix without its last slash.
func (s *sweep) folder(d vfs.FS, prefix string) error {
	list, err := d.ReadDir(".")
	slices.SortFunc(list, func(a, b vfs.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range list {
		if err == nil {
			err = s.name(d, prefix, e)
		}
	}
	return err
}

func (s *sweep) name(d vfs.FS, prefix string, e vfs.DirEntry) error {
	p, name := s.p, prefix+e.Name
	if p.m.Single() {
		if e.Name != "data" {
			return nil
		}
		name = p.m.Name
	}
	entry, ok := p.m.Find(name)
	switch folder := p.isFolder(name); {
	case folder && e.Type.IsDir():
		sub, err := d.Sub(e.Name)
		if err != nil {
			return err
		}
		defer sub.Close()
		// The run that made it may have ended before its names were durable.
		p.batch.dirs[path.Dir(name)], p.batch.dirs[name] = struct{}{}, struct{}{}
		return s.folder(sub, name+"/")
	case folder:
		return p.setAside(name)
	case !ok:
		return nil
	}
	return s.entry(d, e, entry)
}

// entry looks at what stands at the place of a file or symlink of the share.
func (s *sweep) entry(d vfs.FS, e vfs.DirEntry, entry int) error {
	p := s.p
	info, err := d.Lstat(e.Name)
	if err != nil {
		return err
	}
	if was, placed := p.sel.placed[entry]; placed {
		ours := info.Inode != 0 && info.Inode == was.Inode && was.Like(info.Stamp()) // the old name of a file that was moved
		if !ours && p.sel.carried {
			ours, err = s.ours(d, e.Name, entry, info) // what a file was copied from
		}
		if !ours || err != nil {
			return err
		}
		return d.Remove(e.Name)
	}
	of := p.m.Entry(entry)
	if e.Type == 0 && of.Kind == share.File && info.Size <= of.Size && len(p.piecesIn(p.durable, entry)) > 0 && !p.sharedFile(entry, info) {
		s.kept[entry] = info
		return nil
	}
	ours, err := s.ours(d, e.Name, entry, info)
	switch {
	case err != nil:
		return err
	case ours:
		return d.Remove(e.Name)
	}
	return p.setAside(p.file(entry))
}

// sharedFile says whether somebody has put a file in place of ours that has another name
// elsewhere, under which our writes would show.
func (p *Partial) sharedFile(entry int, info vfs.Info) bool {
	m := p.marks.get(entry)
	return info.Links > 1 && m.Inode != 0 && m.Inode != info.Inode
}

// ours says whether something at the place of an entry was made by us, or is nothing
// that anybody would miss.
func (s *sweep) ours(d vfs.FS, name string, entry int, info vfs.Info) (bool, error) {
	of := s.p.m.Entry(entry)
	switch {
	case of.Kind == share.Symlink && info.Type == fs.ModeSymlink:
		target, err := d.Readlink(name)
		return target == of.Target, err
	case of.Kind != share.File || info.Type != 0:
		return false, nil
	case info.Size == 0:
		return true, nil
	}
	// Even where no time can be relied on: that may hide an edit, but not that we made the file.
	m, now := s.p.marks.get(entry), info.Stamp()
	if m.Still(now) || m.Renumbered(info) || (m.maybe(now) || info.Size <= wholeWrite && info.Size == of.Size) && s.leftByUs(d, name, entry, now) {
		return true, nil
	}
	return !s.p.marks.whole && s.whileRunning(now), nil
}

// leftByUs says whether a file is what a write of ours left whose end was not noted: what is
// whole after one write holds the share's bytes, and anything else was last changed while we ran.
func (s *sweep) leftByUs(d vfs.FS, name string, entry int, now vfs.Stamp) bool {
	first, pieces := s.p.m.Layout().PiecesOf(entry)
	switch size := s.p.m.Entry(entry).Size; {
	case now.Size > size:
		return false
	case now.Size < size || pieces > 1:
		return s.p.marks.announced(now)
	}
	b, err := vfs.ReadFile(d, name, now.Size)
	if err != nil {
		return false
	}
	_, value := share.HashPiece(nil, b, 0, true)
	return value == s.p.m.PieceValue(first)
}

// lateSync is how long after our last known write a file whose mark is lost may have been
// written. It is much longer than the time between two syncs.
const lateSync = 10 * time.Second

// whileRunning says whether a file was last changed when an earlier run of this transfer was at work.
func (s *sweep) whileRunning(now vfs.Stamp) bool {
	if s.ran == [2]int64{} {
		s.ran[1] = s.p.marks.last
		for _, name := range []string{"manifest", "bits", "hashes", recentNames[0], recentNames[1]} {
			info, err := s.p.stage.Lstat(name)
			if err == nil && name == "manifest" {
				s.ran[0] = info.MTime
			}
			if err == nil {
				s.ran[1] = max(s.ran[1], info.MTime)
			}
		}
	}
	return now.MTime >= s.ran[0] && max(now.MTime, now.CTime) <= s.ran[1]+int64(lateSync)
}

// setAside moves something that is not ours from its place below data to others.
func (p *Partial) setAside(name string) error {
	from := "data"
	if !p.m.Single() {
		from = path.Join("data", name)
	}
	if err := vfs.EnsureDir(p.stage, "others"); err != nil {
		return err
	}
	for i := 1; ; i++ {
		dir := fmt.Sprintf("others/%d", i)
		err := p.stage.Mkdir(dir)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		to := path.Join(dir, path.Base(name))
		if err == nil {
			err = p.stage.Move(from, to)
		}
		if err != nil {
			return fmt.Errorf("%s is in the way, and cannot be moved to %s: %w", path.Join(p.staging, from), path.Join(p.staging, dir), err)
		}
		p.aside = append(p.aside, to)
		return nil
	}
}

// dropOthers removes what setAside has made in vain: a run may have ended before it moved anything there.
func (p *Partial) dropOthers() {
	if info, err := p.stage.Lstat("others"); err != nil || !info.Type.IsDir() {
		return
	}
	list, _ := p.stage.ReadDir("others")
	for _, e := range list {
		if _, err := strconv.Atoi(e.Name); err == nil && e.Type.IsDir() {
			p.stage.Remove(path.Join("others", e.Name)) // fails if anything is in it
		}
	}
	p.stage.Remove("others")
}

// isFolder says whether the share has a folder of this name.
func (p *Partial) isFolder(name string) bool {
	i, ok := p.m.Find(name)
	if ok {
		return p.m.Entry(i).Kind == share.Dir
	}
	i, _ = p.m.Find(name + "/")
	return i < p.m.Len() && strings.HasPrefix(p.m.Entry(i).Path, name+"/")
}

// clearData removes what we made of data. What others put there stays.
func (p *Partial) clearData() error {
	info, err := p.stage.Lstat("data")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && p.marks.f == nil {
		err = p.marks.open(p.stage, p.marksHead())
	}
	if err != nil {
		return err
	}
	s := sweep{p: p}
	if !p.m.Single() && info.Type.IsDir() {
		_, err = s.clear(p.stage, "data", ".")
	} else if p.m.Single() {
		_, err = s.clearEntry(p.stage, "data", 0)
	}
	return err
}

// clear removes a folder, whose path below data is at, if it holds nothing but what we
// made; else it removes what we made.
func (s *sweep) clear(d vfs.FS, name, at string) (gone bool, err error) {
	sub, err := d.Sub(name)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	list, err := sub.ReadDir(".")
	gone = true
	for _, e := range list {
		went := false
		path := path.Join(at, e.Name)
		if entry, ok := s.p.m.Find(path); err == nil && e.Type.IsDir() && s.p.isFolder(path) {
			went, err = s.clear(sub, e.Name, path)
		} else if err == nil && ok {
			went, err = s.clearEntry(sub, e.Name, entry)
		}
		gone = gone && went
	}
	if gone && err == nil {
		err = d.Remove(name)
	}
	return gone, err
}

// clearEntry removes what is at the place of an entry, if it is ours.
func (s *sweep) clearEntry(d vfs.FS, name string, entry int) (gone bool, err error) {
	info, err := d.Lstat(name)
	if err != nil {
		return false, err
	}
	ours, err := s.ours(d, name, entry, info)
	ours = ours || s.p.m.Single() && s.linked(info)
	if ours && err == nil {
		err = d.Remove(name)
	}
	return ours, err
}

// linked says whether a file is another name of the one at the place of a share of one file: a move by a link was cut short.
func (s *sweep) linked(info vfs.Info) bool {
	at, err := s.p.dir.Lstat(s.p.m.Name)
	return err == nil && info.Type == 0 && info.Links > 1 && info.Inode != 0 && at.Stamp() == info.Stamp()
}
