package share

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
)

// Kind is what a manifest's entry is.
type Kind uint8

const (
	File    Kind = iota
	Dir          // an empty directory; those that hold something are implied
	Symlink      // created last, and never leads out of the share
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
// It never changes after NewManifest or DecodeManifest made it, and is safe
// for concurrent use. It takes the memory of its bytes, and four more for each entry.
type Manifest struct {
	Name   string   // the root's name: what the fetched file or folder is called
	starts []uint32 // by entry, where it begins in raw
	nodes  int      // entries, and directories that they imply
	single bool
	layout *Layout
	raw    []byte
	id     ID
}

// NewManifest makes the manifest of a share. The entries may come in any order
// and without PieceExp; nothing of them is kept. The piece values of a file of one
// piece may be left out.
//
// One file whose path is name is a single-file share. A name that ends in '/'
// always means a folder, even if it holds only a file of its own name.
//
// Errors wrap ErrPath (a *PathError that lists them), ErrLimit, or
// ErrManifest for an entry that is wrong in itself.
func NewManifest(name string, entries []Entry) (*Manifest, error) {
	return ManifestOf(name, len(entries), sorted(entries))
}

// sorted yields entries in the order of their paths.
func sorted(entries []Entry) iter.Seq[Entry] {
	order := make([]int32, len(entries))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(entries[a].Path, entries[b].Path) })
	return func(yield func(Entry) bool) {
		for _, i := range order {
			if !yield(entries[i]) {
				return
			}
		}
	}
}

// ManifestOf is NewManifest for n entries that come in the order of their paths. It iterates
// over them more than once and keeps none, so they need not all be in memory.
func ManifestOf(name string, n int, entries iter.Seq[Entry]) (*Manifest, error) {
	name, folder := strings.CutSuffix(name, "/")
	single := false
	if !folder && n == 1 {
		for e := range entries {
			single = e.Kind == File && e.Path == name
		}
	}
	raw, err := checkedAndEncoded(name, single, n, entries)
	if err != nil {
		return nil, err
	}
	return DecodeManifest(raw)
}

func checkedAndEncoded(name string, single bool, n int, entries iter.Seq[Entry]) ([]byte, error) {
	for e := range entries {
		e = e.whole()
		if err := e.check(); err != nil {
			return nil, err
		}
	}
	return encode(name, single, n, func(yield func(*Entry) bool) {
		var e Entry
		for x := range entries {
			if e = x.whole(); !yield(&e) {
				return
			}
		}
	})
}

// whole returns e with what NewManifest adds, and without what it leaves out.
func (e Entry) whole() Entry {
	if e.Kind == File {
		e.PieceExp = PieceExp(e.Size)
		if len(e.Pieces) == 1 && e.Pieces[0] == e.Root {
			e.Pieces = nil
		}
	}
	return e
}

// DecodeManifest reads the bytes of a manifest, which may be hostile, and keeps
// them: they must not change from now on. They must be the one canonical encoding
// of a manifest that NewManifest could have made. Errors are as there. It takes at most
// four times the memory of b, and 16 MiB, whatever b says.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) > MaxManifest {
		return nil, errManifestSize
	}
	m, err := index(b)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	m.id = IDOf(b)
	return m, nil
}

// Len is the number of entries.
func (m *Manifest) Len() int { return len(m.starts) }

// Entry returns the entry at an index below Len. It is decoded from the manifest's bytes, so
// call it once and not in each step of a loop; what it points to must not be changed.
func (m *Manifest) Entry(i int) Entry {
	c := cursor{b: m.raw, at: int(m.starts[i])}
	return c.entry()
}

// Entries yields the entries by their paths, as Entry gives them.
func (m *Manifest) Entries() iter.Seq2[int, Entry] {
	return func(yield func(int, Entry) bool) {
		for i := range m.starts {
			if !yield(i, m.Entry(i)) {
				return
			}
		}
	}
}

// Find returns the index of the entry at path; if there is none, of the first after it.
func (m *Manifest) Find(path string) (i int, ok bool) {
	return sort.Find(len(m.starts), func(i int) int { return strings.Compare(path, m.Entry(i).Path) })
}

// Layout is the geometry of the share.
func (m *Manifest) Layout() *Layout { return m.layout }

// ID names the share.
func (m *Manifest) ID() ID { return m.id }

// Bytes returns the canonical encoding. The caller must not change it.
func (m *Manifest) Bytes() []byte { return m.raw }

// Single says whether the share is one file, not a folder: fetched, it becomes
// a file called Name.
func (m *Manifest) Single() bool { return m.single }

// Names returns how many names the share has below its root: its entries, and the directories that they imply.
func (m *Manifest) Names() int { return m.nodes }

// Count returns the number of entries of each kind. Directories that hold something
// are not entries and not counted.
func (m *Manifest) Count() (files, dirs, links int) {
	for _, e := range m.Entries() {
		switch e.Kind {
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

// check says why entries that are right in themselves do not make a manifest,
// and sets the layout.
func (m *Manifest) check() error {
	m.nodes = m.Len()
	prev := ""
	for _, e := range m.Entries() {
		if prev > e.Path {
			return fmt.Errorf("%w: entries out of order at %q", ErrManifest, e.Path)
		}
		m.nodes += strings.Count(e.Path[commonPrefix(prev, e.Path):], "/")
		prev = e.Path
	}
	if m.nodes > MaxEntries {
		return ErrEntries
	}
	if bad := m.problems(); bad.Count > 0 {
		return bad
	}
	if m.single {
		if m.Len() != 1 || m.Entry(0).Kind != File || m.Entry(0).Path != m.Name {
			return fmt.Errorf("%w: said to be a single file, and is not", ErrManifest)
		}
	}
	var err error
	if m.layout, err = newLayout(m.Entries()); err != nil {
		return err
	}
	for _, e := range m.Entries() {
		folds := e.Size == 0 || len(e.Pieces) > 0 // the root of one piece is its own witness
		if e.Kind == File && folds && FileRoot(e.Pieces) != e.Root {
			return fmt.Errorf("%w: %q: the hashes of its pieces do not give the hash of the file", ErrManifest, e.Path)
		}
	}
	return nil
}

// check says what is wrong with an entry in itself, apart from its path and the fold of its pieces.
func (e *Entry) check() error {
	wrong := func(what string) error { return fmt.Errorf("%w: %q: %s", ErrManifest, e.Path, what) }
	if e.Kind > Symlink {
		return wrong("unknown kind of entry")
	}
	if e.Kind != Symlink && e.Target != "" {
		return wrong("has a link target, and is not a link")
	}
	if e.Kind != File {
		if e.Size != 0 || e.Exec || e.Root != (Hash{}) || e.PieceExp != 0 || e.Pieces != nil {
			return wrong("has content, and is not a file")
		}
		return nil
	}
	if e.Size < 0 {
		return wrong("negative size")
	}
	if e.Size > MaxFileSize {
		return fmt.Errorf("%w: %q has %d bytes, and a file may have at most %d (2.2 TB)", ErrLimit, e.Path, e.Size, int64(MaxFileSize))
	}
	if e.PieceExp != PieceExp(e.Size) {
		return wrong("not the piece size that the file's size demands")
	}
	n := piecesIn(e.Size, e.PieceExp)
	if n <= 1 {
		n = 0
	}
	if len(e.Pieces) != n {
		return wrong(fmt.Sprintf("piece values: %d, where %d are needed", len(e.Pieces), n))
	}
	return nil
}
