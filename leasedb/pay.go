package leasedb

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/renewal"
)

// charge takes the cost of keeping bytes for added longer from an account's credit. It is
// the last check of a grant, so an account that has to pay was refused for nothing else.
func charge(t *tx, acc account, bytes int64, added time.Duration) error {
	if acc.paid == 0 {
		return nil
	}
	missing, left := renewal.Cost(bytes, added, renewal.Credit(acc.credit))
	if missing > 0 {
		return &depot.Refusal{Reason: depot.Unpaid, Room: missing}
	}
	return t.exec(`UPDATE accounts SET credit = ?2 WHERE id = ?1`, acc.id, int64(left))
}

// chargeFound takes the cost of a lease that was found from its account's credit, as far as that goes: bytes for added seconds longer.
func (t *tx) chargeFound(id, bytes, added int64) error {
	acc, err := t.account(depot.Account(id))
	if err != nil || acc.paid == 0 {
		return err
	}
	missing, left := renewal.Cost(bytes, time.Duration(added)*time.Second, renewal.Credit(acc.credit))
	if missing > 0 {
		left = 0
	}
	return t.exec(`UPDATE accounts SET credit = ?2 WHERE id = ?1`, id, int64(left))
}

// refund gives an account that pays the rest of its lease of a share as credit: no more than it has paid, as the lease may be from before
// it had to pay.
func (t *tx) refund(id, account int64) error {
	return t.exec(`UPDATE accounts SET credit = max(credit, min(credit + (l.bytes + ?2 - 1) / ?2 * (l.expires - ?3),
	  ?4 * (SELECT coalesce(sum(units), 0) FROM payments WHERE account = accounts.id)))
	  FROM leases l WHERE l.share = ?1 AND l.account = ?5 AND accounts.id = ?5 AND accounts.paid = 1`, id, renewal.UnitBytes, t.now, int64(renewal.Paid(1)), account)
}

var errNotNoted = errors.New("a payment whose passes were spent is no longer noted in the database of leases, so its account was not credited")

// paymentTime is how long a payment is remembered: longer than a pass can be spent.
const paymentTime = 400 * 24 * time.Hour

// Intend notes, before passes are spent, that an account pays with them. done says that the payment
// was entered before: its passes need not be looked at again. mark is by what the issuer's
// book is to know that it was noted here before its passes were spent: no other ledger, and no copy made
// before, has it.
func (d *DB) Intend(ctx context.Context, now time.Time, p depot.Payment) (done bool, mark [16]byte, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		acc, err := t.account(p.Account)
		if err != nil {
			return err
		}
		if p.Account == depot.StarterAccount || p.Units < 1 || p.Units > renewal.MaxUnits {
			return &depot.Refusal{Reason: depot.WrongSum}
		}
		if err := t.exec(`DELETE FROM payments WHERE account = ?1 AND at < ?2`, acc.id, t.now-int64(paymentTime/time.Second)); err != nil {
			return err
		}
		var units int64
		known, err := t.ints(`SELECT units FROM payments WHERE account = ?1 AND request = ?2`, []any{acc.id, p.Request[:]}, &units)
		if err != nil {
			return err
		}
		if done = units > 0; done && units != p.Units {
			return &depot.Refusal{Reason: depot.BadRequest}
		}
		if !known {
			if renewal.Credit(acc.credit) > renewal.MaxCredit {
				return &depot.Refusal{Reason: depot.WrongSum}
			}
			if err := t.exec(`INSERT INTO payments(account, request, units, at, mark) VALUES (?1, ?2, 0, ?3, randomblob(16))`, acc.id, p.Request[:], t.now); err != nil {
				return err
			}
		}
		return t.rows(`SELECT mark FROM payments WHERE account = ?1 AND request = ?2`, func(s *sqlite.Stmt) error {
			s.ColumnBytes(0, mark[:])
			return nil
		}, acc.id, p.Request[:])
	})
	return done, mark, err
}

// Forgo forgets a payment if none of its passes was spent.
func (d *DB) Forgo(ctx context.Context, p depot.Payment) error {
	return d.write(ctx, time.Time{}, func(t *tx) error {
		return t.exec(`DELETE FROM payments WHERE account = ?1 AND request = ?2 AND units = 0`, int64(p.Account), p.Request[:])
	})
}

// Deposit enters a payment that Intend has noted and whose passes were spent, once. One that is not
// noted is an error: nobody is told that it was entered.
func (d *DB) Deposit(ctx context.Context, now time.Time, p depot.Payment) error {
	return d.write(ctx, now, func(t *tx) error {
		if err := t.exec(`UPDATE payments SET units = ?3 WHERE account = ?1 AND request = ?2 AND units = 0`, int64(p.Account), p.Request[:], p.Units); err != nil {
			return err
		}
		if t.c.Changes() == 0 {
			entered, err := t.ints(`SELECT 1 FROM payments WHERE account = ?1 AND request = ?2 AND units = ?3`, []any{int64(p.Account), p.Request[:], p.Units})
			if err == nil && !entered {
				err = errNotNoted
			}
			return err
		}
		return t.exec(`UPDATE accounts SET credit = credit + ?2 WHERE id = ?1`, int64(p.Account), int64(renewal.Paid(p.Units)))
	})
}
