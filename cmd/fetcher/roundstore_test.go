package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What cannot be a store is a store that cannot be used, be it a server's or a file.
func TestAFileThatIsNoStoreEndsWithTheCodeOfAStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.txt")
	must(t, os.WriteFile(file, []byte("these are notes, and no database at all"), 0o600))
	for name, path := range map[string]string{"a text": file, "a folder": dir, "in a folder that is not there": filepath.Join(dir, "none", "rounds.db")} {
		if _, stderr, code := roundCmd(t, "sqlite:"+path, "run", "--name", "x", "--every", "1h", "--once", "--", "true"); code != exitNetwork {
			t.Errorf("%s: exit %d, %s", name, code, stderr)
		}
	}
}
