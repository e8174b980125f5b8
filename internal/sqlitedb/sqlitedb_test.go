package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// notes is a schema with three versions.
var notes = Schema{App: 0x746e6f74, Steps: []string{
	`CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT NOT NULL)`,
	`ALTER TABLE notes ADD COLUMN author TEXT NOT NULL DEFAULT 'nobody'; CREATE INDEX byAuthor ON notes(author)`,
	`CREATE TABLE tags(note INTEGER REFERENCES notes(id), tag TEXT NOT NULL); UPDATE notes SET author = upper(author)`,
}}

func (s Schema) version(v int) Schema { return Schema{App: s.App, Steps: s.Steps[:v]} }

func open(t *testing.T, path string, s Schema) *DB {
	t.Helper()
	db, err := Open(t.Context(), path, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func add(t *testing.T, db *DB, texts ...string) {
	t.Helper()
	err := db.Write(t.Context(), func(c *sqlite.Conn) error { return insert(c, texts...) })
	if err != nil {
		t.Fatal(err)
	}
}

func insert(c *sqlite.Conn, texts ...string) error {
	for _, text := range texts {
		if err := sqlitex.Execute(c, `INSERT INTO notes(text) VALUES (?)`, &sqlitex.ExecOptions{Args: []any{text}}); err != nil {
			return err
		}
	}
	return nil
}

// rows returns the result of a query, each row as one string.
func rows(t *testing.T, db *DB, query string) (out []string) {
	t.Helper()
	err := db.Read(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
			var cells []string
			for i := range row.ColumnCount() {
				cells = append(cells, row.ColumnText(i))
			}
			out = append(out, strings.Join(cells, "|"))
			return nil
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// SQLite up to 3.51.2 damages a database when two processes checkpoint its log at
// the same moment (sqlite.org/wal.html, "The WAL-Reset Bug").
func TestSQLiteIsNewEnoughForManyProcesses(t *testing.T) {
	if sqlite.VersionNumber < 3051003 {
		t.Errorf("SQLite %s: require a newer modernc.org/sqlite", sqlite.Version)
	}
}

func TestCommitsAreSyncedAndLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.db")
	for range 2 { // new, and then opened again
		db := open(t, path, notes)
		equal(t, rows(t, db, "PRAGMA synchronous"), "2")
		equal(t, rows(t, db, "PRAGMA journal_mode"), "wal")
		equal(t, rows(t, db, "PRAGMA fullfsync"), "1")
		equal(t, rows(t, db, "PRAGMA foreign_keys"), "1")
		db.Close()
	}
}

func TestWhatIsCommittedIsThereAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b#c %20.db") // a path, not a URI
	db := open(t, path, notes)
	add(t, db, "one", "two")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if err := db.Write(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	equal(t, rows(t, open(t, path, notes), "SELECT text FROM notes"), "one", "two")
}

func TestOneInMemory(t *testing.T) {
	a, b := open(t, ":memory:", notes), open(t, ":memory:", notes)
	add(t, a, "one")
	equal(t, rows(t, a, "SELECT text FROM notes"), "one")
	equal(t, rows(t, b, "SELECT text FROM notes"))
}

func TestNothingRemainsOfATransactionThatFails(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "notes.db"), notes)
	mine := errors.New("mine")
	if err := db.Write(t.Context(), func(c *sqlite.Conn) error { return errors.Join(insert(c, "one"), mine) }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		db.Write(t.Context(), func(c *sqlite.Conn) error { insert(c, "two"); panic("mine") })
	}()
	// After some errors SQLite rolls back by itself. A caller that ignores them is
	// told so.
	err := db.Write(t.Context(), func(c *sqlite.Conn) error {
		_ = sqlitex.Execute(c, `INSERT OR ROLLBACK INTO notes(id, text) VALUES (7, 'three'), (7, 'four')`, nil)
		return nil
	})
	if err == nil {
		t.Error("a transaction that SQLite rolled back was reported as committed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = db.Write(ctx, func(c *sqlite.Conn) error { defer cancel(); return insert(c, "five") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in the middle: %v", err)
	}
	equal(t, rows(t, db, "SELECT text FROM notes"))
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.db")
	a, b := open(t, path, notes), open(t, path, notes)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := a.Write(t.Context(), func(*sqlite.Conn) error {
		if err := a.Read(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), "notes.db: it did not answer in time; try again later") {
			t.Errorf("waiting for this process: %v", err)
		}
		if err := b.Write(ctx, func(*sqlite.Conn) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for another: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := b.Write(ctx, func(*sqlite.Conn) error { return nil }); !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), ": another process has it locked; end that one, or try again later") {
			t.Errorf("waiting for another's lock: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	add(t, b, "one")
}

func TestEveryOlderVersionIsMigrated(t *testing.T) {
	const shape = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
	fresh := rows(t, open(t, ":memory:", notes), shape)
	for v := range len(notes.Steps) {
		path := filepath.Join(t.TempDir(), "notes.db")
		db := open(t, path, notes.version(v))
		if v > 0 {
			add(t, db, "one")
		}
		db.Close()
		db = open(t, path, notes)
		equal(t, rows(t, db, shape), fresh...)
		equal(t, rows(t, db, "PRAGMA user_version"), "3")
		if v > 0 {
			equal(t, rows(t, db, "SELECT text, author FROM notes"), "one|NOBODY")
		}
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.db")
	db := open(t, path, notes.version(1))
	add(t, db, "one")
	db.Close()
	broken := Schema{App: notes.App, Steps: []string{notes.Steps[0], notes.Steps[1], `INSERT INTO nowhere VALUES (1)`}}
	if _, err := Open(t.Context(), path, broken); err == nil || !strings.Contains(err.Error(), "from version 2 to 3") {
		t.Fatalf("got %v", err)
	}
	equal(t, rows(t, open(t, path, notes), "SELECT text, author FROM notes"), "one|NOBODY")
}

func TestWhatIsNotOursIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	newer, other := filepath.Join(dir, "newer.db"), filepath.Join(dir, "other.db")
	open(t, newer, notes).Close()
	open(t, other, Schema{App: 1, Steps: notes.Steps}).Close()
	for path, want := range map[string]string{newer: "use a newer fetcher", other: "database of another kind; move it away"} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = OpenAnew(t.Context(), path, notes.version(2))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %q", err, want)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "none", "notes.db"), notes); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its folder: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("left behind: %q", left)
	}
}

func TestManyMakeOneDatabaseAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.db")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			db, err := Open(t.Context(), path, notes)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Write(t.Context(), func(c *sqlite.Conn) error { return insert(c, fmt.Sprint(i)) }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, rows(t, open(t, path, notes), "SELECT count(*) FROM notes"), "8")
}

// filled makes a database of some pages and closes it.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notes.db")
	db := open(t, path, notes)
	add(t, db, slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)...)
	db.Close()
	return path
}

// damage overwrites one page of the file.
func damage(t *testing.T, path string, page int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("damaged!", 512)), page*4096); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedFileIsFoundAndSetAside(t *testing.T) {
	for page := range int64(8) {
		path := filled(t)
		damage(t, path, page)
		if _, err := Open(t.Context(), path, notes); !Corrupt(err) || !strings.Contains(err.Error(), path) {
			t.Fatalf("page %d: %v", page, err)
		}
		for n := range 2 {
			want := fmt.Sprintf("%s.bad-%d", path, n+1)
			bytes, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			db, aside, err := OpenAnew(t.Context(), path, notes)
			if err != nil || aside != want {
				t.Fatalf("page %d: %q, %v", page, aside, err)
			}
			equal(t, rows(t, db, "SELECT count(*) FROM notes"), "0")
			add(t, db, "new")
			db.Close()
			if kept, err := os.ReadFile(want); err != nil || string(kept) != string(bytes) {
				t.Errorf("page %d: what was set aside is not what was there: %v", page, err)
			}
			damage(t, path, 0)
		}
	}
}

func TestTheLogIsSetAsideWithItsFile(t *testing.T) {
	path := filled(t)
	open(t, path, notes) // a process that dies leaves its log
	add(t, open(t, path, notes), "late")
	copyOf := filepath.Join(t.TempDir(), "notes.db")
	for _, part := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(path + part)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copyOf+part, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	aside, err := SetAside(copyOf, "bad")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, rows(t, open(t, copyOf, notes), "SELECT count(*) FROM notes"), "0")
	equal(t, rows(t, open(t, aside, notes), "SELECT count(*) FROM notes"), "101")
}

// A file that lost its bytes, or is gone itself while its log is there, is not taken for a new one: SQLite would drop the log.
func TestAFileWithoutBytesIsNotANewOne(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"no bytes": func(path string) error { return os.Truncate(path, 0) },
		"gone":     os.Remove,
	} {
		for _, logged := range []bool{false, true} {
			path, log := filled(t), []byte("a log")
			if logged {
				if err := os.WriteFile(path+"-wal", log, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			lost := logged || name != "gone" // else its owner begins anew
			if lost {
				if _, err := Open(t.Context(), path, notes); !Corrupt(err) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s, with a log %v: %v", name, logged, err)
				}
			}
			for _, want := range []bool{lost, false} {
				db, aside, err := OpenAnew(t.Context(), path, notes)
				if err != nil || (aside != "") != want {
					t.Fatalf("%s, with a log %v: set aside as %q, %v", name, logged, aside, err)
				}
				equal(t, rows(t, db, "SELECT count(*) FROM notes"), "0")
				db.Close()
				if kept, err := os.ReadFile(aside + "-wal"); want && logged && (err != nil || string(kept) != string(log)) {
					t.Errorf("%s: of the log remains %q, %v", name, kept, err)
				}
			}
			if left, err := filepath.Glob(path + ".new*"); err != nil || len(left) > 0 {
				t.Error(left, err)
			}
		}
	}
}

func TestDamageIsFoundLater(t *testing.T) {
	path := filled(t)
	db := open(t, path, notes)
	rows(t, db, "PRAGMA shrink_memory")
	for page := range int64(20) {
		damage(t, path, page+5)
	}
	err := db.Read(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, "SELECT sum(length(text)) FROM notes", nil)
	})
	if !Corrupt(err) {
		t.Errorf("got %v", err)
	}
}

// What is private is its owner's alone, with the files beside it, also if it was not before.
func TestPrivateFilesAreTheirOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes")
	}
	private := notes
	private.Private = true
	fresh, old := filepath.Join(t.TempDir(), "notes.db"), filled(t)
	add(t, open(t, old, notes), "in the log")
	for _, path := range []string{fresh, old} {
		add(t, open(t, path, private), "mine")
		for _, part := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(path + part)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", filepath.Base(path)+part, info, err)
			}
		}
	}
}

// What keeps SQLite from writing is said as the system says it.
func TestAFullDiskAndAFileOfAnotherUserAreTheSystemsErrors(t *testing.T) {
	t.Parallel()
	for pragma, want := range map[string]error{"max_page_count=1": syscall.ENOSPC, "query_only=1": fs.ErrPermission} {
		db, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"), Schema{App: 7, Steps: []string{`CREATE TABLE t(x)`}})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Read(t.Context(), func(c *sqlite.Conn) error { return sqlitex.ExecuteTransient(c, "PRAGMA "+pragma, nil) })
		if err != nil {
			t.Fatal(err)
		}
		err = db.Write(t.Context(), func(c *sqlite.Conn) error {
			return sqlitex.ExecuteTransient(c, `INSERT INTO t VALUES (zeroblob(1000000))`, nil)
		})
		if at := (*fs.PathError)(nil); !errors.Is(err, want) || want == syscall.ENOSPC && (!errors.As(err, &at) || err.Error() != at.Error()) { // which people read in words
			t.Errorf("%s: %v", pragma, err)
		}
	}
}
