package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/turns"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// holds is what depots elsewhere are to keep for this node, which renews the leases.
type holds struct {
	d     *Daemon
	ready chan struct{} // closed when the catalog is open

	asking   turns.Turns[holdOf] // of whoever has depots keep something; taken before changing
	changing sync.Mutex          // held while the wants are read and changed, not while a depot is waited for
	budgets  map[peers.ID]*int64 // as requests have set them last; guarded by changing

	mu           sync.Mutex // guards the fields below
	good, failed uint64     // visits
	behind       []*keeper  // that serve a version that depots are still to follow
	why          map[peers.ID]string
}

// holdOf names what only one at a time has depots keep: an entry, or a share for the fleet.
type holdOf struct {
	entry int64
	share share.ID
}

func newHolds(d *Daemon) *holds {
	return &holds{d: d, ready: make(chan struct{}), why: map[peers.ID]string{}, budgets: map[peers.ID]*int64{}}
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
		case m.moved:
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
		h.d.log.Warn("a depot does not keep all that it should", "depot", string(depot), "reason", why)
	case why == "" && was != "":
		h.d.log.Info("a depot again keeps all that it should", "depot", string(depot))
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
	for _, h := range asTold(l) {
		v := api.StandingHold{ID: h.Want, Share: h.Share.String(), Depot: string(h.Depot), State: stateOf(h), Bytes: h.Bytes, Expires: h.Expires,
			Since: h.Since, Addr: depotAddrs(l, []peers.ID{h.Depot})[0], Left: int64(h.Left / time.Second), Cost: h.Cost, Next: h.Next, Why: standingWhy(l, h), Ending: !h.Kept, Late: h.Late, Name: h.Name}
		if i := slices.IndexFunc(l.Wants, func(w fetcher.Hold) bool { return w.ID == h.Want }); i >= 0 {
			w := l.Wants[i]
			v.Entry, v.Name, v.Pin, v.Fleet, v.Keep, v.Earlier = w.Entry, d.nameOf(w), w.Pin, w.Fleet, w.Keep, w.Share != h.Share
		}
		out = append(out, v)
	}
	return out, err
}

const lapsed = "lapsed"

// stateOf is the state of a hold, for people: nobody knows what a depot has whose lease has ended, until it says so.
func stateOf(h fetcher.HoldStanding) string {
	if h.Left == 0 && !h.Expires.IsZero() && h.State != renewal.Missing && h.State != renewal.Unknown {
		return lapsed
	}
	return h.State.String()
}

// standingWhy says what went wrong last with a hold, in the depot's own words if they are known.
func standingWhy(l fetcher.HoldList, h fetcher.HoldStanding) string {
	if err := refusalOf(l, h); err != nil {
		return err.Error()
	}
	return h.Why
}

// refusalOf is what a depot refused last of a hold, or of all; nil if that is not what went wrong last.
func refusalOf(l fetcher.HoldList, h fetcher.HoldStanding) error {
	for _, k := range []renewal.Key{h.Key, {Depot: h.Depot}} {
		if r := (*fetcher.HoldRefused)(nil); errors.As(l.Errs[k], &r) && h.Why == r.Error() {
			return lenderError(l, h.Depot, r)
		}
	}
	return nil
}

// lookAgain has a missing entry looked at at once if all of it is back, and waits a moment for it.
func (k *keeper) lookAgain(ctx context.Context) {
	e, cursor := k.entry(), k.d.feed.From("")
	if k.view().State != api.Missing || slices.ContainsFunc(append(slices.Clone(e.Paths), e.Path), func(p string) bool { return p != "" && absent(p) }) {
		return
	}
	k.poke()
	k.looked(ctx, cursor)
}

// whole is the list of files of an entry that depots can fetch from here. The error is for its owner.
func (k *keeper) whole(ctx context.Context) (*share.Manifest, error) {
	k.lookAgain(ctx)
	e, m := k.entry(), k.list()
	switch {
	case e.Paused:
		return nil, api.Refuse(api.ErrRequest, "entry %d is paused, so no depot could fetch it from here: resume it first", e.ID)
	case len(e.Only)+len(e.Skip) > 0:
		return nil, api.Refuse(api.ErrRequest, "entry %d is not whole here, as only some of its files are wanted: choose all of them first", e.ID)
	case k.view().State == api.Missing, k.view().State == api.Failed:
		return nil, api.Refuse(api.ErrRequest, "entry %d is not whole here: %s", e.ID, k.view().Reason)
	case k.view().State == api.Ended:
		return nil, api.Refuse(api.ErrRequest, "entry %d is not served any more, so no depot could fetch it from here: have it served for longer first, with fetcher set", e.ID)
	case m == nil || k.view().State != api.Served:
		return nil, api.Refuse(api.ErrRequest, "entry %d is not whole here yet: wait until it is served", e.ID)
	}
	return m, nil
}

// asksFor is what a request is about: an entry, or a share of the fleet.
func (d *depots) asksFor(ctx context.Context, h api.Hold, id share.ID) (fetcher.Hold, error) {
	if !h.Fleet {
		return fetcher.Hold{Entry: h.Entry, Pin: h.Pin, Share: id}, nil
	}
	return fetcher.Hold{Fleet: true, Pin: true, Share: id}, d.listed(ctx, id)
}

// asBefore is what was asked for, or if nothing was, as it was before.
func asBefore(asked *int, before int) int {
	if asked != nil {
		return *asked
	}
	return before
}

// setBudget sets what this node pays each of some depots in a month; nil leaves it as it is.
func (h *holds) setBudget(ctx context.Context, depots []peers.ID, budget *int64) error {
	for _, id := range depots {
		if budget != nil {
			h.budgets[id] = budget
			if err := h.d.node.SetHoldBudget(ctx, id, *budget); err != nil {
				return err
			}
		}
	}
	return nil
}

// putBackBudget undoes the setBudget of a request, but no later one.
func (h *holds) putBackBudget(ctx context.Context, a holdAsked) (err error) {
	for _, id := range a.depots {
		if a.Budget != nil && h.budgets[id] == a.Budget {
			delete(h.budgets, id)
			err = cmp.Or(err, h.d.node.SetHoldBudget(ctx, id, a.was.Budgets[id].Units))
		}
	}
	return err
}

// listed refuses what is not on the list of the node's fleet.
func (d *depots) listed(ctx context.Context, id share.ID) error {
	m, err := d.member.belongs()
	if err != nil {
		return err
	}
	m.mu.Lock()
	known := m.list[id] != nil
	m.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	_, err = m.store.Listed(ctx, id) // it may have been added just now
	if errors.Is(err, fetcher.ErrNotListed) {
		return api.Refuse(api.ErrRequest, "the fleet does not have this share; fetcher fleet add adds it")
	}
	return m.told(err)
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

// unasked says why a depot could not be asked again for what it had granted before; nil if it was asked.
func (d *depots) unasked(was, l fetcher.HoldList, k renewal.Key) error {
	why := l.Errs[renewal.Key{Depot: k.Depot}]
	i := slices.IndexFunc(was.Holds, func(h fetcher.HoldStanding) bool { return h.Key == k && h.Left > 0 })
	if why == nil || i < 0 {
		return nil
	}
	err := lenderError(l, k.Depot, fmt.Errorf("depot %s: %w", k.Depot.Short(), why))
	return api.Refuse(err, "%v. The lease of %s there lasts %s more, and is not renewed meanwhile", err, d.heldName(l, k), words.Duration(was.Holds[i].Left))
}

// heldAt returns what some depots have granted of a share, or say again that they have; if none has, why. was is how it stood before.
func (d *depots) heldAt(was, l fetcher.HoldList, m *share.Manifest, depots []peers.ID, addrs []string) (out []api.Held, err error) {
	var refused []error
	for i, id := range depots {
		if slices.Contains(depots[:i], id) {
			continue
		}
		k := renewal.Key{Depot: id, Share: m.ID()}
		if why := d.unasked(was, l, k); why != nil {
			refused = append(refused, why)
			continue
		}
		j := slices.IndexFunc(l.Holds, func(h fetcher.HoldStanding) bool { return h.Key == k && h.Kept && !h.Expires.IsZero() && h.Left > 0 })
		if j < 0 {
			if why := cmp.Or(l.Errs[k], l.Errs[renewal.Key{Depot: id}]); why != nil {
				refused = append(refused, lenderError(l, id, fmt.Errorf("depot %s: %w", id.Short(), why)))
			}
			continue
		}
		h := l.Holds[j]
		now := h.Expires.Add(-h.Left)
		at := reachedAt(addrs[i], d.node.Dialled(id))
		v := api.Held{Hold: h.Want, Share: h.Share.String(), Depot: string(id), State: h.State.String(), Bytes: h.Bytes, Expires: h.Expires, At: now,
			Addr: at, Ticket: d.node.Ticket(m.ID(), at)}
		if i := slices.IndexFunc(l.Lapses, func(due renewal.Due) bool { return due.Key == k }); i >= 0 {
			v.Lapses, v.Renewal = l.Lapses[i].Expires, l.Lapses[i].Units
		}
		out = append(out, v)
	}
	if len(out) == 0 && len(refused) == 0 {
		refused = append(refused, api.Refuse(share.ErrStalled, "no depot has answered; ask again"))
	}
	return out, together(refused)
}

// together is what several depots said, a line each, as one error: of the kind that comes first in the order of the exit codes.
func together(all []error) error {
	if len(all) < 2 {
		return errors.Join(all...)
	}
	var kinds []error
	for _, err := range all {
		kinds = append(kinds, cmp.Or(errors.Unwrap(err), err))
	}
	return api.Refuse(errors.Join(kinds...), "%v", errors.Join(all...))
}

// follow makes depots keep the version that an entry serves now, once no request to keep that entry waits for depots: a keeper waits for none.
func (d *depots) follow(k *keeper) {
	d.holds.mu.Lock()
	defer d.holds.mu.Unlock()
	if !slices.Contains(d.holds.behind, k) {
		d.holds.behind = append(d.holds.behind, k)
		d.runs.Go(func() { d.catchUp(k) })
	}
}

// catchUp carries out what follow was asked for.
func (d *depots) catchUp(k *keeper) {
	leave, err := d.holds.asking.Take(k.life, holdOf{entry: int64(k.id)})
	d.holds.mu.Lock()
	d.holds.behind = slices.DeleteFunc(d.holds.behind, func(o *keeper) bool { return o == k })
	d.holds.mu.Unlock()
	if err != nil { // it has ended
		return
	}
	defer leave()
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	d.followTo(k.life, int64(k.id), k.list())
}

func (d *depots) followTo(ctx context.Context, entry int64, m *share.Manifest) {
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	l, err := d.node.Holds(ctx)
	for _, w := range l.Wants {
		size := fetcher.HoldBytes(m) // an earlier version of this program may have said another
		if w.Entry != entry || w.Pin && w.Share != m.ID() || w.Share == m.ID() && w.Bytes == size {
			continue
		}
		says := "depots are to keep the new version, as a share of its own"
		if w.Share == m.ID() {
			says = "depots are told the right size of what they keep: an earlier version of this program had told them another"
		}
		w.Share, w.Bytes, w.Name = m.ID(), size, m.Name
		_, err2 := d.node.KeepHold(ctx, w, nil, true)
		err = errors.Join(err, err2)
		d.log.Info(says, "entry", entry, "hold", w.ID, "share", m.ID().String(), "bytes", w.Bytes)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Error("depots could not be told of a new version", "entry", entry, "error", err)
	}
}

const followTime = 30 * time.Second
