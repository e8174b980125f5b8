package share

import (
	"fmt"
	"strings"
	"testing"
)

// deepTwins is the manifest of n chains of 2,000 folders each, of which every second falls together with another on macOS and Windows.
func deepTwins(t *testing.T, n int) (m *Manifest, size int) {
	b := made(n, n, func(i int) Entry {
		return Entry{Path: fmt.Sprintf("%c%04d", "Xx"[i/(n/2)], i%(n/2)) + strings.Repeat("/a", 1997), Kind: Dir}
	})
	m, err := DecodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	return m, len(b)
}

// Names that fall together are found in as little memory as others are checked in, however deep they lie.
func TestDeepNamesThatFallTogetherAreFoundInLittleMemory(t *testing.T) {
	m, size := deepTwins(t, 4)
	if got := allocated(func() { PortabilityProblems(m, "", nil) }); got > 4*size+16<<20 {
		t.Errorf("%d bytes allocated to look at the names in %d", got, size)
	}
}
