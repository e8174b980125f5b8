package purse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

func cmpID(a, b peers.ID) int { return cmp.Compare(a, b) }

// Redeem gets the passes of a voucher for units from the issuer that is the depot at an address. An
// order for it at another issuer is another: that one stays until it is answered.
func (p *Purse) Redeem(ctx context.Context, at peers.Addr, v passes.Voucher, units int64) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.open(ctx); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.wallet.Orders(), func(o passes.Order) bool { return o.Voucher == v && o.Issuer == string(at.ID) }) {
		o, err := p.order(ctx, at, units, passes.Sizes[0])
		if err != nil {
			return err
		}
		o.Voucher = v
		if err := p.write(ctx, p.wallet.Ask(o)); err != nil {
			return err
		}
	}
	return p.finish(ctx, at)
}

// exchange gets smaller passes for one pass.
func (p *Purse) exchange(ctx context.Context, at peers.Addr, h passes.Held) error {
	smaller := slices.Index(passes.Sizes[:], h.Size) + 1
	if h.Issuer != string(at.ID) || smaller == len(passes.Sizes) {
		return fmt.Errorf("a pass of %d MiB of another issuer than the depot cannot be exchanged", h.Size)
	}
	o, err := p.order(ctx, at, int64(h.Size), passes.Sizes[smaller])
	if err == nil {
		err = p.write(ctx, p.wallet.Break(h, o))
	}
	if err != nil {
		return err
	}
	return p.deliver(ctx, at, o)
}

// order makes an order under the keys that an issuer lists to everybody. Our clock, not the
// issuer's, says which of them signs now.
func (p *Purse) order(ctx context.Context, at peers.Addr, units int64, most passes.Size) (o passes.Order, err error) {
	known, err := p.keys(ctx, at, p.cfg.Known)
	if err != nil {
		return o, err
	}
	fresh, err := p.keys(ctx, at, p.cfg.Fresh)
	if err != nil {
		return o, err
	}
	if err := known.Same(fresh); err != nil {
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
	return passes.NewOrder(id, passes.Seed(append(seed[:], more[:]...)), string(at.ID), string(at.ID), known, units, most, p.cfg.Now())
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

var errAnswer = fmt.Errorf("%w: the issuer answered another question", peers.ErrProtocol)

// finish delivers the orders at an issuer whose passes have not arrived.
func (p *Purse) finish(ctx context.Context, at peers.Addr) error {
	for _, o := range p.wallet.Orders() {
		if o.Issuer != string(at.ID) {
			continue
		}
		if err := p.deliver(ctx, at, o); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends an order over an identity used only for it, and enters the passes.
func (p *Purse) deliver(ctx context.Context, at peers.Addr, o passes.Order) error {
	buy, err := o.Prepare()
	if err != nil {
		return err
	}
	var question any = wire.Redeem{Voucher: o.Voucher, Requests: buy.Requests}
	if o.Voucher == (passes.Voucher{}) {
		b := passes.Binding{Depot: o.Depot, Request: o.ID, Batch: buy.Hash()}
		var spends []passes.Spend
		for _, h := range p.wallet.Reserved(o.ID) {
			spends = append(spends, h.Spend(b))
		}
		question = wire.Exchange{ID: o.ID, Passes: passes.AppendSpends(nil, spends), Requests: buy.Requests}
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
			return errors.Join(p.write(ctx, p.wallet.Refused(o.ID, named(m.Bad))), refused)
		}
		return refused
	}
	held, err := buy.Finish(m.Signed)
	if err != nil {
		return err
	}
	return p.write(ctx, p.wallet.Got(o.ID, held))
}
