package sqlitedb

import (
	"context"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Copy writes the database as it is at one moment to a file that does not exist yet. Writes
// to the database meanwhile do not wait for that, and are not in the copy.
// prepare changes the copy before it is finished; it may be nil.
func (db *DB) Copy(ctx context.Context, to string, prepare func(*sqlite.Conn) error) error {
	from, err := sqlite.OpenConn(db.path, sqlite.OpenReadOnly)
	if err != nil {
		return fmt.Errorf("copy %s: %w", db.path, err)
	}
	from.SetInterrupt(ctx.Done())
	err = sqlitex.ExecuteTransient(from, "VACUUM INTO ?1", &sqlitex.ExecOptions{Args: []any{to}})
	if closed := from.Close(); err == nil {
		err = closed
	}
	if err != nil || prepare == nil {
		return ended(ctx, filepath.Dir(to), err)
	}
	c, err := sqlite.OpenConn(to, sqlite.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("copy %s: %w", db.path, err)
	}
	err = prepare(c)
	if closed := c.Close(); err == nil {
		err = closed
	}
	return err
}
