package share

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"unsafe"
)

// allocated is the bytes that f allocates in all.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// folders is a manifest of n empty folders that says it has count.
func folders(n, count int) []byte {
	b := []byte("\xa4\x61v\x01\x64name\x61x\x66single\xf4\x67entries")
	b = appendHead(b, cborList, uint64(count))
	for i := range n {
		b = append(b, "\xa2\x61k\x01\x61p\x67"...)
		b = fmt.Appendf(b, "%07d", i)
	}
	return b
}

// A manifest of too many entries is refused before room is made for them, and one that
// only says so costs no more than what it is long.
func TestTooManyEntriesCostNoMemory(t *testing.T) {
	if size := unsafe.Sizeof(Entry{}); size > entryMemory {
		t.Errorf("an entry is %d bytes", size)
	}
	for what, b := range map[string][]byte{"has": folders(MaxEntries+1, MaxEntries+1), "says": folders(100, MaxEntries)} {
		var err error
		if got := allocated(func() { _, err = DecodeManifest(b) }); got > 4*len(b)+17<<20 {
			t.Errorf("%s: %d bytes allocated for %d", what, got, len(b))
		}
		if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrManifest) {
			t.Error(what, err)
		}
	}
	// And what is read, is read as before.
	if m, err := DecodeManifest(folders(3000, 3000)); err != nil || len(m.Entries) != 3000 {
		t.Error(err)
	}
}

func TestTheNumberOfEntriesIsReadFromAnyBytes(t *testing.T) {
	b := folders(70_000, 70_000)
	if n := listed(b); n != 70_000 {
		t.Error(n)
	}
	for i := range 40 {
		listed(b[:i])
		bad := append([]byte(nil), b[:60]...)
		for _, c := range []byte{0, 0x7b, 0x9b, 0xff} {
			bad[i] = c
			listed(bad)
		}
	}
}
