package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// Issuer signs passes and takes them; passes/issuer has one. Its methods may take as long as
// signing and a disk take. They refuse with a *depot.Refusal.
type Issuer interface {
	// Keys is the list of the keys in use at now, as sent on the wire.
	Keys(now time.Time) ([]byte, error)
	// Redeem and Exchange sign what a voucher or passes pay for; the same may be asked again.
	// bad are the names of passes that were spent before.
	Redeem(m wire.Redeem, now time.Time) (signed [wire.PassSizes][]byte, err error)
	Exchange(depot peers.ID, m wire.Exchange, now time.Time) (signed [wire.PassSizes][]byte, bad []byte, err error)
	// Worth is what passes claim to be worth, in units.
	Worth(passes []byte) (units int64, err error)
	// Spend takes passes, all or none, that an account spends at a depot for a payment; those that were taken
	// for it before, under the same mark, are taken. bad are the names of those that were spent for something else.
	Spend(depot, account peers.ID, m wire.Pay, mark [16]byte, units int64, now time.Time) (bad []byte, err error)
}

// errNoIssuer refuses passes at a depot that has no issuer.
var errNoIssuer = &depot.Refusal{Reason: depot.NoIssuer}

// issues answers requests for the issuer, which anybody may make.
func (d *depotActor) issues(ctx actor.Context) {
	to, what, issuer, t, self := ctx.Sender(), ctx.Message(), d.cfg.Issuer, d.time, d.s.Self()
	if to == nil {
		return
	}
	ready := d.loaded // the clock is known
	d.s.Answer(ctx, func(context.Context) any {
		now := t.now()
		a := depotAsked{to: to}
		switch m := what.(type) {
		case wire.PassKeys:
			var l wire.PassKeyList
			if a.err = issues(issuer, ready); a.err == nil {
				l.Keys, a.err = issuer.Keys(now)
			}
			l.Refused, a.err = refusedFor(a.err)
			a.answer = l
		case wire.Redeem:
			var l wire.Signed
			if a.err = issues(issuer, ready); a.err == nil {
				l.Signed, a.err = issuer.Redeem(m, now)
			}
			l.Refused, a.err = refusedFor(a.err)
			a.answer = l
		case wire.Exchange:
			var l wire.Signed
			if a.err = issues(issuer, ready); a.err == nil {
				l.Signed, l.Bad, a.err = issuer.Exchange(self, m, now)
			}
			l.Refused, a.err = refusedFor(a.err)
			a.answer = l
		}
		return a
	})
}

func issues(i Issuer, ready bool) error {
	switch {
	case i == nil:
		return errNoIssuer
	case !ready:
		return &depot.Refusal{Reason: depot.Away}
	}
	return nil
}

// refusedFor returns an error as a reason for the wire; any other error is a fault, of the disk.
func refusedFor(err error) (reason uint8, fault error) {
	var r *depot.Refusal
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &r):
		return uint8(r.Reason), nil
	}
	return uint8(depot.Away), err
}

// pay enters passes as the credit of an account.
func (d *depotActor) pay(ctx actor.Context, m wire.Pay) {
	l, issuer, till, peer, self := d.cfg.Ledger, d.cfg.Issuer, d.till, senderOf(d.s, ctx), d.s.Self()
	refuse := func(r depot.Refusal) any { return wire.Paid{ID: m.ID, Refused: uint8(r.Reason)} }
	d.ask(ctx, true, refuse, func(ctx context.Context, now time.Time, account depot.Account) (depotAsked, error) {
		if issuer == nil {
			return depotAsked{}, errNoIssuer
		}
		leave, err := till.Take(ctx, account) // the same may come twice at once: a visit was given up, and another sends it again
		if err != nil {
			return depotAsked{}, err
		}
		defer leave()
		paid, err := takePasses(ctx, l, issuer, now, self, peer, account, m)
		return depotAsked{answer: paid}, err
	})
}

// takePasses enters passes as credit. That they are to be entered is durable before they are spent, so a
// crash between the two loses none. The mark of the ledger's note is in the issuer's book: a ledger that is
// older than the spending enters none a second time.
func takePasses(ctx context.Context, l Ledger, issuer Issuer, now time.Time, at, from peers.ID, account depot.Account, m wire.Pay) (wire.Paid, error) {
	p := depot.Payment{Account: account, Request: m.ID}
	var err error
	if p.Units, err = issuer.Worth(m.Passes); err != nil {
		return wire.Paid{}, err
	}
	paid := wire.Paid{ID: m.ID, Units: p.Units}
	done, mark, err := l.Intend(ctx, now, p)
	if err != nil || done {
		return paid, err
	}
	bad, err := issuer.Spend(at, from, m, mark, p.Units, now)
	if r, ok := errors.AsType[*depot.Refusal](err); ok {
		return wire.Paid{ID: m.ID, Refused: uint8(r.Reason), Bad: bad}, l.Forgo(ctx, p)
	}
	if err == nil {
		err = l.Deposit(ctx, now, p)
	}
	return paid, err
}
