package leasedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/sqlitedb"
	"github.com/piecelease/fetcher/share"
)

// Beside keeps the leases of each share beside its data. Its methods are called
// inside transactions and must not use the database.
type Beside interface {
	// Write replaces or changes the leases kept for shares, each once, and syncs them. If it
	// fails, the transaction does not commit.
	Write(all []depot.Promised) error
	// Grows reports whether Write should be given the changes of a share's leases alone: the
	// others are kept, and are many.
	Grows(id share.ID) bool
	// Promises returns the leases that are kept.
	Promises(id share.ID) ([]depot.Promise, error)
	// Last returns the latest end of a lease that is kept; zero if there is none.
	Last(id share.ID) (time.Time, error)
}

// DB is an open database. It may be used from several goroutines.
type DB struct {
	path   string
	mu     sync.RWMutex // held while db is used, and for writing while it is replaced
	db     *sqlitedb.DB
	bad    atomic.Bool // db has reported that it is damaged
	beside Beside
	asked  int // the most requests that are remembered for an account
	line   line
	since  int64 // when the clock was last stored, by itself; of the call whose turn it is
	// ended is the shares that may lack leases beside their data, as a transaction that ended some failed;
	// of the call whose turn it is.
	ended map[share.ID]bool

	// Grace is how long a share is kept after its last lease expired; default depot.Grace. It
	// is set while nothing uses the database.
	Grace time.Duration

	// Fault, if not nil, is called with each statement before it runs and, as "COMMIT",
	// before a transaction ends; an error makes it fail. It is for tests and simulations, and
	// set while nothing uses the database.
	Fault func(query string) error
}

// maxAsked requests of some 60 bytes each are remembered for an account. Each of its
// renewals takes one, until the lease ends.
const maxAsked = 1 << 18

// cache is 64 MiB: with SQLite's own 2, a sweep of a large database reads most pages
// many times.
const cache = "PRAGMA cache_size = -65536"

// Open opens the database at path, or makes one. A damaged one is set aside, and its new
// name is returned as aside. The context applies only to the opening.
func Open(ctx context.Context, path string, b Beside) (d *DB, aside string, err error) {
	d = &DB{path: path, beside: b, asked: maxAsked, line: line{turn: make(chan struct{}, 1)}, ended: map[share.ID]bool{}, Grace: depot.Grace}
	if d.db, aside, err = open(ctx, path); err != nil {
		return nil, "", err
	}
	return d, aside, nil
}

func open(ctx context.Context, path string) (*sqlitedb.DB, string, error) {
	db, aside, err := sqlitedb.OpenAnew(ctx, path, schema)
	if err != nil {
		return nil, "", err
	}
	if err := db.Read(ctx, func(c *sqlite.Conn) error { return sqlitex.ExecuteTransient(c, cache, nil) }); err != nil {
		db.Close()
		return nil, "", err
	}
	return db, aside, nil
}

// Close waits for the running transaction.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.db.Close()
}

// Corrupt reports whether err means that the database is damaged. If so, call BeginAnew.
func (d *DB) Corrupt(err error) bool { return sqlitedb.Corrupt(err) }

// BeginAnew closes a damaged database, sets it aside, and makes a new one. If it fails, the
// database is closed. A database that has not reported damage stays: another caller has
// already replaced the damaged one.
func (d *DB) BeginAnew(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.bad.Load() {
		return nil
	}
	d.db.Close() // the damage is known; ignore what it reports
	if _, err := sqlitedb.SetAside(d.path, "bad"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, _, err := open(ctx, d.path)
	if err == nil {
		d.db = db
		d.bad.Store(false)
	}
	return err
}

// hear notes whether the open database is damaged.
func (d *DB) hear(err error) error {
	if d.Corrupt(err) {
		d.bad.Store(true)
	}
	return err
}

// tx is a transaction: a connection, the time, and the leases that it has changed.
type tx struct {
	*DB
	c       *sqlite.Conn
	now     int64
	since   int64 // DB.since, once this is committed
	touched []touched
	written []depot.Promised // beside the data
	coming  int64            // bytes of the shares that are COMING, if sure
	sure    bool
}

// touched is what a transaction changed about the leases of a share: one lease, or, if
// account is 0, perhaps all. ended is the name of the account if its lease has ended.
type touched struct {
	share, account int64
	ended          string
}

// CopyTo turns another database into a copy of this one, as if from a backup.
func (d *DB) CopyTo(ctx context.Context, other *DB) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	return d.db.CopyTo(ctx, other.db)
}

func (d *DB) read(ctx context.Context, now time.Time, f func(*tx) error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.hear(d.db.Read(ctx, func(c *sqlite.Conn) error { return f(&tx{DB: d, c: c, now: now.Unix()}) }))
}

func (t *tx) time() time.Time { return time.Unix(t.now, 0) }

// rows calls f for each row of a query's answer; f may be nil.
func (t *tx) rows(query string, f func(*sqlite.Stmt) error, args ...any) error {
	if t.Fault != nil {
		if err := t.Fault(query); err != nil {
			return err
		}
	}
	return sqlitex.Execute(t.c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: f})
}

func (t *tx) exec(query string, args ...any) error { return t.rows(query, nil, args...) }

// each runs a statement of two arguments for each of some values.
func each(t *tx, query string, all []expired, args func(expired) [2]int64) error {
	s, err := t.c.Prepare(query)
	if err != nil {
		return err
	}
	for _, x := range all {
		if t.Fault != nil {
			if err := t.Fault(query); err != nil {
				return err
			}
		}
		for i, v := range args(x) {
			s.BindInt64(i+1, v)
		}
		if _, err := s.Step(); err != nil {
			return errors.Join(err, s.Reset())
		}
		if err := s.Reset(); err != nil {
			return err
		}
	}
	return nil
}

// ints reads the first row of an answer into to, which has a place for each integer, and
// reports whether there is one.
func (t *tx) ints(query string, args []any, to ...*int64) (found bool, err error) {
	err = t.rows(query, func(s *sqlite.Stmt) error {
		if !found {
			for i, p := range to {
				*p = s.ColumnInt64(i)
			}
		}
		found = true
		return nil
	}, args...)
	return found, err
}

// column returns the first column of each row of an answer.
func (t *tx) column(query string, args ...any) (out []int64, err error) {
	err = t.rows(query, func(s *sqlite.Stmt) error {
		out = append(out, s.ColumnInt64(0))
		return nil
	}, args...)
	return out, err
}

// row is a share as stored in the database. Its state is None if it is not there.
type row struct {
	id                   int64
	share                share.ID
	state                depot.State
	bytes, since, lapsed int64
	measured, struck     bool
}

const rowColumns = `SELECT id, share, state, bytes, since, lapsed, measured, EXISTS (SELECT 1 FROM strikes WHERE share = shares.id) FROM shares `

func (t *tx) share(id share.ID) (row, error) {
	r, err := t.oneShare(rowColumns+`WHERE share = ?1`, id.Bytes())
	r.share = id
	return r, err
}

func (t *tx) shareAt(id int64) (row, error) { return t.oneShare(rowColumns+`WHERE id = ?1`, id) }

func (t *tx) oneShare(query string, arg any) (r row, err error) {
	err = t.rows(query, func(s *sqlite.Stmt) (err error) {
		r, err = readRow(s)
		return err
	}, arg)
	return r, err
}

func readRow(s *sqlite.Stmt) (r row, err error) {
	r = row{id: s.ColumnInt64(0), state: depot.State(s.ColumnInt64(2)), bytes: s.ColumnInt64(3), since: s.ColumnInt64(4),
		lapsed: s.ColumnInt64(5), measured: s.ColumnBool(6), struck: s.ColumnBool(7)}
	r.share, err = shareID(s, 1)
	return r, err
}

func shareID(s *sqlite.Stmt, col int) (share.ID, error) {
	b := make([]byte, s.ColumnLen(col))
	s.ColumnBytes(col, b)
	return share.IDFromBytes(b)
}

// move takes a share along an edge.
func (t *tx) move(r *row, why depot.Cause) error {
	t.sure = false
	to, err := depot.Next(r.state, why)
	if err != nil {
		return fmt.Errorf("%v: %w", r.share, err)
	}
	switch {
	case r.state == depot.None:
		if err := t.exec(`INSERT INTO shares(share, state, bytes, measured, since) VALUES (?1, ?2, ?3, ?4, ?5)`,
			r.share.Bytes(), int64(to), r.bytes, r.measured, t.now); err != nil {
			return err
		}
		r.id = t.c.LastInsertRowID()
	case to == depot.None:
		if err := t.exec(`DELETE FROM strikes WHERE share = ?1`, r.id); err != nil {
			return err
		}
		err = t.exec(`DELETE FROM shares WHERE id = ?1`, r.id)
	default:
		err = t.exec(`UPDATE shares SET state = ?2, since = ?3 WHERE id = ?1`, r.id, int64(to), t.now)
	}
	r.state = to
	return err
}
