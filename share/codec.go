package share

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/ipld/go-ipld-prime/codec/dagcbor"
	"github.com/ipld/go-ipld-prime/datamodel"
)

// A manifest is DAG-CBOR: maps have their keys sorted by length, then by bytes;
// every number and length has its shortest form. So "v", the version, comes
// first in every version of the format, and a later one is recognised before
// anything unknown in it.
//
//	{v: 1, name: text, single: bool, entries: [entry...]}    in the order v, name, single, entries
//	file:    {e: exponent, h: piece values, k: 0, p: path, r: root, s: size, x: true}
//	dir:     {k: 1, p: path}
//	symlink: {k: 2, p: path, t: target}
//
// h stands only in files of more than one piece, x only in executable ones.

const version = 1

// CBOR major types, in the upper three bits of a head.
const (
	cborUint  = 0 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborList  = 4 << 5
	cborMap   = 5 << 5
	cborFalse = 0xf4
	cborTrue  = 0xf5
)

// appendHead appends the head of a CBOR value in its shortest form.
func appendHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n <= math.MaxUint8:
		return append(b, major|24, byte(n))
	case n <= math.MaxUint16:
		return append(b, major|25, byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return append(b, major|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(b, major|27, byte(n>>56), byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func appendText(b []byte, s string) []byte {
	return append(appendHead(b, cborText, uint64(len(s))), s...)
}

func appendKey(b []byte, k string) []byte { return appendText(b, k) }

// encode is the canonical encoding of m, which has been checked.
func (m *Manifest) encode() ([]byte, error) {
	size := 64 + len(m.Name)
	for i := range m.Entries {
		e := &m.Entries[i]
		size += 72 + len(e.Path) + len(e.Target) + len(Hash{})*len(e.Pieces)
	}
	b := make([]byte, 0, min(size, MaxManifest+MaxManifest/16))
	b = appendHead(b, cborMap, 4)
	b = appendHead(appendKey(b, "v"), cborUint, version)
	b = appendText(appendKey(b, "name"), m.Name)
	b = appendBool(appendKey(b, "single"), m.single)
	b = appendHead(appendKey(b, "entries"), cborList, uint64(len(m.Entries)))
	for i := range m.Entries {
		if b = m.Entries[i].append(b); len(b) > MaxManifest {
			return nil, errManifestSize
		}
	}
	return b, nil
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, cborTrue)
	}
	return append(b, cborFalse)
}

func (e *Entry) append(b []byte) []byte {
	switch e.Kind {
	case Dir:
		b = appendHead(b, cborMap, 2)
		b = appendHead(appendKey(b, "k"), cborUint, uint64(Dir))
		return appendText(appendKey(b, "p"), e.Path)
	case Symlink:
		b = appendHead(b, cborMap, 3)
		b = appendHead(appendKey(b, "k"), cborUint, uint64(Symlink))
		b = appendText(appendKey(b, "p"), e.Path)
		return appendText(appendKey(b, "t"), e.Target)
	}
	keys := uint64(5)
	if len(e.Pieces) > 0 {
		keys++
	}
	if e.Exec {
		keys++
	}
	b = appendHead(b, cborMap, keys)
	b = appendHead(appendKey(b, "e"), cborUint, uint64(e.PieceExp))
	if len(e.Pieces) > 0 {
		b = appendHead(appendKey(b, "h"), cborBytes, uint64(len(Hash{})*len(e.Pieces)))
		for i := range e.Pieces {
			b = append(b, e.Pieces[i][:]...)
		}
	}
	b = appendHead(appendKey(b, "k"), cborUint, uint64(File))
	b = appendText(appendKey(b, "p"), e.Path)
	b = append(appendHead(appendKey(b, "r"), cborBytes, uint64(len(e.Root))), e.Root[:]...)
	b = appendHead(appendKey(b, "s"), cborUint, uint64(e.Size))
	if e.Exec {
		b = append(appendKey(b, "x"), cborTrue)
	}
	return b
}

// decode reads b, at most MaxManifest bytes, without believing it.
func decode(b []byte) (*Manifest, error) {
	n := listed(b)
	if n > MaxEntries {
		return nil, errEntries
	}
	budget := 4*len(b) + 16<<20 // bytes that are believed before the entries are seen
	r := &reader{m: &Manifest{}, room: min(int(n), budget/entryMemory)}
	opts := dagcbor.DecodeOptions{
		// The reader builds no nodes, so the library's budget has nothing to guard but
		// its own scratch: each byte of input may cost it at most 9.
		AllocationBudget: 16 * (int64(len(b)) + 1),
		MaxDepth:         3,
	}
	if err := opts.Decode(r, bytes.NewReader(b)); err != nil {
		if errors.Is(err, ErrManifest) || errors.Is(err, ErrLimit) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return r.m, nil
}

// entryMemory is the most bytes that an Entry is in memory, but for what it points to.
const entryMemory = 128

// listed is how many entries b says that it has, 0 if it does not begin as a manifest
// does. So too many are refused before room is made for the first.
func listed(b []byte) uint64 {
	b, ok := bytes.CutPrefix(b, []byte("\xa4\x61v\x01\x64name"))
	n, b := head(b, cborText)
	if !ok || n >= uint64(len(b)) {
		return 0
	}
	if b, ok = bytes.CutPrefix(b[n:], []byte("\x66single")); !ok || len(b) == 0 {
		return 0
	}
	if b, ok = bytes.CutPrefix(b[1:], []byte("\x67entries")); !ok {
		return 0
	}
	if n, b = head(b, cborList); n > uint64(len(b)) {
		return 0 // a lie, which the decoder finds
	}
	return n
}

// head is the number in the head of a CBOR value of a major type, and what follows it;
// 0 if there is none.
func head(b []byte, major byte) (n uint64, rest []byte) {
	if len(b) == 0 || b[0]&^31 != major {
		return 0, nil
	}
	a, b := b[0]&31, b[1:]
	if a < 24 {
		return uint64(a), b
	}
	size := 1 << (a - 24)
	if a > 27 || len(b) < size {
		return 0, nil
	}
	for _, c := range b[:size] {
		n = n<<8 | uint64(c)
	}
	return n, b[size:]
}

// reader assembles a manifest out of what the dagcbor decoder finds, with no
// tree of nodes between. Its methods are those of the decoder's assemblers; what
// the format does not have where it stands is refused.
type reader struct {
	m    *Manifest
	room int // entries to make room for at once
	at   place
	key  string // the key whose value comes next, in inMap and inEntry
}

type place uint8

const (
	atStart   place = iota // before the one map that is the manifest
	inMap                  // at the value of a key of the manifest
	inEntries              // at an entry
	inEntry                // at the value of a key of an entry
)

func (r *reader) unexpected(what string) error {
	switch r.at {
	case atStart:
		return fmt.Errorf("%w: %s where a map should be", ErrManifest, what)
	case inEntries:
		return fmt.Errorf("%w: %s where an entry should be", ErrManifest, what)
	}
	return fmt.Errorf("%w: %s under the key %q", ErrManifest, what, r.key)
}

func (r *reader) entry() *Entry { return &r.m.Entries[len(r.m.Entries)-1] }

func (r *reader) is(at place, key string) bool { return r.at == at && r.key == key }

func (r *reader) BeginMap(int64) (datamodel.MapAssembler, error) {
	switch r.at {
	case atStart:
		r.at = inMap
	case inEntries:
		if len(r.m.Entries) == MaxEntries {
			return nil, errEntries
		}
		r.m.Entries = append(r.m.Entries, Entry{})
		r.at = inEntry
	default:
		return nil, r.unexpected("a map")
	}
	return mapReader{r}, nil
}

func (r *reader) BeginList(int64) (datamodel.ListAssembler, error) {
	if !r.is(inMap, "entries") {
		return nil, r.unexpected("a list")
	}
	r.at = inEntries
	r.m.Entries = make([]Entry, 0, r.room)
	return listReader{r}, nil
}

func (r *reader) AssignBool(v bool) error {
	switch {
	case r.is(inMap, "single"):
		r.m.single = v
	case r.is(inEntry, "x"):
		r.entry().Exec = v
	default:
		return r.unexpected("a boolean")
	}
	return nil
}

func (r *reader) AssignInt(v int64) error {
	switch {
	case r.is(inMap, "v"):
		if v > version {
			return fmt.Errorf("%w: made by a later version of the format (%d; this one knows %d)", ErrManifest, v, version)
		}
		if v != version {
			return fmt.Errorf("%w: there is no version %d of the format", ErrManifest, v)
		}
	case r.is(inEntry, "e"):
		r.entry().PieceExp = uint8(min(max(v, 0), math.MaxUint8))
	case r.is(inEntry, "k"):
		r.entry().Kind = Kind(min(max(v, 0), math.MaxUint8))
	case r.is(inEntry, "s"):
		r.entry().Size = v
	default:
		return r.unexpected("a number")
	}
	return nil
}

func (r *reader) AssignString(v string) error {
	switch {
	case r.is(inMap, "name"):
		r.m.Name = v
	case r.is(inEntry, "p"):
		r.entry().Path = v
	case r.is(inEntry, "t"):
		r.entry().Target = v
	default:
		return r.unexpected("a text")
	}
	return nil
}

func (r *reader) AssignBytes(v []byte) error {
	switch {
	case r.is(inEntry, "r"):
		if len(v) != len(Hash{}) {
			return fmt.Errorf("%w: a root of %d bytes", ErrManifest, len(v))
		}
		r.entry().Root = Hash(v)
	case r.is(inEntry, "h"):
		n := len(v) / len(Hash{})
		if len(v)%len(Hash{}) != 0 || n > MaxFilePieces {
			return fmt.Errorf("%w: %d bytes of piece values", ErrManifest, len(v))
		}
		hashes := make([]Hash, n)
		for i := range hashes {
			hashes[i] = Hash(v[i*len(Hash{}):])
		}
		r.entry().Pieces = hashes
	default:
		return r.unexpected("bytes")
	}
	return nil
}

func (r *reader) AssignNull() error                { return r.unexpected("a null") }
func (r *reader) AssignFloat(float64) error        { return r.unexpected("a float") }
func (r *reader) AssignLink(datamodel.Link) error  { return r.unexpected("a link") }
func (r *reader) AssignNode(datamodel.Node) error  { return r.unexpected("a node") }
func (*reader) Prototype() datamodel.NodePrototype { return nil }

// mapReader is a reader inside a map, at a key.
type mapReader struct{ *reader }

func (r mapReader) AssembleEntry(k string) (datamodel.NodeAssembler, error) {
	r.key = k
	return r.reader, nil
}

func (r mapReader) Finish() error {
	if r.at == inEntry {
		r.at = inEntries
	}
	return nil
}

// NB: the decoder calls AssembleEntry only; these complete its interface.
func (r mapReader) AssembleKey() datamodel.NodeAssembler          { return r.reader }
func (r mapReader) AssembleValue() datamodel.NodeAssembler        { return r.reader }
func (r mapReader) KeyPrototype() datamodel.NodePrototype         { return nil }
func (r mapReader) ValuePrototype(string) datamodel.NodePrototype { return nil }

// listReader is a reader inside the list of entries.
type listReader struct{ *reader }

func (r listReader) AssembleValue() datamodel.NodeAssembler       { return r.reader }
func (r listReader) ValuePrototype(int64) datamodel.NodePrototype { return nil }

func (r listReader) Finish() error {
	r.at, r.key = inMap, ""
	return nil
}
