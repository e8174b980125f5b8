package share

import (
	"fmt"
	"testing"
)

// A manifest that is refused costs no more memory than one that is not, however much is wrong with it.
func TestAManifestThatIsRefusedIsReadWithinItsBudget(t *testing.T) {
	const n = 200_000
	for what, entry := range map[string]func(i int) Entry{
		"absolute links":     func(i int) Entry { return Entry{Path: fmt.Sprintf("%07d", i), Kind: Symlink, Target: "/"} },
		"links that leave":   func(i int) Entry { return Entry{Path: fmt.Sprintf("%07d", i), Kind: Symlink, Target: ".."} },
		"control characters": func(i int) Entry { return Entry{Path: fmt.Sprintf("%07d\x01", i), Kind: Dir} },
	} {
		b := made(n, n, entry)
		budget := 4*len(b) + 16<<20
		var err error
		if got := allocated(func() { _, err = DecodeManifest(b) }); got > budget || err == nil {
			t.Errorf("%s: %d bytes allocated to refuse %d: %.50v", what, got, len(b), err)
		}
	}
}
