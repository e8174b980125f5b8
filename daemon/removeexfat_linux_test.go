package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
)

// What was fetched onto a file system that makes the numbers of inodes up is removed, though a file has another number than when it was read.
func TestRemoveRemovesAFileWithANewInodeNumber(t *testing.T) {
	at, forget := rig.ExFAT(t)
	to := filepath.Join(at, "tree")
	file(t, "one", to, "docs", "1")
	file(t, "three", to, "3")
	was, err := store.Import(t.Context(), to, store.ImportOptions{})
	must(t, err)
	was.Tree.Close()
	imp, err := store.Import(t.Context(), to, store.ImportOptions{Of: was.Manifest})
	must(t, err)
	defer imp.Tree.Close()
	made := asThere(t, to, was.Manifest)
	forget(filepath.Join(to, "docs", "1"))
	gone, kept := removeMade(catalog.Entry{Status: catalog.Status{Path: to}}, was.Manifest, made, imp)
	if _, err := os.Lstat(to); !os.IsNotExist(err) {
		t.Errorf("removed: %v; %s", gone, kept)
	}
}
