package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// transfer supervises the fetch of one share: it finds the manifest, opens the
// place on disk, starts the LeaseManager, the PieceVerifiers and a FetchPool
// per source, makes what is verified durable, and always knows why nothing
// moves. What it decides about sources is in sources.go, about time in pace.go.
type transfer struct {
	s      *system.System
	net    Network
	budget *Budget
	ration *Ration
	node   *actor.PID
	seeder *actor.PID
	finder *actor.PID
	cmd    FetchShare
	cfg    TransferConfig

	state     State
	manifest  *share.Manifest
	target    Target
	leases    *actor.PID
	verifiers []*actor.PID
	sources   map[peers.ID]*source
	order     []*source // in order of arrival
	pools     int       // started so far

	chosen     choice
	have       *share.Set // complete pieces
	begun      map[share.Piece]*begun
	readers    []*reader
	openings   []opening // readers that came before the share was open
	lastReader leasemgr.Reader

	count       Progress  // the counters of it; the rest is filled in by snapshot
	moved       time.Time // when a byte was last verified, or the transfer began
	since       time.Time // of the present reason
	rate        meter
	last        share.Piece // that a block was verified of; none if rate has none
	dirty       dirt
	stopOpening func()    // ends the opening of the place on disk; nil before it
	busy        bool      // something of onDisk is under way
	closing     bool      // ... and it is the last
	restarts    int       // after panics
	restarting  bool      // one is under way
	changed     bool      // since Progress was last told
	told        time.Time // ... which was then
	stalled     string    // the reason last told in Stalled
	stalledAt   time.Time
	excused     time.Time // when a source was last seen to wait for other links of this node
	roomAt      time.Time // when to look for room on the disk again
	roomTried   time.Time // when there was some last, zero: never
	roomHad     int64     // ... and how much was verified then
	plan        PlanStatus
	planAt      time.Time
	ending      *Ended
	wake        system.Alarm
}

func (c TransferConfig) withDefaults() TransferConfig {
	c.Stall = orElse(c.Stall, time.Minute)
	c.SyncEvery = orElse(c.SyncEvery, 2*time.Second)
	c.SyncBytes = orElse(c.SyncBytes, 256<<20)
	c.Verifiers = orElse(c.Verifiers, runtime.GOMAXPROCS(0))
	c.MaxSources = orElse(c.MaxSources, 64)
	return c
}

func orElse[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (t *transfer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		t.start(ctx)
	case SourceFound:
		t.sourceFound(ctx, m)
	case manifestCame:
		t.manifestCame(ctx, m)
	case opened:
		t.opened(ctx, m)
	case SourceStatus:
		t.sourceStatus(ctx, m)
	case SourceLied:
		t.sourceLied(ctx, m)
	case PeerMeasured:
		ctx.Request(t.node, m)
	case RankSource:
		t.toLeases(ctx, m)
	case PeerBanned:
		t.banned(ctx, m)
	case BlocksVerified:
		t.blocksVerified(ctx, m)
	case PieceDone:
		t.pieceDone(ctx, m)
	case LeasesEnded:
		t.leasesEnded(m)
	case PlanStatus:
		t.plan = m
	case DiskFailed:
		t.diskFailed(ctx, m.Err)
	case roomSeen:
		t.roomSeen(ctx, m)
	case synced:
		t.synced(ctx, m.err)
	case finished:
		t.finished(ctx, m)
	case closed:
		t.closed(ctx, m)
	case ProgressQuery:
		ctx.Respond(t.snapshot())
	case PlanQuery:
		t.explain(ctx)
	case WhyQuery:
		t.why(ctx)
	case SetPriority:
		t.setPriority(ctx, m)
	case PlanDone:
		t.planDone(ctx)
	case OpenReader:
		t.openReader(ctx, m)
	case MoveReader:
		t.moveReader(ctx, m)
	case CloseReader:
		t.closeReader(ctx, m.Reader)
	case StopTransfer:
		t.end(ctx, Ended{Err: ErrStopped})
	case system.ChildFailed:
		t.childFailed(ctx, m)
	case system.WakeDue:
	case *actor.DeadLetterResponse:
		t.unheard(ctx, m.Target)
	case *actor.Terminated:
		t.workerGone(ctx, m.Who)
	case *actor.Stopping, *actor.Restarting:
		t.wake.Stop()
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	t.pace(ctx)
}

// ErrStopped is why a transfer ended that was told to.
var ErrStopped = errors.New("stopped; what is verified is kept")

func (t *transfer) start(ctx actor.Context) {
	now := t.s.Now()
	t.sources = map[peers.ID]*source{}
	t.moved, t.since = now, now
	t.count.Share = t.cmd.Share
	t.toSeeder(ctx, ShareComing{t.cmd.Handle})
	ctx.Request(t.finder, FindSources{Share: t.cmd.Share, Known: t.cmd.Sources})
	if t.cmd.Manifest != nil {
		t.open(ctx, t.cmd.Manifest)
	}
}

// open prepares the place on disk, off the mailbox.
func (t *transfer) open(ctx actor.Context, m *share.Manifest) {
	t.manifest = m
	t.enter(Opening)
	t.because("looking at what is here already")
	disk, choose, chosen := t.cmd.Disk, t.cmd.Select, slices.Clone(t.chosen)
	life, stop := context.WithCancel(t.s.Life(ctx))
	t.stopOpening = stop
	t.onDisk(ctx, func(context.Context) any {
		defer stop()
		if choose != nil && chosen == nil {
			var err error
			if chosen, err = choose(m); err != nil {
				return opened{err: err}
			}
		}
		target, err := disk.Open(life, m, chosen.wanted())
		return opened{target, chosen, err}
	})
}

func (t *transfer) opened(ctx actor.Context, m opened) {
	t.target = m.target
	if !t.diskIdle(ctx) {
		return
	}
	if m.err != nil {
		t.end(ctx, Ended{Err: m.err})
		return
	}
	t.chosen, t.have, t.begun = m.chosen, t.target.Verified(), map[share.Piece]*begun{}
	t.count.Name = t.manifest.Name
	t.recount()
	c := &t.count
	if t.restarts == 0 {
		c.Resumed = c.Verified
	}
	t.notify(Planned{t.manifest, c.Bytes, c.Resumed, c.Pieces - c.Done, c.Files, c.Dirs, c.Links})
	t.admitReaders(ctx)
	t.toSeeder(ctx, OfferShare{t.cmd.Share, t.have.Len(), t.have.Clone(), t.cmd.Handle})
	if path, done := t.target.Done(); done {
		t.complete(ctx, path)
		return
	}
	t.moved = t.s.Now()
	t.enter(Fetching)
	t.because("")
	if t.allHere() {
		t.finish(ctx)
		return
	}
	t.startWorkers(ctx)
	for _, src := range t.order {
		t.startPool(ctx, src)
	}
}

// startWorkers starts the LeaseManager and the PieceVerifiers.
func (t *transfer) startWorkers(ctx actor.Context) {
	self, layout := ctx.Self(), t.manifest.Layout()
	plan := leasemgr.Plan{Layout: layout, Verified: t.have.Clone(), Wanted: t.chosen.pieces(layout), Epoch: t.target.Epoch(), Seed: t.s.Seed("leases " + t.cmd.Share.String())}
	t.leases = t.startLeases(ctx, func() actor.Actor { return newLeaseManager(t.s, self, t.ration, t.cfg, t.manifest, plan) })
	if runs := t.chosen.runs(layout, func(entry int) bool { return t.chosen[entry] == leasemgr.High || t.chosen[entry] == leasemgr.Low }); len(runs) > 0 {
		ctx.Send(t.leases, SetPriorities{runs})
	}
	t.steerAll(ctx)
	leases, target := t.leases, t.target
	for i := range t.cfg.Verifiers {
		t.verifiers = append(t.verifiers, t.s.Spawn(ctx, fmt.Sprint("verifier-", t.restarts, "-", i), verifierBox, func() actor.Actor {
			return newPieceVerifier(t.s, self, leases, target, t.manifest)
		}, system.OnPanicStop))
		ctx.Watch(t.verifiers[i])
	}
}

// startPool gives a source its FetchPool, if there is work and room for one.
func (t *transfer) startPool(ctx actor.Context, src *source) {
	if t.leases == nil || t.state >= Finishing || src.pool != nil || src.out || t.active() >= t.cfg.MaxSources {
		return
	}
	layout, self, at := t.manifest.Layout(), ctx.Self(), slices.Clone(src.at)
	src.pools++
	t.pools++ // in the name, because peers choose their IDs
	src.pool = t.s.Spawn(ctx, fmt.Sprint("pool-", t.pools, "-", src.addr.ID.Short()), poolBox, func() actor.Actor {
		return &fetchPool{s: t.s, net: t.net, budget: t.budget, ration: t.ration, transfer: self, leases: t.leases, verifiers: t.verifiers,
			finder: t.finder, source: src.addr, at: at, share: t.cmd.Share, layout: layout, anonymous: t.cfg.Anonymous,
			core: fetchpool.New(fetchpool.Config{}, layout, t.s.Seed("pool "+string(src.addr.ID)), t.s.Now())}
	}, system.OnPanicStop)
}

func (t *transfer) blocksVerified(ctx actor.Context, m BlocksVerified) {
	t.count.Duplicate += int64(m.Duplicate)
	t.count.Hashed += int64(m.Hashed)
	if m.Bytes == 0 {
		return
	}
	now := t.s.Now()
	t.moved = now
	if t.wants(m.Piece) {
		t.count.Verified += int64(m.Bytes)
	}
	t.noteBlocks(m)
	t.serveReaders(ctx, m.Piece)
	t.changed = true
	t.rate.add(m.Bytes, now)
	t.last = m.Piece
	if src := t.sources[m.Source]; src != nil {
		src.rate.add(m.Bytes, now)
		src.info.Bytes += int64(m.Bytes)
	}
	if t.state == Fetching {
		t.because("")
	}
}

// noteBlocks keeps what is here of a piece until the piece is complete.
func (t *transfer) noteBlocks(m BlocksVerified) {
	if t.have.Has(m.Piece) {
		return
	}
	b := t.begun[m.Piece]
	if b == nil {
		b = &begun{}
		t.begun[m.Piece] = b
	}
	b.blocks.union(m.Blocks)
	b.bytes += m.Bytes
}

func (t *transfer) leasesEnded(m LeasesEnded) {
	t.count.Leases, t.changed = m.Leases, true
	for _, e := range m.Events {
		t.notify(LeaseEvent(e))
	}
}

func (t *transfer) pieceDone(ctx actor.Context, m PieceDone) {
	t.count.Leases = m.Leases
	delete(t.begun, m.Piece)
	if t.have.Add(m.Piece) && t.wants(m.Piece) {
		t.count.Done++
	}
	for _, c := range m.Credits {
		if src := t.sources[c.Source]; src != nil {
			src.info.Pieces++
		}
	}
	t.dirty.add(t.manifest.Layout().PieceLen(m.Piece), t.s.Now(), t.cfg)
	t.toSeeder(ctx, PieceAvailable{t.cmd.Share, m.Piece})
	if m.Last && t.allHere() && t.ending == nil {
		t.finish(ctx)
	}
}

// onDisk runs f off the mailbox. There is one at a time, so that opening,
// syncing, finishing and closing never overlap.
func (t *transfer) onDisk(ctx actor.Context, f func(context.Context) any) {
	t.busy = true
	t.s.Task(ctx, f)
}

// diskIdle takes note that the work of onDisk is over. It says whether the
// transfer goes on; if it is ending, the disk is closed now.
func (t *transfer) diskIdle(ctx actor.Context) bool {
	t.busy = false
	t.closeIfQuiet(ctx)
	return t.ending == nil
}

// finish makes the share whole. A sync under way comes back here.
func (t *transfer) finish(ctx actor.Context) {
	t.enter(Finishing)
	t.because("making the last data durable")
	for _, src := range t.order {
		if src.pool != nil && src.info.State.Connected() {
			ctx.Send(t.s.Remote(src.addr.ID, SeederName), wire.Unsubscribe{Share: t.cmd.Share, Done: true})
		}
	}
	t.stopPools(ctx)
	if t.busy {
		return
	}
	target := t.target
	t.onDisk(ctx, func(context.Context) any {
		path, err := target.Finish()
		return finished{path, err}
	})
}

func (t *transfer) finished(ctx actor.Context, m finished) {
	switch {
	case t.ending != nil && m.err == nil: // told to stop, but it is whole after all
		t.ending.Err, t.ending.Path = nil, m.path
		t.state, t.count.Path = Complete, m.path
		t.diskIdle(ctx)
	case !t.diskIdle(ctx):
	case m.err != nil:
		t.diskFailed(ctx, m.err)
	default:
		t.complete(ctx, m.path)
	}
}

func (t *transfer) complete(ctx actor.Context, path string) {
	t.state = Complete
	t.count.Path = path
	t.because("")
	t.serveOn(ctx)
	t.end(ctx, Ended{Path: path})
}

// serveOn has the node say that it serves what it has, if it is to.
func (t *transfer) serveOn(ctx actor.Context) {
	if !t.cfg.Keep {
		return
	}
	t.stayInFleet(ctx)
	if !t.cfg.Anonymous {
		ctx.Send(t.node, ServeOn{t.cmd.Share, t.manifest.Layout(), t.goodSources()})
	}
}

// end begins the end: sources first, then the workers, then the disk, and the
// last event when all is quiet. The first reason counts.
func (t *transfer) end(ctx actor.Context, how Ended) {
	if t.ending != nil {
		return
	}
	t.ending = &how
	if how.Err != nil {
		t.state = Failed
		t.because(how.Err.Error())
	}
	t.dropReaders(ctx)
	if t.stopOpening != nil {
		t.stopOpening()
	}
	ctx.Send(t.finder, StopFinding{t.cmd.Share})
	if t.target == nil {
		t.toSeeder(ctx, WithdrawShare{Share: t.cmd.Share, Of: t.cmd.Handle})
	}
	t.stopPools(ctx)
	t.stopWorkers(ctx)
	t.closeIfQuiet(ctx)
}

func (t *transfer) stopPools(ctx actor.Context) {
	for _, src := range t.order {
		src.stop(ctx)
	}
}

// workerGone notes that a PieceVerifier has ended: it will not write again.
func (t *transfer) workerGone(ctx actor.Context, who *actor.PID) {
	n := len(t.verifiers)
	t.verifiers = slices.DeleteFunc(t.verifiers, func(v *actor.PID) bool { return v.Equal(who) })
	if len(t.verifiers) < n {
		t.closeIfQuiet(ctx)
	}
}

// closeIfQuiet gives up the disk once the transfer is ending and nothing uses it any more.
func (t *transfer) closeIfQuiet(ctx actor.Context) {
	if t.ending == nil && !t.restarting || t.busy || t.closing || len(t.verifiers) > 0 {
		return
	}
	t.closing = true
	if t.target == nil {
		t.closed(ctx, closed{})
		return
	}
	target := t.target
	t.onDisk(ctx, func(context.Context) any { return closed{target.Close()} })
}

func (t *transfer) closed(ctx actor.Context, m closed) {
	t.busy, t.closing = false, false
	if t.ending == nil {
		t.reopen(ctx, m.err)
		return
	}
	if t.ending.Err == nil && m.err != nil {
		t.ending.Err = m.err
	}
	t.ending.Last = t.snapshot()
	// The Node first: who hears of the end may fetch the share again at once.
	ctx.Send(t.node, transferEnded{t.cmd.Share})
	t.notify(*t.ending)
}

// maxRestarts bounds how often a transfer begins again from what is on disk.
const maxRestarts = 3

// ChildFailed answers a panic below. A pool is one source's, and is begun
// again; what the LeaseManager or a PieceVerifier knew is not to be trusted any
// more, so the transfer begins again from the bits on disk.
func (t *transfer) childFailed(ctx actor.Context, m system.ChildFailed) {
	if t.ending != nil || t.restarting {
		return
	}
	for _, src := range t.order {
		if src.pool != nil && src.pool.Equal(m.Who) {
			src.pool = nil
			if src.pools > maxRestarts {
				t.sourceOut(ctx, src, "the work on it failed again and again")
			} else {
				t.startPool(ctx, src)
			}
			return
		}
	}
	t.beginAgain(ctx, fmt.Errorf("internal error in %s: %v", m.Name, m.Reason))
}

// beginAgain stops all work and goes on from what is on disk, or ends the
// transfer with why when that has happened too often.
func (t *transfer) beginAgain(ctx actor.Context, why error) {
	if t.restarts++; t.restarts > maxRestarts {
		t.end(ctx, Ended{Err: why})
		return
	}
	t.s.Log().Warn("a transfer begins again from what is on disk", "share", t.cmd.Share.String(), "error", why)
	t.restarting = true
	t.stopPools(ctx)
	t.stopWorkers(ctx)
	t.closeIfQuiet(ctx)
}

// reopen begins again with what is on disk, after a panic.
func (t *transfer) reopen(ctx actor.Context, err error) {
	t.restarting, t.target, t.dirty = false, nil, dirt{}
	if err != nil {
		t.end(ctx, Ended{Err: err})
		return
	}
	t.open(ctx, t.manifest)
}

func (t *transfer) stopWorkers(ctx actor.Context) {
	if t.leases != nil {
		ctx.Stop(t.leases)
		t.leases = nil
	}
	for _, v := range t.verifiers {
		ctx.Stop(v) // workerGone says when
	}
}

// explain has the LeaseManager answer a PlanQuery, if there is one.
func (t *transfer) explain(ctx actor.Context) {
	if t.leases != nil {
		ctx.Forward(t.leases)
	} else {
		ctx.Respond(PlanStatus{})
	}
}

func (t *transfer) enter(s State) {
	t.state = s
	t.since = t.s.Now()
}

// because sets the reason that people see while nothing moves.
func (t *transfer) because(why string) {
	if t.count.Reason != why {
		t.count.Reason, t.since, t.changed = why, t.s.Now(), true
	}
}

func (t *transfer) notify(e Event) { t.cmd.Notify(e) }

// toSeeder tells the Seeder what can be offered of the share, if nobody else does.
func (t *transfer) toSeeder(ctx actor.Context, m any) {
	if !t.cmd.Offered {
		ctx.Send(t.seeder, m)
	}
}

func (t *transfer) toLeases(ctx actor.Context, m any) {
	if t.leases != nil {
		ctx.Send(t.leases, m)
	}
}
