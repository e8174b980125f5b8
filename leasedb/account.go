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
)

// Account names an account inside of one database.
type Account int64

// Starter is the account that holds what the crawler found. It has no quota and no
// keys: nobody can ask for it.
const Starter Account = 1

// Terms are what an account may have.
type Terms struct {
	Quota    int64         // bytes, at most depot.MaxBytes
	MaxLease time.Duration // the longest lease, in whole seconds, up to 10 years
}

func (s Terms) check() error {
	if s.Quota < 0 || s.Quota > depot.MaxBytes {
		return fmt.Errorf("a quota of %d bytes: it must be from 0 to %d", s.Quota, int64(depot.MaxBytes))
	}
	if s.MaxLease < time.Second || s.MaxLease > 10*366*24*time.Hour {
		return fmt.Errorf("a longest lease of %v: it must be from 1 s to 10 years", s.MaxLease)
	}
	return nil
}

// Errors about accounts.
var (
	ErrNoAccount = errors.New("no such account")
	ErrNoKey     = errors.New("no account has this key")
	ErrTaken     = errors.New("another account has this name or key")
	ErrInUse     = errors.New("the account holds leases: release them, or wait for their end")
)

// account is a row of accounts.
type account struct {
	id, quota, used, asked int64
	maxLease               time.Duration
}

func (t *tx) account(id Account) (account, error) {
	a := account{id: int64(id)}
	var longest int64
	found, err := t.ints(`SELECT quota, used, asked, max_lease FROM accounts WHERE id = ?1`, []any{a.id}, &a.quota, &a.used, &a.asked, &longest)
	if err == nil && !found {
		err = &depot.Refusal{Reason: depot.UnknownAccount}
	}
	a.maxLease = time.Duration(longest) * time.Second
	return a, err
}

// AddAccount makes an account. The name, which is not empty, is how leases beside
// the data speak of it.
func (d *DB) AddAccount(ctx context.Context, now time.Time, name string, s Terms) (id Account, err error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	if name == "" || len(name) > 256 {
		return 0, errors.New("the name of an account must be of 1 to 256 bytes")
	}
	err = d.write(ctx, now, func(t *tx) error {
		if err := t.exec(`INSERT OR IGNORE INTO accounts(name, quota, max_lease, created) VALUES (?1, ?2, ?3, ?4)`,
			name, s.Quota, int64(s.MaxLease/time.Second), t.now); err != nil {
			return err
		}
		if t.c.Changes() == 0 {
			return fmt.Errorf("%s: %w", name, ErrTaken)
		}
		id = Account(t.c.LastInsertRowID())
		return nil
	})
	return id, err
}

// SetAccount changes the terms of an account. Leases that it holds stand.
func (d *DB) SetAccount(ctx context.Context, id Account, s Terms) error {
	if err := s.check(); err != nil {
		return err
	}
	return d.change(ctx, ErrNoAccount, `UPDATE accounts SET quota = ?2, max_lease = ?3 WHERE id = ?1 AND id <> 1`,
		int64(id), s.Quota, int64(s.MaxLease/time.Second))
}

// RemoveAccount removes an account that holds no live lease, and its keys.
func (d *DB) RemoveAccount(ctx context.Context, now time.Time, id Account) error {
	return d.write(ctx, now, func(t *tx) error {
		if _, err := t.account(id); err != nil || id == Starter {
			return fmt.Errorf("%d: %w", id, ErrNoAccount)
		}
		if _, err := t.settle(int64(id)); err != nil {
			return err
		}
		if held, err := t.ints(`SELECT 1 FROM leases WHERE account = ?1 LIMIT 1`, []any{int64(id)}); err != nil || held {
			return cmp.Or(err, ErrInUse)
		}
		for _, query := range []string{`DELETE FROM keys WHERE account = ?1`, `DELETE FROM requests WHERE account = ?1`, `DELETE FROM accounts WHERE id = ?1`} {
			if err := t.exec(query, int64(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddKey says that a peer speaks for an account.
func (d *DB) AddKey(ctx context.Context, id Account, peer peers.ID) error {
	if id == Starter {
		return ErrNoAccount
	}
	return d.write(ctx, time.Time{}, func(t *tx) error {
		if found, err := t.ints(`SELECT 1 FROM accounts WHERE id = ?1`, []any{int64(id)}); err != nil || !found {
			return cmp.Or(err, ErrNoAccount)
		}
		err := t.exec(`INSERT OR IGNORE INTO keys(peer, account) VALUES (?1, ?2)`, string(peer), int64(id))
		if err == nil && t.c.Changes() == 0 {
			err = ErrTaken
		}
		return err
	})
}

// RemoveKey says that a peer no longer speaks for its account.
func (d *DB) RemoveKey(ctx context.Context, peer peers.ID) error {
	return d.change(ctx, ErrNoKey, `DELETE FROM keys WHERE peer = ?1`, string(peer))
}

// MoveKey puts a new key, which no account has, in the place of one that was lost.
func (d *DB) MoveKey(ctx context.Context, old, new peers.ID) error {
	return d.write(ctx, time.Time{}, func(t *tx) error {
		if taken, err := t.ints(`SELECT 1 FROM keys WHERE peer = ?1`, []any{string(new)}); err != nil || taken {
			return cmp.Or(err, ErrTaken)
		}
		err := t.exec(`UPDATE keys SET peer = ?2 WHERE peer = ?1`, string(old), string(new))
		if err == nil && t.c.Changes() == 0 {
			err = ErrNoKey
		}
		return err
	})
}

// change runs a statement that changes one row, or none: then it fails with
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

// AccountOf is the account for which a peer speaks, or ErrNoKey.
func (d *DB) AccountOf(ctx context.Context, peer peers.ID) (id Account, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		found, err := t.ints(`SELECT account FROM keys WHERE peer = ?1`, []any{string(peer)}, (*int64)(&id))
		if err == nil && !found {
			err = ErrNoKey
		}
		return err
	})
	return id, err
}

// An AccountInfo is an account as its owner sees it.
type AccountInfo struct {
	ID      Account
	Name    string
	Created time.Time
	Terms
	Usage
}

// Usage is what the live leases of an account count.
type Usage struct {
	Used     int64 // bytes
	Complete bool  // false until the first cycle of the crawler is done: there may be more
}

// used is an SQL expression for the usage of the account that a row of accounts is.
const used = `used - (SELECT coalesce(sum(bytes), 0) FROM leases WHERE account = accounts.id AND expires <= ?1)`

const complete = `(SELECT complete_since IS NOT NULL FROM meta)`

// Usage is that of an account at now.
func (d *DB) Usage(ctx context.Context, now time.Time, id Account) (u Usage, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		var whole int64
		found, err := t.ints(`SELECT `+used+`, `+complete+` FROM accounts WHERE id = ?2`, []any{t.now, int64(id)}, &u.Used, &whole)
		u.Complete = whole == 1
		if err == nil && !found {
			err = ErrNoAccount
		}
		return err
	})
	return u, err
}

// Accounts are all accounts, the starter first.
func (d *DB) Accounts(ctx context.Context, now time.Time) (out []AccountInfo, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		return t.rows(`SELECT id, name, created, quota, max_lease, `+used+`, `+complete+` FROM accounts ORDER BY id`, func(s *sqlite.Stmt) error {
			out = append(out, AccountInfo{Account(s.ColumnInt64(0)), s.ColumnText(1), time.Unix(s.ColumnInt64(2), 0),
				Terms{s.ColumnInt64(3), time.Duration(s.ColumnInt64(4)) * time.Second}, Usage{s.ColumnInt64(5), s.ColumnBool(6)}})
			return nil
		}, t.now)
	})
	return out, err
}
