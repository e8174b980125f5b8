package leasedb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// touch notes that all leases of a share must be written beside its data.
func (t *tx) touch(id int64) { t.touched = append(t.touched, touched{share: id}) }

// changed is what a transaction changed about the leases of a share.
type changed struct {
	all      bool // all must be written
	accounts map[int64]bool
	ended    map[string]bool // accounts
}

// promise writes the leases that were touched beside the data of their shares.
func (t *tx) promise() error {
	if t.beside == nil {
		return nil
	}
	shares, order := map[int64]*changed{}, []int64(nil)
	for _, x := range t.touched {
		c := shares[x.share]
		if c == nil {
			c = &changed{accounts: map[int64]bool{}, ended: map[string]bool{}}
			shares[x.share], order = c, append(order, x.share)
		}
		switch {
		case x.account == 0:
			c.all = true
		case x.ended != "":
			c.ended[x.ended] = true
		default:
			c.accounts[x.account] = true
		}
	}
	for _, id := range order {
		s, err := t.shareAt(id)
		if err != nil {
			return err
		}
		if s.state == depot.None {
			continue // the share is gone, with what lay beside it
		}
		p, err := promised(t, s, shares[id])
		if err != nil {
			return err
		}
		if len(shares[id].ended) > 0 {
			t.ended[s.share] = true
		}
		t.written = append(t.written, p)
	}
	if len(t.written) == 0 {
		return nil
	}
	if err := t.beside.Write(t.written); err != nil {
		return fmt.Errorf("write leases beside their data: %w", err)
	}
	return nil
}

// promised returns what is to be written beside the data of a share. A lease that ended and was
// made again has ended first.
func promised(t *tx, s row, c *changed) (p depot.Promised, err error) {
	p = depot.Promised{Share: s.share, Changes: !c.all && !t.ended[s.share] && t.beside.Grows(s.share)}
	if !p.Changes {
		if p.Leases, err = t.promises(s.id); err == nil {
			p.Leases, err = t.besides(s, c.ended, p.Leases)
		}
		return p, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.ended)) {
		p.Leases = append(p.Leases, depot.Promise{Account: name})
	}
	for _, account := range slices.Sorted(maps.Keys(c.accounts)) {
		if err := t.rows(promisesQuery+` AND l.account = ?2`, appendPromise(&p.Leases), s.id, account); err != nil {
			return p, err
		}
	}
	return p, nil
}

// besides adds to the leases of a share those that only the disk knows, because the
// database is new or an older copy, except those that this transaction ended. If the leases
// on the disk cannot be read, they are overwritten, provided that the database is complete.
func (t *tx) besides(s row, ended map[string]bool, ps []depot.Promise) ([]depot.Promise, error) {
	disk, err := t.beside.Promises(s.share)
	if err != nil {
		whole, err2 := t.ints(`SELECT 1 FROM meta WHERE complete_since IS NOT NULL`, nil)
		if whole && err2 == nil {
			return ps, nil
		}
		return nil, fmt.Errorf("read the leases of %v beside its data: %w", s.share, errors.Join(err, err2))
	}
	at := make(map[string]int, len(ps))
	for i, p := range ps {
		at[p.Account] = i
	}
	for _, p := range disk {
		switch i, ok := at[p.Account]; {
		case ended[p.Account]: // the database alone knows what came after
		case ok:
			ps[i].Expires = latest(ps[i].Expires, p.Expires)
		case depot.Live(t.time(), p.Expires):
			ps = append(ps, p)
		}
	}
	return ps, nil
}

const promisesQuery = `SELECT a.name, l.expires FROM leases l JOIN accounts a ON a.id = l.account WHERE l.share = ?1`

func appendPromise(out *[]depot.Promise) func(*sqlite.Stmt) error {
	return func(s *sqlite.Stmt) error {
		*out = append(*out, depot.Promise{Account: s.ColumnText(0), Expires: time.Unix(s.ColumnInt64(1), 0)})
		return nil
	}
}

func (t *tx) promises(id int64) (out []depot.Promise, err error) {
	err = t.rows(promisesQuery+` ORDER BY a.name`, appendPromise(&out), id)
	return out, err
}

// last returns the latest end of a lease beside the data, in seconds; 0 if there is none.
func (t *tx) last(id share.ID) (int64, error) {
	if t.beside == nil {
		return 0, nil
	}
	at, err := t.beside.Last(id)
	if err != nil {
		return 0, fmt.Errorf("read the leases of %v beside its data: %w", id, err)
	}
	if at.IsZero() {
		return 0, nil
	}
	return at.Unix(), nil
}
