package sqlitedb

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A database on a disk that is mounted for reading is said to be there, and not to be another user's.
func TestAReadOnlyDiskIsSaidToBeOne(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("fetcher", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("NOT TESTED: a mount needs root:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	open := func(name string, private bool) (*DB, error) {
		return Open(t.Context(), filepath.Join(dir, name), Schema{App: 7, Steps: []string{`CREATE TABLE t(x)`}, Private: private})
	}
	for _, name := range []string{"shared", "own"} {
		db, err := open(name, name == "own")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"", "-wal", "-shm"} { // as a kill leaves them
			b, err := os.ReadFile(filepath.Join(dir, name+part))
			if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "killed "+name+part), b, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, private := range map[string]bool{"shared": false, "own": true, "killed shared": false, "killed own": true, "new": false, "new and own": true} {
		db, err := open(name, private)
		if err == nil { // it can be read
			defer db.Close()
			err = db.Write(t.Context(), func(c *sqlite.Conn) error { return sqlitex.ExecuteTransient(c, `INSERT INTO t VALUES (1)`, nil) })
		}
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
