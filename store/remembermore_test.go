package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/store"
)

// Of a few more paths than are remembered, each of which is looked at again and again, as a node does every hour, not all are read each time.
func TestAFewPathsTooManyAreNotAllReadAgain(t *testing.T) {
	s, err := store.OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const remembered = 8
	s.RememberPaths(remembered)
	dir := t.TempDir()
	for round := range 3 {
		read := 0
		for i := range remembered + 1 {
			at := filepath.Join(dir, fmt.Sprint(i))
			if round == 0 {
				if err := os.WriteFile(at, fmt.Append(nil, "content ", i), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			imp, err := store.Import(t.Context(), at, store.ImportOptions{State: s})
			if err != nil {
				t.Fatal(err)
			}
			imp.Tree.Close()
			if imp.Hashed > 0 {
				read++
			}
		}
		if round > 0 && read > remembered/2 {
			t.Errorf("%d of %d unchanged files were read again", read, remembered+1)
		}
	}
}
