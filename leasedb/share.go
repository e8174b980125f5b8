package leasedb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// takeShare takes a share along an edge, and then calls then unless it is nil.
func (d *DB) takeShare(ctx context.Context, now time.Time, id share.ID, why depot.Cause, then func(*tx, *row) error) error {
	return d.write(ctx, now, func(t *tx) error {
		r, err := t.share(id)
		if err != nil {
			return err
		}
		if err := t.move(&r, why); err != nil || then == nil {
			return err
		}
		return then(t, &r)
	})
}

// Found enters what the crawler found on the disk: a share, its size, whether it is
// complete, and the leases beside it. If the database does not know the share, or has it as GOING and is older than those, the
// starter account holds it for depot.Starter, or, if those leases include one of the
// starter, until that ends: losing the database again and again keeps nothing for ever.
// Leases that only the disk knows are entered, even beyond a quota; an unknown account is
// made, with no quota. All leases are written beside the data again. Found returns the state.
//
// What a lease has here and not in the database costs its account what it would have cost, as far as its credit goes. Either the
// transaction that was to enter it failed or was killed, and nothing was paid; or the database is a copy from before it was paid. An
// account pays what it is told that is missing, so its credit was used up then, or covered all of it.
//
// The crawler may have read those leases a while ago. Of a share that the database knows, those count that are beside
// it now: one that was released meanwhile does not come back.
func (d *DB) Found(ctx context.Context, now time.Time, id share.ID, bytes int64, whole bool, leases []depot.Promise) (state depot.State, err error) {
	return d.found(ctx, now, id, bytes, whole, true, func(t *tx, known bool) ([]depot.Promise, error) {
		if !known || t.beside == nil {
			return leases, nil
		}
		return t.beside.Promises(id)
	})
}

// Imported is Found with leases that another depot has promised: they need not be beside the share, and were paid for there.
func (d *DB) Imported(ctx context.Context, now time.Time, id share.ID, bytes int64, whole bool, leases []depot.Promise) (state depot.State, err error) {
	return d.found(ctx, now, id, bytes, whole, false, func(*tx, bool) ([]depot.Promise, error) { return leases, nil })
}

// found enters a share with leases, which may depend on whether it is known. due says that those that the database does not know are
// to be paid for.
func (d *DB) found(ctx context.Context, now time.Time, id share.ID, bytes int64, whole, due bool, of func(t *tx, known bool) ([]depot.Promise, error)) (state depot.State, err error) {
	if bytes < 0 || bytes > depot.MaxBytes {
		return depot.None, fmt.Errorf("%v takes %d bytes; a share may take 0 to %d", id, bytes, int64(depot.MaxBytes))
	}
	err = d.write(ctx, now, func(t *tx) error {
		r, err := t.share(id)
		if err != nil {
			return err
		}
		var all []depot.Promise
		leases, err := of(t, r.state != depot.None)
		if err != nil {
			return err
		}
		if r.state == depot.Going {
			if kept, err := t.kept(r, 0); err != nil || !kept {
				state = r.state
				return err
			}
			if err := t.move(&r, depot.Outdated); err != nil {
				return err
			}
		}
		if r.state == depot.None {
			why := depot.FoundPart
			if whole {
				why = depot.FoundWhole
			}
			r.bytes, r.measured = bytes, whole
			if err := t.move(&r, why); err != nil {
				return err
			}
			all = append(all, starter(t.time(), leases))
		}
		state = r.state
		if whole && r.measured && r.bytes != bytes { // by another version of this program; leases that count what it said stay
			r.bytes = bytes
			if err := t.exec(`UPDATE shares SET bytes = ?2 WHERE id = ?1`, r.id, bytes); err != nil {
				return err
			}
		}
		t.touch(r.id) // its leases may have been lost, alone or with its data
		for _, p := range append(all, leases...) {
			if err := t.reenter(&r, p, bytes, due); err != nil {
				return err
			}
		}
		return nil
	})
	return state, err
}

// starter returns the lease of the starter account on a share that was found.
func starter(now time.Time, leases []depot.Promise) depot.Promise {
	for _, p := range leases {
		if p.Account == "starter" {
			return p
		}
	}
	return depot.Promise{Account: "starter", Expires: now.Add(depot.Starter).Truncate(time.Second)}
}

// reenter makes sure that a lease from the disk is in the database, and takes what the share takes: bytes as the crawler knows, 0 if it
// does not, unless the share is measured. What another account has declared says nothing. One that has ended only counts for the grace.
// due says that what is new is to be paid for; if nobody knows yet what the share takes, resize does that.
func (t *tx) reenter(r *row, p depot.Promise, bytes int64, due bool) error {
	at := p.Expires.Unix()
	if at <= t.now {
		return t.exec(`UPDATE shares SET lapsed = max(lapsed, ?2) WHERE id = ?1`, r.id, at)
	}
	if err := t.exec(`INSERT OR IGNORE INTO accounts(name, quota, max_lease, created) VALUES (?1, ?3, ?4, ?2)`, p.Account, t.now,
		depot.FoundTerms.Quota, int64(depot.FoundTerms.MaxLease/time.Second)); err != nil {
		return err
	}
	var account int64
	if _, err := t.ints(`SELECT id FROM accounts WHERE name = ?1`, []any{p.Account}, &account); err != nil {
		return err
	}
	l, err := t.lease(r.id, account)
	if err != nil {
		return err
	}
	if l.expires == 0 {
		if r.measured {
			bytes = r.bytes
		}
		err = t.enter(r.id, account, bytes, at, 1)
	} else if bytes = l.bytes; at > l.expires {
		err = t.extend(r.id, account, at, 1)
	}
	if added := at - max(l.expires, t.now); err == nil && due && added > 0 {
		err = t.chargeFound(account, bytes, added)
	}
	return err
}

// Measure records what a share takes, now that its manifest is here. Leases for which a
// different size was declared end, and no others; their accounts are returned.
func (d *DB) Measure(ctx context.Context, now time.Time, id share.ID, bytes int64) (ended []depot.Account, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		r, err := t.share(id)
		if err != nil {
			return err
		}
		if r.state != depot.Coming {
			return fmt.Errorf("%v is %v: only a share that is coming is measured", id, r.state)
		}
		if err := t.settleShare(&r); err != nil {
			return err
		}
		t.sure = false
		if err := t.exec(`UPDATE shares SET bytes = ?2, measured = 1 WHERE id = ?1`, r.id, bytes); err != nil {
			return err
		}
		if err := t.resize(r.id, bytes); err != nil {
			return err
		}
		ended, err = t.endAll(r.id, `bytes NOT IN (0, ?2)`, bytes)
		return err
	})
	return ended, err
}

// resize makes leases for which nobody declared a size count what the share takes: the
// starter's, and those that were found without a manifest, which count nothing. If these were found since the database
// is complete, nobody has paid for them: see Found.
func (t *tx) resize(id, bytes int64) error {
	due := map[int64]int64{} // how long the lease of each account is
	if err := t.rows(`SELECT account, expires - granted FROM leases WHERE share = ?1 AND bytes = 0 AND granted > (SELECT complete_since FROM meta)`, func(s *sqlite.Stmt) error {
		due[s.ColumnInt64(0)] = s.ColumnInt64(1)
		return nil
	}, id); err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(due)) {
		if err := t.chargeFound(account, bytes, due[account]); err != nil {
			return err
		}
	}
	if err := t.exec(`UPDATE accounts SET used = used + ?2 - l.bytes FROM leases l
	  WHERE l.share = ?1 AND l.account = accounts.id AND (l.account = 1 OR l.bytes = 0)`, id, bytes); err != nil {
		return err
	}
	return t.exec(`UPDATE leases SET bytes = ?2 WHERE share = ?1 AND (account = 1 OR bytes = 0)`, id, bytes)
}

// endAll ends leases of a share, except the starter's; what was paid for the rest of them is credit again. which is an SQL
// condition that selects them, with ?2 for arg.
func (t *tx) endAll(id int64, which string, arg int64) (ended []depot.Account, err error) {
	accounts, err := t.column(`SELECT account FROM leases WHERE share = ?1 AND account <> 1 AND `+which+` ORDER BY account`, id, arg)
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		if err := t.refund(id, a); err != nil {
			return nil, err
		}
		if err := t.end(id, a); err != nil {
			return nil, err
		}
		ended = append(ended, depot.Account(a))
	}
	return ended, nil
}

// Fail records that a share that was coming cannot be fetched, for good. Its leases end,
// except the starter's: what was found stays as long as it would have. What was paid for the rest of them is credit again.
// The accounts of the leases are returned. Collect may take the share now.
func (d *DB) Fail(ctx context.Context, now time.Time, id share.ID) (ended []depot.Account, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		r, err := t.share(id)
		if err != nil {
			return err
		}
		if r.state != depot.Coming {
			return fmt.Errorf("%v is %v: only a share that is coming can fail", id, r.state)
		}
		if err := t.settleShare(&r); err != nil {
			return err
		}
		ended, err = t.endAll(r.id, `account <> ?2`, int64(depot.StarterAccount))
		return err
	})
	return ended, err
}

var errUnmeasured = errors.New("it is complete, and was not measured")

// Complete records that all of a share is verified and durable. Names that waited for it
// move.
func (d *DB) Complete(ctx context.Context, now time.Time, id share.ID) error {
	return d.takeShare(ctx, now, id, depot.Completed, func(t *tx, r *row) error {
		if !r.measured {
			return fmt.Errorf("%v: %w", id, errUnmeasured)
		}
		return t.arrived(r)
	})
}

// Mended records that the missing pieces of a share are verified and durable again.
func (d *DB) Mended(ctx context.Context, now time.Time, id share.ID) error {
	return d.takeShare(ctx, now, id, depot.Mended, func(t *tx, r *row) error {
		t.touch(r.id) // its leases may have been lost with the pieces
		if err := t.exec(`UPDATE shares SET missing = NULL WHERE id = ?1`, r.id); err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM strikes WHERE share = ?1`, r.id); err != nil {
			return err
		}
		return t.arrived(r)
	})
}

func (t *tx) arrived(r *row) error {
	if err := t.settleShare(r); err != nil {
		return err
	}
	return t.arriveAll(r.id)
}

// Looked records what a visit found missing or wrong in a share, perhaps nothing. Pieces
// found twice, an hour of elapsed time apart, make the share CORRUPT and are noted as missing;
// so are further losses of a CORRUPT share. It returns the state.
func (d *DB) Looked(ctx context.Context, now, elapsed time.Time, id share.ID, bad *share.Set) (state depot.State, err error) {
	err = d.write(ctx, now, func(t *tx) error {
		r, err := t.share(id)
		if err != nil {
			return err
		}
		if state = r.state; state != depot.Stable && state != depot.Corrupt {
			return fmt.Errorf("%v: %w", id, &depot.EdgeError{From: state, Why: depot.Damaged})
		}
		before, err := t.strike(r.id, bad.Len())
		if err != nil {
			return err
		}
		after, lost := before.Struck(elapsed, bad)
		if err := t.setStrike(r.id, after); err != nil || lost == nil {
			return err
		}
		if err := t.lose(&r, lost); err != nil {
			return err
		}
		state = r.state
		return nil
	})
	return state, err
}

// lose notes the pieces lost as missing.
func (t *tx) lose(r *row, lost *share.Set) error {
	missing, err := t.set(`SELECT missing FROM shares WHERE id = ?1 AND missing IS NOT NULL`, r.id, lost.Len())
	if err != nil {
		return err
	}
	if missing != nil {
		lost = lost.Clone()
		lost.Union(missing)
	}
	if r.state == depot.Stable {
		if err := t.move(r, depot.Damaged); err != nil {
			return err
		}
	}
	return t.exec(`UPDATE shares SET missing = ?2 WHERE id = ?1`, r.id, lost.Bytes())
}

// set reads a set of pieces of a share of n; nil if there is none, or it is for another
// number of pieces, since it was found while the share's manifest was not known.
func (t *tx) set(query string, id int64, n int) (set *share.Set, err error) {
	err = t.rows(query, func(s *sqlite.Stmt) error {
		b := make([]byte, s.ColumnLen(0))
		s.ColumnBytes(0, b)
		set, _ = share.ParseSet(n, b)
		return nil
	}, id)
	return set, err
}

func (t *tx) strike(id int64, n int) (depot.Strike, error) {
	var at int64
	found, err := t.ints(`SELECT at FROM strikes WHERE share = ?1`, []any{id}, &at)
	if err != nil || !found {
		return depot.Strike{}, err
	}
	bad, err := t.set(`SELECT bad FROM strikes WHERE share = ?1`, id, n)
	return depot.Strike{At: time.Unix(at, 0), Bad: bad}, err
}

func (t *tx) setStrike(id int64, s depot.Strike) error {
	if s.Bad == nil {
		return t.exec(`DELETE FROM strikes WHERE share = ?1`, id)
	}
	return t.exec(`INSERT OR REPLACE INTO strikes(share, at, bad) VALUES (?1, ?2, ?3)`, id, s.At.Unix(), s.Bad.Bytes())
}

// Missing returns the pieces that a CORRUPT share of n pieces lacks; nil if it lacks none.
func (d *DB) Missing(ctx context.Context, id share.ID, n int) (set *share.Set, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		r, err := t.share(id)
		if err != nil {
			return err
		}
		set, err = t.set(`SELECT missing FROM shares WHERE id = ?1 AND missing IS NOT NULL`, r.id, n)
		return err
	})
	return set, err
}
