package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// HoldsConfig is what a node needs to have depots keep shares for it.
type HoldsConfig struct {
	Book    HoldBook
	Renewal renewal.Config
	// Purse pays depots that take passes; nil: none is paid.
	Purse Purse
	// Turn asks for the turn to renew a fleet's leases at a depot, of which the cheapest costs units as far as is
	// known; nil: there is no need to ask. The turn lasts until end is called, which must not block; an error says why
	// another member is to do it, and wraps ErrOthersTurn if one is doing it now.
	Turn func(ctx context.Context, depot peers.ID, units int64) (end func(), err error)
	// Visited is told of the end of each visit to a depot, and what went wrong, if anything. It
	// must not block, and may be nil.
	Visited func(depot peers.ID, why string)
}

// HoldBook records what a node has depots keep, durably before SaveHolds returns.
type HoldBook interface {
	LoadHolds(ctx context.Context) (renewal.Book, error)
	SaveHolds(ctx context.Context, b renewal.Book) error
}

// ErrNoHolds says that a node has nothing kept by depots.
var ErrNoHolds = errors.New("this node keeps no list of what depots keep for it")

// ErrOthersTurn says that another member of the fleet is renewing what a depot keeps: nothing is wrong.
var ErrOthersTurn = errors.New("another member of the fleet is renewing what this depot keeps")

var (
	errNotServed = errors.New("this node does not serve the share now, so the depot cannot fetch it from here")
	errGuarded   = errors.New("this node serves the share only to peers that it names, or that have its secret, so the depot cannot fetch it")
)

const (
	visitTime = 2 * depotTime // how long a depot may take for one request, connecting included
	lookEvery = time.Hour     // the clock may be set, or the machine may have slept
)

// renewals makes depots keep what the owner wants: it visits them, and renews, offers and
// releases as package renewal decides.
type renewals struct {
	s       *system.System
	net     Network
	catalog Catalog
	node    *actor.PID
	cfg     HoldsConfig

	rng     *rand.Rand
	core    *renewal.Service // nil: the book is not read yet
	loading bool
	retry   time.Time // when the book is tried again
	visits  map[peers.ID]*depotVisit
	serial  int                        // of the last visit that was begun
	ended   map[peers.ID]int           // the last visit of each depot that has ended
	errs    map[renewal.Key]visitError // why what was asked last was refused; of no share: why the last visit failed
	early   []earlyHold
	asked   []holdAsked
	dirty   bool // the book has to be written
	saving  bool
	words   bookWords
	behind  []peers.ID // whose visits did not do all, as the book could not be written
	over    bool
	wake    system.Alarm
}

// depotVisit is a visit that is under way.
type depotVisit struct {
	to     peers.Addr
	serial int
	link   Link
	giveUp time.Time
	said   []renewal.Heard
	pages  int
	listed bool // all is said
	last   share.ID
	at     time.Time // by the depot's clock, when it began to say it
	tasks  []renewal.Task
	waits  bool                  // for the book
	unsure bool                  // it waited for that in vain
	turn   func()                // ends our turn to renew the fleet's leases; nil: we do not have it
	others error                 // ... as another member is to do it
	pays   int                   // number of payments for the first of tasks
	most   int64                 // units that may still be paid for it
	paying *[wire.PaymentID]byte // the payment that was sent, and is not answered yet; nil: none
}

// visitError is why something went wrong in a visit.
type visitError struct {
	err    error
	serial int
}

// earlyHold is what was said before the book was read.
type earlyHold struct {
	what any
	who  *actor.PID
}

// holdAsked is a request that waits until each depot with holds of a want was visited.
type holdAsked struct {
	who     *actor.PID
	want    int64
	at      []peers.ID // depots that are visited for it, besides those of want
	after   int        // in visits later than this one
	noWait  bool       // it waits for the book alone
	saving  bool       // the book that is written, or was last, has it
	written bool       // ... and one before: it waits for visits alone
}

func (r *renewals) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.load(ctx)
	case holdsLoaded:
		r.loaded(ctx, m)
	case KeepHold, DropHold, DropShare, AwaitVisits, SetBudget, VisitDepot, DepotAt, HoldsQuery:
		r.told(ctx)
	case DepotAnswer:
		r.answered(ctx, m)
	case turnReady:
		r.turned(ctx, m)
	case payReady:
		r.pay(ctx, m)
	case payDone:
		r.paid(ctx, m)
	case holdsSaved:
		r.saved(ctx, m)
	case *actor.DeadLetterResponse: // it does not say of which visit, which gives up in time
	case system.WakeDue:
		r.late()
	case fromLink:
	case *actor.Stopping, *actor.Restarting:
		r.stop()
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		system.Unexpected(ctx)
	}
	r.after(ctx)
}

// after does what is due.
func (r *renewals) after(ctx actor.Context) {
	if r.over {
		return
	}
	if r.core == nil {
		if !r.loading && !r.s.Now().Before(r.retry) {
			r.load(ctx)
		}
		r.wake.Set(r.s, ctx, r.retry)
		return
	}
	for _, id := range r.core.Due(r.s.Wall()) {
		r.visit(ctx, id)
	}
	r.save(ctx)
	r.answer(ctx)
	r.wake.Set(r.s, ctx, r.next())
}

// next is when there is something to do; zero if never.
func (r *renewals) next() (at time.Time) {
	if due := r.core.Wake(); !due.IsZero() {
		at = r.s.Now().Add(min(max(due.Sub(r.s.Wall()), 0), lookEvery))
	}
	for _, v := range r.visits {
		at = times.Earliest(at, v.giveUp)
	}
	if r.dirty && !r.saving {
		at = times.Earliest(at, r.retry)
	}
	return at
}

func (r *renewals) stop() {
	r.over = true
	r.wake.Stop()
	for _, v := range r.visits {
		v.link.Close()
		v.endTurn()
	}
	clear(r.visits)
}

// ---- a visit ----

func (r *renewals) visit(ctx actor.Context, id peers.ID) {
	r.serial++
	v := &depotVisit{to: peers.Addr{ID: id, Addrs: r.core.Account(id).Addrs}, serial: r.serial}
	r.visits[id] = v
	v.link = r.net.Open(v.to, share.ID{}, nil, &sink{r.s, ctx.Self(), linkNumber(v.serial)}) // one connection for all requests
	r.reserve(ctx, v, 0)
}

func (r *renewals) ask(ctx actor.Context, v *depotVisit, question any) {
	v.giveUp = r.s.Now().Add(visitTime)
	ctx.Request(r.node, AskDepot{Depot: v.to, Question: question})
}

func (r *renewals) answered(ctx actor.Context, m DepotAnswer) {
	v := r.visits[m.Depot]
	if v == nil {
		return
	}
	switch a := m.Answer.(type) {
	case wire.HoldingsPage:
		r.page(ctx, v, a)
	case wire.Held:
		r.held(ctx, v, a)
	case wire.Paid:
		r.settle(ctx, v, a)
	default:
		if m.Err == nil {
			m.Err = errOtherAnswer
		}
		r.failed(v, m.Err)
	}
}

var errOtherAnswer = fmt.Errorf("%w: the answer of the depot does not fit the question", peers.ErrProtocol)

// page takes what a depot says it keeps for us.
func (r *renewals) page(ctx actor.Context, v *depotVisit, m wire.HoldingsPage) {
	if v.listed || v.pages >= wire.MaxHoldingPages {
		r.failed(v, errOtherAnswer)
		return
	}
	if v.pages++; v.pages == 1 {
		v.at = time.Unix(m.At, 0)
	}
	if reason := depot.Reason(m.Refused); reason != 0 && (reason != depot.UnknownAccount || r.core.Barred(v.to.ID, r.s.Wall())) {
		r.failed(v, &depot.Refusal{Reason: reason})
		return
	}
	for _, h := range m.Items {
		if h.Share.Compare(v.last) <= 0 && !v.last.IsZero() {
			r.failed(v, errOtherAnswer)
			return
		}
		v.last = h.Share
		v.said = append(v.said, heardOf(m.At, h))
	}
	if m.More && len(m.Items) > 0 {
		r.ask(ctx, v, wire.Holdings{After: v.last})
		return
	}
	v.tasks = r.core.Visited(v.to.ID, v.said, r.s.Wall())
	v.said, v.listed = nil, true
	if !r.askTurn(ctx, v) {
		r.work(ctx, v)
	}
}

// heardOf is what a depot says of a lease, by its clock.
func heardOf(at int64, h wire.Holding) renewal.Heard {
	state := map[depot.State]renewal.State{depot.Coming: renewal.Coming, depot.Stable: renewal.Stable, depot.Corrupt: renewal.Corrupt}[depot.State(h.State)]
	if state == renewal.Unknown || h.Expires <= at {
		state = renewal.Missing
	}
	left := min(max(h.Expires-at, 0), int64(maxLeft/time.Second))
	return renewal.Heard{Share: h.Share, State: state, Bytes: h.Bytes, Left: time.Duration(left) * time.Second}
}

const maxLeft = 100 * 366 * 24 * time.Hour // the longest rest of a lease that is believed

// work starts the next task, or ends the visit.
func (r *renewals) work(ctx actor.Context, v *depotVisit) {
	for len(v.tasks) > 0 {
		t := v.tasks[0]
		if !r.stands(v) {
			continue
		}
		if t.Fleet && v.others != nil {
			r.leave(v)
			continue
		}
		if r.waits(v) {
			return
		}
		if r.unsure(v) {
			r.refused(v, errUnwritten)
			continue
		}
		until := v.at.Add(t.Length).Unix()
		request := r.request()
		switch t.Verb {
		case renewal.Renew:
			r.ask(ctx, v, wire.Renew{Share: t.Share, Request: request, Until: until})
			return
		case renewal.Release:
			r.ask(ctx, v, wire.Release{Share: t.Share, Request: request})
			return
		}
		_, reply := r.catalog.Offered(t.Share, v.to.ID)
		if reply.Status == wire.OK {
			own := []peers.Addr{{ID: r.net.Self(), Addrs: r.net.Addrs()}}
			r.ask(ctx, v, wire.Hold{Share: t.Share, Request: request, Bytes: t.Bytes, Until: until, Sources: own})
			return
		}
		r.refused(v, unserved(reply))
	}
	r.end(v)
}

// stands reports whether the next task is still to be done; if not, it is skipped.
func (r *renewals) stands(v *depotVisit) bool {
	stands := r.core.Stands(v.to.ID, v.tasks[0], r.s.Wall())
	if !stands {
		v.tasks, v.pays = v.tasks[1:], 0
	}
	return stands
}

// unserved says why a depot cannot have a share from this node, which answers it with r.
func unserved(r wire.Reply) error {
	if r.Status == wire.Refused {
		return errGuarded
	}
	return errNotServed
}

// request returns a name for a request to a depot that no other request of this node has.
func (r *renewals) request() string {
	return fmt.Sprintf("%016x%016x", r.rng.Uint64(), r.rng.Uint64())
}

// held takes the answer about one lease.
func (r *renewals) held(ctx actor.Context, v *depotVisit, m wire.Held) {
	if len(v.tasks) == 0 || v.tasks[0].Share != m.Share {
		r.failed(v, errOtherAnswer)
		return
	}
	t, now := v.tasks[0], r.s.Wall()
	k := renewal.Key{Depot: v.to.ID, Share: t.Share}
	switch reason := depot.Reason(m.Refused); {
	case t.Verb == renewal.Release && (reason == 0 || reason == depot.NoLease):
		r.core.Released(k, now)
		v.tasks = v.tasks[1:]
	case reason == depot.Unpaid && t.Verb != renewal.Release:
		if r.stands(v) {
			r.owes(ctx, v, m.Room)
			return
		}
	case reason != 0:
		r.refused(v, &depot.Refusal{Reason: reason, Room: m.Room, Retry: m.Retry})
	default:
		delete(r.errs, k)
		heard := heardOf(m.At, wire.Holding{Share: m.Share, State: m.State, Bytes: m.Bytes, Expires: m.Expires})
		heard.Added = time.Duration(min(m.Added, int64(maxLeft/time.Second))) * time.Second
		r.core.Renewed(k.Depot, heard, now)
		v.tasks, v.pays = v.tasks[1:], 0
	}
	r.work(ctx, v)
}

// refused goes on to the next task, or to another for the same lease.
func (r *renewals) refused(v *depotVisit, err error) {
	if t := &v.tasks[0]; t.Due { // keep what the depot still has of it
		t.Verb, t.Due = renewal.Renew, false
		return
	}
	k := renewal.Key{Depot: v.to.ID, Share: v.tasks[0].Share}
	v.tasks, v.pays = v.tasks[1:], 0
	r.errs[k] = visitError{err, v.serial}
	r.core.Refused(k, err.Error(), r.s.Wall())
}

// leave leaves the next task to other members of the fleet.
func (r *renewals) leave(v *depotVisit) {
	if !errors.Is(v.others, ErrOthersTurn) {
		r.refused(v, v.others)
		return
	}
	k := v.lease()
	v.tasks = v.tasks[1:]
	r.errs[k] = visitError{v.others, v.serial}
	r.core.Deferred(k, v.others.Error(), r.s.Wall())
}

// failed ends a visit that could not do all that it was for.
func (r *renewals) failed(v *depotVisit, err error) {
	r.core.Failed(v.to.ID, err.Error(), r.s.Wall())
	r.errs[renewal.Key{Depot: v.to.ID}] = visitError{err, v.serial}
	r.close(v)
}

func (r *renewals) end(v *depotVisit) {
	delete(r.errs, renewal.Key{Depot: v.to.ID})
	r.close(v)
}

func (r *renewals) close(v *depotVisit) {
	v.link.Close()
	v.endTurn()
	delete(r.visits, v.to.ID)
	r.ended[v.to.ID] = v.serial
	r.dirty = true
	if f := r.cfg.Visited; f != nil {
		f(v.to.ID, r.core.Account(v.to.ID).Why)
	}
}

// late ends the visits that have taken too long.
func (r *renewals) late() {
	now := r.s.Now()
	for _, id := range slices.Sorted(maps.Keys(r.visits)) { // failed draws a time
		switch v := r.visits[id]; {
		case v == nil || now.Before(v.giveUp):
		case v.waits:
			r.failed(v, errUnwritten)
		default:
			r.failed(v, ErrDepotAway)
		}
	}
}
