package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/passes/issuer"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// depots is the part of a Daemon that deals with depots: its own, if it has one, and those
// that keep shares for it.
type depots struct {
	*Daemon
	lender *lender // nil: it keeps nothing for others
}

// lender has what a node needs to keep shares for others.
type lender struct {
	dir    string
	root   *disk.Root
	db     *leasedb.DB
	issuer *issuer.Issuer

	importing sync.Mutex // held by the one import
	changing  sync.Mutex // held while the terms of an account are changed
}

// defaultLease is the longest lease of an account, and the length of a requested lease, unless
// they are given.
const defaultLease = 31 * 24 * time.Hour

// openLender opens the database of a depot; its folder may come later.
func (d *depots) openLender(ctx context.Context, cfg Config) (*fetcher.DepotConfig, error) {
	if cfg.Depot == "" {
		return nil, nil
	}
	l := &lender{dir: cfg.Depot, root: disk.New(func() (vfs.FS, error) { return vfs.PrivateDir(cfg.Depot) }, rand.Text)}
	l.root.Path = cfg.Depot
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	db, aside, err := leasedb.Open(ctx, filepath.Join(cfg.Dir, leasesName), l.root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	l.db, db.Grace = db, cmp.Or(cfg.DepotGrace, depot.Grace)
	const anew = "a new one is filled from its disk; its accounts have no keys, and may hold nothing new, until each is set again with fetcher depot account set"
	if aside != "" {
		d.warn(fmt.Sprintf("the database of the depot was damaged, and %s. The damaged one is in %s", anew, aside))
	}
	if m, err := db.Meta(ctx); err == nil && m.Depot == "" { // a new depot; the folder of any other is not made here
		if err := os.MkdirAll(cfg.Depot, 0o700); err != nil {
			return nil, errors.Join(words.Error(ErrDepot, "%v in %s: %s", ErrDepot, cfg.Depot, words.Plain(err)), l.close())
		}
		_, err := os.Lstat(filepath.Join(cfg.Depot, "depot")) // its identity
		if err == nil && aside == "" {
			d.warn("the database of the depot is gone, and " + anew)
		}
		if err := l.begin(ctx, true); err != nil { // before the node runs
			return nil, errors.Join(err, l.close())
		}
	}
	if l.issuer, err = openIssuer(filepath.Join(cfg.Dir, "issuer")); errors.Is(err, share.ErrHeld) { // as fetcher.Open says
		return nil, errors.Join(words.Error(share.ErrHeld, "another fetcher is using the state directory %s", cfg.Dir), l.close())
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", fetcher.ErrStateDir, err), l.close())
	}
	d.lender = l
	c := &fetcher.DepotConfig{Ledger: db, Disk: l.root, Issuer: issuer.Counter{Issuer: l.issuer}, Reading: reading, Reserve: cfg.Reserve}
	if cfg.DepotOpen > 0 {
		c.Open = &depot.Terms{Quota: cfg.DepotOpen, MaxLease: defaultLease, Paid: cfg.DepotPaid}
	}
	return c, nil
}

// openIssuer opens the issuer of a depot's passes, in a folder of its own: if the database of leases
// is restored from an older copy, no spent pass becomes valid again.
func openIssuer(dir string) (*issuer.Issuer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := vfs.PrivateDir(dir)
	if err != nil {
		return nil, err
	}
	return issuer.Open(f, rand.Reader)
}

// ErrIssuer means that what a depot knows of passes cannot be used. Its text says what to do.
var ErrIssuer = issuer.ErrDamaged

// ErrDepot means that a depot cannot start in its folder.
var ErrDepot = errors.New("the depot cannot start")

// begin checks the folder. A fresh depot, which never used one, must be able to use it; the disk
// of another may come later, unless another process has it.
func (l *lender) begin(ctx context.Context, fresh bool) error {
	if l == nil {
		return nil
	}
	if err := l.root.Ready(ctx, l.db); err != nil && (fresh || errors.Is(err, share.ErrHeld)) {
		return fmt.Errorf("%w in %s: %w", ErrDepot, l.dir, err)
	}
	return nil
}

// troubles are what the owner of a depot should know of it now.
func (d *depots) troubles(ctx context.Context) (out []string) {
	if d.lender == nil {
		return nil
	}
	s, err := d.node.DepotDo(ctx, nil)
	switch {
	case err != nil:
		out = append(out, "the depot does not answer: "+err.Error())
	case s.Trouble != "":
		out = append(out, "the depot waits: "+s.Trouble)
	case s.Stuck != "":
		out = append(out, "the depot cannot look at every share that it keeps, and so does not see whether they are damaged: "+s.Stuck)
	case s.Frozen:
		out = append(out, "the depot does not trust the clock, so nothing expires or is removed there; fetcher depot status says more")
	}
	if why := d.lender.issuer.Trouble(); why != nil {
		out = append(out, "the depot takes no passes now: "+words.Plain(why))
	}
	return out
}

func (l *lender) close() error {
	if l == nil {
		return nil
	}
	var err error
	if l.issuer != nil {
		err = l.issuer.Close()
	}
	return errors.Join(err, l.db.Close(), l.root.Close())
}

// lends returns the depot of this node, or a refusal.
func (d *depots) lends() (*lender, error) {
	if d.lender == nil {
		return nil, api.Refuse(api.ErrRequest, "this node is not a depot; to make it one, name a folder as depot in node.toml, and start it again")
	}
	return d.lender, nil
}

// Depot returns the status of the depot.
func (d *depots) Depot(ctx context.Context) (api.Depot, error) {
	if _, err := d.lends(); err != nil {
		return api.Depot{}, err
	}
	s, err := d.node.DepotDo(ctx, nil)
	return d.depotView(ctx, s, err)
}

// DepotDo makes the depot do something.
func (d *depots) DepotDo(ctx context.Context, what string) (api.Depot, error) {
	l, err := d.lends()
	if err != nil {
		return api.Depot{}, err
	}
	if on := what == "gc-on"; on || what == "gc-off" {
		if err := l.db.SetGC(ctx, on); err != nil {
			return api.Depot{}, err
		}
		d.log.Info(map[bool]string{true: "what nobody holds is removed from now on", false: "what nobody holds is no longer removed"}[on])
		return d.Depot(ctx)
	}
	do := map[string]any{"crawl": fetcher.DepotCrawl{}, "scrub": fetcher.DepotScrub{}, "gc": fetcher.DepotCollect{}, "clock-ok": fetcher.DepotClockOK{}}[what]
	if do == nil {
		return api.Depot{}, api.Refuse(api.ErrRequest, "a depot can be told to do one of crawl, scrub, gc, gc-on, gc-off and clock-ok, not %q", what)
	}
	if what == "clock-ok" {
		s, err := d.node.DepotDo(ctx, do)
		return d.depotView(ctx, s, err)
	}
	if err := l.root.Ready(ctx, l.db); err != nil { // it would not begin
		return api.Depot{}, err
	}
	s, err := d.node.DepotDo(ctx, do)
	if err == nil && s.Trouble != "" {
		err = api.Refuse(share.ErrStalled, "the depot could not start when it last tried (%s), and will try again within a minute: repeat the command then", s.Trouble)
	}
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
	v := api.Depot{Suspect: struck, Dir: d.lender.dir, Now: s.Now, Frozen: s.Frozen, Trouble: s.Trouble, Stuck: s.Stuck, GC: m.GC, Grace: int64(d.lender.db.Grace / time.Second), Complete: !m.CompleteSince.IsZero(), Reserve: d.setting().Reserve,
		Free: -1, Arriving: s.Arriving, Collecting: s.Collecting, Removed: s.Removed, Crawl: crawlView(s.Crawl), Left: int64(s.Left / time.Second), ScrubCycle: s.Scrub.Cycle, Scrubbed: s.Scrub.Report.Examined}
	if n, err := d.lender.root.Free(); err == nil {
		v.Free = n
	}
	if why := d.lender.issuer.Trouble(); why != nil {
		v.PassesTrouble = words.Plain(why)
	}
	if v.Crawl.Done {
		v.Next = s.Crawl.Rest
	}
	states, err := d.lender.db.States(ctx, s.Now)
	for _, state := range []depot.State{depot.Coming, depot.Stable, depot.Corrupt, depot.Going} {
		v.States = append(v.States, api.Kept{State: state.String(), Shares: states[state].Shares, Bytes: states[state].Bytes, Leases: states[state].Leases})
	}
	if err != nil {
		return v, err
	}
	return v, nil
}

func crawlView(c depot.Crawl) api.Crawl {
	r := c.Report
	return api.Crawl{Cycle: c.Cycle, Began: c.Began, Done: c.Done, Examined: r.Examined, Bytes: r.Bytes, Expired: r.Expired, ExpiredBytes: r.ExpiredBytes,
		Removable: r.Removable, RemovableB: r.RemovableB, Corrupt: r.Corrupt, Failed: r.Failed, Weeks: r.Ages[:]}
}

// Rehearse returns what a crawl and a removal would find now; it changes nothing.
func (d *depots) Rehearse(ctx context.Context) (api.Crawl, error) {
	l, err := d.lends()
	if err != nil {
		return api.Crawl{}, err
	}
	if err := l.root.Ready(ctx, l.db); err != nil { // what is there is not known
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
	v.Grace = int64(l.db.Grace / time.Second)
	for after := (share.ID{}); ; {
		may, last, err := l.db.Candidates(ctx, s.Now, after, 1000)
		if err != nil {
			return v, err
		}
		for _, k := range may {
			v.Removable, v.RemovableB = v.Removable+1, v.RemovableB+k.Bytes
			if len(v.RemovableShares) < api.MaxRemovable {
				v.RemovableShares = append(v.RemovableShares, api.Removable{Share: k.Share.String(), Bytes: k.Bytes})
			}
		}
		if after = last; after.IsZero() {
			return v, nil
		}
	}
}
