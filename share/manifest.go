package share

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Kind is what a manifest's entry is.
type Kind uint8

const (
	File    Kind = iota
	Dir          // an empty directory; those that hold something are implied
	Symlink      // made last, and never leaving the share
)

// An Entry is one line of a manifest.
type Entry struct {
	Path     string // '/'-separated, relative to the root; the root's own name for a single-file share
	Kind     Kind
	Size     int64  // bytes; files only
	Exec     bool   // the owner's x; files only
	Root     Hash   // BLAKE3 of the file
	PieceExp uint8  // PieceExp(Size); files only
	Pieces   []Hash // values of the pieces; only of files with more than one
	Target   string // symlinks only
}

// Manifest is the list of a share's files, the only thing a share ID commits to.
// It never changes after NewManifest or DecodeManifest made it, and is then safe
// for concurrent use.
type Manifest struct {
	Name    string // the root's name: what the fetched file or folder is called
	Entries []Entry
	single  bool
	layout  *Layout
	raw     []byte
	id      ID
}

// NewManifest makes the manifest of a share. The entries may come in any order
// and without PieceExp; the slice is copied, what its elements point to is not.
// The piece values of a file of one piece may be left out.
//
// One file whose path is name is a single-file share. A name that ends in '/'
// always means a folder, also if it holds nothing but a file of its own name.
//
// Errors wrap ErrPath (a *PathError that lists them all), ErrLimit, or
// ErrManifest for what is wrong in itself.
func NewManifest(name string, entries []Entry) (*Manifest, error) {
	name, folder := strings.CutSuffix(name, "/")
	m := &Manifest{Name: name, Entries: slices.Clone(entries)}
	m.single = !folder && len(entries) == 1 && entries[0].Kind == File && entries[0].Path == name
	slices.SortFunc(m.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	for i := range m.Entries {
		e := &m.Entries[i]
		if e.Kind != File {
			continue
		}
		e.PieceExp = PieceExp(e.Size)
		if len(e.Pieces) == 1 && e.Pieces[0] == e.Root {
			e.Pieces = nil
		}
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	raw, err := m.encode()
	if err != nil {
		return nil, err
	}
	m.raw, m.id = raw, IDOf(raw)
	return m, nil
}

// DecodeManifest reads the bytes of a manifest, which may be hostile, and keeps
// them. They must be the one canonical encoding of a manifest that NewManifest
// could have made. Errors as there.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) > MaxManifest {
		return nil, errManifestSize
	}
	m, err := decode(b)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	again, err := m.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: not in canonical form", ErrManifest)
	}
	m.raw, m.id = b, IDOf(b)
	return m, nil
}

// Layout is the geometry of the share.
func (m *Manifest) Layout() *Layout { return m.layout }

// ID names the share.
func (m *Manifest) ID() ID { return m.id }

// Bytes is the canonical encoding. The caller must not change it.
func (m *Manifest) Bytes() []byte { return m.raw }

// Single says whether the share is one file, not a folder: fetched, it becomes
// a file called Name.
func (m *Manifest) Single() bool { return m.single }

// Count is the number of entries of each kind. Directories that hold something
// are not entries and not counted.
func (m *Manifest) Count() (files, dirs, links int) {
	for i := range m.Entries {
		switch m.Entries[i].Kind {
		case File:
			files++
		case Dir:
			dirs++
		case Symlink:
			links++
		}
	}
	return files, dirs, links
}

// check says what keeps m from being a manifest, and sets its layout.
func (m *Manifest) check() error {
	for i := 1; i < len(m.Entries); i++ {
		if m.Entries[i-1].Path > m.Entries[i].Path {
			return fmt.Errorf("%w: entries out of order at %q", ErrManifest, m.Entries[i].Path)
		}
	}
	if countTree(m.Entries) > MaxEntries {
		return errEntries
	}
	if p := m.Problems(); len(p) > 0 {
		return &PathError{p}
	}
	for i := range m.Entries {
		if err := m.Entries[i].check(); err != nil {
			return err
		}
	}
	if m.single && (len(m.Entries) != 1 || m.Entries[0].Kind != File || m.Entries[0].Path != m.Name) {
		return fmt.Errorf("%w: said to be a single file, and is not", ErrManifest)
	}
	var err error
	if m.layout, err = newLayout(m.Entries); err != nil {
		return err
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		folds := e.Size == 0 || len(e.Pieces) > 0 // the root of one piece is its own witness
		if e.Kind == File && folds && FileRoot(e.Pieces) != e.Root {
			return fmt.Errorf("%w: %q: the piece values do not fold to the root", ErrManifest, e.Path)
		}
	}
	return nil
}

// countTree is the number of entries and of the directories that sorted entries imply.
func countTree(entries []Entry) int {
	n := len(entries)
	prev := ""
	for i := range entries {
		p := entries[i].Path
		n += strings.Count(p[commonPrefix(prev, p):], "/")
		prev = p
	}
	return n
}

// check says what is wrong with an entry in itself, its path and the fold of its pieces apart.
func (e *Entry) check() error {
	wrong := func(what string) error { return fmt.Errorf("%w: %q: %s", ErrManifest, e.Path, what) }
	if e.Kind > Symlink {
		return wrong("unknown kind of entry")
	}
	if e.Kind != Symlink && e.Target != "" {
		return wrong("a link target, but no link")
	}
	if e.Kind != File {
		if e.Size != 0 || e.Exec || e.Root != (Hash{}) || e.PieceExp != 0 || e.Pieces != nil {
			return wrong("content, but no file")
		}
		return nil
	}
	if e.Size < 0 {
		return wrong("negative size")
	}
	if e.Size > MaxFileSize {
		return fmt.Errorf("%w: %q has %d bytes, and a file may have 2 TiB", ErrLimit, e.Path, e.Size)
	}
	if e.PieceExp != PieceExp(e.Size) {
		return wrong("not the piece size that the file's size demands")
	}
	n := piecesIn(e.Size, e.PieceExp)
	if n <= 1 {
		n = 0
	}
	if len(e.Pieces) != n {
		return wrong(fmt.Sprintf("%d piece values where %d are needed", len(e.Pieces), n))
	}
	return nil
}
