package vfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"lukechampine.com/blake3"

	"github.com/piecelease/fetcher/share"
)

// A Kind is what a record is about. A record is one small file that is either whole
// or worthless:
//
//	0   4  "fetr"
//	4   1  version, 1 or what the kind says
//	5   1  kind
//	6   2  zero
//	8   8  length of the payload, little-endian
//	16  n  payload
//	    32 BLAKE3-256 of all bytes before
type Kind uint8

// The kinds of records there are.
const (
	BitsRecord       Kind = 1  // a transfer's epoch and verified pieces
	SlotsRecord      Kind = 2  // the head of a file of block hashes
	ImportsRecord    Kind = 3  // what one imported path looked like; version 2
	RankingRecord    Kind = 4  // the node's ranking of peers, as its owner wrote it
	KeyRecord        Kind = 5  // the node's key
	PortRecord       Kind = 6  // the port last listened on
	RecentRecord     Kind = 7  // pieces that are here and not yet durable
	PlacedRecord     Kind = 8  // files of a transfer that lie below its target; version 2
	FleetRecord      Kind = 9  // a share that is coordinated: epoch and members
	MarksRecord      Kind = 10 // the head of the marks of a transfer's files
	DepotRecord      Kind = 11 // the identity of a depot's folder
	LeasesRecord     Kind = 12 // the storage leases beside a share
	MoreLeasesRecord Kind = 13 // changes of the storage leases beside a share
)

// RecordHead is how many bytes of a record come before its payload.
const RecordHead = 16

// RecordMagic is how a record begins.
const RecordMagic = "fetr"

const recordSum = 32

// version is that of the payloads that are written. Others are not read: version 1
// of these two kinds has no change times.
func (k Kind) version() byte {
	switch k {
	case ImportsRecord, PlacedRecord:
		return 2
	}
	return 1
}

// ErrRecord is what a damaged record is. What it held can be made again, so
// nobody outside of store sees it.
var ErrRecord = errors.New("damaged record")

// RecordLen is the length of a record with a payload of that many bytes.
func RecordLen(payload int) int { return RecordHead + payload + recordSum }

// EncodeRecord is a record of kind k.
func EncodeRecord(k Kind, payload []byte) []byte {
	return EndRecord(append(BeginRecord(k, len(payload)), payload...))
}

// BeginRecord is what comes before a payload of about n bytes, with room for it and what follows: a
// long one is appended to it, which spares a copy.
func BeginRecord(k Kind, n int) []byte {
	b := make([]byte, RecordHead, RecordLen(n))
	copy(b, RecordMagic)
	b[4], b[5] = k.version(), byte(k)
	return b
}

// EndRecord makes a record of what BeginRecord returned and a payload behind it.
func EndRecord(b []byte) []byte {
	binary.LittleEndian.PutUint64(b[8:], uint64(len(b)-RecordHead))
	sum := blake3.Sum256(b)
	return append(b, sum[:]...)
}

// DecodeRecord is the payload of a record of kind k. It shares b's memory.
func DecodeRecord(k Kind, b []byte) ([]byte, error) {
	if len(b) < RecordLen(0) || string(b[:4]) != RecordMagic {
		return nil, fmt.Errorf("%w: no record", ErrRecord)
	}
	if b[4] != k.version() {
		return nil, fmt.Errorf("%w: version %d", ErrRecord, b[4])
	}
	if Kind(b[5]) != k || b[6] != 0 || b[7] != 0 {
		return nil, fmt.Errorf("%w: kind %d where %d should be", ErrRecord, b[5], k)
	}
	if binary.LittleEndian.Uint64(b[8:]) != uint64(len(b)-RecordLen(0)) {
		return nil, fmt.Errorf("%w: wrong length", ErrRecord)
	}
	body := b[:len(b)-recordSum]
	if blake3.Sum256(body) != [recordSum]byte(b[len(body):]) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrRecord)
	}
	return body[RecordHead:], nil
}

// ReadRecord reads a record file with a payload of at most limit bytes.
func ReadRecord(d FS, name string, k Kind, limit int) ([]byte, error) {
	b, err := ReadFile(d, name, int64(RecordLen(limit)))
	if errors.Is(err, share.ErrLimit) {
		return nil, fmt.Errorf("%w: wrong length", ErrRecord)
	}
	if err != nil {
		return nil, err
	}
	return DecodeRecord(k, b)
}

// ReadHead reads a record with a payload of n bytes at the start of a file.
func ReadHead(f File, k Kind, n int) ([]byte, error) {
	b := make([]byte, RecordLen(n))
	if got, err := f.ReadAt(b, 0); got < len(b) && err != io.EOF {
		return nil, err
	}
	return DecodeRecord(k, b)
}
