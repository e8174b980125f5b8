package sqlitedb

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A database that takes longer to be read, or written, than a call waits for others is opened, and written, nevertheless:
// a million leases on a small machine are no reason not to start, today and at each later start.
func TestWhatTakesLongIsDone(t *testing.T) { // not beside tests that wait for others
	defer func(d time.Duration) { wait = d }(wait)
	wait = 100 * time.Millisecond
	const slow = `length(hex(zeroblob(20000000)))` // in place of many rows
	s := Schema{App: notes.App, Steps: []string{`CREATE TABLE notes(text TEXT NOT NULL, CHECK(` + slow + ` > 0))`}}
	path := filepath.Join(t.TempDir(), "notes.db")
	db, err := Open(t.Context(), path, s)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = db.Write(t.Context(), func(c *sqlite.Conn) error {
		for began := time.Now(); time.Since(began) < 2*wait; n++ {
			if err := sqlitex.ExecuteTransient(c, `SELECT `+slow, nil); err != nil {
				return err
			}
		}
		return sqlitex.ExecuteTransient(c, fmt.Sprintf(`INSERT INTO notes WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) SELECT 'x' FROM n`, 2*n), nil)
	})
	if err != nil {
		t.Fatal("it is not written:", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(t.Context(), path, s); err != nil {
		t.Fatal("it is not opened:", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
