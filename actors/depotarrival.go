package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
)

// arrival is a share that a depot fetches, whole or what is missing of it.
type arrival struct {
	mend     bool // it was here and is CORRUPT
	running  bool
	verified int64 // bytes of this run
	delay    depot.Delay
	fails    int
	next     time.Time // when it is tried again
	remove   bool      // it is to be removed as soon as the run has ended
}

const (
	arrivalRest    = time.Minute
	maxArrivalRest = time.Hour
)

// What an arrival is told. Its run is the Handle's: it has one at a time.
type (
	toArrive struct {
		id       share.ID
		manifest *share.Manifest
		sources  []peers.Addr
	}
	arrivalEvent struct {
		id share.ID
		e  Event
	}
	arrived struct {
		id    share.ID
		state depot.State
		fail  bool // for good
		ended []depot.Account
		err   error
	}
	// leasesEnded says that a share takes something else than was declared.
	leasesEnded struct {
		id    share.ID
		ended []depot.Account
	}
)

func (d *depotActor) arriving(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case toArrive:
		d.fetch(ctx, m)
	case arrivalEvent:
		d.heard(ctx, m)
	case arrived:
		d.arrived(ctx, m)
	case leasesEnded:
		d.tell(ctx, m.id, depot.Coming, m.ended)
	case TransferStarted:
		if m.Err != nil { // the node fetches it for somebody else
			d.heard(ctx, arrivalEvent{m.Share, Ended{Err: m.Err}})
		}
	case unwanted:
		d.giveUp(ctx, m.id)
	case collected:
		d.collected(ctx, m)
	}
}

// want has a share fetched, now.
func (d *depotActor) want(id share.ID, mend bool) {
	a := d.arrivals[id]
	if a == nil {
		a = &arrival{next: d.s.Now()}
		d.arrivals[id] = a
	}
	a.mend, a.remove = mend, false
	if !a.running {
		a.next, a.fails = earlier(a.next, d.s.Now()), 0
	}
}

// onDisk is how many bytes of shares that are coming are on the disk already.
func (d *depotActor) onDisk() (n int64) {
	for _, a := range d.arrivals {
		if !a.mend {
			n += a.verified
		}
	}
	return n
}

// startArrivals starts those that are due, as many as may run, and says when the next is.
func (d *depotActor) startArrivals(ctx actor.Context, now time.Time) (next time.Time) {
	running := 0
	for _, a := range d.arrivals {
		if a.running {
			running++
		}
	}
	next = now.Add(everyHour)
	for _, id := range d.waiting() {
		a := d.arrivals[id]
		if a.next.After(now) {
			next = earlier(next, a.next)
			break
		}
		if running >= d.cfg.Fetches {
			break // the end of another looks again
		}
		running++
		a.running = true
		keep, l, t := d.cfg.Keep, d.cfg.Ledger, d.time
		d.s.Task(ctx, func(ctx context.Context) any {
			return toArrive{id, keep.Manifest(id), withHolders(ctx, l, t.now(), id, keep.Sources(id))}
		})
	}
	return next
}

// waiting are the arrivals that do not run, the one that has been due longest first: what
// cannot be had keeps nothing else from coming.
func (d *depotActor) waiting() (out []share.ID) {
	for _, id := range sortedShares(d.arrivals) {
		if !d.arrivals[id].running {
			out = append(out, id)
		}
	}
	slices.SortStableFunc(out, func(a, b share.ID) int { return d.arrivals[a].next.Compare(d.arrivals[b].next) })
	return out
}

// withHolders adds the peers of the accounts that hold a share to its sources: they had it.
func withHolders(ctx context.Context, l Ledger, now time.Time, id share.ID, from []peers.Addr) []peers.Addr {
	leases, err := l.Leases(ctx, now, id)
	for _, x := range leases[:min(len(leases), maxTold)] {
		keys, err2 := l.Keys(ctx, x.Account)
		if err = errors.Join(err, err2); err != nil {
			break // with those that are known
		}
		for _, k := range keys {
			if !slices.ContainsFunc(from, func(a peers.Addr) bool { return a.ID == k }) {
				from = append(from, peers.Addr{ID: k})
			}
		}
	}
	return from
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// fetch begins a transfer into the depot's folder.
func (d *depotActor) fetch(ctx actor.Context, m toArrive) {
	self := ctx.Self()
	if a := d.arrivals[m.id]; a == nil || a.remove {
		d.heard(ctx, arrivalEvent{m.id, Ended{Err: ErrStopped}})
		return
	}
	if len(m.sources) == 0 && m.manifest == nil {
		d.heard(ctx, arrivalEvent{m.id, Ended{Err: fmt.Errorf("%w: nobody is known who has it", share.ErrNetwork)}})
		return
	}
	id := m.id
	ctx.Request(d.node, FetchShare{
		Handle: Handle{Share: id}, Sources: m.sources, Manifest: m.manifest,
		Disk:   &depotDisk{s: d.s, self: self, cfg: d.cfg, time: d.time, id: id},
		Config: TransferConfig{Keep: true},
		Notify: func(e Event) { d.s.Send(self, arrivalEvent{id, e}) },
	})
}

// delays are what a transfer waits for, as the accounts of a share are told of it.
var delays = map[transfer.Wait]depot.Delay{transfer.ForSource: depot.Unreachable, transfer.ForConnection: depot.Unreachable, transfer.ForHolder: depot.Nowhere,
	transfer.ForRoom: depot.DiskFull}

// heard takes an event of a transfer.
func (d *depotActor) heard(ctx actor.Context, m arrivalEvent) {
	a := d.arrivals[m.id]
	if a == nil {
		return
	}
	switch e := m.e.(type) {
	case Progress:
		if a.verified != e.Verified {
			a.verified, a.delay = e.Verified, 0
		} else if d := delays[e.Wait]; d != 0 {
			a.delay = d
		}
	case Ended:
		d.ended(ctx, m.id, a, e.Err)
	}
}

// ended is told when a transfer has ended, and has the ledger know it.
func (d *depotActor) ended(ctx actor.Context, id share.ID, a *arrival, err error) {
	l, keep, t, mend := d.cfg.Ledger, d.cfg.Keep, d.time, a.mend
	switch {
	case a.remove:
		delete(d.arrivals, id)
		d.remove(ctx, id)
	case err == nil:
		d.s.Task(ctx, func(ctx context.Context) any {
			x := arrived{id: id, state: depot.Stable}
			seen, err := keep.Look(id)
			switch {
			case err != nil:
				x.err = err
			case seen.Manifest == nil || !seen.Whole || seen.Bad.Count() > 0:
				x.err = errNotHere
			case mend:
				x.err = l.Mended(ctx, t.now(), id)
			default:
				x.err = l.Complete(ctx, t.now(), id)
			}
			return x
		})
	case errors.Is(err, ErrStopped): // and wanted again meanwhile
		a.running, a.next = false, d.s.Now()
	case errors.Is(err, errNobodyHolds):
		delete(d.arrivals, id)
		d.remove(ctx, id)
	case !mend && forGood(err):
		d.s.Log().Warn("a share cannot be kept", "share", id.String(), "error", err)
		d.s.Task(ctx, func(ctx context.Context) any {
			ended, err := l.Fail(ctx, t.now(), id)
			return arrived{id: id, state: depot.Coming, fail: true, ended: ended, err: err}
		})
	default:
		d.later(ctx, id, a, err)
	}
}

// forGood says whether an error of a fetch will be the same the next time: the share
// cannot be here.
func forGood(err error) bool { return errors.Is(err, share.ErrPath) || errors.Is(err, share.ErrLimit) }

// later tries again after a rest that grows.
func (d *depotActor) later(ctx actor.Context, id share.ID, a *arrival, err error) {
	rest := min(arrivalRest<<min(a.fails, 10), maxArrivalRest)
	a.running, a.fails, a.next = false, a.fails+1, d.s.Now().Add(rest)
	a.delay = depot.DelayOf(err)
	d.s.Log().Info("a share is fetched again later", "share", id.String(), "after", rest, "reason", err)
	d.remove(ctx, id) // unless somebody holds it
}

// arrived is told when the ledger knows that a share is here, or will never be.
func (d *depotActor) arrived(ctx actor.Context, m arrived) {
	a := d.arrivals[m.id]
	if a == nil {
		return
	}
	var edge *depot.EdgeError
	if m.err != nil && !errors.As(m.err, &edge) {
		d.failed(ctx, "a share that is here was not noted", m.err)
		d.later(ctx, m.id, a, m.err)
		return
	}
	delete(d.arrivals, m.id)
	switch {
	case m.err != nil: // the share went another way meanwhile
	case m.fail:
		d.tell(ctx, m.id, m.state, m.ended)
		d.remove(ctx, m.id)
	default:
		d.changed(ctx, m.id, m.state, "")
		d.remove(ctx, m.id) // unless somebody holds it
	}
}

var errNotHere = errors.New("it was fetched, and is not on the disk")

// errNobodyHolds says that the last lease of a share has ended.
var errNobodyHolds = errors.New("nobody holds the share")

// depotDisk opens the place of a share in the depot's folder.
type depotDisk struct {
	s    interface{ Send(*actor.PID, any) bool }
	self *actor.PID
	cfg  DepotConfig
	time *depotTimes
	id   share.ID
}

// Open books what the share takes, now that it is known, before anything is written.
func (x *depotDisk) Open(ctx context.Context, m *share.Manifest, wanted []bool) (Target, error) {
	l, now := x.cfg.Ledger, x.time.now()
	if err := x.cfg.Keep.Ready(ctx, l); err != nil {
		return nil, err
	}
	kept, err := l.Share(ctx, x.id)
	if err != nil {
		return nil, err
	}
	if kept.State == depot.Coming {
		ended, err := l.Measure(ctx, now, x.id, depot.Bytes(m))
		if err != nil {
			return nil, err
		}
		if len(ended) > 0 {
			x.s.Send(x.self, leasesEnded{x.id, ended})
		}
	}
	leases, err := l.Leases(ctx, now, x.id)
	if err != nil {
		return nil, err
	}
	if len(leases) == 0 {
		return nil, errNobodyHolds
	}
	return x.cfg.Keep.Open(ctx, m, wanted)
}

// ---- removing ----

// remove removes a share if it may go: at once what was released or given up, and what
// expired when its grace is over.
func (d *depotActor) remove(ctx actor.Context, id share.ID) {
	if a := d.arrivals[id]; a != nil && a.running {
		l, t := d.cfg.Ledger, d.time
		d.s.Task(ctx, func(ctx context.Context) any { // is it still wanted?
			leases, err := l.Leases(ctx, t.now(), id)
			if err == nil && len(leases) == 0 {
				return unwanted{id}
			}
			return depotDone{what: "who holds a share is not known", err: err}
		})
		return
	}
	r := d.remover()
	d.s.Task(ctx, func(ctx context.Context) any {
		notes, err := r.remove(ctx, id)
		return depotDone{what: "a share was not removed; it is tried again", err: err, notes: notes}
	})
}

// unwanted says that nobody holds a share that is being fetched.
type unwanted struct{ id share.ID }

// giveUp ends the fetch of a share that nobody holds any more.
func (d *depotActor) giveUp(ctx actor.Context, id share.ID) {
	if a := d.arrivals[id]; a != nil && a.running && !a.remove {
		a.remove = true
		ctx.Request(d.node, ToTransfer{Handle{Share: id}, StopTransfer{}})
	}
}

// remover removes shares, one at a time.
type remover struct {
	l        Ledger
	keep     Keep
	t        *depotTimes
	door     *door
	withdraw func(share.ID)
}

func (d *depotActor) remover() *remover {
	s, node := d.s, d.node
	return &remover{d.cfg.Ledger, d.cfg.Keep, d.time, d.door, func(id share.ID) { s.Send(node, WithdrawShare{Share: id}) }}
}

// remove takes a share through the one door, and removes it. What may not go is no error.
func (r *remover) remove(ctx context.Context, id share.ID) (notes []note, err error) {
	r.door.Lock()
	defer r.door.Unlock()
	l, keep, t := r.l, r.keep, r.t
	if err := keep.Ready(ctx, l); err != nil {
		return nil, err
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
		return notes, nil // it stays as it is until that is over
	case err != nil:
		return notes, err
	case !may:
		return append(notes, note{id: id, state: depot.None, why: "its leases on the disk are newer than the database: it is looked at again"}), nil
	}
	if err := keep.Remove(id); err != nil {
		return notes, fmt.Errorf("remove %v: %w", id, err)
	}
	if err := l.Removed(ctx, t.now(), id); err != nil {
		return notes, err
	}
	return append(notes, note{id: id, state: depot.None, why: "removed"}), nil
}

// held says that a share is to come, or to be mended, since somebody holds it.
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
	last share.ID // go on behind it; zero: it was the last page
}

// collect sweeps what has expired, and removes what may go, a page at a time.
func (d *depotActor) collect(ctx actor.Context) { d.collectAfter(ctx, share.ID{}) }

func (d *depotActor) collectAfter(ctx actor.Context, after share.ID) {
	s, self, r := d.s, ctx.Self(), d.remover()
	busy := map[share.ID]bool{}
	for id, a := range d.arrivals {
		busy[id] = a.running
	}
	d.s.Task(ctx, func(ctx context.Context) any {
		c := collected{depotDone: depotDone{what: "what may go was not removed; it is tried again"}}
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

// page is some shares that may go; with the first, what has expired is swept.
func (r *remover) page(ctx context.Context, after share.ID) (may []depot.Kept, last share.ID, err error) {
	for done := !after.IsZero(); !done; {
		if _, done, err = r.l.Sweep(ctx, r.t.now(), 10_000); err != nil {
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
	d.done(ctx, m.depotDone)
	if !m.last.IsZero() { // what is wrong with one share is not with the next
		d.collectAfter(ctx, m.last)
	}
}
