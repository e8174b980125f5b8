package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/renewal"
)

// LoadHolds returns what this node has depots keep, as SaveHolds stored it.
func (d *DB) LoadHolds(ctx context.Context) (b renewal.Book, err error) {
	err = d.read(ctx, func(t tx) error {
		if err := t.rows(`SELECT seq FROM sqlite_sequence WHERE name = 'hold_wants'`, func(s *sqlite.Stmt) error {
			b.Last = s.ColumnInt64(0)
			return nil
		}); err != nil {
			return err
		}
		var err error
		if b.Wants, err = readAll[renewal.Want](t, `SELECT want FROM hold_wants ORDER BY id`); err != nil {
			return err
		}
		if b.Holds, err = readAll[renewal.Hold](t, `SELECT hold FROM hold_leases ORDER BY depot, share`); err != nil {
			return err
		}
		b.Accounts, err = readAll[renewal.Account](t, `SELECT account FROM hold_depots ORDER BY depot`)
		return err
	})
	return b, err
}

// SaveHolds stores what this node has depots keep, in place of what was stored before.
func (d *DB) SaveHolds(ctx context.Context, b renewal.Book) error {
	return d.write(ctx, func(t tx) error {
		for _, table := range []string{"hold_wants", "hold_leases", "hold_depots"} {
			if err := t.rows(`DELETE FROM `+table, nil); err != nil {
				return err
			}
		}
		for _, w := range b.Wants {
			if err := t.put(`INSERT INTO hold_wants(want, id) VALUES (?1, ?2)`, w, w.ID); err != nil {
				return err
			}
		}
		for _, h := range b.Holds {
			if err := t.put(`INSERT INTO hold_leases(hold, depot, share) VALUES (?1, ?2, ?3)`, h, string(h.Depot), h.Share.Bytes()); err != nil {
				return err
			}
		}
		for _, a := range b.Accounts {
			if err := t.put(`INSERT INTO hold_depots(account, depot) VALUES (?1, ?2)`, a, string(a.Depot)); err != nil {
				return err
			}
		}
		return nil
	})
}

// put writes a row whose first value is the JSON of v.
func (t tx) put(query string, v any, key ...any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.rows(query, nil, append([]any{string(text)}, key...)...)
}

// readAll reads rows of JSON.
func readAll[T any](t tx, query string) (out []T, err error) {
	err = t.rows(query, func(s *sqlite.Stmt) error {
		var v T
		if err := json.Unmarshal([]byte(s.ColumnText(0)), &v); err != nil {
			return fmt.Errorf("a hold cannot be read: %w", err)
		}
		out = append(out, v)
		return nil
	})
	return out, err
}
