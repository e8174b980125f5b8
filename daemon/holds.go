package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// holds is what depots elsewhere are to keep for this node, which renews the leases.
type holds struct {
	d     *Daemon
	ready chan struct{} // closed when the catalog is open

	changing sync.Mutex // held while the wants are read and changed

	mu           sync.Mutex // guards the fields below
	good, failed uint64     // visits
	why          map[peers.ID]string
}

func newHolds(d *Daemon) *holds {
	return &holds{d: d, ready: make(chan struct{}), why: map[peers.ID]string{}}
}

// LoadHolds waits for the catalog, which opens after the node. A node that has left its fleet, for another or for none,
// forgets what depots keep for that, and releases none of it: the others renew it.
func (h *holds) LoadHolds(ctx context.Context) (renewal.Book, error) {
	select {
	case <-h.ready:
		b, err := h.d.db.LoadHolds(ctx)
		switch m := h.d.member; {
		case err != nil:
		case m == nil:
			b = withoutFleet(b)
		case m.isNew():
			b = withoutFleet(b)
			if err = h.SaveHolds(ctx, b); err == nil {
				err = m.settle()
			}
		}
		return b, err
	case <-ctx.Done():
		return renewal.Book{}, ctx.Err()
	}
}

// SaveHolds writes the holds into the catalog.
func (h *holds) SaveHolds(ctx context.Context, b renewal.Book) error { return h.d.db.SaveHolds(ctx, b) }

// visited records the outcome of a visit of a depot.
func (h *holds) visited(depot peers.ID, why string) {
	h.mu.Lock()
	was := h.why[depot]
	if why == "" {
		h.good++
		delete(h.why, depot)
	} else {
		h.failed++
		h.why[depot] = why
	}
	h.mu.Unlock()
	switch {
	case why != "" && why != was:
		h.d.log.Warn("a depot does not keep all that it is to", "depot", string(depot), "reason", why)
	case why == "" && was != "":
		h.d.log.Info("a depot keeps all that it is to again", "depot", string(depot))
	}
	h.d.feed.Publish(api.Event{At: time.Now(), Type: "holds"})
}

// counts returns the number of visits so far.
func (h *holds) counts() (good, failed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.good, h.failed
}

// StandingHolds returns what depots are to keep for this node, and the state of each hold.
func (d *depots) StandingHolds(ctx context.Context) (out []api.StandingHold, err error) {
	l, err := d.node.Holds(ctx)
	for _, h := range l.Holds {
		v := api.StandingHold{ID: h.Want, Share: h.Share.String(), Depot: string(h.Depot), State: h.State.String(), Bytes: h.Bytes, Expires: h.Expires,
			Left: int64(h.Left / time.Second), Cost: h.Cost, Next: h.Next, Why: standingWhy(l, h), Ending: !h.Kept, Late: h.Late}
		if i := slices.IndexFunc(l.Wants, func(w fetcher.Hold) bool { return w.ID == h.Want }); i >= 0 {
			v.Entry, v.Pin, v.Fleet = l.Wants[i].Entry, l.Wants[i].Pin, l.Wants[i].Fleet
		}
		out = append(out, v)
	}
	return out, err
}

// standingWhy says what went wrong last with a hold, in the depot's own words if they are known.
func standingWhy(l fetcher.HoldList, h fetcher.HoldStanding) string {
	if r := (*fetcher.HoldRefused)(nil); errors.As(l.Errs[h.Key], &r) && h.Why == r.Error() {
		return heldError(h.Depot, r).Error()
	}
	return h.Why
}

// Hold has depots elsewhere keep what an entry serves, from now on.
func (d *depots) Hold(ctx context.Context, h api.Hold) ([]api.Held, error) {
	k, err := d.keeper(h.Entry)
	if err != nil {
		return nil, err
	}
	e, m := k.entry(), k.list()
	if m == nil || k.view().State != api.Served || len(e.Only)+len(e.Skip) > 0 {
		return nil, api.Refuse(api.ErrRequest, "entry %d is not whole here: wait until all of it was fetched and is served", e.ID)
	}
	depots, err := d.depotIDs(h.Depots)
	if err != nil {
		return nil, err
	}
	long, err := longest(h.For)
	if err != nil {
		return nil, err
	}
	ask := fetcher.Hold{Entry: h.Entry, Pin: h.Pin, Share: m.ID()}
	if h.Fleet {
		if err := d.listed(m.ID()); err != nil {
			return nil, err
		}
		ask = fetcher.Hold{Fleet: true, Pin: true, Share: m.ID()}
	}
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	l, err := d.node.Holds(ctx)
	if err != nil {
		return nil, err
	}
	before, want, addrs := wanted(l, ask)
	if n := distinct(want.Depots, depots); h.Copies > n {
		return nil, api.Refuse(api.ErrRequest, "%d copies need as many depots; named so far: %d", h.Copies, n)
	}
	for _, id := range depots {
		if h.Budget != nil {
			if err := d.node.SetHoldBudget(ctx, id, *h.Budget); err != nil {
				return nil, err
			}
		}
	}
	want.Share, want.Bytes, want.Length, want.Copies = m.ID(), fetcher.HoldBytes(m), long, h.Copies
	l, err = d.node.KeepHold(ctx, want, append(addrs, h.Depots...), false)
	if err != nil {
		return nil, api.Refuse(api.ErrRequest, "%v", err)
	}
	out, err := d.heldAt(l, m, depots, h.Depots)
	if len(out) > 0 && h.Fleet {
		err = d.member.holds.list(ctx, l, l.Wants[slices.IndexFunc(l.Wants, func(w fetcher.Hold) bool { return w.ID == l.Want })])
	}
	if len(out) == 0 || h.Fleet && err != nil { // no depot granted anything, or the fleet is not told: undo the request
		d.unhold(ctx, l, before)
		return nil, err
	}
	d.log.Info("depots keep a share from now on", "entry", h.Entry, "hold", l.Want, "share", m.ID().String(), "depots", len(depots))
	return out, nil
}

// listed refuses what is not on the list of the node's fleet.
func (d *depots) listed(id share.ID) error {
	m, err := d.member.belongs()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list[id] == nil {
		return api.Refuse(api.ErrRequest, "the fleet does not have this share; fetcher fleet add adds it")
	}
	return nil
}

// wanted returns what is wanted of the same so far, with the addresses of its depots, and the
// want to change: new, if there is none.
func wanted(l fetcher.HoldList, new fetcher.Hold) (before *fetcher.Hold, want fetcher.Hold, addrs []string) {
	for _, w := range l.Wants {
		if w.Fleet != new.Fleet || w.Entry != new.Entry || w.Pin != new.Pin || w.Pin && w.Share != new.Share {
			continue
		}
		return &w, w, depotAddrs(l, w.Depots)
	}
	return nil, new, nil
}

// depotAddrs returns the addresses of depots.
func depotAddrs(l fetcher.HoldList, depots []peers.ID) (out []string) {
	for _, id := range depots {
		if len(l.Addrs[id]) == 0 {
			out = append(out, "/p2p/"+string(id))
		}
		for _, a := range l.Addrs[id] {
			out = append(out, a+"/p2p/"+string(id))
		}
	}
	return out
}

// unhold undoes the request just made.
func (d *depots) unhold(ctx context.Context, l fetcher.HoldList, before *fetcher.Hold) {
	ctx = context.WithoutCancel(ctx)
	var err error
	if before == nil {
		_, err = d.node.DropHold(ctx, l.Want)
	} else {
		_, err = d.node.KeepHold(ctx, *before, depotAddrs(l, before.Depots), true)
	}
	if err != nil {
		d.log.Warn("what no depot does is still asked for", "error", err)
	}
}

// heldAt returns what some depots have granted of a share; if none has, why.
func (d *depots) heldAt(l fetcher.HoldList, m *share.Manifest, depots []peers.ID, addrs []string) (out []api.Held, err error) {
	for i, id := range depots {
		k := renewal.Key{Depot: id, Share: m.ID()}
		j := slices.IndexFunc(l.Holds, func(h fetcher.HoldStanding) bool { return h.Key == k && h.Kept && !h.Expires.IsZero() && h.Left > 0 })
		if j < 0 {
			for _, k := range []renewal.Key{k, {Depot: id}} {
				if why := l.Errs[k]; why != nil && err == nil {
					err = heldError(id, fmt.Errorf("depot %s: %w", id.Short(), why))
				}
			}
			continue
		}
		h := l.Holds[j]
		now := h.Expires.Add(-h.Left)
		at := reachedAt(addrs[i], d.node.Dialled(id))
		out = append(out, api.Held{Hold: h.Want, Share: h.Share.String(), Depot: string(id), State: h.State.String(), Bytes: h.Bytes, Expires: h.Expires, At: now,
			Addr: at, Ticket: d.node.Ticket(m.ID(), at)})
	}
	if len(out) == 0 && err == nil {
		err = api.Refuse(share.ErrStalled, "no depot has answered; ask again")
	}
	return out, err
}

// Release ends the holds of a share: at all depots, or at one.
func (d *depots) Release(ctx context.Context, r api.Release) ([]api.Held, error) {
	id, err := share.ParseID(r.Share)
	if err != nil {
		return nil, err
	}
	var at *fetcher.Depot
	if r.Depot != "" {
		if at, err = d.node.Depot(r.Depot); err != nil {
			return nil, api.Refuse(api.ErrRequest, "%v", err)
		}
	}
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	l, err := d.node.Holds(ctx)
	if err != nil {
		return nil, err
	}
	was := toRelease(l, id, at)
	if at != nil && len(was) == 0 { // a lease that nothing renews
		held, err := at.Release(ctx, id, "")
		v, err := heldView(at, held.Holding, err)
		return []api.Held{v}, err
	}
	if len(was) == 0 {
		return nil, api.Refuse(api.ErrNoEntry, "this node has no depot keep that share; to end a lease that it does not renew, name its depot")
	}
	for _, w := range slices.Clone(l.Wants) {
		if w.Share != id || at != nil && !slices.Contains(w.Depots, at.ID()) {
			continue
		}
		if l, err = d.without(ctx, l, w, at); err != nil {
			return nil, err
		}
	}
	return releasedOf(l, was), nil
}

// toRelease are the leases of a share and of the versions before it, without those that were never granted where
// others were: at all depots, or at one.
func toRelease(l fetcher.HoldList, id share.ID, at *fetcher.Depot) []fetcher.HoldStanding {
	all := slices.DeleteFunc(slices.Clone(l.Holds), func(h fetcher.HoldStanding) bool {
		version := slices.ContainsFunc(l.Wants, func(w fetcher.Hold) bool { return w.Share == id && h.Of(w.ID) })
		return h.Share != id && !version || at != nil && h.Depot != at.ID()
	})
	never := func(h fetcher.HoldStanding) bool { return h.Expires.IsZero() }
	if granted := slices.DeleteFunc(slices.Clone(all), never); len(granted) > 0 {
		return granted
	}
	return all
}

// without ends a hold, or what one depot keeps of it.
func (d *depots) without(ctx context.Context, l fetcher.HoldList, w fetcher.Hold, at *fetcher.Depot) (fetcher.HoldList, error) {
	d.log.Info("depots are to keep a share no more", "hold", w.ID, "share", w.Share.String())
	var left []peers.ID
	if at != nil {
		left = slices.DeleteFunc(slices.Clone(w.Depots), func(id peers.ID) bool { return id == at.ID() })
	}
	if w.Fleet {
		less := w
		if less.Depots = left; w.Copies > len(left) {
			less.Copies = 0
		}
		if err := d.member.holds.list(ctx, l, less); err != nil {
			return l, err
		}
	}
	if len(left) > 0 {
		return d.node.KeepHold(ctx, w, depotAddrs(l, left), false)
	}
	return d.node.DropHold(ctx, w.ID)
}

// releasedOf returns what became of holds that were to end.
func releasedOf(l fetcher.HoldList, was []fetcher.HoldStanding) (out []api.Held) {
	for _, h := range was {
		v := api.Held{Hold: h.Want, Share: h.Share.String(), Depot: string(h.Depot), State: "none", At: time.Now(), Bytes: h.Bytes}
		if i := slices.IndexFunc(l.Holds, func(x fetcher.HoldStanding) bool { return x.Key == h.Key }); i >= 0 {
			v.State, v.Expires = l.Holds[i].State.String(), l.Holds[i].Expires
			v.Delay = "the depot does not answer; it is asked again, and the lease is not renewed"
			if l.Holds[i].Kept {
				v.Delay = "another hold needs it"
			}
		}
		out = append(out, v)
	}
	return out
}

// follow makes depots keep the version that an entry serves now.
func (d *depots) follow(ctx context.Context, entry int64, m *share.Manifest) {
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	l, err := d.node.Holds(ctx)
	for _, w := range l.Wants {
		if w.Entry != entry || w.Pin || w.Share == m.ID() {
			continue
		}
		w.Share, w.Bytes = m.ID(), fetcher.HoldBytes(m)
		_, err2 := d.node.KeepHold(ctx, w, nil, true)
		err = errors.Join(err, err2)
		d.log.Info("depots keep the new version, as a share of its own", "entry", entry, "hold", w.ID, "share", m.ID().String(), "bytes", w.Bytes)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Error("depots are not told of a new version", "entry", entry, "error", err)
	}
}

const followTime = 30 * time.Second

// holdStatus adds the holds to the status, and returns warnings about leases that end soon.
func (d *depots) holdStatus(ctx context.Context, s *api.Status) []string {
	l, err := d.node.Holds(ctx)
	if err != nil {
		return []string{fmt.Sprintf("what depots keep for this node is not known: %v", err)}
	}
	for _, h := range l.Holds {
		if h.Kept {
			s.Holds++
			if s.HoldEnds.IsZero() {
				s.HoldEnds = h.Expires
			}
		}
	}
	return slices.Concat(d.holdWarnings(l), d.shortWarnings(ctx, l), d.budgetWarnings(l))
}

// budgetWarnings says, days before leases lapse, which do so as the budget of their depot does not pay for their renewal, and when.
func (d *depots) budgetWarnings(l fetcher.HoldList) (out []string) {
	for _, depot := range slices.Sorted(maps.Keys(l.Budgets)) {
		var lapse []string
		for _, due := range l.Lapses {
			if due.Depot == depot {
				lapse = append(lapse, fmt.Sprintf("%s on %s (%s)", d.heldName(l, due.Key), due.Expires.Local().Format("2006-01-02 15:04"), words.Count(int(due.Units), "pass")))
			}
		}
		if len(lapse) > 0 {
			out = append(out, fmt.Sprintf("the budget of %s a month for the depot %s does not pay for all that it keeps; these lapse: %s", words.Count(int(l.Budgets[depot].Units), "pass"), depot.Short(), strings.Join(lapse, ", ")))
		}
	}
	return out
}

// holdWarnings returns which leases end soon, and why they were not renewed.
func (d *depots) holdWarnings(l fetcher.HoldList) (out []string) {
	for _, h := range l.Holds {
		if !h.Late {
			continue
		}
		h.Why = standingWhy(l, h)
		out = append(out, lateText(h, earlierOf(l, h), d.heldName(l, h.Key)))
	}
	return out
}

// lateText warns of a lease that should have been renewed; left is how long the depot keeps the version before.
func lateText(h fetcher.HoldStanding, left time.Duration, name string) (what string) {
	why := ", and was not renewed: "
	switch depot := h.Depot.Short(); {
	case h.Left > 0:
		what = fmt.Sprintf("the lease of %s at the depot %s ends in %s", name, depot, words.Duration(h.Left.Round(time.Second)))
	case left > 0:
		what, why = fmt.Sprintf("the depot %s keeps the version of %s before this one, for %s more, and not this one", depot, name, words.Duration(left.Round(time.Second))), ": "
	case h.Expires.IsZero():
		what, why = fmt.Sprintf("the depot %s does not keep %s yet", depot, name), ": "
	default:
		what = fmt.Sprintf("the depot %s does not keep %s any more", depot, name)
	}
	if h.Why != "" {
		what += why + h.Why
	}
	return what
}

// earlierOf is how long a depot keeps an earlier version of what it is to keep; 0: it has none.
func earlierOf(l fetcher.HoldList, h fetcher.HoldStanding) (left time.Duration) {
	for _, o := range l.Holds {
		if o.Depot == h.Depot && o.Share != h.Share && o.Of(h.Want) && o.Kept && o.Since.Before(h.Since) {
			left = max(left, o.Left)
		}
	}
	return left
}

// heldName is what people call a share that a depot keeps.
func (d *depots) heldName(l fetcher.HoldList, key renewal.Key) string {
	for _, h := range l.Holds {
		for _, w := range l.Wants {
			if k, err := d.keeper(w.Entry); err == nil && h.Key == key && w.ID == h.Want {
				return k.view().Name
			}
		}
	}
	return key.Share.Short()
}

// lacking returns the renewals for which the wallet has too few passes, with how many are missing
// for each, in addition to those before.
func lacking(dues []renewal.Due, stock []purse.Stock) (out []renewal.Due) {
	left := map[peers.ID]int64{}
	for _, s := range stock {
		left[s.Depot] = s.Units + s.Reserved + s.Ordered
	}
	for _, due := range dues {
		if left[due.Depot] -= due.Units; left[due.Depot] < 0 {
			due.Units, left[due.Depot] = -left[due.Depot], 0
			out = append(out, due)
		}
	}
	return out
}

// payable returns the renewals that this node is to pay: not the fleet's at a depot for which it has no passes, as
// another member may have some.
func (d *depots) payable(l fetcher.HoldList, stock []purse.Stock) []renewal.Due {
	return slices.DeleteFunc(slices.Clone(l.Dues), func(due renewal.Due) bool {
		return slices.ContainsFunc(l.Wants, func(w fetcher.Hold) bool { return w.Fleet && w.Share == due.Share }) &&
			!slices.ContainsFunc(stock, func(s purse.Stock) bool { return s.Depot == due.Depot && s.Units+s.Reserved+s.Ordered > 0 })
	})
}

// shortWarnings says, days before a lease lapses, for what passes are missing.
func (d *depots) shortWarnings(ctx context.Context, l fetcher.HoldList) (out []string) {
	stock, err := d.purse.Stock(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, due := range lacking(d.payable(l, stock), stock) {
		out = append(out, fmt.Sprintf("%v for %s at the depot %s; it lapses on %s", &purse.MissingError{Missing: due.Units},
			d.heldName(l, due.Key), due.Depot.Short(), due.Expires.Local().Format("2006-01-02 15:04")))
	}
	return out
}
