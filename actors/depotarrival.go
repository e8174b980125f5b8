package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
)

// arrival is a share that a depot fetches, either whole or just its missing pieces.
type arrival struct {
	mend     bool // it was here and is CORRUPT
	running  bool
	verified int64 // bytes of this run
	delay    depot.Delay
	fails    int
	since    time.Time    // when the run began
	remove   bool         // it is to be removed as soon as the run has ended
	yields   bool         // the run was told to end, as others wait
	imports  []*actor.PID // the run was told to end, as its share is to be imported by those who wait for that
}

const (
	arrivalRest    = time.Minute
	maxArrivalRest = time.Hour
	// arrivalTurn is how long a share is fetched while others wait for their turn. It
	// resumes later where it was.
	arrivalTurn = 10 * time.Minute
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
	// leasesEnded says that the size of a share is not what was declared.
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

// want starts to fetch a share, now.
func (d *depotActor) want(id share.ID, mend bool) {
	a := d.arrivals[id]
	if a == nil {
		a = &arrival{}
		d.arrivals[id] = a
		d.waiting.set(id, d.s.Now())
	}
	d.here -= a.counts()
	a.mend, a.remove = mend, false
	d.here += a.counts()
	if a.running {
		return
	}
	a.fails = 0
	if x := d.waiting.of[id]; x.at.After(d.s.Now()) {
		d.waiting.set(id, d.s.Now())
	}
}

// counts is the number of bytes on the disk of a share that is coming.
func (a *arrival) counts() int64 {
	if a.mend {
		return 0
	}
	return a.verified
}

// begin has a share fetched.
func (d *depotActor) begin(id share.ID, a *arrival) {
	a.running, a.yields, a.since = true, false, d.s.Now()
	d.waiting.drop(id)
	d.running = append(d.running, id)
}

// rest schedules the next run of a share whose run has ended.
func (d *depotActor) rest(id share.ID, a *arrival, until time.Time) {
	d.unrun(id)
	a.running = false
	d.waiting.set(id, until)
}

// forget ends the arrival of a share that is not to be fetched any more.
func (d *depotActor) forget(id share.ID, a *arrival) {
	d.unrun(id)
	d.waiting.drop(id)
	d.here -= a.counts()
	delete(d.arrivals, id)
}

func (d *depotActor) unrun(id share.ID) {
	d.running = slices.DeleteFunc(d.running, func(r share.ID) bool { return r == id })
}

// startArrivals starts the arrivals that are due, as many as may run, and returns when the next is.
func (d *depotActor) startArrivals(ctx actor.Context, now time.Time) (next time.Time) {
	next = now.Add(everyHour)
	for {
		id, at, ok := d.waiting.first()
		switch {
		case !ok:
			return next
		case at.After(now):
			return earlier(next, at)
		case len(d.running) >= d.cfg.Fetches:
			over, again := d.turn(now)
			if !over.IsZero() { // its end checks again
				d.stop(ctx, over)
			}
			return earlier(next, again)
		}
		d.begin(id, d.arrivals[id])
		keep, l, t := d.cfg.Keep, d.cfg.Ledger, d.time
		d.s.Task(ctx, func(ctx context.Context) any {
			return toArrive{id, keep.Manifest(id), withHolders(ctx, l, t.now(), id, keep.Sources(id))}
		})
	}
}

// turn returns the run that must end because others wait, and when to check again. Without
// turns a few slow sources would hold up all other shares.
func (d *depotActor) turn(now time.Time) (over share.ID, next time.Time) {
	next = now.Add(everyHour)
	for _, id := range d.running {
		a := d.arrivals[id]
		switch end := a.since.Add(arrivalTurn); {
		case a.yields:
		case end.After(now):
			next = earlier(next, end)
		default:
			a.yields = true
			return id, next // one at a time
		}
	}
	return over, next
}

// stop ends the run of a share, if it is not over already.
func (d *depotActor) stop(ctx actor.Context, id share.ID) {
	ctx.Send(d.node, ToTransfer{Handle{Share: id}, StopTransfer{}})
}

// giveWay ends the run of a share that is to be imported, and reports whether there is one: its end answers, or,
// if that was before, its outcome.
func (d *depotActor) giveWay(ctx actor.Context, id share.ID) bool {
	a := d.arrivals[id]
	if a == nil || !a.running {
		return false
	}
	a.imports = append(a.imports, ctx.Sender())
	d.stop(ctx, id)
	return true
}

// gaveWay answers those who wait for the end of a run.
func (d *depotActor) gaveWay(ctx actor.Context, a *arrival) {
	for _, who := range a.imports {
		ctx.Send(who, d.status())
	}
	a.imports = nil
}

// withHolders adds the peers of the accounts that hold a share to its sources, because they had it.
func withHolders(ctx context.Context, l Ledger, now time.Time, id share.ID, from []peers.Addr) []peers.Addr {
	leases, err := l.Leases(ctx, now, id)
	for _, x := range leases[:min(len(leases), maxTold)] {
		keys, err2 := l.Keys(ctx, x.Account)
		if err = errors.Join(err, err2); err != nil {
			break // go on with those that are known
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
	if a := d.arrivals[m.id]; a == nil || a.remove || a.imports != nil {
		d.heard(ctx, arrivalEvent{m.id, Ended{Err: ErrStopped}})
		return
	}
	if len(m.sources) == 0 && m.manifest == nil {
		d.heard(ctx, arrivalEvent{m.id, Ended{Err: words.Error(share.ErrNetwork, "no node is known that has the share")}})
		return
	}
	id := m.id
	ctx.Request(d.node, FetchShare{
		Handle: Handle{Share: id}, Sources: m.sources, Manifest: m.manifest,
		Disk:   &depotDisk{s: d.s, self: self, cfg: d.cfg, time: d.time, id: id},
		Config: TransferConfig{Keep: true, Verifiers: d.cfg.Verifiers},
		Notify: func(e Event) { d.s.Send(self, arrivalEvent{id, e}) },
	})
}

// delays maps what a transfer waits for to what the accounts of the share are told.
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
			d.here -= a.counts()
			a.verified, a.delay = e.Verified, 0
			d.here += a.counts()
		} else if d := delays[e.Wait]; d != 0 {
			a.delay = d
		}
	case Ended:
		d.ended(ctx, m.id, a, e.Err)
	}
}

// ended handles the end of a transfer, and has it entered in the ledger.
func (d *depotActor) ended(ctx actor.Context, id share.ID, a *arrival, err error) {
	l, keep, t, mend, imported := d.cfg.Ledger, d.cfg.Keep, d.time, a.mend, a.imports != nil
	d.gaveWay(ctx, a)
	switch {
	case a.remove:
		d.forget(id, a)
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
	case errors.Is(err, ErrStopped) && imported:
		d.rest(id, a, d.s.Now().Add(arrivalRest))
	case errors.Is(err, ErrStopped): // its turn is over, or it is wanted again
		d.rest(id, a, d.s.Now())
	case errors.Is(err, errNobodyHolds):
		d.forget(id, a)
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

// forGood reports whether an error of a fetch is permanent: this share can never be kept
// here.
func forGood(err error) bool { return errors.Is(err, share.ErrPath) || errors.Is(err, share.ErrLimit) }

// later tries again after a rest that grows.
func (d *depotActor) later(ctx actor.Context, id share.ID, a *arrival, err error) {
	rest := min(arrivalRest<<min(a.fails, 10), maxArrivalRest)
	a.fails, a.delay = a.fails+1, depot.DelayOf(err)
	d.rest(id, a, d.s.Now().Add(rest))
	d.s.Log().Info("a share will be fetched again later", "share", id.String(), "after", rest, "reason", err)
	d.remove(ctx, id) // unless somebody holds it
}

// arrived handles the ledger's note that a share is here, or never will be.
func (d *depotActor) arrived(ctx actor.Context, m arrived) {
	a := d.arrivals[m.id]
	if a == nil {
		return
	}
	d.gaveWay(ctx, a)
	var edge *depot.EdgeError
	if m.err != nil && !errors.As(m.err, &edge) {
		d.failed(ctx, "the outcome of a share's fetch was not stored", m.err)
		d.later(ctx, m.id, a, m.err)
		return
	}
	d.forget(m.id, a)
	switch {
	case m.err != nil: // the share changed its state meanwhile
	case m.fail:
		d.tell(ctx, m.id, m.state, m.ended)
		d.remove(ctx, m.id)
	default:
		d.changed(ctx, m.id, m.state, "")
		d.remove(ctx, m.id) // unless somebody holds it
	}
}

var errNotHere = errors.New("it was fetched, but is not whole on the disk")

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

// Open books the space of the share, which is known now, before anything is written.
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
	like, err := x.like(ctx, leases, m)
	if err != nil {
		return nil, err
	}
	return x.cfg.Keep.Open(ctx, m, wanted, like)
}

const (
	maxLike  = 4    // shares of which pieces are taken
	maxLiked = 1000 // leases of an account among which they are looked for
)

// like returns shares of the same name that the same accounts hold: earlier versions, perhaps. Of others' shares nothing
// is taken, as the time that takes would tell that they are here.
func (x *depotDisk) like(ctx context.Context, leases []depot.Lease, m *share.Manifest) (out []share.ID, err error) {
	for _, l := range leases[:min(len(leases), maxLike)] {
		if l.Account == depot.StarterAccount {
			continue
		}
		all, err := x.cfg.Ledger.Holdings(ctx, x.time.now(), l.Account, share.ID{}, maxLiked)
		if err != nil {
			return nil, err
		}
		for _, h := range all {
			if h.Share == x.id || len(out) >= maxLike || slices.Contains(out, h.Share) {
				continue
			}
			if old := x.cfg.Keep.Manifest(h.Share); old != nil && old.Name == m.Name {
				out = append(out, h.Share)
			}
		}
	}
	return out, nil
}
