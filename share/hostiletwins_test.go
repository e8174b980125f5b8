package share

import (
	"fmt"
	"testing"
)

// The names that fall together are remembered in no more memory than a manifest may take to be read: whoever makes it decides how many
// there are.
func TestTwinsTakeLittleMemory(t *testing.T) {
	const n = 400_000
	b := made(n, n, func(i int) Entry { return Entry{Path: fmt.Sprintf("%c%06d", "Xx"[i/(n/2)], i%(n/2)), Kind: Dir} })
	m, err := DecodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := allocated(func() { Twins(m) }); got > 4*len(b)+16<<20 {
		t.Errorf("%d bytes allocated for the names that fall together in %d", got, len(b))
	}
	m, size := deepTwins(t, 100)
	if got := allocated(func() { Twins(m) }); got > 4*size+16<<20 {
		t.Errorf("%d bytes allocated for the deep names that fall together in %d", got, size)
	}
}
