package store

import (
	"testing"

	"github.com/piecelease/fetcher/share"
)

func FuzzParseImport(f *testing.F) {
	id := share.IDOf([]byte("x")).Bytes()
	f.Add(append(append([]byte{3, 0}, "/ab"...), append(id, make([]byte, importEntry)...)...))
	f.Add([]byte{255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, stamps, ok := parseImport(b)
		if ok && len(r.path)+len(stamps)+importHead != len(b) {
			t.Error("lengths do not add up")
		}
	})
}
