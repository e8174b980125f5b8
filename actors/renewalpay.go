package actors

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Purse is the passes that pay depots; passes/purse has one. What it returns is durable already.
type Purse interface {
	// Pay returns what to send to a depot: a payment that was begun and is not among those that are counted, or else one of
	// units for the lease of a share, if these are not 0; there is none if its Passes are empty.
	Pay(ctx context.Context, at peers.Addr, lease share.ID, units int64, counted [][wire.PaymentID]byte) (wire.Pay, error)
	// Paid enters a depot's answer, and returns for which lease how much was paid; no share: it is not known for which.
	Paid(ctx context.Context, at peers.ID, m wire.Paid) (lease share.ID, units int64, err error)
	// Counted is told of payments that the book has: they are over. All others are sent again, whatever their depot has answered.
	Counted(ctx context.Context, payments [][wire.PaymentID]byte) error
}

// payReady is what is to be paid in a visit, and payDone that it was.
type (
	payReady struct {
		depot  peers.ID
		serial int
		m      wire.Pay
		err    error
	}
	payDone struct {
		lease   renewal.Key // for which it was paid
		serial  int
		payment [wire.PaymentID]byte
		units   int64
		err     error
	}
)

// maxPaysPerTask bounds the payments for one task: the amount missing may have grown meanwhile, or be
// too much for one payment.
const maxPaysPerTask = 16

var errPrice = errors.New("the depot asks for more passes than its leases cost, and does not get them")

// owes pays the amount that is missing for the first task.
func (r *renewals) owes(ctx actor.Context, v *depotVisit, units int64) {
	now := r.s.Wall()
	a := r.core.Account(v.to.ID)
	if !a.Paid {
		a.Paid = true
		r.core.Know(a, now)
		r.dirty = true
	}
	if v.pays == 0 {
		v.most = r.core.MayCost(v.lease(), v.tasks[0].Length, now)
	}
	var err error
	switch {
	case units < 1 || units > v.most: // also bit by bit
		err = errPrice
	case v.pays >= maxPaysPerTask || r.cfg.Purse == nil:
		err = &depot.Refusal{Reason: depot.Unpaid, Room: units}
	default:
		if err = r.core.InBudget(v.to.ID, units, now); err == nil {
			v.pays++
			r.reserve(ctx, v, units)
			return
		}
	}
	r.refused(v, err)
	r.work(ctx, v)
}

// reserve asks the purse what to send.
func (r *renewals) reserve(ctx actor.Context, v *depotVisit, units int64) {
	if r.cfg.Purse == nil {
		r.goOn(ctx, v)
		return
	}
	v.giveUp = r.s.Now().Add(visitTime)
	to, serial, purse, lease, counted := v.to, v.serial, r.cfg.Purse, v.lease().Share, r.core.Account(v.to.ID).Counted
	r.s.Task(ctx, func(ctx context.Context) any {
		m, err := purse.Pay(ctx, to, lease, units, counted)
		return payReady{to.ID, serial, m, err}
	})
}

// pay sends what the purse has reserved.
func (r *renewals) pay(ctx actor.Context, m payReady) {
	v := r.visits[m.depot]
	switch {
	case v == nil || v.serial != m.serial: // it stays reserved
	case m.err != nil:
		r.unpaid(ctx, v, m.err)
	case len(m.m.Passes) == 0:
		r.goOn(ctx, v)
	default:
		v.paying = &m.m.ID
		r.ask(ctx, v, m.m)
	}
}

// settle has the purse enter the depot's answer to the payment that was sent.
func (r *renewals) settle(ctx actor.Context, v *depotVisit, m wire.Paid) {
	if v.paying == nil || *v.paying != m.ID {
		r.failed(v, errOtherAnswer)
		return
	}
	v.paying = nil
	v.giveUp = r.s.Now().Add(visitTime)
	id, serial, purse := v.to.ID, v.serial, r.cfg.Purse
	r.s.Task(ctx, func(ctx context.Context) any {
		lease, units, err := purse.Paid(ctx, id, m)
		return payDone{renewal.Key{Depot: id, Share: lease}, serial, m.ID, units, err}
	})
}

// lease names what the visit is about now; it has no share if there is no task.
func (v *depotVisit) lease() renewal.Key {
	k := renewal.Key{Depot: v.to.ID}
	if len(v.tasks) > 0 {
		k.Share = v.tasks[0].Share
	}
	return k
}

// paid counts a payment, perhaps one of an earlier task or visit. If this visit is over, the next one sends it again.
func (r *renewals) paid(ctx actor.Context, m payDone) {
	v := r.visits[m.lease.Depot]
	if v == nil || v.serial != m.serial {
		return
	}
	if m.units > 0 && r.core.Count(v.to.ID, m.payment) {
		r.core.Bank(m.lease, m.units, r.s.Wall())
		r.dirty = true
		if m.lease == v.lease() {
			v.most -= m.units
		}
	}
	if m.err != nil {
		r.unpaid(ctx, v, m.err)
		return
	}
	r.goOn(ctx, v)
}

// settled tells the purse which payments a book counts that is written, and returns those of which nothing is left. Once this life of
// the actor has ended, the next one may have read the book from before.
func (r *renewals) settled(ctx context.Context, b renewal.Book) (over [][wire.PaymentID]byte) {
	for _, a := range b.Accounts {
		over = append(over, a.Counted...)
	}
	if len(over) == 0 || ctx.Err() != nil || r.cfg.Purse == nil || r.cfg.Purse.Counted(ctx, over) != nil { // it is told again with the next book
		return nil
	}
	return over
}

// unpaid goes on without the payment: tasks that need it are refused.
func (r *renewals) unpaid(ctx actor.Context, v *depotVisit, err error) {
	if len(v.tasks) > 0 {
		r.refused(v, err)
	} else {
		r.s.Log().Warn("an earlier payment to a depot is not settled yet", "depot", string(v.to.ID), "error", err)
	}
	r.goOn(ctx, v)
}

// goOn goes on with a visit: first it asks what the depot keeps, then it does the tasks.
func (r *renewals) goOn(ctx actor.Context, v *depotVisit) {
	if v.listed {
		r.work(ctx, v)
		return
	}
	r.ask(ctx, v, wire.Holdings{})
}
