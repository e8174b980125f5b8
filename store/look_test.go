package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// Look goes round all files, a few at a time, and names the one that has changed; other
// permissions are no change.
func TestLookFindsTheFileThatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := tree{"one": "1"}
	for i := range 5 {
		files[fmt.Sprintf("a/%d", i)], files[fmt.Sprintf("b/%d", i)] = "a", "b"
	}
	files.make(t, dir)
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o777))
	at := func(p string) string { return filepath.Join(dir, p) }
	for name, paths := range map[string][]string{"a folder": {dir}, "several": {at("a"), at("empty"), at("b"), at("one")}} {
		im, err := store.ImportAll(context.Background(), paths, store.ImportOptions{Name: "n"})
		must(t, err)
		defer im.Tree.Close()
		rounds := 0
		for found := false; !found && rounds < 20; rounds++ {
			if rounds == 10 {
				must(t, os.Chmod(at("b/2"), 0o600))
				must(t, os.WriteFile(at("b/3"), []byte("changed"), 0o666))
			}
			if err = im.Tree.Look(3); err != nil {
				found = true
			}
		}
		if !errors.Is(err, share.ErrChanged) || !strings.HasSuffix(err.Error(), "b/3: file changed on disk") || rounds < 11 || rounds > 10+6 {
			t.Errorf("%s: after %d times: %v", name, rounds, err)
		}
		must(t, os.Remove(at("b/3")))
		if err := im.Tree.Look(100); !errors.Is(err, share.ErrChanged) {
			t.Errorf("%s: a file was removed: %v", name, err)
		}
		must(t, os.WriteFile(at("b/3"), []byte("b"), 0o666))
	}
}
