package leasedb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
)

// account is a row of accounts.
type account struct {
	id, quota, used, asked, paid, credit int64
	maxLease                             time.Duration
}

func (t *tx) account(id depot.Account) (account, error) {
	a := account{id: int64(id)}
	var longest int64
	found, err := t.ints(`SELECT quota, used, asked, paid, credit, max_lease FROM accounts WHERE id = ?1`, []any{a.id}, &a.quota, &a.used, &a.asked, &a.paid, &a.credit, &longest)
	if err == nil && !found {
		err = &depot.Refusal{Reason: depot.UnknownAccount}
	}
	a.maxLease = time.Duration(longest) * time.Second
	return a, err
}

// AddAccount makes an account. The name must not be empty; leases beside the data refer to
// the account by it. The peers speak for it.
func (d *DB) AddAccount(ctx context.Context, now time.Time, name string, s depot.Terms, keys ...peers.ID) (id depot.Account, err error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	if name == "" || len(name) > 256 {
		return 0, errors.New("the name of an account must have 1 to 256 bytes")
	}
	err = d.write(ctx, now, func(t *tx) error {
		if err := t.exec(`INSERT OR IGNORE INTO accounts(name, quota, max_lease, created, paid) VALUES (?1, ?2, ?3, ?4, ?5)`,
			name, s.Quota, int64(s.MaxLease/time.Second), t.now, s.Paid); err != nil {
			return err
		}
		if t.c.Changes() == 0 {
			return fmt.Errorf("%s: %w", name, depot.ErrTaken)
		}
		id = depot.Account(t.c.LastInsertRowID())
		for _, k := range keys {
			if err := addKey(t, id, k); err != nil {
				return err
			}
		}
		return nil
	})
	return id, err
}

func addKey(t *tx, id depot.Account, peer peers.ID) error {
	err := t.exec(`INSERT OR IGNORE INTO keys(peer, account) VALUES (?1, ?2)`, string(peer), int64(id))
	if err == nil && t.c.Changes() == 0 {
		err = depot.ErrTaken
	}
	return err
}

// SetAccount changes the terms of an account. Its leases stay as they are.
func (d *DB) SetAccount(ctx context.Context, id depot.Account, s depot.Terms) error {
	if err := s.Check(); err != nil {
		return err
	}
	return d.change(ctx, depot.ErrNoAccount, `UPDATE accounts SET quota = ?2, max_lease = ?3, paid = ?4, stranger = 0 WHERE id = ?1 AND id <> 1`,
		int64(id), s.Quota, int64(s.MaxLease/time.Second), s.Paid)
}

// RemoveAccount removes an account that holds no live lease, and its keys. Before the crawler has seen all of the disk it removes none:
// a lease found later would be that of the next account of the name. Nor does it remove one that may have spent passes that are not entered yet, or,
// unless its credit may go too, one that has a pass or more of that.
func (d *DB) RemoveAccount(ctx context.Context, now time.Time, id depot.Account, credit bool) error {
	return d.write(ctx, now, func(t *tx) error {
		acc, err := t.account(id)
		if err != nil || id == depot.StarterAccount {
			return fmt.Errorf("%d: %w", id, depot.ErrNoAccount)
		}
		if _, _, err := t.settle(1, int64(id)); err != nil {
			return err
		}
		if held, err := t.ints(`SELECT 1 FROM leases WHERE account = ?1 LIMIT 1`, []any{int64(id)}); err != nil || held {
			return cmp.Or(err, depot.ErrInUse)
		}
		if whole, err := t.ints(`SELECT 1 FROM meta WHERE complete_since IS NOT NULL`, nil); err != nil || !whole {
			return cmp.Or(err, depot.ErrIncomplete)
		}
		if paying, err := t.ints(`SELECT 1 FROM payments WHERE account = ?1 AND units = 0 AND at >= ?2 LIMIT 1`,
			[]any{int64(id), t.now - int64(paymentTime/time.Second)}); err != nil || paying {
			return cmp.Or(err, depot.ErrPaying)
		}
		if !credit && renewal.Credit(acc.credit) >= renewal.Paid(1) {
			return depot.ErrCredit
		}
		return removeAccounts(t, int64(id))
	})
}

// removeAccounts removes accounts that hold nothing.
func removeAccounts(t *tx, ids ...int64) error {
	for _, id := range ids {
		for _, query := range []string{`DELETE FROM keys WHERE account = ?1`, `DELETE FROM requests WHERE account = ?1`, `DELETE FROM payments WHERE account = ?1`, `DELETE FROM accounts WHERE id = ?1`} {
			if err := t.exec(query, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Admit is the account for which a peer speaks; a stranger gets one. It also gets the
// account of its name if nobody has a key to that: it was made of leases that the crawler
// found. There are at most most accounts of strangers, 0: no new ones; those that hold
// nothing, whose payments are entered, and who have less than a pass of credit, give way to others. The error is a *depot.Refusal when there is no room, or the owner has taken the
// peer's key away.
func (d *DB) Admit(ctx context.Context, now time.Time, peer peers.ID, s depot.Terms, most int64) (id depot.Account, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		if found, err := t.ints(`SELECT account FROM keys WHERE peer = ?1`, []any{string(peer)}, (*int64)(&id)); err != nil || found {
			return err
		}
		var found int64
		named, err := t.ints(`SELECT id, quota = ?2 AND max_lease = ?3 AND NOT EXISTS (SELECT 1 FROM keys WHERE account = accounts.id) FROM accounts WHERE name = ?1`,
			[]any{string(peer), depot.FoundTerms.Quota, int64(depot.FoundTerms.MaxLease / time.Second)}, (*int64)(&id), &found)
		switch {
		case err != nil:
			return err
		case named && found == 0:
			return &depot.Refusal{Reason: depot.UnknownAccount}
		case !named:
			if err := t.makeRoom(most); err != nil {
				return err
			}
			if err := t.exec(`INSERT INTO accounts(name, quota, max_lease, created) VALUES (?1, 0, 0, ?2)`, string(peer), t.now); err != nil {
				return err
			}
			id = depot.Account(t.c.LastInsertRowID())
		}
		if err := t.exec(`UPDATE accounts SET quota = ?2, max_lease = ?3, paid = ?4, stranger = 1 WHERE id = ?1`, int64(id), s.Quota, int64(s.MaxLease/time.Second), s.Paid); err != nil {
			return err
		}
		return t.exec(`INSERT INTO keys(peer, account) VALUES (?1, ?2)`, string(peer), int64(id))
	})
	return id, err
}

// makeRoom makes sure that there are fewer than most accounts of strangers.
func (t *tx) makeRoom(most int64) error {
	if most == 0 {
		return &depot.Refusal{Reason: depot.UnknownAccount}
	}
	var n int64
	if _, err := t.ints(`SELECT count(*) FROM accounts WHERE stranger = 1`, nil, &n); err != nil || n < most {
		return err
	}
	idle, err := t.column(`SELECT id FROM accounts a WHERE stranger = 1 AND credit < ?2 AND NOT EXISTS (SELECT 1 FROM leases WHERE account = a.id)
	  AND NOT EXISTS (SELECT 1 FROM names WHERE account = a.id) AND NOT EXISTS (SELECT 1 FROM requests WHERE account = a.id AND until > ?1)
	  AND NOT EXISTS (SELECT 1 FROM payments WHERE account = a.id AND units = 0) LIMIT 100`, t.now, int64(renewal.Paid(1)))
	if err != nil {
		return err
	}
	if n-int64(len(idle)) >= most {
		return &depot.Refusal{Reason: depot.TooManyRequests, Retry: time.Hour}
	}
	return removeAccounts(t, idle...)
}

// AddKey lets a peer speak for an account.
func (d *DB) AddKey(ctx context.Context, id depot.Account, peer peers.ID) error {
	if id == depot.StarterAccount {
		return depot.ErrNoAccount
	}
	return d.write(ctx, time.Time{}, func(t *tx) error {
		if found, err := t.ints(`SELECT 1 FROM accounts WHERE id = ?1`, []any{int64(id)}); err != nil || !found {
			return cmp.Or(err, depot.ErrNoAccount)
		}
		return addKey(t, id, peer)
	})
}

// RemoveKey ends a peer's right to speak for its account.
func (d *DB) RemoveKey(ctx context.Context, peer peers.ID) error {
	return d.change(ctx, depot.ErrNoKey, `DELETE FROM keys WHERE peer = ?1`, string(peer))
}

// MoveKey replaces a key that was lost with a new one, which no account has.
func (d *DB) MoveKey(ctx context.Context, old, new peers.ID) error {
	return d.write(ctx, time.Time{}, func(t *tx) error {
		if taken, err := t.ints(`SELECT 1 FROM keys WHERE peer = ?1`, []any{string(new)}); err != nil || taken {
			return cmp.Or(err, depot.ErrTaken)
		}
		err := t.exec(`UPDATE keys SET peer = ?2 WHERE peer = ?1`, string(old), string(new))
		if err == nil && t.c.Changes() == 0 {
			err = depot.ErrNoKey
		}
		return err
	})
}

// change runs a statement that changes one row; if it changes none, change fails with
// otherwise.
func (d *DB) change(ctx context.Context, otherwise error, query string, args ...any) error {
	return d.write(ctx, time.Time{}, func(t *tx) error {
		if err := t.exec(query, args...); err != nil {
			return err
		}
		if t.c.Changes() == 0 {
			return otherwise
		}
		return nil
	})
}

// AccountOf returns the account for which a peer speaks, or ErrNoKey.
func (d *DB) AccountOf(ctx context.Context, peer peers.ID) (id depot.Account, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		found, err := t.ints(`SELECT account FROM keys WHERE peer = ?1`, []any{string(peer)}, (*int64)(&id))
		if err == nil && !found {
			err = depot.ErrNoKey
		}
		return err
	})
	return id, err
}

// used is an SQL expression for the usage of the account in a row of accounts.
const used = `used - (SELECT coalesce(sum(bytes), 0) FROM leases WHERE account = accounts.id AND expires <= ?1)`

const complete = `(SELECT complete_since IS NOT NULL FROM meta)`

// Usage returns the usage of an account at now.
func (d *DB) Usage(ctx context.Context, now time.Time, id depot.Account) (u depot.Usage, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		var whole int64
		found, err := t.ints(`SELECT `+used+`, `+complete+` FROM accounts WHERE id = ?2`, []any{t.now, int64(id)}, &u.Used, &whole)
		u.Complete = whole == 1
		if err == nil && !found {
			err = depot.ErrNoAccount
		}
		return err
	})
	return u, err
}

const infoColumns = `SELECT id, name, created, quota, max_lease, paid, credit, ` + used + `, ` + complete + `, stranger FROM accounts `

func readInfo(s *sqlite.Stmt) depot.AccountInfo {
	return depot.AccountInfo{ID: depot.Account(s.ColumnInt64(0)), Name: s.ColumnText(1), Created: time.Unix(s.ColumnInt64(2), 0),
		Terms:  depot.Terms{Quota: s.ColumnInt64(3), MaxLease: time.Duration(s.ColumnInt64(4)) * time.Second, Paid: s.ColumnBool(5)},
		Credit: s.ColumnInt64(6), Usage: depot.Usage{Used: s.ColumnInt64(7), Complete: s.ColumnBool(8)}, Stranger: s.ColumnBool(9)}
}

// Info returns an account as it is at now, or ErrNoAccount.
func (d *DB) Info(ctx context.Context, now time.Time, id depot.Account) (a depot.AccountInfo, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		if err := t.rows(infoColumns+`WHERE id = ?2`, func(s *sqlite.Stmt) error {
			a = readInfo(s)
			return nil
		}, t.now, int64(id)); err != nil || a.ID != 0 {
			return err
		}
		return depot.ErrNoAccount
	})
	return a, err
}

// Accounts returns all accounts, the starter first.
func (d *DB) Accounts(ctx context.Context, now time.Time) (out []depot.AccountInfo, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		return t.rows(infoColumns+`ORDER BY id`, func(s *sqlite.Stmt) error {
			out = append(out, readInfo(s))
			return nil
		}, t.now)
	})
	return out, err
}

// Keys returns the peers that speak for an account.
func (d *DB) Keys(ctx context.Context, id depot.Account) (out []peers.ID, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		return t.rows(`SELECT peer FROM keys WHERE account = ?1 ORDER BY peer`, func(s *sqlite.Stmt) error {
			out = append(out, peers.ID(s.ColumnText(0)))
			return nil
		}, int64(id))
	})
	return out, err
}

// Named returns the account with that name, or ErrNoAccount.
func (d *DB) Named(ctx context.Context, name string) (id depot.Account, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		found, err := t.ints(`SELECT id FROM accounts WHERE name = ?1`, []any{name}, (*int64)(&id))
		if err == nil && !found {
			err = depot.ErrNoAccount
		}
		return err
	})
	return id, err
}
