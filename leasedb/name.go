package leasedb

import (
	"context"
	"time"

	"github.com/piecelease/fetcher/depot"
)

// Replace makes or renews a lease of the new share and, when that is stable, moves
// the name and ends the lease of the old one, unless the account holds that for
// itself or by another name.
func (d *DB) Replace(ctx context.Context, now time.Time, r depot.Replace) (depot.Granted, error) {
	if len(r.Name) == 0 || len(r.Name) > 256 {
		return depot.Granted{}, &depot.Refusal{Reason: depot.BadRequest}
	}
	about := r.Name + "\x00" + string(r.Expect.Bytes()) + string(r.Supersedes.Bytes())
	return d.ask(ctx, now, verbReplace, about, r.Ask, func(t *tx, acc account) (depot.Granted, error) { return t.replace(r, acc) })
}

func (t *tx) replace(r depot.Replace, acc account) (depot.Granted, error) {
	had, next, err := t.named(acc.id, r.Name)
	if err != nil {
		return depot.Granted{}, err
	}
	if had.share != r.Expect || (next.share != r.Supersedes && next.share != r.Share) {
		return depot.Granted{}, &depot.Refusal{Reason: depot.NameMoved, Current: had.share, Coming: next.share}
	}
	g, err := t.grant(r.Ask, acc, 0)
	if err != nil {
		return g, err
	}
	s, err := t.share(r.Share)
	if err != nil {
		return g, err
	}
	if err := t.exec(`INSERT INTO names(account, name, share, next) VALUES (?1, ?2, ?3, ?4)
	  ON CONFLICT DO UPDATE SET next = excluded.next`, acc.id, r.Name, maybe(had.id), s.id); err != nil {
		return g, err
	}
	if next.id != 0 && next.id != s.id {
		if err := t.drop(next.id, acc.id); err != nil {
			return g, err
		}
	}
	switch {
	case s.id == had.id: // the name points to this share already: nothing is to come
		return g, t.exec(`UPDATE names SET next = NULL WHERE account = ?1 AND name = ?2`, acc.id, r.Name)
	case s.state == depot.Stable:
		return g, t.arrive(s.id, acc.id)
	}
	return g, nil
}

// maybe returns an ID as stored in the database: NULL if there is none.
func maybe(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

// named returns the share that a name points to, and the one that it is to point to.
func (t *tx) named(account int64, name string) (had, next row, err error) {
	var a, b int64
	if _, err := t.ints(`SELECT coalesce(share, 0), coalesce(next, 0) FROM names WHERE account = ?1 AND name = ?2`, []any{account, name}, &a, &b); err != nil {
		return had, next, err
	}
	if had, err = t.shareAt(a); err != nil {
		return had, next, err
	}
	next, err = t.shareAt(b)
	return had, next, err
}

// arrive moves the names of an account that were waiting for a share, and ends the leases
// that nothing needs any more.
func (t *tx) arrive(id, account int64) error {
	old, err := t.column(`SELECT coalesce(share, 0) FROM names WHERE next = ?1 AND account = ?2 ORDER BY name`, id, account)
	if err != nil {
		return err
	}
	if err := t.exec(`UPDATE names SET share = next, next = NULL WHERE next = ?1 AND account = ?2`, id, account); err != nil {
		return err
	}
	for _, o := range old {
		if o != 0 {
			if err := t.drop(o, account); err != nil {
				return err
			}
		}
	}
	return nil
}

// arriveAll is arrive for every account.
func (t *tx) arriveAll(id int64) error {
	accounts, err := t.column(`SELECT DISTINCT account FROM names WHERE next = ?1 ORDER BY account`, id)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if err := t.arrive(id, a); err != nil {
			return err
		}
	}
	return nil
}

// drop ends a lease, unless the account holds the share for itself or by a name.
func (t *tx) drop(id, account int64) error {
	l, err := t.lease(id, account)
	if err != nil || l.expires == 0 || l.own != 0 {
		return err
	}
	for _, column := range []string{"share", "next"} {
		if named, err := t.ints(`SELECT 1 FROM names WHERE `+column+` = ?1 AND account = ?2`, []any{id, account}); err != nil || named {
			return err
		}
	}
	return t.end(id, account)
}
