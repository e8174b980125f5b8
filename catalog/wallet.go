package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/passes"
)

// Wallet returns the wallet with the stored passes and orders.
func (d *DB) Wallet(ctx context.Context) (*passes.Wallet, error) {
	var held []passes.Held
	var orders []passes.Order
	err := d.read(ctx, func(t tx) error {
		err := t.rows(`SELECT token, size, epoch, issuer, depot, request, bad, lease FROM passes`, func(s *sqlite.Stmt) error {
			h, err := readPass(s)
			held = append(held, h)
			return err
		})
		if err != nil {
			return err
		}
		return t.rows(`SELECT id, seed, issuer, depot, keys, counts, voucher FROM orders`, func(s *sqlite.Stmt) error {
			o, err := readOrder(s)
			orders = append(orders, o)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return passes.Load(held, orders), nil
}

// WriteWallet makes a change of the wallet durable. The wallet itself is changed by its
// owner, afterwards.
func (d *DB) WriteWallet(ctx context.Context, c passes.Change) error {
	return d.write(ctx, func(t tx) error {
		for _, n := range c.Drop {
			if err := t.rows(`DELETE FROM passes WHERE nonce = ?1`, nil, n[:]); err != nil {
				return err
			}
		}
		for _, h := range c.Put {
			if err := t.rows(`INSERT OR REPLACE INTO passes(nonce, token, size, epoch, issuer, depot, request, bad, lease) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`, nil,
				h.Nonce[:], h.Token(), int64(h.Size), int64(h.Epoch), h.Issuer, h.Depot, h.Request[:], h.Bad, h.Lease); err != nil {
				return err
			}
		}
		if c.Order != nil {
			if err := t.putOrder(*c.Order); err != nil {
				return err
			}
		}
		return t.rows(`DELETE FROM orders WHERE id = ?1`, nil, c.DropOrder[:])
	})
}

func (t tx) putOrder(o passes.Order) error {
	var keys passes.Listing
	for _, k := range o.Keys {
		if k != nil {
			keys = append(keys, k)
		}
	}
	counts, err := json.Marshal(o.Counts)
	if err != nil {
		return err
	}
	return t.rows(`INSERT OR REPLACE INTO orders(id, seed, issuer, depot, keys, counts, voucher) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`, nil,
		o.ID[:], o.Seed[:], o.Issuer, o.Depot, keys.Append(nil), string(counts), o.Voucher[:])
}

func readPass(s *sqlite.Stmt) (h passes.Held, err error) {
	h = passes.Held{Size: passes.Size(s.ColumnInt(1)), Epoch: passes.Epoch(s.ColumnInt(2)), Issuer: s.ColumnText(3), Depot: s.ColumnText(4), Bad: s.ColumnInt(6) != 0, Lease: s.ColumnText(7)}
	if h.Pass, err = passes.ParseToken(blob(s, 0)); err != nil {
		return h, fmt.Errorf("a pass for %s cannot be read: %w", h.Depot, err)
	}
	if err := exactly(h.Request[:], blob(s, 5)); err != nil {
		return h, fmt.Errorf("a pass for %s cannot be read: %w", h.Depot, err)
	}
	return h, nil
}

func readOrder(s *sqlite.Stmt) (o passes.Order, err error) {
	o = passes.Order{Issuer: s.ColumnText(2), Depot: s.ColumnText(3)}
	bad := func(err error) (passes.Order, error) {
		return o, fmt.Errorf("an order of passes for %s cannot be read: %w", o.Depot, err)
	}
	for _, f := range []struct {
		to  []byte
		col int
	}{{o.ID[:], 0}, {o.Seed[:], 1}, {o.Voucher[:], 6}} {
		if err := exactly(f.to, blob(s, f.col)); err != nil {
			return bad(err)
		}
	}
	keys, err := passes.ParseListing(blob(s, 4))
	if err != nil {
		return bad(err)
	}
	if err := json.Unmarshal([]byte(s.ColumnText(5)), &o.Counts); err != nil {
		return bad(err)
	}
	for i, size := range passes.Sizes {
		for _, k := range keys {
			if k.Size == size {
				o.Keys[i] = k
			}
		}
		if (o.Keys[i] == nil) != (o.Counts[i] == 0) {
			return bad(fmt.Errorf("the count of %d passes of %d MiB and the keys of the order do not match", o.Counts[i], size))
		}
	}
	return o, nil
}

func exactly(to, from []byte) error {
	if len(to) != len(from) {
		return fmt.Errorf("%d bytes instead of %d", len(from), len(to))
	}
	copy(to, from)
	return nil
}
