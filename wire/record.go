package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lukechampine.com/blake3"
)

// RecordKind is what a record on disk holds.
type RecordKind uint32

const (
	RecordBits    RecordKind = 1 + iota // verified pieces of a transfer, with its epoch
	RecordHashes                        // block hashes
	RecordImports                       // the import cache
	RecordRanking                       // what is known of peers
)

// ErrRecord is a record that is damaged, cut, of another kind or of a later version.
var ErrRecord = errors.New("damaged record")

// A record is a file of its own, written whole:
//
//	"fetcher" | version, 1 byte | kind, 4 | length of payload, 8 | payload | BLAKE3-256 of all before, 32
//
// Numbers are little-endian.
const (
	recordMagic   = "fetcher"
	recordVersion = 1
	recordHead    = len(recordMagic) + 1 + 4 + 8
	recordSum     = 32
)

// EncodeRecord is the bytes of a record.
func EncodeRecord(kind RecordKind, payload []byte) []byte {
	b := make([]byte, 0, recordHead+len(payload)+recordSum)
	b = append(append(b, recordMagic...), recordVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(kind))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(payload)))
	b = append(b, payload...)
	sum := blake3.Sum256(b)
	return append(b, sum[:]...)
}

// DecodeRecord is the payload, part of b, of a record of this kind. The error
// wraps ErrRecord, also if the payload is longer than limit bytes.
func DecodeRecord(kind RecordKind, b []byte, limit int) ([]byte, error) {
	if len(b) < recordHead+recordSum || string(b[:len(recordMagic)]) != recordMagic {
		return nil, fmt.Errorf("%w: not a record", ErrRecord)
	}
	if v := b[len(recordMagic)]; v != recordVersion {
		return nil, fmt.Errorf("%w: version %d", ErrRecord, v)
	}
	if k := RecordKind(binary.LittleEndian.Uint32(b[len(recordMagic)+1:])); k != kind {
		return nil, fmt.Errorf("%w: kind %d, not %d", ErrRecord, k, kind)
	}
	body, sum := b[:len(b)-recordSum], b[len(b)-recordSum:]
	payload := body[recordHead:]
	if n := binary.LittleEndian.Uint64(b[recordHead-8:]); n != uint64(len(payload)) {
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrRecord, len(payload), n)
	}
	if len(payload) > limit {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrRecord, len(payload), limit)
	}
	if blake3.Sum256(body) != [recordSum]byte(sum) {
		return nil, fmt.Errorf("%w: checksum differs", ErrRecord)
	}
	return payload, nil
}
