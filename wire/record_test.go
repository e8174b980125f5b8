package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestRecordComesBack(t *testing.T) {
	payload := []byte("verified pieces")
	want := golden(t, "record", EncodeRecord(RecordBits, payload))
	if got := EncodeRecord(RecordBits, payload); !bytes.Equal(got, want) {
		t.Errorf("encodes as\n%x, want\n%x", got, want)
	}
	for _, p := range [][]byte{payload, nil, make([]byte, 1<<16)} {
		got, err := DecodeRecord(RecordRanking, EncodeRecord(RecordRanking, p), 1<<16)
		if err != nil || !bytes.Equal(got, p) {
			t.Errorf("%d bytes are read as %d, %v", len(p), len(got), err)
		}
	}
}

func TestDamagedRecordIsRefused(t *testing.T) {
	good := EncodeRecord(RecordBits, []byte("payload"))
	refused := func(what string, kind RecordKind, b []byte, limit int) {
		t.Helper()
		if _, err := DecodeRecord(kind, b, limit); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		refused("a flipped bit", RecordBits, bad, 100)
		refused("a cut", RecordBits, good[:i], 100)
	}
	refused("a longer file", RecordBits, append(bytes.Clone(good), 0), 100)
	refused("another kind", RecordHashes, good, 100)
	refused("over the limit", RecordBits, good, 6)
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(EncodeRecord(RecordBits, []byte("payload")))
	f.Add([]byte("fetcher\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeRecord(RecordBits, b, 1<<20)
		if err == nil && !bytes.Equal(EncodeRecord(RecordBits, p), b) {
			t.Fatalf("%x is read as %x", b, p)
		}
	})
}
