package leasedb

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// named is a name, and the shares that it points to: now, and as soon as the second is stable. They are zero if there is none.
type named struct {
	Name          string
	Share, Coming share.ID
}

// Names returns those of an account.
func (d *DB) Names(ctx context.Context, now time.Time, account depot.Account) (out []named, err error) {
	err = d.read(ctx, now, func(t *tx) error {
		return t.rows(`SELECT n.name, s.share, x.share FROM names n
		  LEFT JOIN leases l ON l.share = n.share AND l.account = n.account AND l.expires > ?2 LEFT JOIN shares s ON s.id = l.share
		  LEFT JOIN leases m ON m.share = n.next AND m.account = n.account AND m.expires > ?2 LEFT JOIN shares x ON x.id = m.share
		  WHERE n.account = ?1 AND (s.id IS NOT NULL OR x.id IS NOT NULL) ORDER BY n.name`, func(s *sqlite.Stmt) error {
			n := named{Name: s.ColumnText(0)}
			var a, b error
			if !s.ColumnIsNull(1) {
				n.Share, a = shareID(s, 1)
			}
			if !s.ColumnIsNull(2) {
				n.Coming, b = shareID(s, 2)
			}
			out = append(out, n)
			return errors.Join(a, b)
		}, int64(account), t.now)
	})
	return out, err
}

// Crawls returns the reports that are kept, the newest first.
func (d *DB) Crawls(ctx context.Context) (out []depot.Cycle, err error) {
	err = d.read(ctx, time.Time{}, func(t *tx) error {
		return t.rows(`SELECT cycle, report FROM crawls ORDER BY cycle DESC`, func(s *sqlite.Stmt) error {
			c := depot.Cycle{Cycle: s.ColumnInt64(0), Report: make([]byte, s.ColumnLen(1))}
			s.ColumnBytes(1, c.Report)
			out = append(out, c)
			return nil
		})
	})
	return out, err
}
