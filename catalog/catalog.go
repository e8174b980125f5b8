package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/internal/sqlitedb"
	"github.com/piecelease/fetcher/share"
)

// DB is an open catalog. It may be used from several goroutines.
type DB struct {
	db    *sqlitedb.DB
	fault func(query string) error // for tests: fails before a statement
}

// Open opens the catalog at path, or makes one. A damaged one is set aside, and its new name
// is returned as aside. The context applies only to the opening.
func Open(ctx context.Context, path string) (d *DB, aside string, err error) {
	db, aside, err := sqlitedb.OpenAnew(ctx, path, schema)
	if err != nil {
		return nil, "", err
	}
	d = &DB{db: db}
	d.forgetRemoved(ctx)
	return d, aside, nil
}

// Close waits for the running transaction.
func (d *DB) Close() error { return d.db.Close() }

// Add makes an entry from a wish. With an error that wraps ErrTwice it returns the entry that
// has the same paths, or the same share for the same folder; nothing was changed.
func (d *DB) Add(ctx context.Context, now time.Time, w Wish) (e Entry, err error) {
	if err := w.Check(); err != nil {
		return Entry{}, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return Entry{}, err
	}
	err = d.write(ctx, func(t tx) error {
		var n int64
		if err := t.rows(`SELECT count(*) FROM entries`, func(s *sqlite.Stmt) error { n = s.ColumnInt64(0); return nil }); err != nil {
			return err
		}
		had, err := t.entries(`WHERE key = ?1`, w.key())
		switch {
		case err != nil:
			return err
		case len(had) > 0:
			e = had[0]
			return fmt.Errorf("%w: it is entry %d", ErrTwice, e.ID)
		case n >= MaxEntries:
			return ErrFull
		}
		if err := t.rows(`INSERT INTO entries(kind, key, wish, added, state, since) VALUES (?1, ?2, ?3, ?4, ?5, ?4)`, nil,
			int64(w.kind()), w.key(), string(text), now.Unix(), int64(Asked)); err != nil {
			return err
		}
		e, err = t.entry(ID(t.c.LastInsertRowID()))
		return err
	})
	return e, err
}

// Set lets f change an entry's wish, as far as that can change, and returns the changed entry.
// An entry whose selection has changed, or that is to be repaired, is Asked again. If f fails,
// nothing is changed.
func (d *DB) Set(ctx context.Context, id ID, f func(*Wish) error) (e Entry, err error) {
	err = d.write(ctx, func(t tx) error {
		if e, err = t.entry(id); err != nil {
			return err
		}
		key, before := e.Wish.key(), e.Wish
		if err := f(&e.Wish); err != nil {
			return err
		}
		if err := e.Wish.Check(); err != nil {
			return err
		}
		chosen := !slices.Equal(before.Only, e.Only) || !slices.Equal(before.Skip, e.Skip)
		if chosen {
			e.chose(Choice{before.Only, before.Skip})
		}
		if e.Wish.key() != key {
			return fmt.Errorf("the change would turn entry %d into another entry; remove it and add a new one", id)
		}
		text, err := json.Marshal(e.Wish)
		if err != nil {
			return err
		}
		if chosen || e.Repair && !before.Repair {
			e.State, e.Why = Asked, ""
		}
		return t.rows(`UPDATE entries SET wish = ?2, state = ?3, why = ?4 WHERE id = ?1`, nil, int64(id), string(text), int64(e.State), e.Why)
	})
	return e, err
}

// Note lets f change an entry's status, and returns the changed entry. Since is set to now if
// the state changes. An entry with more than MaxOlder earlier versions forgets the oldest. One that is
// Kept is repaired: what differs later is its owner's.
func (d *DB) Note(ctx context.Context, now time.Time, id ID, f func(*Status)) (e Entry, err error) {
	err = d.write(ctx, func(t tx) error {
		if e, err = t.entry(id); err != nil {
			return err
		}
		s, before := &e.Status, e.State
		f(s)
		if s.State != before {
			s.Since = time.Unix(now.Unix(), 0)
		}
		s.Older = s.Older[max(0, len(s.Older)-MaxOlder):]
		s.Done = timeAt(seconds(s.Done)) // rounded, as it will be read
		s.Why = s.Why[:min(len(s.Why), maxWhy)]
		var wish, id any
		if e.Repair && s.State == Kept {
			e.Repair = false
			text, err := json.Marshal(e.Wish)
			if err != nil {
				return err
			}
			wish = string(text)
		}
		if !s.Share.IsZero() {
			id = s.Share.Bytes()
		}
		return t.rows(`UPDATE entries SET state = ?2, why = ?3, since = ?4, share = ?5, title = ?6, path = ?7, bytes = ?8, files = ?9, done = ?10,
		  sent = ?11, older = ?12, found = ?13, verified = ?14, guarded = ?15, listed = ?16, mounts = ?17, wish = ifnull(?18, wish) WHERE id = ?1`, nil, int64(e.ID), int64(s.State), s.Why, seconds(s.Since), id, s.Title, s.Path, s.Bytes, s.Files,
			seconds(s.Done), s.Sent, encodeIDs(s.Older), s.Found, s.Verified, s.Guarded, s.Listed, []byte(strings.Join(s.Mounts, "\x00")), wish)
	})
	return e, err
}

// Sent adds bytes that others were sent to some entries. Entries that no longer exist are left
// out.
func (d *DB) Sent(ctx context.Context, bytes map[ID]int64) error {
	return d.write(ctx, func(t tx) error {
		for id, n := range bytes {
			if err := t.rows(`UPDATE entries SET sent = sent + ?2 WHERE id = ?1`, nil, int64(id), n); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remove forgets an entry, and returns it as it was.
func (d *DB) Remove(ctx context.Context, id ID) (e Entry, err error) {
	more := false
	err = d.write(ctx, func(t tx) error {
		if e, err = t.entry(id); err != nil {
			return err
		}
		if more, err = t.forget(id); err != nil {
			return err
		}
		return t.rows(`DELETE FROM entries WHERE id = ?1`, nil, int64(id))
	})
	if err == nil && more { // no other entry will have its ID
		d.forget(ctx, id)
	}
	return e, err
}

// Get returns one entry, or ErrNoEntry.
func (d *DB) Get(ctx context.Context, id ID) (e Entry, err error) {
	err = d.read(ctx, func(t tx) error {
		e, err = t.entry(id)
		return err
	})
	return e, err
}

// List returns all entries, in the order in which they were added.
func (d *DB) List(ctx context.Context) (all []Entry, err error) {
	err = d.read(ctx, func(t tx) error {
		all, err = t.entries(``)
		return err
	})
	return all, err
}

// tx is a transaction.
type tx struct {
	*DB
	c *sqlite.Conn
}

func (d *DB) write(ctx context.Context, f func(tx) error) error {
	return d.db.Write(ctx, func(c *sqlite.Conn) error { return f(tx{d, c}) })
}

func (d *DB) read(ctx context.Context, f func(tx) error) error {
	return d.db.Read(ctx, func(c *sqlite.Conn) error { return f(tx{d, c}) })
}

// rows calls f for each row of a query's answer; f may be nil.
func (t tx) rows(query string, f func(*sqlite.Stmt) error, args ...any) error {
	if t.fault != nil {
		if err := t.fault(query); err != nil {
			return err
		}
	}
	return sqlitex.Execute(t.c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: f})
}

func (t tx) entry(id ID) (Entry, error) {
	found, err := t.entries(`WHERE id = ?1`, int64(id))
	if err != nil {
		return Entry{}, err
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("entry %d: %w", id, ErrNoEntry)
	}
	return found[0], nil
}

func (t tx) entries(where string, args ...any) (out []Entry, err error) {
	err = t.rows(`SELECT id, kind, wish, added, state, why, since, share, title, path, bytes, files, done, sent, older, found, verified, guarded, listed, mounts FROM entries `+where+` ORDER BY id`,
		func(s *sqlite.Stmt) error {
			e, err := readEntry(s)
			out = append(out, e)
			return err
		}, args...)
	return out, err
}

func readEntry(s *sqlite.Stmt) (e Entry, err error) {
	e = Entry{ID: ID(s.ColumnInt64(0)), Kind: Kind(s.ColumnInt(1)), Added: timeAt(s.ColumnInt64(3))}
	if err := json.Unmarshal([]byte(s.ColumnText(2)), &e.Wish); err != nil {
		return e, fmt.Errorf("entry %d cannot be read: %w", e.ID, err)
	}
	e.Status = Status{State: State(s.ColumnInt(4)), Why: s.ColumnText(5), Since: timeAt(s.ColumnInt64(6)), Title: s.ColumnText(8), Path: s.ColumnText(9),
		Bytes: s.ColumnInt64(10), Files: s.ColumnInt(11), Done: timeAt(s.ColumnInt64(12)), Sent: s.ColumnInt64(13), Found: s.ColumnInt(15) != 0, Verified: s.ColumnInt64(16), Guarded: s.ColumnInt(17) != 0, Listed: s.ColumnText(18)}
	if b := blob(s, 19); len(b) > 0 {
		e.Mounts = strings.Split(string(b), "\x00")
	}
	if b := blob(s, 7); len(b) > 0 {
		if e.Share, err = share.IDFromBytes(b); err != nil {
			return e, fmt.Errorf("entry %d cannot be read: %w", e.ID, err)
		}
	}
	if e.Older, err = decodeIDs(blob(s, 14)); err != nil {
		return e, fmt.Errorf("entry %d cannot be read: %w", e.ID, err)
	}
	return e, nil
}

func blob(s *sqlite.Stmt, col int) []byte {
	b := make([]byte, s.ColumnLen(col))
	s.ColumnBytes(col, b)
	return b
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func timeAt(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

const idBytes = 36

func encodeIDs(ids []share.ID) []byte {
	var b []byte
	for _, id := range ids {
		b = append(b, id.Bytes()...)
	}
	return b
}

func decodeIDs(b []byte) (ids []share.ID, err error) {
	for ; len(b) >= idBytes; b = b[idBytes:] {
		id, err := share.IDFromBytes(b[:idBytes])
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("bytes after the earlier share IDs: %d", len(b))
	}
	return ids, nil
}
