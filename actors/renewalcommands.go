package actors

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// KeepHold, API -> Node -> renewals: what the owner wants; one without an ID is new.
// Answered with HoldList when the book is written and each depot was visited, as far as that went.
type KeepHold struct {
	Want   renewal.Want
	Depots []peers.Addr // of the Want
	NoWait bool         // the answer does not wait for the visits
}

// DropHold, API -> Node -> renewals: the owner no longer wants something. Answered as KeepHold
// is.
type DropHold struct {
	Want   int64
	Lapse  bool // its leases are not released, but lapse
	NoWait bool
}

// DropShare, API -> Node -> renewals: the owner no longer wants a share kept by a depot or, without one, by any: neither for a Want
// nor as an earlier version. Answered as KeepHold is.
type DropShare struct {
	Share  share.ID
	Depot  peers.ID
	NoWait bool
}

// AwaitVisits, API -> Node -> renewals: what a NoWait was answered with. Answered with HoldList as the same without NoWait would be.
type AwaitVisits struct{ Since HoldList }

// VisitDepot, API -> Node -> renewals: a depot is to be visited now, as what was missing for it may be there.
// Answered with HoldList, before the visit.
type VisitDepot struct{ Depot peers.ID }

// DepotAt, API -> Node -> renewals: where a depot is by the latest word, remembered if it is to keep something.
// Answered with HoldList when the book is written.
type DepotAt struct{ Depot peers.Addr }

// SetBudget, API -> Node -> renewals: a depot may be paid that many units in a month; 0: any number. Answered with HoldList,
// before its next visit.
type SetBudget struct {
	Depot peers.ID
	Units int64
}

// maxAsked requests wait for the book or for visits.
const maxAsked = 1 << 10

var errManyAsked = errors.New("too many requests about holds are waiting, for the disk or for depots; see the log, and try again later")

// HoldsQuery, API -> Node -> renewals. Answered with HoldList.
type HoldsQuery struct{}

// HoldList is what depots keep for a node.
type HoldList struct {
	Want  int64 // that was made or changed
	Wants []renewal.Want
	Holds []renewal.Standing
	Addrs map[peers.ID][]string
	// Errs are why something was refused, by depot and share, and why the last visit of a depot has
	// failed, with no share; answering KeepHold, of the visits since that was asked alone.
	Errs map[renewal.Key]error
	Dues []renewal.Due // to be paid in the next days
	// Lapses are the leases that are not renewed, as the budgets of their depots do not pay for that.
	Lapses  []renewal.Due
	Budgets map[peers.ID]renewal.Budget // of depots that have one
	// Unwritten is why the book was not written that has what was asked. It stands until it is taken back or the node ends.
	Unwritten error

	since holdAsked // of a NoWait: what waits for its visits
}

// toHolds forwards a message to the renewals.
func (n *node) toHolds(ctx actor.Context) {
	if n.holds != nil {
		ctx.Forward(n.holds)
	} else if ctx.Sender() != nil {
		ctx.Respond(ErrNoHolds)
	}
}

// holdShares starts the renewals of a node that has a book for them.
func (n *node) holdShares(ctx actor.Context) {
	if n.deps.Holds == nil {
		return
	}
	n.holds = n.s.Spawn(ctx, "renewals", controlBox, n.renewals(ctx.Self()), system.OnPanicRestart)
}

// renewals produces the actor, again after each panic. Names of requests go on then: depots remember them.
func (n *node) renewals(self *actor.PID) func() actor.Actor {
	cfg, rng := *n.deps.Holds, rand.New(rand.NewPCG(n.s.Seed("requests of renewals"), 1))
	return func() actor.Actor {
		return &renewals{s: n.s, net: n.deps.Network, catalog: n.deps.Catalog, node: self, cfg: cfg, rng: rng}
	}
}

// AskHolds is what depots keep for a node, after it was told something: KeepHold, DropHold,
// DropShare, AwaitVisits, SetBudget, VisitDepot, DepotAt or HoldsQuery. If the book was not written, it returns both.
func AskHolds(ctx context.Context, p *Program, what any) (HoldList, error) {
	l, err := system.Ask[HoldList](ctx, p.s, p.node, what)
	return l, cmp.Or(err, l.Unwritten)
}

func (r *renewals) told(ctx actor.Context) {
	switch {
	case len(r.early)+len(r.asked) >= maxAsked:
		r.respond(ctx, ctx.Sender(), errManyAsked)
	case r.core == nil:
		r.early = append(r.early, earlyHold{ctx.Message(), ctx.Sender()})
	default:
		r.command(ctx, ctx.Message(), ctx.Sender(), nil)
	}
}

func (r *renewals) command(ctx actor.Context, what any, from *actor.PID, err error) {
	if err != nil {
		r.respond(ctx, from, err)
		return
	}
	now := r.s.Wall()
	a := holdAsked{who: from, after: r.serial}
	switch m := what.(type) {
	case KeepHold:
		a.want = m.Want.ID
		if a.want == 0 {
			a.want = r.core.NextID()
			m.Want.ID = a.want
		}
		for _, d := range m.Depots {
			r.core.Know(moved(r.core.Account(d.ID), d.Addrs), now)
		}
		r.core.Want(m.Want, now)
		for _, id := range r.core.At(a.want) { // also what another Want had made is asked for anew
			r.core.Hurry(id, now)
		}
		a.noWait = m.NoWait
	case DropHold:
		if a.want, a.noWait = m.Want, m.NoWait; m.Lapse {
			r.core.Lapse(m.Want, now)
		} else {
			r.core.Unwant(m.Want, now)
		}
	case DropShare:
		a.at, a.noWait = r.core.DropShare(m.Share, m.Depot, now), m.NoWait
	case AwaitVisits:
		a = m.Since.since
		a.who, a.noWait, a.written = from, false, true
		a.after = min(a.after, r.serial) // it may have begun anew
		r.asked = append(r.asked, a)
		return
	case SetBudget:
		r.core.SetBudget(m.Depot, m.Units, now)
		a.noWait = true
	case VisitDepot:
		r.core.Hurry(m.Depot, now)
		r.respond(ctx, from, r.list(0, 0))
		return
	case DepotAt:
		if !r.moves(m.Depot, now) {
			r.respond(ctx, from, r.list(0, 0))
			return
		}
		a.noWait = true
	default:
		r.respond(ctx, from, r.list(0, 0))
		return
	}
	r.dirty, r.retry = true, time.Time{} // it is written now, also if that failed lately
	r.words.said++
	r.asked = append(r.asked, a)
}

// maxDepotAddrs are remembered of a depot, the last named first, and all that are named at once.
const maxDepotAddrs = 8

// moved puts addresses of a depot before those that were known.
func moved(a renewal.Account, to []string) renewal.Account {
	known := slices.DeleteFunc(slices.Clone(a.Addrs), func(addr string) bool { return slices.Contains(to, addr) })
	a.Addrs = slices.Concat(to, known[:min(len(known), max(maxDepotAddrs-len(to), 0))])
	return a
}

// moves is moved for a depot that is to keep something, and reports whether that changes anything.
func (r *renewals) moves(to peers.Addr, now time.Time) bool {
	for _, was := range r.core.Accounts() {
		if was.Depot == to.ID {
			is := moved(was, to.Addrs)
			r.core.Know(is, now)
			return !slices.Equal(was.Addrs, is.Addrs)
		}
	}
	return false
}

// answer answers the requests that have nothing left to wait for. One that is written does not wait for a book that cannot be.
func (r *renewals) answer(ctx actor.Context) {
	if len(r.asked) == 0 || r.saving || r.dirty && !r.s.Now().Before(r.retry) {
		return
	}
	all := r.core.Holds(r.s.Wall())
	wait := r.asked[:0]
	for _, a := range r.asked {
		at := append(r.core.At(a.want), a.at...)
		if r.dirty && !a.written || !a.noWait && slices.ContainsFunc(all, func(h renewal.Standing) bool {
			return (a.want != 0 && h.Want == a.want || slices.Contains(at, h.Depot)) && r.ended[h.Depot] <= a.after
		}) {
			wait = append(wait, a)
			continue
		}
		l := r.list(a.want, a.after)
		l.since = a
		r.respond(ctx, a.who, l)
	}
	clear(r.asked[len(wait):])
	r.asked = wait
}

func (r *renewals) respond(ctx actor.Context, to *actor.PID, m any) {
	if to != nil {
		ctx.Send(to, m)
	}
}

// duesAhead is how long before a renewal its cost is announced: its lease ends ten days after the renewal.
const duesAhead = 7 * 24 * time.Hour

// list is what depots keep, with what went wrong in visits later than after.
func (r *renewals) list(want int64, after int) HoldList {
	now := r.s.Wall()
	l := HoldList{Want: want, Dues: r.core.Dues(now.Add(duesAhead), now), Lapses: r.core.Lapses(now), Budgets: r.core.Budgets(now), Wants: r.core.Wants(), Holds: r.core.Holds(now), Addrs: map[peers.ID][]string{}, Errs: map[renewal.Key]error{}}
	for _, a := range r.core.Accounts() {
		l.Addrs[a.Depot] = a.Addrs
	}
	for k, e := range r.errs {
		if e.serial > after {
			l.Errs[k] = e.err
		}
	}
	return l
}
