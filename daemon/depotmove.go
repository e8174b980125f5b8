package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/archive"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// ---- export ----

// exporter writes what a depot keeps.
type exporter struct {
	*depots
	l       *lender
	names   map[depot.Account]string
	leftOut int // shares with leases that are not whole
}

// Export returns what writes the whole shares above an ID, with their accounts and live leases. It
// may run while the depot does.
func (d *depots) Export(ctx context.Context, after string) (func(io.Writer) error, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return nil, err
	}
	var from share.ID
	if after != "" {
		if from, err = share.ParseID(after); err != nil {
			return nil, api.Refuse(api.ErrRequest, "the export cannot go on after %q, which is not a share ID", after)
		}
	}
	if err := l.root.Ready(ctx, l.db); err != nil {
		return nil, err
	}
	m, err := l.db.Meta(ctx)
	if err != nil {
		return nil, err
	}
	x := &exporter{depots: d, l: l, names: map[depot.Account]string{}}
	accounts, err := x.accounts(ctx, now)
	return func(w io.Writer) error {
		out, err := archive.NewWriter(w, m.Depot, now, accounts)
		if err != nil {
			return err
		}
		if err := x.shares(ctx, from, out); err != nil {
			d.log.Warn("an export was not written to its end", "error", err)
			return err
		}
		return out.Close(x.leftOut)
	}, err
}

// accounts returns all but the starter.
func (x *exporter) accounts(ctx context.Context, now time.Time) (out []archive.Account, err error) {
	all, err := x.l.db.Accounts(ctx, now)
	for _, a := range all {
		x.names[a.ID] = a.Name
		if a.ID == depot.StarterAccount {
			continue
		}
		v, err := x.l.view(ctx, a)
		if err != nil {
			return nil, err
		}
		out = append(out, archive.Account{Name: v.Name, Keys: v.Keys, Quota: v.Quota, MaxLease: v.MaxLease, Paid: a.Paid, Stranger: a.Stranger})
	}
	return out, err
}

func (x *exporter) shares(ctx context.Context, after share.ID, out *archive.Writer) error {
	for {
		page, err := x.l.db.Shares(ctx, after, 1000)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, k := range page {
			after = k.Share
			if err := x.share(ctx, k, out); err != nil {
				return err
			}
		}
	}
}

// share writes a share that somebody holds. Its leases are those of this moment, and of accounts that were
// there when the export began.
func (x *exporter) share(ctx context.Context, k depot.Kept, out *archive.Writer) error {
	_, now, err := x.depotNow(ctx)
	if err != nil {
		return err
	}
	all, err := x.l.db.Leases(ctx, now, k.Share)
	if err != nil {
		return err
	}
	var leases []archive.Lease
	for _, l := range all {
		if name := x.names[l.Account]; name != "" {
			leases = append(leases, archive.Lease{Account: name, Expires: l.Expires.UTC()})
		}
	}
	if len(leases) == 0 {
		return nil
	}
	if k.State != depot.Stable {
		x.leftOut++
		return nil
	}
	t, err := x.l.root.Tree(k.Share)
	if err != nil {
		x.leftOut++
		return nil
	}
	defer t.Close()
	whole := true
	err = out.Share(t.Manifest(), leases, func(p share.Piece, buf []byte) {
		if !readPiece(t, p, buf) {
			whole = false
			clear(buf)
		}
	})
	if !whole { // the reader finds it too, and does not enter it
		x.leftOut++
	}
	return errors.Join(err, ctx.Err())
}

func readPiece(t *store.Tree, p share.Piece, buf []byte) bool {
	n, err := t.ReadRun(p, 0, t.Manifest().Layout().Blocks(p), buf)
	return err == nil && n == len(buf)
}

// ---- import ----

// importer enters what another depot has exported, or this one before.
type importer struct {
	*depots
	l     *lender
	in    *archive.Reader
	names map[string]string // of accounts there: what they are called here; empty: refused
	space int64             // bytes of the disk that are booked for what is coming, or stay free
	out   api.Imported
}

// Import enters accounts, shares and leases that are not here. It never changes the terms of an account,
// and no lease ends earlier than it did. What it has entered is durable when it returns, also if it fails:
// the same stream may be imported again.
func (d *depots) Import(ctx context.Context, from io.Reader) (api.Imported, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return api.Imported{}, err
	}
	if !l.importing.TryLock() {
		return api.Imported{}, api.Refuse(api.ErrHave, "another import is under way at this depot; wait for its end")
	}
	defer l.importing.Unlock()
	if err := l.root.Ready(ctx, l.db); err != nil {
		return api.Imported{}, err
	}
	states, err := l.db.States(ctx, now)
	if err != nil {
		return api.Imported{}, err
	}
	x := &importer{depots: d, l: l, names: map[string]string{"starter": "starter"}, space: d.setting().Reserve + states[depot.Coming].Bytes, out: api.Imported{Refused: []string{}, Damaged: []string{}}}
	if err := x.all(ctx, now, from); err != nil {
		return x.out, x.failed(err)
	}
	x.out.LeftOut = x.in.LeftOut
	d.log.Info("an export was imported", "shares", x.out.Shares, "known", x.out.Known, "accounts", x.out.Accounts)
	return x.out, nil
}

// failed says how far an import came.
func (x *importer) failed(err error) error {
	came := ""
	if n := x.out.Shares + x.out.Known; n > 0 {
		came = "; " + words.Count(n, "share") + " came in before that"
	}
	switch {
	case errors.Is(err, archive.ErrFormat), errors.Is(err, archive.ErrCut):
		if came != "" {
			came += ": import a whole export for the rest"
		}
		return api.Refuse(api.ErrRequest, "%v%s", err, came)
	case errors.Is(err, share.ErrDiskFull):
		return api.Refuse(share.ErrDiskFull, "%v%s. Make room, or lower depot-reserve, then import the same again", err, came)
	}
	return err
}

func (x *importer) all(ctx context.Context, now time.Time, from io.Reader) (err error) {
	if x.in, err = archive.NewReader(from); err != nil {
		return err
	}
	for _, a := range x.in.Accounts {
		if err := x.account(ctx, now, a); err != nil {
			return err
		}
	}
	for {
		s, err := x.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = x.share(ctx, s)
		}
		if errors.Is(err, archive.ErrDamaged) {
			if len(x.out.Damaged) < api.MaxRemovable {
				x.out.Damaged = append(x.out.Damaged, s.Manifest.ID().String())
			}
			continue
		}
		if err != nil {
			return err
		}
	}
}

// account finds the account here that an account there is: the one that has one of its keys, or else
// its name, provided that it was made of leases found on the disk, or there it has no key. If there is none, it is made.
func (x *importer) account(ctx context.Context, now time.Time, a archive.Account) error {
	if _, twice := x.names[a.Name]; twice {
		return fmt.Errorf("%w: the account name %q is in it twice, or is one that no account can have", archive.ErrFormat, a.Name)
	}
	t := depot.Terms{Quota: a.Quota, MaxLease: time.Duration(min(max(a.MaxLease, 0), 1<<32)) * time.Second, Paid: a.Paid}
	if err := t.Check(); err != nil {
		return fmt.Errorf("%w: account %q: %w", archive.ErrFormat, a.Name, err)
	}
	owners := map[depot.Account]bool{}
	for _, k := range a.Keys {
		if err := checkKey(k); err != nil {
			return fmt.Errorf("%w: account %q: %w", archive.ErrFormat, a.Name, err)
		}
		id, err := x.l.db.AccountOf(ctx, peers.ID(k))
		if err == nil {
			owners[id] = true
		} else if !errors.Is(err, depot.ErrNoKey) {
			return err
		}
	}
	if len(owners) == 0 {
		return x.byName(ctx, now, a, t)
	}
	if len(owners) > 1 {
		x.refuse(a, "its keys belong to several accounts here; let only one account have them, and import again")
		return nil
	}
	for id := range owners {
		info, err := x.l.db.Info(ctx, now, id)
		if err != nil {
			return err
		}
		x.names[a.Name] = info.Name
	}
	return nil
}

func (x *importer) refuse(a archive.Account, why string) {
	x.names[a.Name] = ""
	x.out.Refused = append(x.out.Refused, fmt.Sprintf("%s: %s", a.Name, why))
}

const ifTheSame = "; if both are the same account, add a key of the exported one to the one here with fetcher depot account set, and import again"

// byName finds or makes the account of that name.
func (x *importer) byName(ctx context.Context, now time.Time, a archive.Account, t depot.Terms) error {
	db := x.l.db
	id, err := db.Named(ctx, a.Name)
	switch {
	case errors.Is(err, depot.ErrNoAccount):
		if a.Stranger && len(a.Keys) == 1 && a.Keys[0] == a.Name {
			_, err = db.Admit(ctx, now, peers.ID(a.Name), t, depot.MaxStrangers)
			if _, ok := errors.AsType[*depot.Refusal](err); ok {
				x.refuse(a, "this depot has as many accounts of strangers as it may have; make this one with fetcher depot account add, and import again")
				return nil
			}
			x.names[a.Name] = a.Name
			x.out.Accounts++
			return err
		}
		id, err = db.AddAccount(ctx, now, a.Name, t)
		if errors.Is(err, depot.ErrTaken) { // the crawler has just found leases of it
			return x.byName(ctx, now, a, t)
		}
		x.out.Accounts++
	case err == nil && len(a.Keys) > 0:
		info, err2 := db.Info(ctx, now, id)
		keys, err3 := db.Keys(ctx, id)
		if err = errors.Join(err2, err3); err != nil {
			return err
		}
		if len(keys) > 0 {
			x.refuse(a, "the account of that name here has other keys"+ifTheSame)
			return nil
		}
		if info.Terms != depot.FoundTerms {
			x.refuse(a, "the account of that name here has no key, and the owner of this depot set what that account may have"+ifTheSame)
			return nil
		}
		err = db.SetAccount(ctx, id, t) // it was made of leases that were found on the disk
	}
	for _, k := range a.Keys {
		if err == nil {
			err = db.AddKey(ctx, id, peers.ID(k))
		}
	}
	x.names[a.Name] = a.Name
	return err
}

// share enters a share with its leases.
func (x *importer) share(ctx context.Context, s archive.Share) error {
	_, now, err := x.depotNow(ctx)
	if err != nil {
		return err
	}
	leases, err := x.promises(s, now)
	if err != nil {
		return err
	}
	if len(leases) == 0 {
		x.out.Expired++
		return nil
	}
	id := s.Manifest.ID()
	k, err := x.l.db.Share(ctx, id)
	if err != nil {
		return err
	}
	if k.State == depot.Going {
		x.out.Leaving++
		return nil
	}
	seen, err := x.l.root.Look(id)
	if err != nil {
		return err
	}
	if k.State == depot.None {
		leases = append(seen.Leases, leases...)
	}
	if whole := seen.Manifest != nil && seen.Whole && seen.Bad.Count() == 0; !whole || k.State != depot.None && k.State != depot.Stable {
		return x.bring(ctx, s, k, leases)
	}
	x.out.Known++
	_, err = x.l.db.Imported(ctx, now, id, depot.Bytes(s.Manifest), true, leases)
	return err
}

// promises are the live leases of accounts that are not refused. No lease may be longer than one here can be.
func (x *importer) promises(s archive.Share, now time.Time) (out []depot.Promise, err error) {
	for _, l := range s.Leases {
		name, known := x.names[l.Account]
		if !known || l.Expires.Sub(now) > depot.LongestLease {
			return nil, fmt.Errorf("%w: a lease on %v until %s is longer than a lease may be, or is of the account %q, which the export does not list", archive.ErrFormat, s.Manifest.ID(), words.Date(l.Expires), l.Account)
		}
		if name != "" && depot.Live(now, l.Expires) {
			out = append(out, depot.Promise{Account: name, Expires: l.Expires.Truncate(time.Second)})
		}
	}
	return out, nil
}

// bring enters a share whose data is not here, or not all of it. If the ledger does not know it, its data is on the
// disk, with its leases, before it does: should this be cut short, the crawler enters both. If the ledger knows it,
// the leases come first, so that nobody removes what is being brought.
func (x *importer) bring(ctx context.Context, s archive.Share, k depot.Kept, leases []depot.Promise) error {
	id, bytes := s.Manifest.ID(), depot.Bytes(s.Manifest)
	free, err := x.l.root.Free()
	if err != nil {
		return err
	}
	space := x.space
	if k.State == depot.Coming {
		space -= k.Bytes
	}
	if free >= 0 && free-space < bytes {
		return fmt.Errorf("%w: %v takes %s, and the depot has room for %s", share.ErrDiskFull, id, share.Size(bytes), share.Size(max(free-space, 0)))
	}
	if k.State != depot.None {
		if state, err := x.enter(ctx, id, bytes, false, leases); err != nil {
			return err
		} else if state == depot.Going {
			x.out.Leaving++
			return nil
		}
	} else if !slices.ContainsFunc(leases, func(p depot.Promise) bool { return p.Account == "starter" }) {
		_, now, err := x.depotNow(ctx)
		if err != nil {
			return err
		}
		leases = append(leases, depot.Promise{Account: "starter", Expires: now.Truncate(time.Second)}) // it needs none, as it has others
	}
	bring := func() error {
		return x.l.root.Bring(ctx, s.Manifest, leases, func(p share.Piece, buf []byte) ([]share.Hash, error) { return x.in.Piece(s.Manifest, p, buf) })
	}
	if err = bring(); errors.Is(err, share.ErrHeld) { // nothing was read yet
		err = x.insteadOfItsFetch(ctx, id, bring)
	}
	if errors.Is(err, share.ErrHeld) || errors.Is(err, fs.ErrExist) { // it is being fetched
		x.out.Leaving++
		return nil
	}
	if err != nil {
		return err
	}
	if state, err := x.enter(ctx, id, bytes, true, leases); err != nil {
		return err
	} else if state != depot.Stable {
		x.out.Leaving++
		return nil
	}
	x.out.Shares, x.out.Bytes = x.out.Shares+1, x.out.Bytes+s.Manifest.Layout().Bytes()
	_, err = x.node.DepotDo(ctx, fetcher.DepotImported{Share: id})
	return err
}

// fetchEnds is how long an import waits for the end of a fetch that was told to end.
const fetchEnds = 30 * time.Second

// insteadOfItsFetch has the fetch of a share end, which may wait for sources for ever, and brings the share then.
// The error wraps share.ErrHeld if it is held nevertheless.
func (x *importer) insteadOfItsFetch(ctx context.Context, id share.ID, bring func() error) error {
	short, cancel := context.WithTimeout(ctx, fetchEnds)
	defer cancel()
	if _, err := x.node.DepotDo(short, fetcher.DepotImporting{Share: id}); err != nil && short.Err() == nil {
		return err
	}
	return bring()
}

// enter enters the leases of a share, and if it is whole that it is. It returns the state.
func (x *importer) enter(ctx context.Context, id share.ID, bytes int64, whole bool, leases []depot.Promise) (depot.State, error) {
	_, now, err := x.depotNow(ctx)
	if err != nil {
		return depot.None, err
	}
	db := x.l.db
	k, err := db.Share(ctx, id)
	if err == nil && k.State == depot.Coming { // before its leases, which those end that declared another size
		_, err = db.Measure(ctx, now, id, bytes)
	}
	if err != nil {
		return k.State, err
	}
	state, err := db.Imported(ctx, now, id, bytes, whole, leases)
	if err != nil || !whole {
		return state, err
	}
	switch state {
	case depot.Coming:
		err = db.Complete(ctx, now, id)
	case depot.Corrupt:
		err = db.Mended(ctx, now, id)
	default:
		return state, nil
	}
	var edge *depot.EdgeError
	if err != nil && !errors.As(err, &edge) { // it may have been noted meanwhile
		return state, err
	}
	k, err = db.Share(ctx, id)
	return k.State, err
}
