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

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// MaxDuration is the longest duration that is sent. A longer one is cut to it,
// by the sender and by the receiver.
const MaxDuration = 24 * time.Hour

// A coder writes or reads the fields of one protobuf message. Each message
// has a method that lists its fields once, in the order of their numbers, each with
// the check that reading it needs. That method is called once to write, and once for
// each field that next finds when reading. After the first reading error, next is false.
type coder struct {
	b       []byte // written so far; or not read yet
	reading bool
	err     error
	shared  bool // a share was read

	notAllowed bool // the field of that name, apart from the code that stands for it

	// The field that next found.
	num  protowire.Number
	typ  protowire.Type
	v    uint64 // of a varint
	data []byte // of a length-prefixed field; part of b
}

// next moves to the next field.
func (c *coder) next() bool {
	if c.err != nil || len(c.b) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(c.b)
	if n < 0 {
		c.fail("%v", protowire.ParseError(n))
		return false
	}
	if num > protowire.MaxValidNumber { // ConsumeTag lets it pass
		c.fail("field %d: no field can have this number", num)
		return false
	}
	c.b, c.num, c.typ = c.b[n:], num, typ
	switch typ {
	case protowire.VarintType:
		c.v, n = protowire.ConsumeVarint(c.b)
	case protowire.BytesType:
		c.data, n = protowire.ConsumeBytes(c.b)
	default: // not one of our fields
		n = protowire.ConsumeFieldValue(num, typ, c.b)
	}
	if n < 0 {
		c.fail("field %d: %v", num, protowire.ParseError(n))
		return false
	}
	c.b = c.b[n:]
	return true
}

// fail keeps the first error.
func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// need fails unless ok.
func (c *coder) need(ok bool, format string, args ...any) {
	if !ok {
		c.fail(format, args...)
	}
}

// at says whether field num is the one to be read; it fails if that has the wrong
// type.
func (c *coder) at(num protowire.Number, typ protowire.Type) bool {
	if c.num != num || c.err != nil {
		return false
	}
	if c.typ != typ {
		c.fail("field %d: wire type %d, not %d", num, c.typ, typ)
	}
	return c.err == nil
}

// chunk says whether a field of at most limit bytes is to be read.
func (c *coder) chunk(num protowire.Number, limit int) bool {
	if !c.at(num, protowire.BytesType) {
		return false
	}
	if len(c.data) > limit {
		c.fail("field %d: %d bytes, limit %d", num, len(c.data), limit)
	}
	return c.err == nil
}

// varint is a number, of at most limit where it is read.
func varint[T ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~int64](c *coder, num protowire.Number, v *T, limit uint64) {
	switch {
	case !c.reading:
		c.b = appendUint(c.b, num, uint64(*v))
	case !c.at(num, protowire.VarintType):
	case c.v > limit:
		c.fail("field %d: %d, limit %d", num, c.v, limit)
	default:
		*v = T(c.v)
	}
}

func (c *coder) uint64(num protowire.Number, v *uint64) { varint(c, num, v, math.MaxUint64) }
func (c *coder) uint32(num protowire.Number, v *uint32) { varint(c, num, v, math.MaxUint32) }

func (c *coder) piece(num protowire.Number, v *share.Piece) { varint(c, num, v, share.MaxPieces-1) }
func (c *coder) token(num protowire.Number, v *share.Token) { varint(c, num, v, math.MaxUint64) }

func (c *coder) bool(num protowire.Number, v *bool) {
	x := protowire.EncodeBool(*v)
	c.uint64(num, &x)
	*v = x != 0
}

// ms is a duration: rounded up, so that a wait never becomes none, and cut to MaxDuration.
func (c *coder) ms(num protowire.Number, v *time.Duration) {
	switch {
	case !c.reading:
		c.b = appendUint(c.b, num, uint64((min(max(*v, 0), MaxDuration)+time.Millisecond-1)/time.Millisecond))
	case c.at(num, protowire.VarintType):
		*v = time.Duration(min(c.v, uint64(MaxDuration/time.Millisecond))) * time.Millisecond
	}
}

// bytes is at most limit bytes; those read are part of the message.
func (c *coder) bytes(num protowire.Number, v *[]byte, limit int) {
	if !c.reading {
		atMost("bytes", len(*v), limit)
		c.b = appendBytes(c.b, num, *v)
	} else if c.chunk(num, limit) {
		*v = c.data
	}
}

// text is a string of at most limit bytes that may be printed as it is.
func (c *coder) text(num protowire.Number, v *string, limit int) {
	if !c.reading {
		atMost("text", len(*v), limit)
		c.b = appendBytes(c.b, num, *v)
	} else if c.chunk(num, limit) && c.printable() {
		*v = string(c.data)
	}
}

// prose is text for people, which is cut to what may be sent.
func (c *coder) prose(num protowire.Number, v *string, limit int) {
	if c.reading {
		c.text(num, v, limit)
	} else {
		c.b = appendBytes(c.b, num, printable(*v, limit))
	}
}

// printable fails if the text to be read may not be printed as it is.
func (c *coder) printable() bool {
	for b := c.data; len(b) > 0; {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) {
			c.fail("field %d: a control character, or not UTF-8", c.num)
			return false
		}
		b = b[n:]
	}
	return true
}

// peer is the ID of a peer.
func (c *coder) peer(num protowire.Number, v *peers.ID) {
	id := string(*v)
	c.text(num, &id, MaxPeerID)
	*v = peers.ID(id)
}

// share is the share that a message is about, which every message has.
func (c *coder) share(num protowire.Number, v *share.ID) {
	if !c.reading {
		if v.IsZero() {
			panic("wire: message without a share")
		}
		c.b = appendItem(c.b, num, v.Bytes())
	} else if c.chunk(num, shareIDLen) {
		id, err := share.IDFromBytes(c.data)
		if err != nil {
			c.fail("field %d: %v", num, err)
		}
		*v, c.shared = id, !id.IsZero()
	}
}

// otherShare is a share besides the one that a message is about; zero if there is none.
func (c *coder) otherShare(num protowire.Number, v *share.ID) {
	if !c.reading {
		if !v.IsZero() {
			c.b = appendItem(c.b, num, v.Bytes())
		}
	} else if c.chunk(num, shareIDLen) {
		id, err := share.IDFromBytes(c.data)
		if err != nil {
			c.fail("field %d: %v", num, err)
		}
		*v = id
	}
}

// room gives list the capacity for every field num that is to come, once their number is
// known to be at most limit.
func room[T any](c *coder, num protowire.Number, list *[]T, limit int) {
	if len(*list) > 0 {
		return
	}
	n := 1
	for b := c.b; len(b) > 0; {
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
		c.fail("field %d: it occurs %d times, limit %d", num, n, limit)
		return
	}
	*list = make([]T, 0, n)
}

// items is a list of at most limit messages whose fields are listed by fields.
func items[T any](c *coder, num protowire.Number, list *[]T, limit int, fields func(*T, *coder)) {
	if !c.reading {
		atMost("list", len(*list), limit)
		for i := range *list {
			at := c.open(num)
			fields(&(*list)[i], c)
			c.close(at)
		}
		return
	}
	if !c.at(num, protowire.BytesType) {
		return
	}
	if room(c, num, list, limit); c.err != nil {
		return
	}
	*list = append(*list, *new(T))
	one, outer := &(*list)[len(*list)-1], *c
	for c.b = c.data; c.next(); {
		fields(one, c)
	}
	outer.err = c.err
	*c = outer
}

// addrs is the addresses of one peer: the first MaxAddrs of those given; one that may
// not be sent is left out.
func (c *coder) addrs(num protowire.Number, list *[]string) {
	if !c.reading {
		for _, a := range firstOf(*list, MaxAddrs) {
			if IsText(a, MaxAddr) {
				c.b = appendItem(c.b, num, a)
			}
		}
		return
	}
	if !c.at(num, protowire.BytesType) {
		return
	}
	if room(c, num, list, MaxAddrs); c.err != nil {
		return
	}
	var a string
	c.text(num, &a, MaxAddr)
	*list = append(*list, a)
}

// peers is a list of at most limit peers with their addresses.
func (c *coder) peers(num protowire.Number, list *[]peers.Addr, limit int) {
	items(c, num, list, limit, func(p *peers.Addr, c *coder) {
		c.peer(1, &p.ID)
		c.addrs(2, &p.Addrs)
	})
	if n := len(*list); c.reading && c.num == num && n > 0 {
		c.need((*list)[n-1].ID != "", "peer without an ID")
	}
}

// pieces is a packed list of at most limit pieces; when read, it may also be one field for each piece.
func (c *coder) pieces(num protowire.Number, list *[]share.Piece, limit int) {
	switch {
	case !c.reading:
		atMost("pieces", len(*list), limit)
		if len(*list) == 0 {
			return
		}
		at := c.open(num)
		for _, p := range *list {
			c.b = protowire.AppendVarint(c.b, uint64(p))
		}
		c.close(at)
	case c.num != num || c.err != nil:
	case c.typ == protowire.VarintType && len(*list) == limit:
		c.fail("field %d: more than %d pieces", num, limit)
	case c.typ == protowire.VarintType:
		var p share.Piece
		c.piece(num, &p)
		*list = append(*list, p)
	case c.at(num, protowire.BytesType):
		c.packed(list, limit)
	}
}

// packed reads a packed list of pieces.
func (c *coder) packed(list *[]share.Piece, limit int) {
	n := 0
	for _, b := range c.data {
		if b < 0x80 {
			n++
		}
	}
	if len(*list)+n > limit {
		c.fail("field %d: more than %d pieces", c.num, limit)
		return
	}
	*list = slices.Grow(*list, n)
	for b := c.data; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 || v >= share.MaxPieces {
			c.fail("field %d: bad piece", c.num)
			return
		}
		*list, b = append(*list, share.Piece(v)), b[n:]
	}
}

// haveMap is a number of pieces and, in the next field, a bit for each.
func (c *coder) haveMap(num protowire.Number, pieces *int, bits *[]byte) {
	if !c.reading && !wholeBits(*pieces, *bits) {
		panic("wire: have-map of the wrong length")
	}
	varint(c, num, pieces, share.MaxPieces)
	c.bytes(num+1, bits, (share.MaxPieces+7)/8)
}

// wholeMap ends the reading of a have-map, which is part of the message until then.
func (c *coder) wholeMap(pieces int, bits *[]byte) {
	c.need(wholeBits(pieces, *bits), "%d bytes for %d pieces, or a bit is set beyond the last piece", len(*bits), pieces)
	*bits = slices.Clone(*bits)
}

// wholeBits says whether bits has exactly one bit for each piece.
func wholeBits(pieces int, bits []byte) bool {
	n := uint(pieces)
	return uint(len(bits)) == (n+7)/8 && (n%8 == 0 || bits[len(bits)-1]>>(n%8) == 0)
}

// hashes is a list of at most limit hashes, one behind the other.
func (c *coder) hashes(num protowire.Number, list *[]share.Hash, limit int) {
	if !c.reading {
		atMost("proof", len(*list), limit)
		if len(*list) == 0 {
			return
		}
		at := c.open(num)
		for i := range *list {
			c.b = append(c.b, (*list)[i][:]...)
		}
		c.close(at)
		return
	}
	if !c.chunk(num, limit*hashLen) {
		return
	}
	if len(c.data)%hashLen != 0 {
		c.fail("field %d: %d bytes of hashes, not a multiple of %d", num, len(c.data), hashLen)
		return
	}
	*list = nil
	if len(c.data) > 0 {
		*list = make([]share.Hash, len(c.data)/hashLen)
	}
	for i := range *list {
		(*list)[i] = share.Hash(c.data[i*hashLen:])
	}
}

// Encoding. A value of zero is left out, as protobuf has it.

func appendUint(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), v)
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

// open starts a message inside a message; close, given what it returned, ends it by
// writing its length.
func (c *coder) open(num protowire.Number) int {
	c.b = append(protowire.AppendTag(c.b, num, protowire.BytesType), 0)
	return len(c.b)
}

func (c *coder) close(at int) {
	n := uint64(len(c.b) - at)
	if n < 0x80 { // the byte left free is enough
		c.b[at-1] = byte(n)
		return
	}
	var length [binary.MaxVarintLen64]byte
	c.b = slices.Replace(c.b, at-1, at, length[:binary.PutUvarint(length[:], n)]...)
}

// atMost panics if a list is longer than its cap: a bug of the caller.
func atMost(what string, n, limit int) {
	if n > limit {
		panic(fmt.Sprintf("wire: %s: %d, limit %d", what, n, limit))
	}
}

// printable is s as text may be sent: UTF-8 without control characters, at most
// limit bytes, cut between characters.
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

// IsText says whether s may be sent as text of at most limit bytes.
func IsText(s string, limit int) bool { return s == printable(s, limit) }

// firstOf is the first limit items of a list.
func firstOf[T any](list []T, limit int) []T { return list[:min(len(list), limit)] }
