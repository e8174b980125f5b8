package leasedb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// The verbs of requests, as stored in databases.
const (
	verbHold byte = iota + 1
	verbRenew
	verbRelease
	verbReplace
)

// Hold makes or renews the account's lease of a share, which is fetched if it is not
// here. It never makes a lease end earlier than it did.
func (d *DB) Hold(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error) {
	return d.ask(ctx, now, verbHold, "", a, func(t *tx, acc account) (depot.Granted, error) { return t.grant(a, acc, 1) })
}

// Renew moves the end of a live lease, whatever the quota is now. Bytes and Space
// are ignored.
func (d *DB) Renew(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error) {
	return d.ask(ctx, now, verbRenew, "", a, func(t *tx, acc account) (depot.Granted, error) {
		l, err := t.held(a)
		if err != nil {
			return depot.Granted{}, err
		}
		a.Bytes = l.bytes
		return t.grant(a, acc, 0)
	})
}

// held returns the account's lease of a share, or a refusal.
func (t *tx) held(a depot.Ask) (lease, error) {
	r, err := t.share(a.Share)
	if err != nil {
		return lease{}, err
	}
	l, err := t.lease(r.id, int64(a.Account))
	if err == nil && l.expires == 0 {
		err = &depot.Refusal{Reason: depot.NoLease}
	}
	return l, err
}

// Release ends the account's lease of a share. Names of the account that point to it, or
// were about to, no longer do.
func (d *DB) Release(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error) {
	return d.ask(ctx, now, verbRelease, "", a, func(t *tx, _ account) (depot.Granted, error) {
		l, err := t.held(a)
		if err != nil {
			return depot.Granted{}, err
		}
		r, err := t.share(a.Share)
		if err != nil {
			return depot.Granted{}, err
		}
		return depot.Granted{State: r.state, Bytes: l.bytes}, t.end(r.id, int64(a.Account))
	})
}

// ask runs f for a request that was not answered yet, and stores the answer together with
// the changes that f made.
func (d *DB) ask(ctx context.Context, now time.Time, verb byte, name string, a depot.Ask, f func(*tx, account) (depot.Granted, error)) (g depot.Granted, err error) {
	if len(a.Request) == 0 || len(a.Request) > 32 || a.Account == depot.StarterAccount {
		return g, &depot.Refusal{Reason: depot.BadRequest}
	}
	whole := append(a.Share.Bytes(), name...)
	if verb != verbRelease { // one that asks for another end is another request
		whole = binary.BigEndian.AppendUint64(whole, uint64(a.Until.Unix()))
	}
	about := append([]byte{verb}, share.IDOf(whole).Bytes()[4:12]...)
	err = d.write(ctx, now, func(t *tx) error {
		if _, err := t.account(a.Account); err != nil {
			return err
		}
		if answered, err := t.answered(a, about, &g); answered || err != nil {
			return err
		}
		if _, _, err := t.settle(1, int64(a.Account)); err != nil {
			return err
		}
		acc, err := t.account(a.Account)
		if err != nil {
			return err
		}
		if err := t.mayAsk(acc); err != nil {
			return err
		}
		if g, err = f(t, acc); err != nil {
			return err
		}
		return t.answer(a, about, g)
	})
	if err != nil {
		return depot.Granted{}, err
	}
	return g, nil
}

// answered reads the answer to an earlier request, if it is remembered.
func (t *tx) answered(a depot.Ask, about []byte, g *depot.Granted) (bool, error) {
	var b []byte
	err := t.rows(`SELECT answer FROM requests WHERE account = ?1 AND request = ?2 AND until > ?3`, func(s *sqlite.Stmt) error {
		b = make([]byte, s.ColumnLen(0))
		s.ColumnBytes(0, b)
		return nil
	}, int64(a.Account), []byte(a.Request), t.now)
	if err != nil || b == nil {
		return false, err
	}
	if !bytes.HasPrefix(b, about) {
		return false, &depot.Refusal{Reason: depot.BadRequest}
	}
	*g, err = decodeGranted(b[len(about):])
	return true, err
}

// mayAsk refuses an account if too many of its requests are remembered.
func (t *tx) mayAsk(acc account) error {
	if acc.asked < int64(t.asked) {
		return nil
	}
	var first int64
	if _, err := t.ints(`SELECT min(until) FROM requests WHERE account = ?1`, []any{acc.id}, &first); err != nil {
		return err
	}
	return &depot.Refusal{Reason: depot.TooManyRequests, Retry: time.Duration(max(first-t.now, 1)) * time.Second}
}

// answer remembers the answer to a request until the lease ends, or, if the request ended a
// lease, for depot.Starter.
func (t *tx) answer(a depot.Ask, about []byte, g depot.Granted) error {
	until := g.Expires
	if until.IsZero() {
		until = t.time().Add(depot.Starter)
	}
	if err := t.exec(`INSERT INTO requests(account, request, answer, until) VALUES (?1, ?2, ?3, ?4)`,
		int64(a.Account), []byte(a.Request), append(about, encodeGranted(g)...), until.Unix()); err != nil {
		return err
	}
	return t.exec(`UPDATE accounts SET asked = asked + 1 WHERE id = ?1`, int64(a.Account))
}

func encodeGranted(g depot.Granted) []byte {
	expires := int64(0)
	if !g.Expires.IsZero() {
		expires = g.Expires.Unix()
	}
	b := []byte{byte(g.State)}
	for _, n := range []int64{g.Bytes, expires, int64(g.Added / time.Second)} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

var errAnswer = errors.New("an answer in the database is unreadable")

func decodeGranted(b []byte) (g depot.Granted, err error) {
	if len(b) == 0 {
		return g, errAnswer
	}
	g.State = depot.State(b[0])
	var n [3]int64
	b = b[1:]
	for i := range n {
		v, size := binary.Varint(b)
		if size <= 0 {
			return g, errAnswer
		}
		n[i], b = v, b[size:]
	}
	g.Bytes, g.Added = n[0], time.Duration(n[2])*time.Second
	if n[1] != 0 {
		g.Expires = time.Unix(n[1], 0)
	}
	return g, nil
}
