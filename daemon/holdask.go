package daemon

import (
	"cmp"
	"context"
	"slices"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// holdAsked is a request to have depots keep something, once it is written.
type holdAsked struct {
	api.Hold
	m       *share.Manifest
	depots  []peers.ID
	was     fetcher.HoldList // before it
	before  *fetcher.Hold    // what was wanted of the same; nil: nothing
	keep    int              // earlier versions, from when it is granted
	written fetcher.HoldList
}

// Hold has depots elsewhere keep what an entry serves, from now on. While it waits for them, others may ask for other things.
func (d *depots) Hold(ctx context.Context, h api.Hold) ([]api.Held, error) {
	k, err := d.keeper(h.Entry)
	if err != nil {
		return nil, err
	}
	leave, err := d.holds.asking.Take(ctx, holdOf{entry: int64(k.id)}) // first, as the version must not be replaced before it is held
	if err != nil {
		return nil, err
	}
	defer leave()
	m, err := k.whole(ctx)
	if err != nil {
		return nil, err
	}
	if h.Fleet {
		leave, err := d.holds.asking.Take(ctx, holdOf{share: m.ID()})
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx = d.life // whoever asks may go: the fleet is told all the same
	}
	a, err := d.askHold(ctx, h, m, k.view().Name)
	if err != nil {
		return nil, err
	}
	l, err := d.node.AwaitVisits(ctx, a.written)
	if err != nil {
		return nil, api.Refuse(api.ErrRequest, "%v", err)
	}
	return d.granted(ctx, a, l)
}

// askHold writes what is asked for.
func (d *depots) askHold(ctx context.Context, h api.Hold, m *share.Manifest, name string) (a holdAsked, err error) {
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	a.Hold, a.m = h, m
	if a.depots, err = d.depotIDs(h.Depots); err != nil {
		return a, err
	}
	long, err := longest(h.For)
	if err != nil {
		return a, err
	}
	ask, err := d.asksFor(ctx, h, m.ID())
	if err != nil {
		return a, err
	}
	if a.was, err = d.node.DepotsAt(ctx, h.Depots...); err != nil {
		return a, err
	}
	before, want, addrs := wanted(a.was, ask)
	if n := distinct(want.Depots, a.depots); h.Copies > n {
		return a, api.Refuse(api.ErrRequest, "%d copies need %d depots; named so far: %d. Name %d more", h.Copies, h.Copies, n, h.Copies-n)
	}
	if err := d.holds.setBudget(ctx, a.depots, h.Budget); err != nil {
		return a, cmp.Or(err, d.holds.putBackBudget(context.WithoutCancel(ctx), a))
	}
	want.Share, want.Bytes, want.Length, want.Copies, want.Name = m.ID(), fetcher.HoldBytes(m), long, h.Copies, name
	a.before, a.keep = before, asBefore(h.Keep, want.Keep)
	want.Keep = max(want.Keep, a.keep) // what is released cannot be had back when the request is undone
	a.written, err = d.node.KeepHold(ctx, want, slices.Concat(addrs, h.Depots, depotAddrs(a.was, a.depots)), true)
	switch {
	case a.written.Unwritten != nil:
		err = d.unhold(ctx, a.written, a, err)
	case err != nil:
		err = api.Refuse(api.ErrRequest, "%v", err)
	}
	return a, err
}

// granted is what became of a request whose depots were visited; it is undone if none has granted it, or the fleet is not told.
func (d *depots) granted(ctx context.Context, a holdAsked, l fetcher.HoldList) ([]api.Held, error) {
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	now, err := d.node.Holds(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(now.Wants, func(w fetcher.Hold) bool { return w.ID == l.Want })
	if i < 0 {
		return nil, api.Refuse(api.ErrRequest, "what the depots were to keep was released while this command was waiting for them")
	}
	want := now.Wants[i]
	out, err := d.heldAt(a.was, l, a.m, a.depots, a.Depots)
	var listed fetcher.ListedShare
	if len(out) > 0 && a.Fleet {
		still := slices.DeleteFunc(slices.Clone(a.depots), func(id peers.ID) bool { return !slices.Contains(want.Depots, id) })
		listed, err = d.member.holds.also(ctx, now, want, still)
		listed = d.member.holds.elsewhere(listed)
	}
	if len(out) == 0 || a.Fleet && err != nil {
		if a.before != nil { // without what was released meanwhile
			a.before.Depots = slices.DeleteFunc(slices.Clone(a.before.Depots), func(id peers.ID) bool { return !slices.Contains(want.Depots, id) })
		}
		return nil, d.unhold(ctx, l, a, err)
	}
	d.log.Info("depots keep a share from now on", "entry", a.Entry, "hold", l.Want, "share", a.m.ID().String(), "depots", len(a.depots))
	return out, d.amend(ctx, now, want, a.keep, listed)
}

// amend changes what was just wanted to the versions that are to be kept, and for a fleet to what its list says by now.
func (d *depots) amend(ctx context.Context, l fetcher.HoldList, want fetcher.Hold, keep int, listed fetcher.ListedShare) (err error) {
	same := want.Keep == keep
	want.Keep = keep
	switch {
	case want.Fleet && !d.member.holds.keeps(l, listed):
		err = d.member.holds.become(ctx, l, want, listed)
	case !same:
		_, err = d.node.KeepHold(ctx, want, nil, true)
	}
	return err
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

// unhold undoes the request just made, because of why, and returns what its owner is to hear. What depots were to keep for a fleet is not
// released, but lapses: a lease there may be from before, another member's.
func (d *depots) unhold(ctx context.Context, l fetcher.HoldList, a holdAsked, why error) (err error) {
	ctx = context.WithoutCancel(ctx)
	nothing := a.before == nil || len(a.before.Depots) == 0
	if a.Fleet {
		_, err = d.node.LapseHold(ctx, l.Want)
	} else if nothing {
		_, err = d.node.DropHold(ctx, l.Want, true)
	}
	if !nothing {
		if a.Fleet {
			a.before.ID = 0 // as become does
		}
		_, err = d.node.KeepHold(ctx, *a.before, depotAddrs(l, a.before.Depots), true)
	}
	if err == nil { // nothing is paid for the request any more
		err = d.holds.putBackBudget(ctx, a)
	}
	if err == nil {
		return why
	}
	d.log.Warn("a failed request to depots could not be undone", "error", err)
	return api.Refuse(why, "%s. The request was taken back, but that could not be stored: if the node ends before it is stored, the request is in force again after the restart; then find it with fetcher holds, and release it", api.ProblemOf(why).Detail)
}
