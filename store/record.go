package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lukechampine.com/blake3"
)

// A record is one small file that is either whole or worthless:
//
//	0   4  "fetr"
//	4   1  version, 1 or what the kind says
//	5   1  kind
//	6   2  zero
//	8   8  length of the payload, little-endian
//	16  n  payload
//	    32 BLAKE3-256 of all bytes before
type kind uint8

const (
	bitsRecord    kind = 1 // a transfer's epoch and verified pieces
	slotsRecord   kind = 2 // the head of a file of block hashes
	importsRecord kind = 3 // what one imported path looked like; version 2
	rankingRecord kind = 4 // the node's ranking of peers, as its owner wrote it
	keyRecord     kind = 5 // the node's key
	portRecord    kind = 6 // the port last listened on
	recentRecord  kind = 7 // pieces that are here and not yet durable
	placedRecord  kind = 8 // files of a transfer that lie below its target; version 2
	fleetRecord   kind = 9 // a share that is coordinated: epoch and members
)

const (
	recordMagic = "fetr"
	recordHead  = 16
	recordSum   = 32
)

// version is that of the payloads that are written. Others are not read: version 1
// of these two kinds has no change times.
func (k kind) version() byte {
	switch k {
	case importsRecord, placedRecord:
		return 2
	}
	return 1
}

// errRecord is what a damaged record is. What it held can be made again, so
// nobody outside the package sees it.
var errRecord = errors.New("damaged record")

func recordLen(payload int) int { return recordHead + payload + recordSum }

func encodeRecord(k kind, payload []byte) []byte {
	b := make([]byte, 0, recordLen(len(payload)))
	b = append(b, recordMagic...)
	b = append(b, k.version(), byte(k), 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(payload)))
	b = append(b, payload...)
	sum := blake3.Sum256(b)
	return append(b, sum[:]...)
}

// decodeRecord is the payload of a record of kind k. It shares b's memory.
func decodeRecord(k kind, b []byte) ([]byte, error) {
	if len(b) < recordLen(0) || string(b[:4]) != recordMagic {
		return nil, fmt.Errorf("%w: no record", errRecord)
	}
	if b[4] != k.version() {
		return nil, fmt.Errorf("%w: version %d", errRecord, b[4])
	}
	if kind(b[5]) != k || b[6] != 0 || b[7] != 0 {
		return nil, fmt.Errorf("%w: kind %d where %d should be", errRecord, b[5], k)
	}
	if binary.LittleEndian.Uint64(b[8:]) != uint64(len(b)-recordLen(0)) {
		return nil, fmt.Errorf("%w: wrong length", errRecord)
	}
	body := b[:len(b)-recordSum]
	if blake3.Sum256(body) != [recordSum]byte(b[len(body):]) {
		return nil, fmt.Errorf("%w: wrong checksum", errRecord)
	}
	return body[recordHead:], nil
}

// readRecord reads a record file with a payload of at most limit bytes.
func readRecord(d FS, name string, k kind, limit int) ([]byte, error) {
	b, err := readFile(d, name, int64(recordLen(limit)))
	if err != nil {
		return nil, err
	}
	return decodeRecord(k, b)
}
