package share

import (
	"fmt"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"lukechampine.com/blake3"
)

// ID is a share ID: the BLAKE3-256 digest of a manifest's bytes. Its text is a
// CIDv1 of codec dag-cbor in base32. IDs are equal exactly if they are ==. The
// zero ID names nothing.
type ID struct{ digest Hash }

// idPrefix stands before the digest in the bytes of a CID: version 1, codec
// dag-cbor, hash function blake3, 32 bytes of digest. Each is a varint of one byte.
const idPrefix = "\x01\x71\x1e\x20"

// IDOf is the ID of the share that has these manifest bytes.
func IDOf(manifest []byte) ID { return ID{blake3.Sum256(manifest)} }

// IDFromBytes reads the bytes of a CID, as Bytes makes them.
func IDFromBytes(b []byte) (ID, error) {
	if len(b) != len(idPrefix)+len(Hash{}) || string(b[:len(idPrefix)]) != idPrefix {
		return ID{}, fmt.Errorf("%w: %d bytes that are no share ID", ErrTicket, len(b))
	}
	return ID{Hash(b[len(idPrefix):])}, nil
}

// ParseID reads the text of a share ID: any CID of a share, in base32 as String
// makes it or in another base. The error wraps ErrTicket.
func ParseID(s string) (ID, error) {
	if len(s) > 256 {
		return ID{}, fmt.Errorf("%w: %d characters are no share ID", ErrTicket, len(s))
	}
	c, err := cid.Decode(s)
	if err != nil {
		return ID{}, fmt.Errorf("%w: %q is no share ID: %w", ErrTicket, s, err)
	}
	p := c.Prefix()
	switch {
	case p.Version != 1 || p.Codec != cid.DagCBOR:
		return ID{}, fmt.Errorf("%w: %q is a CID, but not of a share's manifest (CIDv1, dag-cbor)", ErrTicket, s)
	case p.MhType != multihash.BLAKE3 || p.MhLength != len(Hash{}):
		return ID{}, fmt.Errorf("%w: %q is a CID of another hash function; share IDs are BLAKE3-256", ErrTicket, s)
	}
	return IDFromBytes(c.Bytes())
}

// Bytes is the CID in binary: 36 bytes.
func (id ID) Bytes() []byte { return append([]byte(idPrefix), id.digest[:]...) }

// String is the CID in lower-case base32: 59 characters. The zero ID has none.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return cid.MustParse(id.Bytes()).String()
}

// Short is an ID for people: its end, where IDs differ.
func (id ID) Short() string {
	s := id.String()
	return s[max(0, len(s)-8):]
}

// IsZero says whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }
