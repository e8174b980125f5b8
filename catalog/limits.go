package catalog

import (
	"context"

	"zombiezen.com/go/sqlite"
)

// Way is a direction of traffic.
type Way string

// The directions of traffic.
const (
	Up   Way = "up"
	Down Way = "down"
)

// Limit is a limit of the node that its owner has set while it ran, in place of a setting, both in bytes per second; 0 is
// none. It holds until that setting changes.
type Limit struct{ Rate, Setting int64 }

// Limits returns the limits that stand in place of settings.
func (d *DB) Limits(ctx context.Context) (map[Way]Limit, error) {
	out := map[Way]Limit{}
	return out, d.read(ctx, func(t tx) error {
		return t.rows(`SELECT way, rate, setting FROM limits`, func(s *sqlite.Stmt) error {
			out[Way(s.ColumnText(0))] = Limit{s.ColumnInt64(1), s.ColumnInt64(2)}
			return nil
		})
	})
}

// SetLimits stores the limits that stand in place of settings; what is not among them does not any more.
func (d *DB) SetLimits(ctx context.Context, limits map[Way]Limit) error {
	return d.write(ctx, func(t tx) error {
		if err := t.rows(`DELETE FROM limits`, nil); err != nil {
			return err
		}
		for _, way := range []Way{Up, Down} {
			l, ok := limits[way]
			if !ok {
				continue
			}
			if err := t.rows(`INSERT INTO limits(way, rate, setting) VALUES (?1, ?2, ?3)`, nil, string(way), l.Rate, l.Setting); err != nil {
				return err
			}
		}
		return nil
	})
}
