package leasedb

import (
	"cmp"
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// Collect marks a share as GOING if no lease is live, here or beside its data, and
// the grace is over. From then on holds of it are refused. If an error wraps ErrKept,
// ErrIncomplete, ErrOff or ErrFrozen, nothing was changed.
func (d *DB) Collect(ctx context.Context, now time.Time, id share.ID) error {
	return d.write(ctx, now, func(t *tx) error {
		if err := t.mayCollect(); err != nil {
			return err
		}
		r, err := t.share(id)
		if err != nil {
			return err
		}
		if _, err := depot.Next(r.state, depot.Collected); err == nil {
			if err := t.settleShare(&r); err != nil {
				return err
			}
			if kept, err := t.kept(r, r.lapsed); err != nil || kept {
				return cmp.Or(err, depot.ErrKept)
			}
		}
		return t.move(&r, depot.Collected)
	})
}

// kept reports whether a lease of a share is live, or the grace after the last one is not
// over. lapsed is when the last of the settled leases ended.
func (t *tx) kept(r row, lapsed int64) (bool, error) {
	if live, err := t.ints(`SELECT 1 FROM leases WHERE share = ?1 AND expires > ?2 LIMIT 1`, []any{r.id, t.now}); err != nil || live {
		return true, err
	}
	disk, err := t.last(r.share)
	return max(lapsed, disk) > t.now-int64(t.Grace/time.Second), err
}

func (t *tx) mayCollect() error {
	var whole, gc, frozen int64
	if _, err := t.ints(`SELECT complete_since IS NOT NULL, gc, frozen FROM meta`, nil, &whole, &gc, &frozen); err != nil {
		return err
	}
	switch {
	case whole == 0:
		return depot.ErrIncomplete
	case gc == 0:
		return depot.ErrOff
	case frozen != 0:
		return depot.ErrFrozen
	}
	return nil
}

// Removable reports whether the data of a share that is GOING may be removed. Ask it
// before removing anything. If the leases beside the data say otherwise, the database is
// older than the disk: the share stays GOING until it is Found with its leases.
func (d *DB) Removable(ctx context.Context, now time.Time, id share.ID) (may bool, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		if err := t.mayCollect(); err != nil {
			return err
		}
		r, err := t.share(id)
		if err != nil {
			return err
		}
		if r.state != depot.Going {
			return &depot.EdgeError{From: r.state, Why: depot.Removed}
		}
		kept, err := t.kept(r, 0)
		may = !kept
		return err
	})
	return may && err == nil, err
}

// Removed records that everything of a share that was GOING has been seen to be gone.
func (d *DB) Removed(ctx context.Context, now time.Time, id share.ID) error {
	return d.takeShare(ctx, now, id, depot.Removed, nil)
}

// Sweep removes leases that have expired, and answers that need not be remembered,
// account by account until it has removed at least limit leases. It returns how many,
// and whether it is done. While the clock is frozen it removes nothing.
func (d *DB) Sweep(ctx context.Context, now time.Time, limit int) (n int, done bool, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		var frozen int64
		if _, err := t.ints(`SELECT frozen FROM meta`, nil, &frozen); err != nil || frozen != 0 {
			done = true
			return err
		}
		due, err := t.column(`SELECT id FROM accounts WHERE EXISTS (SELECT 1 FROM leases WHERE account = accounts.id AND expires <= ?1)
		  OR EXISTS (SELECT 1 FROM requests WHERE account = accounts.id AND until <= ?1) ORDER BY id`, t.now)
		if err != nil {
			return err
		}
		n, done, err = t.settle(limit, due...)
		return err
	})
	return n, done, err
}

func (r row) public() depot.Kept {
	return depot.Kept{Share: r.share, State: r.state, Bytes: r.bytes, Since: time.Unix(r.since, 0), Struck: r.struck}
}

// Candidates returns the shares that Collect would take if collecting were on and the
// clock believed. It examines the first limit shares in the database with an ID above
// after. last is where to go on; zero if there are no more.
func (d *DB) Candidates(ctx context.Context, now time.Time, after share.ID, limit int) (out []depot.Kept, last share.ID, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		rows, err := t.page(rowColumns+`WHERE share > ?1 ORDER BY share LIMIT ?2`, after, limit)
		if err != nil {
			return err
		}
		for _, r := range rows {
			// If a share cannot be examined, include it: Collect will return the error.
			if may, err := mayGo(t, r); err != nil || may {
				out = append(out, r.public())
			}
		}
		if len(rows) == limit {
			last = rows[limit-1].share
		}
		return nil
	})
	return out, last, err
}

// MayGo reports whether a share is one of the Candidates.
func (d *DB) MayGo(ctx context.Context, now time.Time, id share.ID) (may bool, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		r, err := t.share(id)
		if err == nil {
			may, err = mayGo(t, r)
		}
		return err
	})
	return may, err
}

func mayGo(t *tx, r row) (bool, error) {
	if _, err := depot.Next(r.state, depot.Collected); err != nil {
		return false, nil
	}
	var lapsed int64
	if _, err := t.ints(`SELECT coalesce(max(expires), 0) FROM leases WHERE share = ?1`, []any{r.id}, &lapsed); err != nil {
		return false, err
	}
	kept, err := t.kept(r, max(lapsed, r.lapsed))
	return err == nil && !kept, err
}

// page reads the rows of shares that follow an ID.
func (t *tx) page(query string, after share.ID, limit int, args ...any) (out []row, err error) {
	from := []byte{}
	if !after.IsZero() {
		from = after.Bytes()
	}
	err = t.rows(query, func(s *sqlite.Stmt) error {
		r, err := readRow(s)
		out = append(out, r)
		return err
	}, append([]any{from, limit}, args...)...)
	return out, err
}

// In returns the shares in a state with an ID above after, at most limit of them.
func (d *DB) In(ctx context.Context, state depot.State, after share.ID, limit int) ([]depot.Kept, error) {
	return d.list(ctx, `WHERE state = ?3 AND share > ?1 ORDER BY share LIMIT ?2`, after, limit, int64(state))
}

// Shares returns those with an ID above after, in any state, at most limit of them.
func (d *DB) Shares(ctx context.Context, after share.ID, limit int) ([]depot.Kept, error) {
	return d.list(ctx, `WHERE share > ?1 ORDER BY share LIMIT ?2`, after, limit)
}

func (d *DB) list(ctx context.Context, where string, after share.ID, limit int, args ...any) (out []depot.Kept, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		rows, err := t.page(rowColumns+where, after, limit, args...)
		for _, r := range rows {
			out = append(out, r.public())
		}
		return err
	})
	return out, err
}

// Share returns one share; its State is None if the database does not know it.
func (d *DB) Share(ctx context.Context, id share.ID) (s depot.Kept, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		r, err := t.share(id)
		s = r.public()
		return err
	})
	return s, err
}

const leaseColumns = `SELECT s.share, l.account, s.state, l.bytes, l.granted, l.renewed, l.expires, a.name
	FROM leases l JOIN shares s ON s.id = l.share JOIN accounts a ON a.id = l.account WHERE l.expires > ?1 `

// Leases returns the live leases of a share.
func (d *DB) Leases(ctx context.Context, now time.Time, id share.ID) ([]depot.Lease, error) {
	return d.leases(ctx, now, leaseColumns+`AND s.share = ?2 ORDER BY l.account`, id.Bytes())
}

// Holdings returns the live leases of an account on shares with an ID above after, at
// most limit of them.
func (d *DB) Holdings(ctx context.Context, now time.Time, account depot.Account, after share.ID, limit int) ([]depot.Lease, error) {
	from := []byte{}
	if !after.IsZero() {
		from = after.Bytes()
	}
	return d.leases(ctx, now, leaseColumns+`AND l.account = ?2 AND s.share > ?3 ORDER BY s.share LIMIT ?4`, int64(account), from, limit)
}

func (d *DB) leases(ctx context.Context, now time.Time, query string, args ...any) (out []depot.Lease, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		return t.rows(query, func(s *sqlite.Stmt) error {
			id, err := shareID(s, 0)
			out = append(out, depot.Lease{Share: id, Account: depot.Account(s.ColumnInt64(1)), Name: s.ColumnText(7), State: depot.State(s.ColumnInt64(2)), Bytes: s.ColumnInt64(3),
				Granted: time.Unix(s.ColumnInt64(4), 0), Renewed: time.Unix(s.ColumnInt64(5), 0), Expires: time.Unix(s.ColumnInt64(6), 0)})
			return err
		}, append([]any{t.now}, args...)...)
	})
	return out, err
}

// States returns the shares in each state at now.
func (d *DB) States(ctx context.Context, now time.Time) (out map[depot.State]depot.Tally, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		out = map[depot.State]depot.Tally{depot.Coming: {}, depot.Stable: {}, depot.Corrupt: {}, depot.Going: {}}
		stable := int64(0)
		if err := t.rows(`SELECT state, count(*), sum(bytes) FROM shares GROUP BY state`, func(s *sqlite.Stmt) error {
			out[depot.State(s.ColumnInt64(0))] = depot.Tally{Shares: s.ColumnInt64(1), Bytes: s.ColumnInt64(2)}
			return nil
		}); err != nil {
			return err
		}
		// Most shares are STABLE: theirs are those that no other share has.
		if _, err := t.ints(`SELECT count(*) FROM leases INDEXED BY due WHERE expires > ?1`, []any{t.now}, &stable); err != nil {
			return err
		}
		if err := t.rows(`SELECT s.state, count(*) FROM shares s JOIN leases l ON l.share = s.id WHERE s.state <> 2 AND l.expires > ?1 GROUP BY s.state`, func(s *sqlite.Stmt) error {
			x := out[depot.State(s.ColumnInt64(0))]
			x.Leases = s.ColumnInt64(1)
			stable -= x.Leases
			out[depot.State(s.ColumnInt64(0))] = x
			return nil
		}, t.now); err != nil {
			return err
		}
		x := out[depot.Stable]
		x.Leases = stable
		out[depot.Stable] = x
		return nil
	})
	return out, err
}
