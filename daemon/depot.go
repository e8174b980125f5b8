package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// depots is the part of a Daemon that is about depots: its own, if it is one, and those
// that keep for it.
type depots struct {
	*Daemon
	lender *lender // nil: it keeps nothing for others
}

// lender is what a node keeps shares for others with.
type lender struct {
	dir  string
	root *disk.Root
	db   *leasedb.DB
}

// defaultLease is the longest lease of an account, and how long one is asked for, if
// nothing else is said.
const defaultLease = 31 * 24 * time.Hour

// openLender opens the database of a depot; its folder may come later.
func (d *depots) openLender(ctx context.Context, cfg Config) (*fetcher.DepotConfig, error) {
	if cfg.Depot == "" {
		return nil, nil
	}
	l := &lender{dir: cfg.Depot, root: disk.New(func() (vfs.FS, error) { return vfs.PrivateDir(cfg.Depot) }, rand.Text)}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	db, aside, err := leasedb.Open(ctx, filepath.Join(cfg.Dir, "leases.db"), l.root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	l.db = db
	if aside != "" {
		d.warn(fmt.Sprintf("the database of the depot was damaged, and a new one is filled from its disk; accounts have no quota until they are set again. The damaged one is in %s", aside))
	}
	d.lender = l
	if m, err := db.Meta(ctx); err == nil && m.Depot == "" { // a new one; the folder of any other must be there
		os.MkdirAll(cfg.Depot, 0o700)
	}
	c := &fetcher.DepotConfig{Ledger: db, Disk: l.root, Reading: reading, Reserve: cfg.Reserve}
	if cfg.DepotOpen > 0 {
		c.Open = &depot.Terms{Quota: cfg.DepotOpen, MaxLease: defaultLease}
	}
	return c, nil
}

func (l *lender) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.db.Close(), l.root.Close())
}

// lends is the depot of this node, or a refusal.
func (d *depots) lends() (*lender, error) {
	if d.lender == nil {
		return nil, api.Refuse(api.ErrRequest, "this node keeps no shares for others; run it with a folder for that: fetcher node run, and depot in its settings")
	}
	return d.lender, nil
}

// Depot is how the depot stands.
func (d *depots) Depot(ctx context.Context) (api.Depot, error) {
	if _, err := d.lends(); err != nil {
		return api.Depot{}, err
	}
	s, err := d.node.DepotDo(ctx, nil)
	return d.depotView(ctx, s, err)
}

// DepotDo has the depot do something.
func (d *depots) DepotDo(ctx context.Context, what string) (api.Depot, error) {
	l, err := d.lends()
	if err != nil {
		return api.Depot{}, err
	}
	if on := what == "gc-on"; on || what == "gc-off" {
		if err := l.db.SetGC(ctx, on); err != nil {
			return api.Depot{}, err
		}
		d.log.Info("removing what nobody holds", "on", on)
		return d.Depot(ctx)
	}
	do := map[string]any{"crawl": fetcher.DepotCrawl{}, "scrub": fetcher.DepotScrub{}, "gc": fetcher.DepotCollect{}, "clock-ok": fetcher.DepotClockOK{}}[what]
	if do == nil {
		return api.Depot{}, api.Refuse(api.ErrRequest, "a depot does crawl, scrub, gc, gc-on, gc-off or clock-ok, not %q", what)
	}
	s, err := d.node.DepotDo(ctx, do)
	return d.depotView(ctx, s, err)
}

func (d *depots) depotView(ctx context.Context, s fetcher.DepotStatus, err error) (api.Depot, error) {
	if err != nil {
		return api.Depot{}, err
	}
	m, err := d.lender.db.Meta(ctx)
	if err != nil {
		return api.Depot{}, err
	}
	struck, err := d.lender.db.Struck(ctx)
	if err != nil {
		return api.Depot{}, err
	}
	v := api.Depot{Suspect: struck, Dir: d.lender.dir, Now: s.Now, Frozen: s.Frozen, Trouble: s.Trouble, GC: m.GC, Complete: !m.CompleteSince.IsZero(), Reserve: d.setting().Reserve,
		Free: -1, Arriving: s.Arriving, Crawl: crawlView(s.Crawl), Left: int64(s.Left / time.Second), ScrubCycle: s.Scrub.Cycle, Scrubbed: s.Scrub.Report.Examined}
	if n, err := d.lender.root.Free(); err == nil {
		v.Free = n
	}
	return v, nil
}

func crawlView(c depot.Crawl) api.Crawl {
	r := c.Report
	return api.Crawl{Cycle: c.Cycle, Began: c.Began, Done: c.Done, Examined: r.Examined, Bytes: r.Bytes, Expired: r.Expired, ExpiredBytes: r.ExpiredBytes,
		Corrupt: r.Corrupt, Failed: r.Failed, Weeks: r.Ages[:]}
}

// Rehearse is what a crawl and a removal would find now; it changes nothing.
func (d *depots) Rehearse(ctx context.Context) (api.Crawl, error) {
	l, err := d.lends()
	if err != nil {
		return api.Crawl{}, err
	}
	s, err := d.node.DepotDo(ctx, nil)
	if err != nil {
		return api.Crawl{}, err
	}
	var r depot.Report
	for after := (share.ID{}); ; {
		page, err := l.db.Shares(ctx, after, 1000)
		if err != nil {
			return api.Crawl{}, err
		}
		for _, k := range page {
			after = k.Share
			leases, err := l.db.Leases(ctx, s.Now, k.Share)
			if err != nil {
				return api.Crawl{}, err
			}
			r.Add(depot.Seen{Bytes: k.Bytes, Age: s.Now.Sub(k.Since), Expired: len(leases) == 0 && k.State != depot.Going, Corrupt: k.State == depot.Corrupt})
		}
		if len(page) < 1000 {
			break
		}
	}
	v := crawlView(depot.Crawl{Report: r, Done: true})
	for after := (share.ID{}); ; {
		may, last, err := l.db.Candidates(ctx, s.Now, after, 1000)
		if err != nil {
			return v, err
		}
		for _, k := range may {
			v.Removable, v.RemovableB = v.Removable+1, v.RemovableB+k.Bytes
		}
		if after = last; after.IsZero() {
			return v, nil
		}
	}
}

// ---- accounts ----

// depotError is an error about accounts as it travels.
func depotError(err error) error {
	switch {
	case errors.Is(err, depot.ErrNoAccount), errors.Is(err, depot.ErrNoKey):
		return api.Refuse(api.ErrNoEntry, "%v", err)
	case errors.Is(err, depot.ErrTaken), errors.Is(err, depot.ErrInUse):
		return api.Refuse(api.ErrHave, "%v", err)
	}
	return err
}

// depotNow is the time by the depot's clock.
func (d *depots) depotNow(ctx context.Context) (*lender, time.Time, error) {
	l, err := d.lends()
	if err != nil {
		return nil, time.Time{}, err
	}
	s, err := d.node.DepotDo(ctx, nil)
	return l, s.Now, err
}

// Accounts are those that may hold leases here.
func (d *depots) Accounts(ctx context.Context) (out []api.Account, err error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return nil, err
	}
	all, err := l.db.Accounts(ctx, now)
	for _, a := range all {
		v, err := l.view(ctx, a)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, err
}

func (l *lender) view(ctx context.Context, a depot.AccountInfo) (api.Account, error) {
	v := api.Account{Name: a.Name, Keys: []string{}, Quota: a.Quota, Used: a.Used, MaxLease: int64(a.MaxLease / time.Second), Created: a.Created, Complete: a.Complete}
	keys, err := l.db.Keys(ctx, a.ID)
	for _, k := range keys {
		v.Keys = append(v.Keys, string(k))
	}
	return v, err
}

// account is one as it is now.
func (d *depots) account(ctx context.Context, l *lender, now time.Time, id depot.Account) (api.Account, error) {
	a, err := l.db.Info(ctx, now, id)
	if err != nil {
		return api.Account{}, depotError(err)
	}
	return l.view(ctx, a)
}

// longest reads a longest lease.
func longest(s string) (time.Duration, error) {
	if s == "" {
		return defaultLease, nil
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < time.Second {
		return 0, api.Refuse(api.ErrRequest, "a lease is of a time such as 744h, not %q", s)
	}
	return t, nil
}

func checkKey(key string) error {
	if _, err := share.ParseAddr("/p2p/" + key); err != nil || key == "" {
		return api.Refuse(api.ErrRequest, "%q is no peer ID; fetcher id prints it on the machine that is to hold leases", key)
	}
	return nil
}

// AddAccount makes an account.
func (d *depots) AddAccount(ctx context.Context, a api.AddAccount) (api.Account, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return api.Account{}, err
	}
	t, err := longest(a.MaxLease)
	if err := errors.Join(err, checkKey(a.Key)); err != nil {
		return api.Account{}, err
	}
	terms := depot.Terms{Quota: a.Quota, MaxLease: t}
	if err := terms.Check(); err != nil {
		return api.Account{}, api.Refuse(api.ErrRequest, "%v", err)
	}
	if _, err := l.db.AccountOf(ctx, peers.ID(a.Key)); err == nil {
		return api.Account{}, depotError(depot.ErrTaken)
	}
	id, err := l.db.AddAccount(ctx, now, cmp.Or(a.Name, a.Key), terms)
	if err == nil {
		if err = l.db.AddKey(ctx, id, peers.ID(a.Key)); err != nil { // the name is free again
			err = errors.Join(err, l.db.RemoveAccount(context.WithoutCancel(ctx), now, id))
		}
	}
	if err != nil {
		return api.Account{}, depotError(err)
	}
	d.log.Info("an account was made", "account", cmp.Or(a.Name, a.Key), "peer", a.Key, "quota", a.Quota)
	return d.account(ctx, l, now, id)
}

// SetAccount changes an account.
func (d *depots) SetAccount(ctx context.Context, name string, s api.SetAccount) (api.Account, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return api.Account{}, err
	}
	id, err := l.db.Named(ctx, name)
	if err != nil {
		return api.Account{}, depotError(err)
	}
	a, err := l.db.Info(ctx, now, id)
	if err != nil {
		return api.Account{}, depotError(err)
	}
	terms := a.Terms
	if s.Quota != nil {
		terms.Quota = *s.Quota
	}
	if s.MaxLease != nil {
		if terms.MaxLease, err = longest(*s.MaxLease); err != nil {
			return api.Account{}, err
		}
	}
	if err := terms.Check(); err != nil {
		return api.Account{}, api.Refuse(api.ErrRequest, "%v", err)
	}
	if err := l.setKeys(ctx, id, s); err != nil {
		return api.Account{}, depotError(err)
	}
	if terms != a.Terms {
		if err := l.db.SetAccount(ctx, id, terms); err != nil {
			return api.Account{}, depotError(err)
		}
	}
	return d.account(ctx, l, now, id)
}

// setKeys changes who speaks for an account.
func (l *lender) setKeys(ctx context.Context, id depot.Account, s api.SetAccount) error {
	if s.RemoveKey != "" {
		if a, err := l.db.AccountOf(ctx, peers.ID(s.RemoveKey)); err != nil || a != id {
			return cmp.Or(err, depot.ErrNoKey)
		}
	}
	if s.AddKey != "" {
		if err := checkKey(s.AddKey); err != nil {
			return err
		}
	}
	switch {
	case s.AddKey != "" && s.RemoveKey != "":
		return l.db.MoveKey(ctx, peers.ID(s.RemoveKey), peers.ID(s.AddKey))
	case s.AddKey != "":
		return l.db.AddKey(ctx, id, peers.ID(s.AddKey))
	case s.RemoveKey != "":
		return l.db.RemoveKey(ctx, peers.ID(s.RemoveKey))
	}
	return nil
}

// RemoveAccount removes an account that holds nothing.
func (d *depots) RemoveAccount(ctx context.Context, name string) (api.Account, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return api.Account{}, err
	}
	id, err := l.db.Named(ctx, name)
	if err != nil {
		return api.Account{}, depotError(err)
	}
	v, err := d.account(ctx, l, now, id)
	if err != nil {
		return v, err
	}
	return v, depotError(l.db.RemoveAccount(ctx, now, id))
}

// Leases are the live ones of an account.
func (d *depots) Leases(ctx context.Context, account, after string, limit int) (out []api.Lease, err error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return nil, err
	}
	id, err := l.db.Named(ctx, account)
	if err != nil {
		return nil, depotError(err)
	}
	var from share.ID
	if after != "" {
		if from, err = share.ParseID(after); err != nil {
			return nil, err
		}
	}
	all, err := l.db.Holdings(ctx, now, id, from, limit)
	for _, x := range all {
		out = append(out, api.Lease{Share: x.Share.String(), Account: account, State: x.State.String(), Bytes: x.Bytes, Granted: x.Granted, Renewed: x.Renewed, Expires: x.Expires})
	}
	return out, err
}

// ---- what others keep for this node ----

// Hold has a depot elsewhere keep what an entry serves.
func (d *depots) Hold(ctx context.Context, h api.Hold) (api.Held, error) {
	k, err := d.keeper(h.Entry)
	if err != nil {
		return api.Held{}, err
	}
	e, m := k.entry(), k.list()
	if m == nil || k.view().State != api.Served || len(e.Only)+len(e.Skip) > 0 {
		return api.Held{}, api.Refuse(api.ErrRequest, "entry %d is not whole here: wait until all of it was fetched and is served", e.ID)
	}
	at, err := d.node.Depot(h.Depot)
	if err != nil {
		return api.Held{}, api.Refuse(api.ErrRequest, "%v", err)
	}
	long, err := longest(h.For)
	if err != nil {
		return api.Held{}, err
	}
	held, err := at.Hold(ctx, fetcher.HoldRequest{Share: m.ID(), Bytes: fetcher.HoldBytes(m), Until: time.Now().Add(long)})
	return heldView(at, held.Holding, err)
}

// Release ends a lease at a depot elsewhere.
func (d *depots) Release(ctx context.Context, r api.Release) (api.Held, error) {
	at, err := d.node.Depot(r.Depot)
	if err != nil {
		return api.Held{}, api.Refuse(api.ErrRequest, "%v", err)
	}
	id, err := share.ParseID(r.Share)
	if err != nil {
		return api.Held{}, err
	}
	held, err := at.Release(ctx, id, "")
	return heldView(at, held.Holding, err)
}

// Holdings is what this node's account holds at a depot elsewhere.
func (d *depots) Holdings(ctx context.Context, depot string) (out []api.Held, err error) {
	at, err := d.node.Depot(depot)
	if err != nil {
		return nil, api.Refuse(api.ErrRequest, "%v", err)
	}
	all, err := at.Holdings(ctx)
	if err != nil {
		return nil, heldError(at, err)
	}
	for _, h := range all {
		v, _ := heldView(at, h, nil)
		out = append(out, v)
	}
	return out, nil
}

func heldView(at *fetcher.Depot, h fetcher.Holding, err error) (api.Held, error) {
	if err != nil {
		return api.Held{}, heldError(at, err)
	}
	return api.Held{Share: h.Share.String(), Depot: string(at.ID()), State: h.State.String(), Bytes: h.Bytes, Expires: h.Expires, At: h.At}, nil
}

// heldError says what a depot refuses, and what to do.
func heldError(at *fetcher.Depot, err error) error {
	var r *fetcher.HoldRefused
	switch {
	case errors.As(err, &r):
		return api.Refuse(api.ErrDenied, "the depot %s refuses: %s", at.ID().Short(), refusal(r))
	case errors.Is(err, fetcher.ErrDepotAway), errors.Is(err, fetcher.ErrNoDepot):
		return api.Refuse(share.ErrNetwork, "%v", err)
	}
	return err
}

func refusal(r *fetcher.HoldRefused) string {
	s := map[fetcher.HoldReason]string{
		fetcher.HoldUnknownAccount:  "it does not know this node; its owner lets it in with fetcher depot account add and the ID that fetcher id prints",
		fetcher.HoldOverQuota:       fmt.Sprintf("the quota has only %s left", share.Size(r.Room)),
		fetcher.HoldNoSpace:         fmt.Sprintf("its disk has only %s left", share.Size(r.Room)),
		fetcher.HoldLeaving:         "the share is just being removed there",
		fetcher.HoldWrongBytes:      fmt.Sprintf("the share takes %s", share.Size(r.Room)),
		fetcher.HoldNoLease:         "this node holds no such share there",
		fetcher.HoldTooManyRequests: "it remembers too many requests of this node",
		fetcher.HoldBadTime:         "its clock is beyond that time already",
		fetcher.HoldAway:            "its disk is not there now",
	}[r.Reason]
	if s == "" {
		s = r.Reason.String()
	}
	if r.Retry > 0 {
		s += fmt.Sprintf("; ask again in %v", r.Retry)
	}
	return s
}
