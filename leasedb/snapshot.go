package leasedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/internal/sqlitedb"
)

// Snapshot writes all that the depot has promised at this moment to a new file. Opened as a
// depot's database it counts as one that was not the last to write to the depot's folder:
// incomplete until the crawler has entered what only the folder knows, so that nothing
// promised since is removed.
func (d *DB) Snapshot(ctx context.Context, path string) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.hear(d.db.Copy(ctx, path, func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, `UPDATE meta SET self = '', complete_since = NULL, place = NULL`, nil)
	}))
}

// ErrSnapshot means that a file is not a snapshot of a depot's database.
var ErrSnapshot = errors.New("this is not a snapshot of this depot's leases")

// Restore puts a snapshot of the depot with that name in place of the database at path, which
// nobody may have open. The old database may be a good one, and is renamed to aside; empty if
// there was none.
func Restore(ctx context.Context, snapshot, path, name string) (aside string, err error) {
	db, err := sqlitedb.Open(ctx, snapshot, schema)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	m, err := (&DB{db: db}).Meta(ctx)
	if err = errors.Join(err, db.Close()); err != nil {
		return "", err
	}
	if m.Depot != name || m.Self != "" {
		return "", fmt.Errorf("%w: it is of another depot", ErrSnapshot)
	}
	if aside, err = sqlitedb.SetAside(path, "before"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return aside, os.Rename(snapshot, path)
}
