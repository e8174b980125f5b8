package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/share"
)

// MaxDuration is the longest duration that travels. A longer one is cut to it,
// by the sender and by the receiver.
const MaxDuration = 24 * time.Hour

// A reader walks over the fields of one protobuf message. Each method that
// takes a value checks it; after the first error next says false and the
// methods return zero values.
type reader struct {
	what string // the message's name, for errors
	b    []byte // fields not read yet
	err  error

	// The field that next found.
	num  protowire.Number
	typ  protowire.Type
	v    uint64 // of a varint
	data []byte // of a length-prefixed field; part of b
}

func read(what string, b []byte) reader { return reader{what: what, b: b} }

// next moves to the next field.
func (r *reader) next() bool {
	if r.err != nil || len(r.b) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(r.b)
	if n < 0 {
		r.fail("%v", protowire.ParseError(n))
		return false
	}
	if num > protowire.MaxValidNumber { // which ConsumeTag lets pass
		r.fail("field %d: number over the last", num)
		return false
	}
	r.b, r.num, r.typ = r.b[n:], num, typ
	switch typ {
	case protowire.VarintType:
		r.v, n = protowire.ConsumeVarint(r.b)
	case protowire.BytesType:
		r.data, n = protowire.ConsumeBytes(r.b)
	default: // no field of ours
		n = protowire.ConsumeFieldValue(num, typ, r.b)
	}
	if n < 0 {
		r.fail("field %d: %v", num, protowire.ParseError(n))
		return false
	}
	r.b = r.b[n:]
	return true
}

// fail keeps the first error.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: %s", ErrMalformed, r.what, fmt.Sprintf(format, args...))
	}
}

// need fails unless ok.
func (r *reader) need(ok bool, format string, args ...any) {
	if !ok {
		r.fail(format, args...)
	}
}

// is fails unless the field has this type.
func (r *reader) is(typ protowire.Type) bool {
	if r.typ != typ {
		r.fail("field %d: wire type %d, not %d", r.num, r.typ, typ)
	}
	return r.err == nil
}

// uint is a number up to limit.
func (r *reader) uint(limit uint64) uint64 {
	if !r.is(protowire.VarintType) {
		return 0
	}
	if r.v > limit {
		r.fail("field %d: %d, limit %d", r.num, r.v, limit)
		return 0
	}
	return r.v
}

func (r *reader) uint64() uint64 { return r.uint(math.MaxUint64) }
func (r *reader) uint32() uint32 { return uint32(r.uint(math.MaxUint32)) }
func (r *reader) piece() uint32  { return uint32(r.uint(share.MaxPieces - 1)) }
func (r *reader) bool() bool     { return r.uint64() != 0 }

// ms is a duration, cut to MaxDuration.
func (r *reader) ms() time.Duration {
	return time.Duration(min(r.uint64(), uint64(MaxDuration/time.Millisecond))) * time.Millisecond
}

// bytes is a field of at most limit bytes. It is part of the message.
func (r *reader) bytes(limit int) []byte {
	if !r.is(protowire.BytesType) {
		return nil
	}
	if len(r.data) > limit {
		r.fail("field %d: %d bytes, limit %d", r.num, len(r.data), limit)
		return nil
	}
	return r.data
}

// text is a string of at most limit bytes that may be printed as it is.
func (r *reader) text(limit int) string {
	b := r.bytes(limit)
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		if c == utf8.RuneError && n == 1 || unicode.IsControl(c) {
			r.fail("field %d: not UTF-8 or a control character", r.num)
			return ""
		}
		i += n
	}
	return string(b)
}

// share is a share ID.
func (r *reader) share() share.ID {
	b := r.bytes(shareIDLen)
	if r.err != nil {
		return share.ID{}
	}
	id, err := share.IDFromBytes(b)
	if err != nil {
		r.fail("field %d: %v", r.num, err)
	}
	return id
}

// hasShare fails if a message came without its share.
func (r *reader) hasShare(id share.ID) { r.need(!id.IsZero(), "no share") }

// list is an empty list with room for every field num of the message, or nil
// if there is none. It fails, before it makes one, if there are more than limit.
func list[T any](r *reader, num protowire.Number, limit int) []T {
	n := 0
	for b := r.b; len(b) > 0; {
		got, _, size := protowire.ConsumeField(b)
		if size < 0 {
			break // next says what is wrong
		}
		if got == num {
			n++
		}
		b = b[size:]
	}
	if n > limit {
		r.fail("field %d: %d of them, limit %d", num, n, limit)
	}
	if n == 0 || r.err != nil {
		return nil
	}
	return make([]T, 0, n)
}

// pieces appends a packed list of pieces, or one piece of an unpacked one.
func (r *reader) pieces(dst []uint32, limit int) []uint32 {
	if r.typ == protowire.VarintType {
		if len(dst) == limit {
			r.fail("field %d: more than %d", r.num, limit)
			return dst
		}
		return append(dst, r.piece())
	}
	if !r.is(protowire.BytesType) {
		return dst
	}
	n := 0
	for _, b := range r.data {
		if b < 0x80 {
			n++
		}
	}
	if len(dst)+n > limit {
		r.fail("field %d: more than %d", r.num, limit)
		return dst
	}
	dst = slices.Grow(dst, n)
	for b := r.data; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 || v >= share.MaxPieces {
			r.fail("field %d: bad piece", r.num)
			return dst
		}
		dst, b = append(dst, uint32(v)), b[n:]
	}
	return dst
}

// item is a reader of the message inside this field.
func (r *reader) item() reader {
	in := read(r.what, nil)
	if r.is(protowire.BytesType) {
		in.b = r.data
	}
	return in
}

// after takes over the error of a reader that item made.
func (r *reader) after(in reader) {
	if r.err == nil {
		r.err = in.err
	}
}

// Encoding. A value of zero is left out, as protobuf has it.

func appendUint[T ~uint8 | ~uint32 | ~uint64](dst []byte, num protowire.Number, v T) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), uint64(v))
}

func appendBool(dst []byte, num protowire.Number, v bool) []byte {
	return appendUint(dst, num, protowire.EncodeBool(v))
}

// appendMS writes a duration: rounded up, so that a wait never becomes none.
func appendMS(dst []byte, num protowire.Number, d time.Duration) []byte {
	d = min(max(d, 0), MaxDuration)
	return appendUint(dst, num, uint64((d+time.Millisecond-1)/time.Millisecond))
}

func appendBytes[T []byte | string](dst []byte, num protowire.Number, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	return appendItem(dst, num, v)
}

// appendItem writes one item of a list, which may be empty.
func appendItem[T []byte | string](dst []byte, num protowire.Number, v T) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.BytesType), uint64(len(v)))
	return append(dst, v...)
}

func appendShare(dst []byte, num protowire.Number, id share.ID) []byte {
	if id.IsZero() {
		panic("wire: message without a share")
	}
	return appendItem(dst, num, id.Bytes())
}

func appendPieces(dst []byte, num protowire.Number, pieces []uint32) []byte {
	if len(pieces) == 0 {
		return dst
	}
	dst, at := openItem(dst, num)
	for _, p := range pieces {
		dst = protowire.AppendVarint(dst, uint64(p))
	}
	return closeItem(dst, at)
}

// openItem starts a message inside a message; closeItem, given what it
// returned, ends it by writing its length.
func openItem(dst []byte, num protowire.Number) ([]byte, int) {
	dst = append(protowire.AppendTag(dst, num, protowire.BytesType), 0)
	return dst, len(dst)
}

func closeItem(dst []byte, at int) []byte {
	n := uint64(len(dst) - at)
	if n < 0x80 { // the byte left free is enough
		dst[at-1] = byte(n)
		return dst
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(dst, at-1, at, length[:binary.PutUvarint(length[:], n)]...)
}

// atMost panics if a list is longer than its cap: a bug of the caller.
func atMost(what string, n, limit int) {
	if n > limit {
		panic(fmt.Sprintf("wire: %s: %d, limit %d", what, n, limit))
	}
}

// printable is s as text may travel: UTF-8 without control characters, at most
// limit bytes, cut at the border of a character.
func printable(s string, limit int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// firstOf is the first limit items of a list.
func firstOf[T any](list []T, limit int) []T { return list[:min(len(list), limit)] }
