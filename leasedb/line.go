package leasedb

import (
	"context"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// most is how many calls share one transaction. Each wants a few syncs beside the data.
const most = 64

// line is the calls that wait to write. Whoever comes to the turn commits all that wait in one
// transaction: a sync takes as long for one as for many.
type line struct {
	turn    chan struct{} // full while a call writes
	mu      sync.Mutex    // guards waiting
	waiting []*call
}

// call is a call that wants to write; its results are set by the call whose turn it is.
type call struct {
	ctx  context.Context
	now  time.Time
	f    func(*tx) error
	done bool
	err  error
}

// write runs f in a transaction, which calls that wait at the same time share. What f changed is
// undone if it fails, or if the transaction does. Before that commits, the leases that changed are
// written beside their data. f may run twice. A call whose context ends while it waits gives up, unless
// it has become a part of a transaction.
func (d *DB) write(ctx context.Context, now time.Time, f func(*tx) error) error {
	c := &call{ctx: ctx, now: now, f: f}
	l := &d.line
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		if l.leave(c) {
			return context.Cause(ctx)
		}
		l.turn <- struct{}{}
	}
	defer func() { <-l.turn }()
	if !c.done {
		d.together(l.take(c))
	}
	return c.err
}

// leave takes a call out of the line. It reports whether it waited there.
func (l *line) leave(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// take takes the calls that wait out of the line: c, and those behind and before it. If c is not
// among them, another call took it and panicked: it goes alone.
func (l *line) take(c *call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i < 0 {
		return []*call{c}
	}
	n := min(max(i+1, most), len(l.waiting))
	out := slices.Clone(l.waiting[max(0, n-most):n])
	l.waiting = slices.Delete(l.waiting, max(0, n-most), n)
	return out
}

// together does calls in one transaction. If that fails, each gets one of its own: a share whose
// leases cannot be written is no reason to refuse another.
func (d *DB) together(all []*call) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(all) > 1 {
		err := d.transact(context.WithoutCancel(all[0].ctx), all)
		if err == nil || d.Corrupt(err) {
			for _, c := range all {
				c.done = true
				if c.err == nil {
					c.err = err
				}
			}
			return
		}
	}
	for _, c := range all {
		c.err = d.transact(c.ctx, []*call{c})
		c.done = true
	}
}

// transact does calls in a transaction. It fails if the only one does.
func (d *DB) transact(ctx context.Context, all []*call) error {
	t := &tx{DB: d, since: d.since}
	err := d.hear(d.db.Write(ctx, func(conn *sqlite.Conn) error {
		t.c = conn
		last := all[0].now
		for _, c := range all {
			c.err, t.now, last = nil, max(c.now.Unix(), t.since), latest(last, c.now)
			if len(all) == 1 {
				if err := c.f(t); err != nil {
					return err
				}
			} else if err := part(t, c); err != nil {
				return err
			}
		}
		t.now = max(last.Unix(), t.since)
		if err := t.promise(); err != nil || t.Fault == nil {
			return err
		}
		return t.Fault("COMMIT")
	}))
	if err == nil {
		d.since = t.since
		for _, p := range t.written {
			delete(d.ended, p.Share)
		}
	}
	return err
}

// part does a call as a part of a transaction; if it fails, only its part is undone. The error is
// the transaction's.
func part(t *tx, c *call) error {
	if c.err = context.Cause(c.ctx); c.err != nil {
		return nil
	}
	if err := sqlitex.Execute(t.c, "SAVEPOINT part", nil); err != nil {
		return err
	}
	n := len(t.touched)
	if c.err = c.f(t); c.err != nil {
		if t.Corrupt(c.err) {
			return c.err
		}
		t.touched, t.sure = t.touched[:n], false
		if err := sqlitex.Execute(t.c, "ROLLBACK TO part", nil); err != nil {
			return err // SQLite has undone all
		}
	}
	return sqlitex.Execute(t.c, "RELEASE part", nil)
}
