package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// LinkMode says what Import does with symlinks.
type LinkMode uint8

const (
	LinksKeep   LinkMode = iota // share them as symlinks; those that leave the share are refused
	LinksSkip                   // leave them out
	LinksRefuse                 // refuse to share anything that has one
)

// A Problem is a file or folder that cannot be shared as it is.
type Problem struct {
	Path string // slash-separated, relative to what is imported; "." is the root
	Err  error
}

// ProblemsError lists everything that prevented an import, sorted by path.
// It unwraps to the errors of the list.
type ProblemsError struct {
	Problems []Problem // the first 100
	Count    int       // of all
}

const maxProblems = 100

func (e *ProblemsError) Error() string {
	return "cannot be shared:" + e.List()
}

// List is the list alone: a line for each file or folder, each after a line break.
func (e *ProblemsError) List() string {
	var b strings.Builder
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %q: %v", p.Path, p.Err)
	}
	if more := e.Count - len(e.Problems); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more, %d in all", more, e.Count)
	}
	return b.String()
}

func (e *ProblemsError) Unwrap() []error {
	var out []error
	for _, p := range e.Problems {
		out = append(out, p.Err)
	}
	return out
}

// problems gathers Problems.
type problems struct {
	list []Problem
	more int // that are not listed
}

// add adds a problem; what is said of it names the path already.
func (p *problems) add(path string, err error) {
	if where, ok := err.(*fs.PathError); ok {
		err = where.Err
	}
	p.list = append(p.list, Problem{path, err})
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return &ProblemsError{p.list[:min(len(p.list), maxProblems)], len(p.list) + p.more}
}

// found is one entry-to-be of a manifest as it lies on disk.
type found struct {
	path   string
	stamp  vfs.Stamp
	kind   share.Kind
	exec   bool
	noExec bool
}

func foundFile(path string, info vfs.Info) found {
	return found{path: path, stamp: info.Stamp(), kind: share.File, exec: info.Exec, noExec: info.NoExec}
}

// info is what the file looks like.
func (f found) info() vfs.Info {
	return vfs.Info{Size: f.stamp.Size, MTime: f.stamp.MTime, CTime: f.stamp.CTime, Inode: f.stamp.Inode, Exec: f.exec}
}

// scan is a walk through a folder.
type scan struct {
	links    LinkMode
	exclude  func(path string) bool // nil: nothing is
	found    []found
	targets  map[string]string // of symlinks, by their paths
	bad      problems
	skipped  int // symlinks left out
	excluded int // files and folders left out
	sharing  bool
	of       *share.Manifest // see ImportOptions
	key      vfs.Info        // of the private key of the node that shares
	left     []string        // what is said of state directories, other names of the key, and fetches, that were left out
}

// walk lists what lies below d in path order, and everything that cannot be
// shared: a file that cannot be read is found before the first is hashed.
func (s *scan) walk(ctx context.Context, d vfs.FS) error {
	if err := s.folder(ctx, d, ""); err != nil {
		return err
	}
	slices.SortFunc(s.found, func(a, b found) int { return strings.Compare(a.path, b.path) })
	if n := len(s.found); cap(s.found)-n > n/16 { // of a million, up to 14 MB
		s.found = append(make([]found, 0, n), s.found...)
	}
	return nil
}

// folder walks d, whose path is prefix without its last slash.
func (s *scan) folder(ctx context.Context, d vfs.FS, prefix string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := vfs.List(d, func(name string) bool { return s.exclude == nil || !s.exclude(prefix+name) })
	if err != nil {
		s.bad.add(path.Clean(prefix), err)
		return nil
	}
	if s.sharing && stateAmong(d, list) {
		return s.leaveState(prefix)
	}
	if s.sharing && prefix != "" && !s.has(prefix+"manifest") && isStage(d, strings.TrimSuffix(prefix, "/")) {
		s.excluded++
		s.left = append(s.left, fmt.Sprintf("%q was left out: it belongs to an unfinished fetch into this folder", strings.TrimSuffix(prefix, "/")))
		return nil
	}
	if len(list) == 0 && prefix != "" {
		s.found = append(s.found, found{path: strings.TrimSuffix(prefix, "/"), kind: share.Dir})
	}
	slices.SortFunc(list, func(a, b vfs.Listed) int { return strings.Compare(a.Name, b.Name) })
	paths := pathsOf(prefix, list)
	for _, e := range list {
		n := len(prefix) + len(e.Name)
		if err := s.entry(ctx, d, paths[:n], e); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

// has reports whether what lies there is known to be a share that has a file.
func (s *scan) has(at string) bool {
	if s.of == nil {
		return false
	}
	_, ok := s.of.Find(at)
	return ok
}

// pathsOf are the paths of what is in a folder, one after the other: a string of their own
// would take half as much again for each.
func pathsOf(prefix string, list []vfs.Listed) string {
	var b strings.Builder
	n := len(prefix) * len(list)
	for _, e := range list {
		n += len(e.Name)
	}
	b.Grow(n)
	for _, e := range list {
		b.WriteString(prefix)
		b.WriteString(e.Name)
	}
	return b.String()
}

func (s *scan) entry(ctx context.Context, d vfs.FS, at string, e vfs.Listed) error {
	if len(s.found) > share.MaxEntries {
		return share.ErrEntries
	}
	if e.Left {
		s.excluded++
		return nil
	}
	if !utf8.ValidString(e.Name) {
		s.bad.add(at, words.Error(share.ErrPath, "its name is not UTF-8; rename it"))
		return nil
	}
	switch e.Type {
	case 0:
		s.file(at, e)
	case fs.ModeDir:
		sub, err := d.Sub(e.Name)
		if err != nil {
			s.bad.add(at, err)
			return nil
		}
		defer sub.Close()
		return s.folder(ctx, sub, at+"/")
	case fs.ModeSymlink:
		s.link(d, at, e.Name)
	default:
		s.bad.add(at, ofKind(e.Type))
	}
	return nil
}

var errKind = errors.New("only files, folders and symlinks can be shared")

func ofKind(t fs.FileMode) error { return fmt.Errorf("it is a %s, and %w", vfs.Special(t), errKind) }

func (s *scan) file(at string, e vfs.Listed) {
	switch {
	case e.Err != nil:
		s.bad.add(at, e.Err)
	case e.Info.Type != 0:
		s.bad.add(at, ofKind(e.Info.Type))
	case e.Info.Size > share.MaxFileSize:
		s.bad.add(at, fmt.Errorf("%w: %d bytes, and a file may have at most %d (2.2 TB)", share.ErrLimit, e.Info.Size, int64(share.MaxFileSize)))
	case s.key.Inode != 0 && e.Info.Stamp().Like(s.key.Stamp()):
		s.excluded++
		s.left = append(s.left, fmt.Sprintf("%q was left out: it is the private key of this node, which is never shared", at))
	default:
		s.found = append(s.found, foundFile(at, e.Info))
	}
}

func (s *scan) link(d vfs.FS, at, name string) {
	switch s.links {
	case LinksSkip:
		s.skipped++
	case LinksRefuse:
		s.bad.add(at, words.Error(share.ErrPath, "it is a symlink, and symlinks are refused"))
	default:
		target, err := d.Readlink(name)
		if err != nil {
			s.bad.add(at, err)
			return
		}
		if s.targets == nil {
			s.targets = map[string]string{}
		}
		s.targets[at] = target
		s.found = append(s.found, found{path: at, kind: share.Symlink})
	}
}

// mixed says whether some files can be executed, and others cannot.
func (s *scan) mixed() bool {
	var with, without bool
	for _, f := range s.found {
		with, without = with || f.exec, without || f.kind == share.File && !f.exec
	}
	return with && without
}
