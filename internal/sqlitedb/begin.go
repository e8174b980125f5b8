package sqlitedb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// begin makes the file of a new database, which is never without bytes: so one that is has lost them, and SQLite would drop what its
// log still has. The error is of such a loss, or of a full disk. Whatever else fails is left to SQLite, which begins a file of 0 bytes.
func (s Schema) begin(path string) error {
	log, err := os.Stat(path + "-wal") // before the file itself, which others may be making
	logged := err == nil && log.Size() > 0
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return fmt.Errorf("open %s: %w: it has no bytes any more", path, errDamaged)
	case !os.IsNotExist(err):
		return nil
	case logged:
		return fmt.Errorf("open %s: %w: its file is gone, and its log is still there", path, errDamaged)
	}
	if b, err := s.empty(); err == nil {
		whole := fmt.Sprintf("%s.new-%x", path, rand.Uint64())
		err := write(whole, b, s.Private)
		if err == nil && os.Link(whole, path) != nil { // another process was faster, or there are no hard links here
			_ = write(path, b, s.Private)
		}
		_ = os.Remove(whole)
		if p, ok := errors.AsType[*os.PathError](err); ok && p.Op != "open" { // SQLite would leave a file of 0 bytes
			return fmt.Errorf("open %s: %w", path, p.Err)
		}
	}
	return nil
}

// empty returns a database of version 0.
func (s Schema) empty() ([]byte, error) {
	c, err := sqlite.OpenConn(":memory:")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := sqlitex.ExecuteTransient(c, fmt.Sprint("PRAGMA application_id = ", s.App), nil); err != nil {
		return nil, err
	}
	return c.Serialize("main")
}

func write(path string, b []byte, private bool) error {
	mode := os.FileMode(0o644)
	if private {
		mode = 0o600
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}
