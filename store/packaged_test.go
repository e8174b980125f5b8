package store

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What purges the package knows all that a state directory holds.
func TestAPurgeRemovesAllOfAStateDirectory(t *testing.T) {
	b, err := os.ReadFile("../deploy/packages/postremove")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.FieldsFunc(string(b), func(r rune) bool { return strings.ContainsRune(" ;\n", r) })
	for _, name := range slices.Concat(stateFolders, stateOwn) {
		if !slices.Contains(words, name) {
			t.Errorf("%s stays", name)
		}
	}
}
