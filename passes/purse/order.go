package purse

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// Redeem gets the passes of a voucher for units from the issuer that is the depot at an address. An
// order for it at another issuer is another: that one stays until it is answered.
func (p *Purse) Redeem(ctx context.Context, at peers.Addr, v passes.Voucher, units int64) error {
	leave, err := p.begin(ctx, at.ID)
	if err != nil {
		return err
	}
	defer leave()
	orders, err := p.orders(ctx, at.ID)
	if err != nil {
		return err
	}
	var o passes.Order
	if i := slices.IndexFunc(orders, func(o passes.Order) bool { return o.Voucher == v }); i >= 0 {
		o = orders[i]
	} else {
		if o, err = p.order(ctx, at, units, passes.Sizes[0]); err != nil {
			return err
		}
		o.Voucher = v
		if err := p.change(ctx, func(w *passes.Wallet) (passes.Change, error) { return w.Ask(o), nil }); err != nil {
			return err
		}
	}
	if err := p.deliver(ctx, at, o); err != nil {
		return err
	}
	p.finish(ctx, at) // orders from before; how that goes is not what was asked
	return nil
}

// orders returns the orders at an issuer whose passes have not arrived.
func (p *Purse) orders(ctx context.Context, at peers.ID) (all []passes.Order, err error) {
	err = p.look(ctx, func(w *passes.Wallet) { all = w.Orders() })
	return slices.DeleteFunc(all, func(o passes.Order) bool { return o.Issuer != string(at) }), err
}

// exchange gets smaller passes for one pass.
func (p *Purse) exchange(ctx context.Context, at peers.Addr, h passes.Held) error {
	smaller := slices.Index(passes.Sizes[:], h.Size) + 1
	if h.Issuer != string(at.ID) || smaller == len(passes.Sizes) {
		return fmt.Errorf("a pass of %d MiB cannot be exchanged: the depot did not issue it, or there are no smaller passes", h.Size)
	}
	o, err := p.order(ctx, at, int64(h.Size), passes.Sizes[smaller])
	if err == nil {
		err = p.change(ctx, func(w *passes.Wallet) (passes.Change, error) { return w.Break(h, o), nil })
	}
	if err != nil {
		return err
	}
	return p.deliver(ctx, at, o)
}

// order makes an order under the keys that an issuer lists to strangers. It does not ask as the account: the issuer
// could tell by the time whose the order is. Our clock, not the issuer's, says which key signs now. An issuer that has lost its
// keys has others than the account has heard of: those are forgotten, and the account asks again when it pays.
func (p *Purse) order(ctx context.Context, at peers.Addr, units int64, most passes.Size) (o passes.Order, err error) {
	fresh, err := p.keys(ctx, at, p.cfg.Fresh)
	if err != nil {
		return o, err
	}
	p.mu.Lock()
	if err = fresh.Agrees(p.listed[at.ID]); err != nil {
		delete(p.listed, at.ID)
		err = fmt.Errorf("%w; if the owner of the issuer has had to make new keys, try again", err)
	}
	p.mu.Unlock()
	if err != nil {
		return o, err
	}
	id, err := p.id()
	if err != nil {
		return o, err
	}
	seed, err := p.id()
	if err != nil {
		return o, err
	}
	more, err := p.id()
	if err != nil {
		return o, err
	}
	return passes.NewOrder(id, passes.Seed(append(seed[:], more[:]...)), string(at.ID), string(at.ID), fresh, units, most, p.cfg.Now())
}

// keys returns the keys that an issuer lists to the identity that ask uses.
func (p *Purse) keys(ctx context.Context, at peers.Addr, ask func(context.Context, peers.Addr, any) (any, error)) (passes.Listing, error) {
	answer, err := ask(ctx, at, wire.PassKeys{})
	if err != nil {
		return nil, err
	}
	m, ok := answer.(wire.PassKeyList)
	if !ok {
		return nil, errAnswer
	}
	if m.Refused != 0 {
		return nil, &depot.Refusal{Reason: depot.Reason(m.Refused)}
	}
	return passes.ParseListing(m.Keys)
}

var errAnswer = fmt.Errorf("%w: the answer of the issuer does not fit the question", peers.ErrProtocol)

// finish delivers the orders at an issuer, also after one of which nothing will come, as long as the issuer answers.
func (p *Purse) finish(ctx context.Context, at peers.Addr) error {
	orders, err := p.orders(ctx, at.ID)
	for _, o := range orders {
		e := p.deliver(ctx, at, o)
		err = errors.Join(err, e)
		if e != nil && !errors.As(e, new(*depot.Refusal)) && !errors.Is(e, passes.ErrProof) && !errors.Is(e, passes.ErrMessage) {
			break
		}
	}
	return err
}

// deliver sends an order over an identity used only for it, and enters the passes.
func (p *Purse) deliver(ctx context.Context, at peers.Addr, o passes.Order) error {
	buy, err := o.Prepare()
	if err != nil {
		return err
	}
	var question any = wire.Redeem{Voucher: o.Voucher, Requests: buy.Requests}
	if o.Voucher == (passes.Voucher{}) {
		spends, err := p.spends(ctx, o.ID, passes.Binding{Depot: o.Depot, Request: o.ID, Batch: buy.Hash()})
		if err != nil {
			return err
		}
		question = wire.Exchange{ID: o.ID, Passes: spends, Requests: buy.Requests}
	}
	answer, err := p.cfg.Fresh(ctx, at, question)
	if err != nil {
		return err
	}
	m, ok := answer.(wire.Signed)
	if !ok {
		return errAnswer
	}
	if r := depot.Reason(m.Refused); r != 0 {
		refused := &depot.Refusal{Reason: r}
		if final(r) || r == depot.NoVoucher || r == depot.UsedVoucher {
			return errors.Join(p.change(ctx, func(w *passes.Wallet) (passes.Change, error) { return p.refused(w, at.ID, o.ID, r, m.Bad), nil }), refused)
		}
		return refused
	}
	held, err := buy.Finish(m.Signed)
	if err != nil {
		return err
	}
	return p.change(ctx, func(w *passes.Wallet) (passes.Change, error) { return w.Got(o.ID, held), nil })
}
