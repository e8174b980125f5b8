package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
)

// A lock that cannot be made is not another process's, and the folder cannot be used.
func TestHRALockThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, b := open(dir), &book{}
	err := r.Ready(t.Context(), b)
	t.Log(err)
	if errors.Is(err, share.ErrHeld) || strings.Contains(err.Error(), "another process") || !errors.Is(err, ErrAway) {
		t.Errorf("%v", err)
	}
}
