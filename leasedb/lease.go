package leasedb

import (
	"cmp"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
)

// lease is a row of leases; expires is 0 if there is none.
type lease struct{ bytes, expires, own int64 }

func (t *tx) lease(id, account int64) (l lease, err error) {
	_, err = t.ints(`SELECT bytes, expires, own FROM leases WHERE share = ?1 AND account = ?2`, []any{id, account}, &l.bytes, &l.expires, &l.own)
	return l, err
}

// enter makes a lease that does not exist yet.
func (t *tx) enter(id, account, bytes, expires, own int64) error {
	t.touched = append(t.touched, touched{share: id, account: account})
	if err := t.exec(`INSERT INTO leases(share, account, bytes, granted, renewed, expires, own) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)`,
		id, account, bytes, t.now, expires, own); err != nil {
		return err
	}
	return t.exec(`UPDATE accounts SET used = used + ?2 WHERE id = ?1`, account, bytes)
}

// extend moves the end of an existing lease.
func (t *tx) extend(id, account, expires, own int64) error {
	t.touched = append(t.touched, touched{share: id, account: account})
	return t.exec(`UPDATE leases SET renewed = ?3, expires = ?4, own = max(own, ?5) WHERE share = ?1 AND account = ?2`,
		id, account, t.now, expires, own)
}

// end removes a lease, whose bytes no longer count; names forget its share.
func (t *tx) end(id, account int64) error {
	l, err := t.lease(id, account)
	if err != nil {
		return err
	}
	if err := t.rows(`SELECT name FROM accounts WHERE id = ?1`, func(s *sqlite.Stmt) error {
		t.touched = append(t.touched, touched{id, account, s.ColumnText(0)})
		return nil
	}, account); err != nil {
		return err
	}
	if err := t.forget(account, `= ?2`, id); err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM leases WHERE share = ?1 AND account = ?2`, id, account); err != nil {
		return err
	}
	return t.exec(`UPDATE accounts SET used = used - ?2 WHERE id = ?1`, account, l.bytes)
}

// forget removes names of an account that point to certain shares. which is an SQL
// condition on the share, with ?1 for the account and ?2 for arg.
func (t *tx) forget(account int64, which string, arg any) error {
	changed := 0
	for _, column := range []string{"share", "next"} {
		if err := t.exec(`UPDATE names SET `+column+` = NULL WHERE account = ?1 AND `+column+` `+which, account, arg); err != nil {
			return err
		}
		changed += t.c.Changes()
	}
	if changed == 0 {
		return nil
	}
	return t.exec(`DELETE FROM names WHERE account = ?1 AND share IS NULL AND next IS NULL`, account)
}

// expired is a lease that has expired.
type expired struct{ share, account, expires, bytes int64 }

// settle removes what has expired of some accounts: their leases, and the answers to their
// requests. It goes on to the next account until it has limit leases, and returns how many it
// removed, and whether it did all accounts. Leases are removed in the order of shares,
// whatever their accounts, so that each page of the table is touched once.
func (t *tx) settle(limit int, accounts ...int64) (n int, done bool, err error) {
	var all []expired
	done = true
	for i, account := range accounts {
		if done = i == 0 || len(all) < limit; !done {
			break
		}
		if all, err = settleAccount(t, account, all); err != nil {
			return 0, false, err
		}
	}
	slices.SortFunc(all, func(a, b expired) int {
		return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.account, b.account))
	})
	if err := each(t, `UPDATE shares SET lapsed = ?2 WHERE id = ?1 AND lapsed < ?2`, all, func(e expired) [2]int64 { return [2]int64{e.share, e.expires} }); err != nil {
		return 0, false, err
	}
	return len(all), done, each(t, `DELETE FROM leases WHERE share = ?1 AND account = ?2`, all, func(e expired) [2]int64 { return [2]int64{e.share, e.account} })
}

// settleAccount does for one account what settle does. It adds its leases to all.
func settleAccount(t *tx, account int64, all []expired) ([]expired, error) {
	if err := t.exec(`DELETE FROM requests WHERE account = ?1 AND until <= ?2`, account, t.now); err != nil {
		return all, err
	}
	if n := t.c.Changes(); n > 0 {
		if err := t.exec(`UPDATE accounts SET asked = asked - ?2 WHERE id = ?1`, account, n); err != nil {
			return all, err
		}
	}
	before, bytes := len(all), int64(0)
	if err := t.rows(`SELECT share, expires, bytes FROM leases WHERE account = ?1 AND expires <= ?2`, func(s *sqlite.Stmt) error {
		e := expired{share: s.ColumnInt64(0), account: account, expires: s.ColumnInt64(1), bytes: s.ColumnInt64(2)}
		all, bytes = append(all, e), bytes+e.bytes
		return nil
	}, account, t.now); err != nil || len(all) == before {
		return all, err
	}
	if err := t.forget(account, `IN (SELECT share FROM leases WHERE account = ?1 AND expires <= ?2)`, t.now); err != nil {
		return all, err
	}
	return all, t.exec(`UPDATE accounts SET used = used - ?2 WHERE id = ?1`, account, bytes)
}

// settleShare removes the expired leases of a share.
func (t *tx) settleShare(r *row) error {
	type gone struct{ account, expires int64 }
	var all []gone
	if err := t.rows(`SELECT account, expires FROM leases WHERE share = ?1 AND expires <= ?2`, func(s *sqlite.Stmt) error {
		all = append(all, gone{s.ColumnInt64(0), s.ColumnInt64(1)})
		return nil
	}, r.id, t.now); err != nil {
		return err
	}
	for _, g := range all {
		r.lapsed = max(r.lapsed, g.expires)
		if err := t.end(r.id, g.account); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return t.exec(`UPDATE shares SET lapsed = ?2 WHERE id = ?1`, r.id, r.lapsed)
}

// grant makes or extends the lease that an account asks for. own says that it asks
// for the share itself, not by a name. What has expired of the account is settled.
func (t *tx) grant(a depot.Ask, acc account, own int64) (depot.Granted, error) {
	r, err := t.share(a.Share)
	if err != nil {
		return depot.Granted{}, err
	}
	if r.state == depot.Going {
		return depot.Granted{}, &depot.Refusal{Reason: depot.Leaving, Retry: depot.Retry}
	}
	l, err := t.lease(r.id, int64(a.Account))
	if err != nil {
		return depot.Granted{}, err
	}
	had := time.Time{}
	if l.expires != 0 {
		had = time.Unix(l.expires, 0)
	}
	until, err := depot.Until(t.time(), a.Until, had, acc.maxLease)
	if err != nil {
		return depot.Granted{}, err
	}
	if l.expires == 0 {
		err = t.admit(&r, a, acc, until.Unix(), own)
	} else if l.bytes == 0 && acc.paid != 0 { // it was found, and is not measured yet: nobody knows what it costs
		err = &depot.Refusal{Reason: depot.Away, Retry: depot.Retry}
	} else if err = t.recount(r, l, a, acc); err == nil {
		err = t.extend(r.id, int64(a.Account), until.Unix(), own)
	}
	added := until.Sub(latest(had, t.time()))
	if err == nil {
		err = charge(t, acc, a.Bytes, added)
	}
	if err != nil {
		return depot.Granted{}, err
	}
	return depot.Granted{State: r.state, Bytes: a.Bytes, Expires: until, Added: added}, nil
}

// recount makes a lease that is asked for again count what the share takes, if it counts what an earlier version of this program
// said that it does. One that counts nothing was found, and will be measured.
func (t *tx) recount(r row, l lease, a depot.Ask, acc account) error {
	switch {
	case l.bytes == 0 || a.Bytes == l.bytes:
		return nil
	case !r.measured || a.Bytes != r.bytes:
		return &depot.Refusal{Reason: depot.WrongBytes, Room: l.bytes}
	case a.Bytes-l.bytes > acc.quota-acc.used && a.Bytes > l.bytes:
		return &depot.Refusal{Reason: depot.OverQuota, Room: max(acc.quota-acc.used, 0)}
	}
	if err := t.exec(`UPDATE leases SET bytes = ?3 WHERE share = ?1 AND account = ?2`, r.id, acc.id, a.Bytes); err != nil {
		return err
	}
	return t.exec(`UPDATE accounts SET used = used + ?2 WHERE id = ?1`, acc.id, a.Bytes-l.bytes)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// admit enters a new lease; the share is COMING if it is not here.
func (t *tx) admit(r *row, a depot.Ask, acc account, expires, own int64) error {
	if r.measured && a.Bytes != r.bytes {
		return &depot.Refusal{Reason: depot.WrongBytes, Room: r.bytes}
	}
	coming := t.coming
	if !t.sure {
		if _, err := t.ints(`SELECT coalesce(sum(bytes), 0) FROM shares WHERE state = 1`, nil, &coming); err != nil {
			return err
		}
	}
	fresh := max(a.Bytes-r.bytes, 0)
	if err := depot.Admit(a.Bytes, acc.used, acc.quota, fresh, coming, a.Space); err != nil {
		return err
	}
	if r.state == depot.None {
		r.bytes = a.Bytes
		if err := t.move(r, depot.Held); err != nil {
			return err
		}
		t.coming, t.sure = coming+a.Bytes, true
	} else if fresh > 0 {
		t.sure = false
		if err := t.exec(`UPDATE shares SET bytes = ?2 WHERE id = ?1`, r.id, a.Bytes); err != nil {
			return err
		}
	}
	return t.enter(r.id, int64(a.Account), a.Bytes, expires, own)
}
