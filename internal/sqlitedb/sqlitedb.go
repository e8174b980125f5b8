package sqlitedb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/internal/words"
)

// wait is how long a call waits for the database, and for other processes that use it, if its context has no
// deadline. What then reads or writes takes as long as it takes.
var wait = 30 * time.Second

// waiting is ctx with a deadline.
func waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait)
}

// ErrClosed is returned by a DB that was closed.
var ErrClosed = errors.New("the database is closed")

// A DB is an open database. It may be used from several goroutines.
type DB struct {
	path string
	conn chan *sqlite.Conn // the connection, while nobody uses it; closed with the DB
}

// Open opens the database at path and brings it to the newest version of s; if
// there is none, it makes one. ":memory:" is a database of its own in memory.
// The context bounds the opening alone.
//
// A damaged file is an error that [Corrupt] knows, and is left as it is; one that has lost all its bytes is damaged. A file
// of another program, or of a newer version of this one, is refused and never
// changed.
func Open(ctx context.Context, path string, s Schema) (*DB, error) {
	if path == "" {
		return nil, errors.New("a database needs a path")
	}
	if path != ":memory:" {
		if err := s.begin(path); err != nil {
			return nil, err
		}
	}
	if s.Private && path != ":memory:" {
		if err := makePrivate(path); err != nil {
			return nil, err
		}
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, reason(path, err)
	}
	db := &DB{path: path, conn: make(chan *sqlite.Conn, 1)}
	db.conn <- c
	if err := db.prepare(ctx, s); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// makePrivate makes a database file, new or from before, its owner's alone; SQLite gives the files beside it the same mode.
// A file that is there is not opened: to close it would end the locks of another connection of this process.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	for _, part := range []string{"", "-wal", "-shm"} {
		if info, err := os.Lstat(path + part); err != nil || !info.Mode().IsRegular() {
			continue // opening it says what is wrong
		}
		if err := os.Chmod(path+part, 0o600); err != nil && !errors.Is(err, fs.ErrPermission) { // it is another user's
			return err
		}
	}
	return nil
}

// reason is why the file could not be opened, which SQLite does not say.
func reason(path string, err error) error {
	f, why := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if why != nil {
		return why
	}
	f.Close()
	return err
}

// OpenAnew is Open, but a damaged file is set aside (see [SetAside]) and an empty
// database takes its place. aside is then what the file is called now.
func OpenAnew(ctx context.Context, path string, s Schema) (db *DB, aside string, err error) {
	db, err = Open(ctx, path, s)
	if !Corrupt(err) {
		return db, "", err
	}
	if aside, err = SetAside(path, "bad"); err != nil {
		return nil, "", err
	}
	db, err = Open(ctx, path, s)
	return db, aside, err
}

// Write runs f in a transaction that may write, and commits it if f returns no
// error. If Write returns nil, what f wrote survives a power cut. The connection
// is f's until it returns; f must not call methods of db.
func (db *DB) Write(ctx context.Context, f func(*sqlite.Conn) error) error {
	return db.use(ctx, "write", func(ctx context.Context, c *sqlite.Conn) error { return transact(ctx, c, "BEGIN IMMEDIATE", f) })
}

// Read runs f in a transaction of its own: all that it reads is from one moment.
func (db *DB) Read(ctx context.Context, f func(*sqlite.Conn) error) error {
	return db.use(ctx, "read", func(ctx context.Context, c *sqlite.Conn) error { return transact(ctx, c, "BEGIN", f) })
}

// CopyTo makes another database a copy of this one.
func (db *DB) CopyTo(ctx context.Context, other *DB) error {
	return db.use(ctx, "copy", func(ctx context.Context, from *sqlite.Conn) error {
		return other.use(ctx, "copy to", func(_ context.Context, to *sqlite.Conn) error {
			b, err := sqlite.NewBackup(to, "main", from, "main")
			if err != nil {
				return err
			}
			_, err = b.Step(-1)
			return errors.Join(err, b.Close())
		})
	})
}

// Close waits for the running transaction and closes the database. Closing it
// again does nothing.
func (db *DB) Close() error {
	c, open := <-db.conn
	if !open {
		return nil
	}
	close(db.conn)
	if err := c.Close(); err != nil {
		return fmt.Errorf("close %s: %w", db.path, err)
	}
	return nil
}

// use gives the connection to f, for as long as ctx lasts.
func (db *DB) use(ctx context.Context, act string, f func(context.Context, *sqlite.Conn) error) (err error) {
	defer func() {
		if err != nil && !errors.As(err, new(*fs.PathError)) { // which names the file itself
			err = fmt.Errorf("%s %s: %w", act, db.path, err)
		}
	}()
	waits, cancel := waiting(ctx)
	defer cancel()
	select {
	case c, open := <-db.conn:
		if !open {
			return ErrClosed
		}
		defer func() { db.conn <- c }()
		c.SetInterrupt(waits.Done())
		defer c.SetInterrupt(nil)
		return ended(ctx, db.path, f(ctx, c))
	case <-waits.Done():
		return cause(waits)
	}
}

// ended returns err, or why ctx ended if that is what SQLite means. What the system would say of a file is said as the system does.
// path is what is written.
func ended(ctx context.Context, path string, err error) error {
	full := &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
	if sqlite.ErrCode(err) == sqlite.ResultIOErrSHMSize {
		return full // of a file beside it
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		return full
	case sqlite.ResultReadOnly:
		return cmp.Or(writable(path), fs.ErrPermission)
	case sqlite.ResultCantOpen: // also the files beside it
		return cmp.Or(writable(path), err)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultInterrupt:
		return cause(ctx)
	case sqlite.ResultBusy:
		return words.Error(late(ctx), "another process has it locked; end that one, or try again later")
	}
	return err
}

// late is why ctx ended, or that a wait within it was over before.
func late(ctx context.Context) error { return cmp.Or(context.Cause(ctx), context.DeadlineExceeded) }

// cause is late in words for people.
func cause(ctx context.Context) error {
	err := late(ctx)
	if err == context.DeadlineExceeded {
		return words.Error(err, "it did not answer in time; try again later")
	}
	return err
}

// transact runs f between begin and COMMIT, or ROLLBACK if it fails or panics. It waits for other processes
// to give the lock that begin and the first query want; what f does with it may take as long as ctx lasts.
func transact(ctx context.Context, c *sqlite.Conn, begin string, f func(*sqlite.Conn) error) error {
	waits, cancel := waiting(ctx)
	defer cancel()
	c.SetInterrupt(waits.Done())
	if err := sqlitex.Execute(c, begin, nil); err != nil {
		return err
	}
	defer func() {
		defer c.SetInterrupt(c.SetInterrupt(nil))
		if !c.AutocommitEnabled() { // not committed, and SQLite has not rolled back by itself
			_ = sqlitex.Execute(c, "ROLLBACK", nil)
		}
	}()
	if err := sqlitex.Execute(c, "PRAGMA user_version", nil); err != nil { // kept prepared
		return err
	}
	c.SetInterrupt(ctx.Done())
	if err := f(c); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cause(ctx)
	}
	defer c.SetInterrupt(c.SetInterrupt(nil)) // a commit that has begun is not interrupted
	return sqlitex.Execute(c, "COMMIT", nil)
}

// Corrupt says whether err means that the file is damaged, or is no database at
// all. Any transaction may find that out.
func Corrupt(err error) bool {
	code := sqlite.ErrCode(err).ToPrimary()
	return errors.Is(err, errDamaged) || code == sqlite.ResultCorrupt || code == sqlite.ResultNotADB
}

// SetAside renames the database at path, which nobody may have open, to
// path.WHY-N, N being the first number that is free, and returns that name. What
// belongs to it goes with it: SQLite can still open the file by its new name.
func SetAside(path, why string) (string, error) {
	aside := ""
	for n := 1; aside == "" || exists(aside) || exists(aside+"-wal"); n++ {
		aside = fmt.Sprintf("%s.%s-%d", path, why, n)
	}
	// The log goes first: left behind, it would be replayed into the next database. It may be all that is left.
	logged := false
	for _, part := range []string{"-wal", "-shm", ""} {
		err := os.Rename(path+part, aside+part)
		logged = logged || part == "-wal" && err == nil
		if err != nil && (part == "" && !logged || !errors.Is(err, os.ErrNotExist)) {
			return "", fmt.Errorf("the database cannot be set aside: %w", err)
		}
	}
	return aside, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
