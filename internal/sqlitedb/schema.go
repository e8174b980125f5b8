package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A Schema says what a database is and by which steps it became that.
type Schema struct {
	// App marks the file as this database and no other: SQLite's application_id.
	// Not zero.
	App int32

	// Steps[i] is the SQL that takes a database of version i to version i+1. A
	// step that was released is never edited. Tests reach version v with
	// Steps[:v].
	Steps []string

	// Private makes the file readable by its owner alone, whatever the umask.
	Private bool
}

var errDamaged = errors.New("the database is damaged")

// pragmas are set for each connection; journal_mode stays with the file. On
// macOS, fullfsync is what makes a sync reach the disk.
var pragmas = []string{
	"PRAGMA synchronous = FULL",
	"PRAGMA fullfsync = ON",
	"PRAGMA checkpoint_fullfsync = ON",
	"PRAGMA foreign_keys = ON",
	"PRAGMA trusted_schema = OFF",
	"PRAGMA cell_size_check = ON",
	"PRAGMA temp_store = MEMORY", // a container has no folder for temporary files
}

// prepare makes the database that db has just opened ready for use.
func (db *DB) prepare(ctx context.Context, s Schema) error {
	return db.use(ctx, "open", func(ctx context.Context, c *sqlite.Conn) error {
		if err := transact(ctx, c, "BEGIN", s.owns); err != nil {
			return err
		}
		for _, p := range pragmas {
			if err := sqlitex.ExecuteTransient(c, p, nil); err != nil {
				return err
			}
		}
		if err := writeAhead(ctx, c); err != nil {
			return err
		}
		if err := transact(ctx, c, "BEGIN", check); err != nil {
			return err
		}
		if version, err := number(c, "PRAGMA user_version"); err != nil || version == int64(len(s.Steps)) {
			return err
		}
		return transact(ctx, c, "BEGIN IMMEDIATE", s.migrate)
	})
}

// owns refuses a database that is another program's, or too new.
func (s Schema) owns(c *sqlite.Conn) error {
	app, err := number(c, "PRAGMA application_id")
	if err != nil {
		return err
	}
	version, err := number(c, "PRAGMA user_version")
	if err != nil {
		return err
	}
	tables, err := number(c, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return nil // new
	case app != int64(s.App):
		return errors.New("it is a database of another kind; move it away, or name another file or folder")
	case version > int64(len(s.Steps)):
		return fmt.Errorf("it is of version %d, and this program knows version %d; use a newer fetcher", version, len(s.Steps))
	}
	return nil
}

// writeAhead turns the write-ahead log on. SQLite does not wait for other
// processes that do the same at this moment, but says that it is busy.
func writeAhead(ctx context.Context, c *sqlite.Conn) error {
	ctx, cancel := waiting(ctx)
	defer cancel()
	for {
		err := sqlitex.ExecuteTransient(c, "PRAGMA journal_mode = WAL", &sqlitex.ExecOptions{
			ResultFunc: func(row *sqlite.Stmt) error {
				if mode := row.ColumnText(0); mode != "wal" && mode != "memory" {
					return errors.New("it is on a disk where processes cannot use it together; a database must be on a local disk")
				}
				return nil
			},
		})
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// check reads the whole database.
func check(c *sqlite.Conn) error {
	return sqlitex.ExecuteTransient(c, "PRAGMA integrity_check(1)", &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error {
			if found := row.ColumnText(0); found != "ok" {
				return fmt.Errorf("%w: %s", errDamaged, found)
			}
			return nil
		},
	})
}

// migrate takes the database through the steps that it has not seen. Another
// process may have done so since owns looked.
func (s Schema) migrate(c *sqlite.Conn) error {
	if err := s.owns(c); err != nil {
		return err
	}
	version, err := number(c, "PRAGMA user_version")
	if err != nil {
		return err
	}
	for v := int(version); v < len(s.Steps); v++ {
		if err := sqlitex.ExecuteScript(c, s.Steps[v], nil); err != nil {
			return fmt.Errorf("it cannot be brought from version %d to %d: %w", v, v+1, err)
		}
	}
	for _, set := range []string{fmt.Sprint("PRAGMA application_id = ", s.App), fmt.Sprint("PRAGMA user_version = ", len(s.Steps))} {
		if err := sqlitex.ExecuteTransient(c, set, nil); err != nil {
			return err
		}
	}
	return nil
}

// number returns the one value that a query gives.
func number(c *sqlite.Conn, query string) (n int64, err error) {
	err = sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error {
			n = row.ColumnInt64(0)
			return nil
		},
	})
	return n, err
}
