package sqlitedb

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/internal/rig"
)

// A database that takes long to be read is opened nevertheless: one of a million leases on a small machine is no reason
// not to start, today and at each later start.
func TestADatabaseThatIsReadForLongIsOpened(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	const slow = `length(hex(zeroblob(20000000)))` // in place of many rows
	s := Schema{App: notes.App, Steps: []string{`CREATE TABLE notes(text TEXT NOT NULL, CHECK(` + slow + ` > 0))`}}
	path := filepath.Join(t.TempDir(), "notes.db")
	db, err := Open(t.Context(), path, s)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), func(c *sqlite.Conn) error {
		began, n := time.Now(), 0
		for ; time.Since(began) < 4*time.Second; n++ {
			if err := sqlitex.ExecuteTransient(c, `SELECT `+slow, nil); err != nil {
				return err
			}
		}
		if err := sqlitex.ExecuteTransient(c, `PRAGMA ignore_check_constraints = ON`, nil); err != nil {
			return err
		}
		return sqlitex.ExecuteTransient(c, fmt.Sprintf(`INSERT INTO notes WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) SELECT 'x' FROM n`, 12*n), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	db, err = Open(t.Context(), path, s)
	if err != nil {
		t.Fatalf("it is given up after %v, and so is each later start: %v", time.Since(began).Round(time.Second), err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
