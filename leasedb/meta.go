package leasedb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
)

// keptCrawls is how many reports of cycles are kept.
const keptCrawls = 10

// CycleDone stores the report of a whole cycle; the last ten are kept. After the
// first the database is complete. It fails with depot.ErrAnew unless self is the database's name:
// the cycle began before it was given the present one.
func (d *DB) CycleDone(ctx context.Context, now time.Time, self string, c depot.Cycle) error {
	return d.write(ctx, now, func(t *tx) error {
		if err := t.isNamed(self); err != nil {
			return err
		}
		if err := t.exec(`INSERT OR REPLACE INTO crawls(cycle, report) VALUES (?1, ?2)`, c.Cycle, c.Report); err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM crawls WHERE cycle NOT IN (SELECT cycle FROM crawls ORDER BY cycle DESC LIMIT ?1)`, keptCrawls); err != nil {
			return err
		}
		return t.exec(`UPDATE meta SET complete_since = coalesce(complete_since, ?1), place = NULL`, t.now)
	})
}

// Meta returns what the database knows about itself.
func (d *DB) Meta(ctx context.Context) (m depot.Meta, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		return t.rows(`SELECT coalesce(complete_since, 0), gc, frozen, clock, place, depot, self, folder FROM meta`, func(s *sqlite.Stmt) error {
			if at := s.ColumnInt64(0); at != 0 {
				m.CompleteSince = time.Unix(at, 0)
			}
			m.GC, m.Frozen = s.ColumnBool(1), s.ColumnBool(2)
			m.Depot, m.Self, m.Folder = s.ColumnText(5), s.ColumnText(6), s.ColumnText(7)
			for i, b := range []*[]byte{&m.Clock, &m.Place} {
				if !s.ColumnIsNull(3 + i) {
					*b = make([]byte, s.ColumnLen(3+i))
					s.ColumnBytes(3+i, *b)
				}
			}
			return nil
		})
	})
	return m, err
}

// Struck returns how many shares were found damaged once, and are examined again before
// that is believed.
func (d *DB) Struck(ctx context.Context) (n int64, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		_, err := t.ints(`SELECT count(*) FROM strikes`, nil, &n)
		return err
	})
	return n, err
}

// SetGC turns collecting on or off. It is off in a new database.
func (d *DB) SetGC(ctx context.Context, on bool) error { return d.set(ctx, `gc = ?1`, on) }

// SetClock stores the clock guard, what the time is by it, and whether it is frozen: then
// nothing is swept or collected. A call that was made before that, and comes later, is taken as if made at now.
func (d *DB) SetClock(ctx context.Context, now time.Time, clock []byte, frozen bool) error {
	return d.write(ctx, now, func(t *tx) error { return t.setClock(now, clock, frozen) })
}

// Step is SetClock for a clock that is not frozen, and goes forward from a time to now at once. What was left of a
// lease then is left of it now, at most depot.Respite; so is what was left of the grace after it.
func (d *DB) Step(ctx context.Context, from, now time.Time, clock []byte) error {
	return d.write(ctx, now, func(t *tx) error {
		args := []any{from.Unix(), now.Unix(), int64(depot.Respite / time.Second), int64(t.Grace / time.Second)}
		if err := t.exec(`UPDATE leases SET expires = ?2 + min(expires - ?1, ?3) WHERE expires > ?1 - ?4 AND expires < ?2 + ?3`, args...); err != nil {
			return err
		}
		if err := t.exec(`UPDATE shares SET lapsed = ?2 + min(lapsed - ?1, ?3) WHERE lapsed > ?1 - ?4 AND lapsed < ?2 + ?3`, args...); err != nil {
			return err
		}
		return t.setClock(now, clock, false)
	})
}

func (t *tx) setClock(now time.Time, clock []byte, frozen bool) error {
	if err := t.exec(`UPDATE meta SET clock = ?1, frozen = ?2`, clock, frozen); err != nil {
		return err
	}
	if t.c.Changes() == 0 {
		return errMeta
	}
	t.since = now.Unix()
	return nil
}

var errMeta = fmt.Errorf("the database has lost its row %q", "meta")

// SetPlace stores the position of the crawler. CycleDone clears it, and it fails as that does.
func (d *DB) SetPlace(ctx context.Context, self string, place []byte) error {
	return d.write(ctx, time.Time{}, func(t *tx) error {
		if err := t.isNamed(self); err != nil {
			return err
		}
		return t.exec(`UPDATE meta SET place = ?1`, place)
	})
}

// isNamed fails unless the database has that name.
func (t *tx) isNamed(self string) error {
	var same int64
	found, err := t.ints(`SELECT self = ?1 FROM meta`, []any{self}, &same)
	switch {
	case err != nil:
		return err
	case !found:
		return errMeta
	case same == 0:
		return depot.ErrAnew
	}
	return nil
}

// SetIdentity stores the names of the depot whose shares these are, and of this database.
// Until a whole cycle of the crawler is done, the database is not complete.
func (d *DB) SetIdentity(ctx context.Context, depot, self string) error {
	return d.set(ctx, `depot = ?1, self = ?2, complete_since = NULL, place = NULL`, depot, self)
}

// SetFolder stores where the depot's folder is, for messages.
func (d *DB) SetFolder(ctx context.Context, folder string) error {
	return d.set(ctx, `folder = ?1`, folder)
}

func (d *DB) set(ctx context.Context, what string, args ...any) error {
	return d.change(ctx, errMeta, `UPDATE meta SET `+what, args...)
}
