package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// remove removes a share if it may go: at once if it was released or given up, after its
// grace if it expired.
func (d *depotActor) remove(ctx actor.Context, id share.ID) {
	if a := d.arrivals[id]; a != nil && a.running {
		l, t := d.cfg.Ledger, d.time
		d.s.Task(ctx, func(ctx context.Context) any { // is it still wanted?
			leases, err := l.Leases(ctx, t.now(), id)
			if err == nil && len(leases) == 0 {
				return unwanted{id}
			}
			return depotDone{what: "the leases of a share cannot be read", err: err}
		})
		return
	}
	r := d.remover()
	d.s.Task(ctx, func(ctx context.Context) any {
		notes, err := r.remove(ctx, id)
		return depotDone{what: "a share was not removed; this node will try again", err: err, notes: notes}
	})
}

// unwanted says that nobody holds a share that is being fetched.
type unwanted struct{ id share.ID }

// giveUp ends the fetch of a share that nobody holds any more.
func (d *depotActor) giveUp(ctx actor.Context, id share.ID) {
	if a := d.arrivals[id]; a != nil && a.running && !a.remove {
		a.remove = true
		d.stop(ctx, id)
	}
}

// remover removes shares, one at a time.
type remover struct {
	surveyor
	door     *sync.Mutex
	withdraw func(share.ID)
}

func (d *depotActor) remover() *remover {
	s, node := d.s, d.node
	return &remover{d.surveyor(), d.door, func(id share.ID) { s.Send(node, WithdrawShare{Share: id}) }}
}

// remove removes a share while it holds the door. It is no error if the share may not go.
func (r *remover) remove(ctx context.Context, id share.ID) (notes []note, err error) {
	r.door.Lock()
	defer r.door.Unlock()
	l, keep, t := r.l, r.keep, r.t
	if err := keep.Ready(ctx, l); err != nil {
		return nil, err
	}
	if t.now(); t.state().Waits { // to a time that stands still, the leases of what is GOING may be live
		if err := t.store(ctx, l); err != nil {
			return nil, err
		}
	}
	k, err := l.Share(ctx, id)
	if err != nil || k.State == depot.None {
		return nil, err
	}
	if k.State != depot.Going {
		switch err := l.Collect(ctx, t.now(), id); {
		case errors.Is(err, depot.ErrKept), errors.Is(err, depot.ErrOff), errors.Is(err, depot.ErrFrozen), errors.Is(err, depot.ErrIncomplete):
			return r.held(ctx, k)
		case err != nil:
			return nil, err
		}
		notes = append(notes, note{id: id, state: depot.Going, why: "nobody holds it any more"})
	}
	if keep.Withdraw(id) {
		r.withdraw(id)
	}
	may, err := l.Removable(ctx, t.now(), id)
	switch {
	case errors.Is(err, depot.ErrOff), errors.Is(err, depot.ErrFrozen), errors.Is(err, depot.ErrIncomplete):
		return notes, nil // it stays as it is until then
	case err != nil:
		return notes, err
	case !may:
		_, x := r.visit(ctx, id)
		return append(notes, note{found: &x, why: "its leases on the disk are newer than the database"}), nil
	}
	if err := keep.Remove(id); err != nil {
		return notes, fmt.Errorf("remove %v: %w", id, err)
	}
	if err := l.Removed(ctx, t.now(), id); err != nil {
		return notes, err
	}
	return append(notes, note{id: id, state: depot.None, why: "removed", removed: true}), nil
}

// held notes that a share is to be fetched or mended, because somebody holds it.
func (r *remover) held(ctx context.Context, k depot.Kept) (notes []note, err error) {
	leases, err := r.l.Leases(ctx, r.t.now(), k.Share)
	if len(leases) > 0 && (k.State == depot.Coming || k.State == depot.Corrupt) {
		notes = append(notes, note{id: k.Share, state: k.State, held: true})
	}
	return notes, err
}

// collected is the end of a pass over what may go.
type collected struct {
	depotDone
	last share.ID // go on after it; zero: it was the last page
}

// collect sweeps what has expired, and removes what may go, a page at a time.
func (d *depotActor) collect(ctx actor.Context) { d.collectAfter(ctx, share.ID{}) }

func (d *depotActor) collectAfter(ctx actor.Context, after share.ID) {
	s, self, r := d.s, ctx.Self(), d.remover()
	busy := map[share.ID]bool{}
	for id, a := range d.arrivals {
		busy[id] = a.running
	}
	d.passes++
	d.s.Task(ctx, func(ctx context.Context) any {
		c := collected{depotDone: depotDone{what: "shares that may be removed were not removed; this node will try again"}}
		may, last, err := r.page(ctx, after)
		errs := []error{err}
		for _, k := range may {
			if busy[k.Share] {
				s.Send(self, unwanted{k.Share})
				continue
			}
			notes, err := r.remove(ctx, k.Share)
			c.notes, errs = append(c.notes, notes...), append(errs, err)
		}
		c.last, c.err = last, errors.Join(errs...)
		return c
	})
}

// page returns some shares that may go; the first page also sweeps what has expired.
func (r *remover) page(ctx context.Context, after share.ID) (may []depot.Kept, last share.ID, err error) {
	for done := !after.IsZero(); !done; {
		if _, done, err = r.l.Sweep(ctx, r.t.now(), sweepMax); err != nil {
			return nil, last, err
		}
	}
	m, err := r.l.Meta(ctx)
	if err != nil || !m.GC || m.Frozen || m.CompleteSince.IsZero() {
		return nil, last, err
	}
	if may, last, err = r.l.Candidates(ctx, r.t.now(), after, collectMax); err != nil || !after.IsZero() {
		return may, last, err
	}
	going, err := r.l.In(ctx, depot.Going, share.ID{}, collectMax)
	return append(may, going...), last, err
}

func (d *depotActor) collected(ctx actor.Context, m collected) {
	d.passes--
	d.done(ctx, m.depotDone)
	if !m.last.IsZero() { // a fault of one share does not concern the next
		d.collectAfter(ctx, m.last)
	}
}
