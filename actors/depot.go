package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/turns"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// DepotConfig is what a node needs to keep shares for accounts.
type DepotConfig struct {
	Ledger Ledger
	Keep   Keep
	// Issuer signs the passes that accounts pay with, and takes them; nil: none are taken.
	Issuer Issuer
	// Reading returns the system's clock readings.
	Reading func() depot.Reading
	// Reserve is the number of bytes of the disk that stay free.
	Reserve int64
	// Open are the terms of the account that a peer without one gets; nil: it gets none.
	Open *depot.Terms
	// Fetches is the number of shares fetched at once; default 4.
	Fetches int
	// Verifiers is as in TransferConfig.
	Verifiers int
	// Changed is told of each share that changes its state; for GOING and NONE it is
	// told why. It must not block, and may be nil.
	Changed func(id share.ID, s depot.State, why string)
}

// depotActor keeps shares for accounts under storage leases. What may happen is decided
// by package depot and by the Ledger, whose calls, like those of the disk, are tasks.
type depotActor struct {
	s    *system.System
	net  Network
	node *actor.PID
	cfg  DepotConfig
	time *depotTimes
	door *sync.Mutex                 // held while a share is removed, and while another ledger replaces a damaged one
	till *turns.Turns[depot.Account] // for payments

	loaded   bool // it is known which shares are coming
	loading  bool
	trouble  error // why the depot is not ready; nil: it is, or begins for the first time
	early    []early
	arrivals map[share.ID]*arrival
	waiting  agenda     // the arrivals that do not run: a share that cannot be had does not hold up others
	running  []share.ID // those that do, in the order in which they began
	here     int64      // bytes already on the disk of shares that are coming
	watchers map[depot.Account][]*actor.PID
	crawler  *crawler
	hourly   time.Time // when the clock is stored, and what has expired is swept and collected
	passes   int       // passes of collecting that are under way
	removed  int64     // shares that were removed, as nobody held them
	stored   bool      // the clock was stored as frozen: at once, as a start may not see why
	steps    bool      // it is being stored as it goes forward: at once, as time stands still until then
	retry    time.Time // when to try again to load
	wake     system.Alarm
}

// depotTimes is the depot's clock. It may be asked by tasks.
type depotTimes struct {
	mu      sync.Mutex
	clock   depot.Clock
	loaded  bool // the stored clock is known
	ok      bool // the owner confirmed it before that
	reading func() depot.Reading
	storing sync.Mutex // held while the clock is stored
}

// now is the time for leases. Until the stored clock is known it is the wall clock's, and
// nothing follows from it.
func (t *depotTimes) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.loaded {
		return t.reading().Wall
	}
	return t.clock.Look(t.reading())
}

// elapsed is a time that passes even while the clock is not trusted: see depot.Clock.
func (t *depotTimes) elapsed() time.Time {
	t.now()
	c := t.state()
	return c.Elapsed()
}

// load starts the clock as stored, unless it runs already; nil: none was stored.
func (t *depotTimes) load(stored []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded = true
	var c depot.Clock
	if stored != nil && json.Unmarshal(stored, &c) == nil && t.clock.Wall.IsZero() {
		t.clock = c
	}
	if t.ok {
		t.clock.OK(t.reading())
		t.ok = false
	}
}

// confirm takes the owner's word that the wall clock is right.
func (t *depotTimes) confirm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ok = !t.loaded; t.loaded {
		t.clock.OK(t.reading())
	}
}

// store stores the clock in the ledger, if the stored one is known. If it waits, the ledger gives a respite to what is
// held, and time goes on.
func (t *depotTimes) store(ctx context.Context, l Ledger) error {
	t.storing.Lock()
	defer t.storing.Unlock()
	t.now()
	t.mu.Lock()
	c, loaded := t.clock, t.loaded
	t.mu.Unlock()
	if !loaded {
		return nil
	}
	from, steps := c.Now, c.Waits
	if steps {
		c.Stepped(c.Wall)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if !steps {
		return l.SetClock(ctx, c.Now, b, c.Frozen)
	}
	if err := l.Step(ctx, from, c.Now, b); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock.Waits && t.clock.Now.Equal(from) { // else the owner has confirmed another time
		t.clock.Stepped(c.Now)
	}
	return nil
}

func (t *depotTimes) state() depot.Clock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clock
}

const (
	depotBox   = 1 << 16 // depotActor: the requests of accounts, which credit bounds
	depotRetry = time.Minute
	everyHour  = time.Hour
	collectMax = 256     // shares checked, and perhaps collected, in one task
	sweepMax   = 100_000 // leases swept in one transaction, of a second or so
)

func newDepot(s *system.System, net Network, node *actor.PID, cfg DepotConfig) *depotActor {
	cfg.Fetches = cmp.Or(cfg.Fetches, 4)
	d := &depotActor{s: s, net: net, node: node, cfg: cfg, time: &depotTimes{reading: cfg.Reading}, door: &sync.Mutex{}, crawler: &crawler{}, till: &turns.Turns[depot.Account]{}, arrivals: map[share.ID]*arrival{}, watchers: map[depot.Account][]*actor.PID{}}
	return d
}

func (d *depotActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.load(ctx)
	case depotLoaded:
		d.isLoaded(ctx, m)
	case wire.Hold:
		d.hold(ctx, m)
	case wire.Renew:
		d.renew(ctx, m)
	case wire.Release:
		d.release(ctx, m)
	case wire.Holdings:
		d.holdings(ctx, m)
	case wire.Usage:
		d.usage(ctx, m)
	case wire.Pay:
		d.pay(ctx, m)
	case wire.PassKeys, wire.Redeem, wire.Exchange:
		d.issues(ctx)
	case depotAsked:
		d.asked(ctx, m)
	case toArrive, TransferStarted, arrivalEvent, arrived, leasesEnded, unwanted, collected:
		d.arriving(ctx)
	case told:
		d.tellAll(ctx, m)
	case depotDone:
		d.done(ctx, m)
	case clockStored:
		d.clockStored(ctx, m)
	case DepotQuery, ClockOK, CollectNow, CrawlNow, ScrubNow, LookAt, Imported, Importing, crawled:
		d.commanded(ctx)
	case system.WakeDue:
	case *actor.Terminated:
		d.unwatch(m.Who)
	case Withdrawn, *actor.DeadLetterResponse, system.Unreadable:
	case *actor.Stopping, *actor.Restarting:
		d.wake.Stop()
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	d.tick(ctx)
}

// tick does what is due, and sets the alarm.
func (d *depotActor) tick(ctx actor.Context) {
	now := d.s.Now()
	if !d.loaded {
		if !d.loading && !d.retry.After(now) {
			d.load(ctx)
		}
		d.wake.Set(d.s, ctx, d.retry)
		return
	}
	if !d.hourly.After(now) {
		d.hourly = now.Add(everyHour)
		d.storeClock(ctx)
		d.collect(ctx)
	} else if c := d.time.state(); c.Frozen != d.stored || c.Waits && !d.steps {
		d.storeClock(ctx)
	}
	next := d.startArrivals(ctx, now)
	if at := d.crawl(ctx, now); at.Before(next) {
		next = at
	}
	if d.hourly.Before(next) {
		next = d.hourly
	}
	d.wake.Set(d.s, ctx, next)
}

// ---- beginning ----

// depotLoaded is what the ledger says at the start.
type depotLoaded struct {
	meta   depot.Meta
	coming []depot.Kept // and CORRUPT, and GOING
	err    error
}

func (d *depotActor) load(ctx actor.Context) {
	d.loading = true
	d.s.Task(ctx, func(ctx context.Context) any {
		meta, coming, err := d.read(ctx)
		return depotLoaded{meta, coming, err}
	})
}

func (d *depotActor) read(ctx context.Context) (meta depot.Meta, coming []depot.Kept, err error) {
	l := d.cfg.Ledger
	if err := d.cfg.Keep.Ready(ctx, l); err != nil {
		return meta, nil, err
	}
	if meta, err = l.Meta(ctx); err != nil {
		return meta, nil, err
	}
	for _, s := range []depot.State{depot.Coming, depot.Corrupt, depot.Going} {
		for after := (share.ID{}); ; {
			page, err := l.In(ctx, s, after, 1000)
			if err != nil {
				return meta, nil, err
			}
			coming = append(coming, page...)
			if len(page) < 1000 {
				break
			}
			after = page[len(page)-1].Share
		}
	}
	return meta, coming, nil
}

func (d *depotActor) isLoaded(ctx actor.Context, m depotLoaded) {
	d.loading = false
	if d.trouble = m.err; m.err != nil {
		d.retry = d.s.Now().Add(depotRetry)
		d.s.Log().Warn("the depot waits", "reason", m.err, "again_in", depotRetry)
		d.answerEarly(ctx)
		d.damaged(ctx, m.err)
		return
	}
	d.time.load(m.meta.Clock)
	d.time.now()
	d.crawler = newCrawler(m.meta)
	d.loaded, d.hourly = true, time.Time{}
	d.answerEarly(ctx)
	d.sweep(ctx)
	for _, k := range m.coming {
		if k.State == depot.Going {
			d.remove(ctx, k.Share)
		} else {
			d.want(k.Share, k.State == depot.Corrupt)
		}
	}
	d.s.Log().Info("the depot is ready", "coming", len(d.arrivals), "complete", !m.meta.CompleteSince.IsZero())
}

// sweep removes what a power cut left of shares that were being removed.
func (d *depotActor) sweep(ctx actor.Context) {
	keep, door := d.cfg.Keep, d.door
	d.s.Task(ctx, func(context.Context) any {
		door.Lock()
		defer door.Unlock()
		return depotDone{what: "what was left of removed shares could not be removed", err: keep.Sweep()}
	})
}

// again makes the depot begin again: its disk went away, or its database was replaced.
func (d *depotActor) again(err error) {
	if d.loaded {
		d.loaded, d.trouble, d.retry = false, err, d.s.Now()
	}
}

// failed handles and logs an error of the ledger or the disk.
func (d *depotActor) failed(ctx actor.Context, what string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	d.s.Log().Error(what, "error", err)
	d.damaged(ctx, err)
}

// damaged sets a damaged ledger aside, and has a new one filled from the disk.
func (d *depotActor) damaged(ctx actor.Context, err error) {
	if !d.cfg.Ledger.Corrupt(err) {
		return
	}
	l, keep, door := d.cfg.Ledger, d.cfg.Keep, d.door
	d.again(err)
	d.loading = true
	d.s.Task(ctx, func(ctx context.Context) any {
		door.Lock()
		err := l.BeginAnew(ctx)
		door.Unlock()
		if err != nil {
			return depotLoaded{err: err}
		}
		keep.Forget()
		meta, coming, err := d.read(ctx)
		return depotLoaded{meta, coming, err}
	})
}

// depotDone is the end of a task that has no other result.
type depotDone struct {
	what  string
	err   error
	notes []note
}

// note is a share that changed its state.
type note struct {
	id      share.ID
	state   depot.State
	why     string
	held    bool   // it stays in its state, because somebody holds it
	found   *visit // it was not removed but looked at, as its leases on the disk are newer than the ledger
	removed bool   // all of it is gone
}

func (d *depotActor) done(ctx actor.Context, m depotDone) {
	d.failed(ctx, m.what, m.err)
	for _, n := range m.notes {
		if n.removed {
			d.removed++
		}
		switch {
		case n.found != nil:
			d.found(ctx, *n.found, n.why)
		case !n.held:
			d.changed(ctx, n.id, n.state, n.why)
		case d.arrivals[n.id] == nil: // it was given up, and is held again
			d.want(n.id, n.state == depot.Corrupt)
		}
	}
}

// storeClock stores the clock, so that a start knows what was believed.
func (d *depotActor) storeClock(ctx actor.Context) {
	d.time.now()
	c, t, l := d.time.state(), d.time, d.cfg.Ledger
	switch {
	case c.Frozen && !d.stored:
		d.s.Log().Error("the clock is not trusted: nothing expires and nothing is collected; if this machine's clock is right, say so with fetcher depot clock ok", "clock", c.Wall, "drift", c.Drift, "gap", c.Gap)
	case !c.Frozen && d.stored:
		d.s.Log().Info("the clock is trusted again", "clock", c.Wall)
	}
	d.stored, d.steps = c.Frozen, c.Waits
	d.s.Task(ctx, func(ctx context.Context) any {
		return clockStored{t.store(ctx, l)}
	})
}

// clockStored is the end of storing the clock.
type clockStored struct{ err error }

func (d *depotActor) clockStored(ctx actor.Context, m clockStored) {
	d.failed(ctx, "the depot's clock was not stored; this node will try again", m.err)
	if m.err != nil {
		d.hourly = earlier(d.hourly, d.s.Now().Add(depotRetry))
	}
}

// ---- the Node's side ----

// keepShares starts the depot of a node that is one.
func (n *node) keepShares(ctx actor.Context) {
	if n.deps.Depot == nil {
		return
	}
	self, cfg := ctx.Self(), *n.deps.Depot
	n.depot = n.s.Spawn(ctx, "depot", depotBox, func() actor.Actor { return newDepot(n.s, n.deps.Network, self, cfg) }, system.OnPanicRestart)
	n.s.Export(DepotName, n.depot)
}

// ErrNotADepot says that a node keeps no shares for others.
var ErrNotADepot = fmt.Errorf("this node keeps no shares for others")

// toDepot forwards a message to the depot.
func (n *node) toDepot(ctx actor.Context) {
	if m, ok := ctx.Message().(AskDepot); ok {
		n.askDepot(ctx, m)
	} else if n.depot != nil {
		ctx.Forward(n.depot)
	} else if ctx.Sender() != nil {
		ctx.Respond(ErrNotADepot)
	}
}
