package share

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"lukechampine.com/blake3"
)

// ID is a share ID: the BLAKE3-256 digest of a manifest's bytes. Its text is a
// CIDv1 of codec dag-cbor in base32. IDs can be compared with ==. The
// zero ID names nothing.
type ID struct{ digest Hash }

// idPrefix comes before the digest in the bytes of a CID: version 1, codec
// dag-cbor, hash function blake3, 32 bytes of digest. Each is a varint of one byte.
const idPrefix = "\x01\x71\x1e\x20"

// IDOf returns the ID of the share that has these manifest bytes.
func IDOf(manifest []byte) ID { return ID{blake3.Sum256(manifest)} }

// IDFromBytes reads the bytes of a CID, as Bytes makes them.
func IDFromBytes(b []byte) (ID, error) {
	if len(b) != len(idPrefix)+len(Hash{}) || string(b[:len(idPrefix)]) != idPrefix {
		return ID{}, idError(fmt.Sprintf("%d bytes that are no share ID", len(b)))
	}
	return ID{Hash(b[len(idPrefix):])}, nil
}

// idText is how the text of every share ID in base32 begins.
const idText = "bafyr4i"

// idLen is how many characters it has.
const idLen = 59

// ParseID reads the text of a share ID: any CID of a share, in base32 as String
// makes it or in another base. The error wraps ErrTicket.
func ParseID(s string) (ID, error) {
	if len(s) > 256 {
		return ID{}, idError(fmt.Sprintf("%d characters beginning with %q are neither a ticket nor a share ID", len(s), s[:16]))
	}
	c, err := cid.Decode(s)
	switch {
	case err != nil && strings.HasPrefix(s, idText):
		return ID{}, idError(fmt.Sprintf("%q %s", s, misspelt(utf8.RuneCountInString(s))))
	case err != nil:
		return ID{}, idError(fmt.Sprintf("%q is neither a ticket, which begins with %q, nor a share ID, which begins with %q", s, ticketPrefix, idText))
	}
	if p := c.Prefix(); p.Version != 1 || p.Codec != cid.DagCBOR || p.MhType != multihash.BLAKE3 || p.MhLength != len(Hash{}) {
		return ID{}, idError(fmt.Sprintf("%q is a CID, but not that of a share, which is a CIDv1 of codec dag-cbor and hash BLAKE3-256, and begins with %q in base32", s, idText))
	}
	id, err := IDFromBytes(c.Bytes())
	if err == nil && id.IsZero() {
		err = idError(fmt.Sprintf("%q has the form of a share ID, and names nothing: its hash is all zeros", s))
	}
	return id, err
}

// misspelt says what is wrong with an ID in base32 that has n characters.
func misspelt(n int) string {
	switch {
	case n < idLen:
		return fmt.Sprintf("is not a whole share ID: that has %d characters, and this has %d", idLen, n)
	case n > idLen:
		return fmt.Sprintf("is too long for a share ID: that has %d characters, and this has %d", idLen, n)
	}
	return "is mistyped: a share ID has only the letters a to z and the digits 2 to 7; copy it again"
}

// idError says why a text names no share. It wraps ErrTicket.
type idError string

func (e idError) Error() string { return string(e) }
func (e idError) Unwrap() error { return ErrTicket }

// Blinded stands for the ID where that must stay secret: whoever knows the ID can compute it,
// and nobody learns the ID from it. It differs for each purpose.
func (id ID) Blinded(purpose string) Hash {
	return blake3.Sum256(append([]byte(purpose+" "), id.Bytes()...))
}

// AtBeacon stands for the ID at beacons: with the secret of a ticket, only for those that have it.
func (id ID) AtBeacon(s *Secret) Hash {
	b := append([]byte("fetcher beacon 1 "), id.Bytes()...)
	if s != nil {
		b = append(b, s[:]...)
	}
	return blake3.Sum256(b)
}

// Compare orders IDs by their bytes, as slices.SortFunc takes it.
func (id ID) Compare(other ID) int { return bytes.Compare(id.digest[:], other.digest[:]) }

// Bytes is the CID in binary: 36 bytes.
func (id ID) Bytes() []byte { return append([]byte(idPrefix), id.digest[:]...) }

// String returns the CID in lower-case base32: 59 characters. The zero ID has none.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return cid.MustParse(id.Bytes()).String()
}

// MarshalText returns what String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText makes, and what ParseID does.
func (id *ID) UnmarshalText(b []byte) (err error) {
	if *id = (ID{}); len(b) > 0 {
		*id, err = ParseID(string(b))
	}
	return err
}

// Short returns an ID for people: its end, where IDs differ.
func (id ID) Short() string {
	s := id.String()
	return s[max(0, len(s)-8):]
}

// IsZero says whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }
