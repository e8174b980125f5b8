package share

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
	"unsafe"
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

// appendTop appends what comes before the first of n entries.
func appendTop(b []byte, name string, single bool, n int) []byte {
	b = appendHead(b, cborMap, 4)
	b = appendHead(appendKey(b, "v"), cborUint, version)
	b = appendText(appendKey(b, "name"), name)
	b = appendBool(appendKey(b, "single"), single)
	return appendHead(appendKey(b, "entries"), cborList, uint64(n))
}

// encode encodes a manifest of n entries, with no spare capacity. The entries must be sorted.
func encode(name string, single bool, n int, entries iter.Seq[*Entry]) ([]byte, error) {
	top := appendTop(nil, name, single, n)
	size := len(top)
	var one []byte
	for e := range entries {
		one = e.append(one[:0])
		if size += len(one); size > MaxManifest {
			return nil, errManifestSize
		}
	}
	b := append(make([]byte, 0, size), top...)
	for e := range entries {
		b = e.append(b)
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

// index finds the entries of b, at most MaxManifest bytes, without trusting it. An
// encoding that is not canonical is refused, and so is an entry that is wrong
// in itself. Whether the entries fit together is for check to say.
func index(b []byte) (*Manifest, error) {
	c := &cursor{b: b}
	c.head(cborMap)
	c.want("v")
	if v := c.head(cborUint); c.err == nil && v > version {
		return nil, fmt.Errorf("%w: its format has version %d, and this program knows version %d; please update", ErrManifest, v, version)
	} else if c.err == nil && v != version {
		return nil, fmt.Errorf("%w: there is no version %d of the format", ErrManifest, v)
	}
	m := &Manifest{raw: b}
	c.want("name")
	m.Name = c.text()
	c.want("single")
	m.single = c.bool()
	c.want("entries")
	n := c.head(cborList)
	switch {
	case c.err != nil:
		return nil, c.err
	case n > MaxEntries:
		return nil, ErrEntries
	case n > uint64(len(b)-c.at): // there is no room for that many
		return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrManifest, n, len(b)-c.at)
	case !bytes.Equal(appendTop(nil, m.Name, m.single, int(n)), b[:c.at]):
		return nil, fmt.Errorf("%w: not in canonical form", ErrManifest)
	}
	m.starts = make([]uint32, n)
	if err := m.find(c); err != nil {
		return nil, err
	}
	return m, nil
}

// find fills starts from c, which stands at the first entry.
func (m *Manifest) find(c *cursor) error {
	var again []byte
	for i := range m.starts {
		m.starts[i] = uint32(c.at)
		start := c.at
		e := c.entry()
		if c.err != nil {
			return c.err
		}
		if err := e.check(); err != nil {
			return err
		}
		again = e.append(slices.Grow(again[:0], c.at-start))
		if !bytes.Equal(again, m.raw[start:c.at]) {
			return fmt.Errorf("%w: entry %d is not in canonical form", ErrManifest, i)
		}
	}
	if c.at != len(m.raw) {
		return fmt.Errorf("%w: %d bytes after the last entry", ErrManifest, len(m.raw)-c.at)
	}
	return nil
}

// A cursor reads CBOR from front to back, and accepts what is not canonical:
// the caller encodes the result again and compares. After the first error, which wraps
// ErrManifest, all that it reads is zero.
type cursor struct {
	b   []byte
	at  int
	err error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: at byte %d: %s", ErrManifest, c.at, fmt.Sprintf(format, args...))
	}
	c.b = c.b[:c.at]
}

// head is the number in the head of a value, which must be of a major type.
func (c *cursor) head(major byte) uint64 {
	if c.at == len(c.b) {
		c.fail("it ends too soon")
		return 0
	}
	first := c.b[c.at]
	if first&^31 != major {
		c.fail("%s is missing", [...]string{"a number", "", "a byte string", "a text string", "a list", "a map"}[major>>5])
		return 0
	}
	a := first & 31
	if a < 24 {
		c.at++
		return uint64(a)
	}
	size := 1 << (a - 24)
	if a > 27 || len(c.b)-c.at-1 < size {
		c.fail("it ends too soon, or has no length")
		return 0
	}
	var n uint64
	for _, x := range c.b[c.at+1 : c.at+1+size] {
		n = n<<8 | uint64(x)
	}
	c.at += 1 + size
	return n
}

// bytes is the content of a text or of bytes.
func (c *cursor) bytes(major byte) []byte {
	n := c.head(major)
	if n > uint64(len(c.b)-c.at) {
		c.fail("it ends too soon")
		return nil
	}
	c.at += int(n)
	return c.b[c.at-int(n) : c.at]
}

// text is part of b, which must not change from now on.
func (c *cursor) text() string {
	b := c.bytes(cborText)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (c *cursor) bool() bool {
	if c.at == len(c.b) || c.b[c.at]|1 != cborTrue {
		c.fail("true or false is missing")
		return false
	}
	c.at++
	return c.b[c.at-1] == cborTrue
}

// key skips a key, if it comes next.
func (c *cursor) key(k string) bool {
	end := c.at + 1 + len(k)
	if end > len(c.b) || c.b[c.at] != cborText|byte(len(k)) || string(c.b[c.at+1:end]) != k {
		return false
	}
	c.at = end
	return true
}

func (c *cursor) want(k string) {
	if !c.key(k) {
		c.fail("the key %q is missing", k)
	}
}

// entry is the next entry. Its texts and piece values are part of b.
func (c *cursor) entry() (e Entry) {
	c.head(cborMap)
	if c.key("e") {
		e.PieceExp = uint8(min(c.head(cborUint), math.MaxUint8))
	}
	if c.key("h") {
		e.Pieces = c.hashes()
	}
	if c.key("k") {
		e.Kind = Kind(min(c.head(cborUint), math.MaxUint8))
	}
	if c.key("p") {
		e.Path = c.text()
	}
	if c.key("r") {
		if r := c.bytes(cborBytes); len(r) == len(e.Root) {
			e.Root = Hash(r)
		} else {
			c.fail("a root of %d bytes", len(r))
		}
	}
	if c.key("s") {
		if e.Size = int64(c.head(cborUint)); e.Size < 0 {
			c.fail("a size of 2^63 bytes or more")
		}
	}
	if c.key("t") {
		e.Target = c.text()
	}
	if c.key("x") {
		e.Exec = c.bool()
	}
	return e
}

func (c *cursor) hashes() []Hash {
	b := c.bytes(cborBytes)
	n := len(b) / len(Hash{})
	if len(b)%len(Hash{}) != 0 || n > MaxFilePieces {
		c.fail("%d bytes of piece values", len(b))
	}
	if c.err != nil || n == 0 {
		return nil
	}
	return unsafe.Slice((*Hash)(b), n)
}
