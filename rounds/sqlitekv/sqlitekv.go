// Package sqlitekv keeps a [rounds.KV] in a SQLite file, for the processes of one
// machine.
package sqlitekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/internal/sqlitedb"
	"github.com/piecelease/fetcher/rounds"
)

// KV is a store in a file. Every process that opens the file shares it; it must be
// on a local disk. A write that was answered survives a power cut.
type KV struct{ db *sqlitedb.DB }

var _ rounds.KV = (*KV)(nil)

// schema: a write moves its key to the next revision. No key is ever removed, so
// the highest revision in the table is the highest that ever was.
var schema = sqlitedb.Schema{App: 0x66744b56, Steps: []string{ // "ftKV"
	`CREATE TABLE entries(rev INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL)`,
}}

const anew = "end the processes that use it, and move it away together with the files beside it that end in -wal and -shm"

// Open opens the store in a file, or makes one. A damaged file is an error, and
// left alone: a new one would know nothing of the terms that were given.
func Open(ctx context.Context, path string) (*KV, error) {
	db, err := sqlitedb.Open(ctx, path, schema)
	switch {
	case err == nil:
		return &KV{db}, nil
	case sqlite.ErrCode(err) == sqlite.ResultNotADB:
		return nil, fmt.Errorf("%w: %s is not a store, or is damaged; name another file, or, if it was a store, "+anew, rounds.ErrUnfit, path)
	case sqlitedb.Corrupt(err):
		return nil, fmt.Errorf("%w: %s is damaged; to begin anew, "+anew, rounds.ErrUnfit, path)
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil: // others have it locked
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", rounds.ErrUnfit, err)
}

// Close closes the store in this process.
func (k *KV) Close() error { return k.db.Close() }

// Get implements [rounds.KV].
func (k *KV) Get(ctx context.Context, key string) (e rounds.Entry, err error) {
	if err := rounds.CheckKey(key); err != nil {
		return e, err
	}
	err = k.db.Read(ctx, func(c *sqlite.Conn) error {
		found, err := entries(c, `SELECT rev, key, value FROM entries WHERE key = ?1`, key)
		if err == nil && len(found) == 0 {
			return fmt.Errorf("%s: %w", key, rounds.ErrNotFound)
		}
		if err == nil {
			e = found[0]
		}
		return err
	})
	return e, err
}

// Create implements [rounds.KV].
func (k *KV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := rounds.CheckValue(value); err != nil {
		return 0, err
	}
	return k.write(ctx, key, value, `INSERT OR IGNORE INTO entries(rev, key, value) VALUES (`+next+`, ?1, ?2)`, rounds.ErrExists)
}

// Update implements [rounds.KV].
func (k *KV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if err := rounds.CheckValue(value); err != nil {
		return 0, err
	}
	return k.write(ctx, key, value, replace, rounds.ErrConflict, int64(rev))
}

// Delete implements [rounds.KV].
func (k *KV) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	return k.write(ctx, key, []byte{}, replace, rounds.ErrConflict, int64(rev))
}

const (
	latest  = `SELECT rev, key, value FROM entries ORDER BY rev DESC LIMIT 1`
	next    = `(SELECT coalesce(max(rev), 0) + 1 FROM entries)`
	replace = `UPDATE entries SET rev = ` + next + `, value = ?2 WHERE key = ?1 AND rev = ?3`
)

// write runs a statement that changes one row; if it changes none, write fails with
// otherwise.
func (k *KV) write(ctx context.Context, key string, value []byte, query string, otherwise error, args ...any) (rev uint64, err error) {
	if err := rounds.CheckKey(key); err != nil {
		return 0, err
	}
	err = k.db.Write(ctx, func(c *sqlite.Conn) error {
		found, err := entries(c, query+` RETURNING rev, key, value`, append([]any{key, value}, args...)...)
		if err == nil && len(found) == 0 {
			return fmt.Errorf("%s: %w", key, otherwise)
		}
		if err == nil {
			rev = found[0].Rev
		}
		return err
	})
	return rev, err
}

// look is how often Watch checks for changes by other processes.
const look = 50 * time.Millisecond

// Watch implements [rounds.KV].
func (k *KV) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	if err := rounds.CheckKey(strings.TrimSuffix(key, ".")); err != nil {
		return err
	}
	query := `SELECT rev, key, value FROM entries WHERE key = ?1 ORDER BY rev`
	if strings.HasSuffix(key, ".") {
		query = `SELECT rev, key, value FROM entries WHERE substr(key, 1, length(?1)) = ?1 ORDER BY rev`
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	var last []rounds.Entry // the latest of any key
	passed := map[string]rounds.Entry{}
	for first := true; ; first = false {
		var now, news []rounds.Entry
		err := k.db.Read(ctx, func(c *sqlite.Conn) (err error) {
			if now, err = entries(c, latest); err != nil || !first && reflect.DeepEqual(now, last) {
				return err
			}
			is, err := entries(c, query, key)
			if err == nil {
				news, err = later(is, passed)
			}
			return err
		})
		if err != nil {
			return err
		}
		last = now
		for _, e := range news {
			passed[e.Key] = e
		}
		if first || len(news) > 0 {
			f(news)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// later returns what is later than what was passed on, or [rounds.ErrBack] if something is earlier.
func later(is []rounds.Entry, passed map[string]rounds.Entry) (news []rounds.Entry, err error) {
	known := 0
	for _, e := range is {
		was, ok := passed[e.Key]
		if ok {
			known++
		}
		switch {
		case e.Rev > was.Rev:
			news = append(news, e)
		case e.Rev < was.Rev || !bytes.Equal(e.Value, was.Value):
			return nil, rounds.ErrBack
		}
	}
	if known < len(passed) {
		return nil, rounds.ErrBack
	}
	return news, nil
}

// entries returns the rows of a query for rev, key and value.
func entries(c *sqlite.Conn, query string, args ...any) (out []rounds.Entry, err error) {
	err = sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(row *sqlite.Stmt) error {
		value := make([]byte, row.ColumnLen(2))
		row.ColumnBytes(2, value)
		out = append(out, rounds.Entry{Rev: uint64(row.ColumnInt64(0)), Key: row.ColumnText(1), Value: value})
		return nil
	}})
	return out, err
}
