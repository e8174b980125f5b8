// Package purse keeps a wallet of passes and speaks with issuers: it redeems vouchers,
// exchanges passes, and says what is to be sent to a depot. It promises nothing to outsiders.
//
//	purse.go   Purse: pays, and enters what depots answer
//	order.go   vouchers and exchanges
//
// What is sent is durable before. A payment or an order that was cut short, by a crash or by an
// answer that was lost, is sent again as it was.
package purse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// Store keeps the wallet, durably before WriteWallet returns: a catalog.DB.
type Store interface {
	Wallet(ctx context.Context) (*passes.Wallet, error)
	WriteWallet(ctx context.Context, c passes.Change) error
}

// Config is what a Purse is made of.
type Config struct {
	Store  Store
	Self   func() peers.ID // the account that pays
	Now    func() time.Time
	Chance io.Reader // crypto/rand.Reader
	// Known asks a depot or issuer as this node, and Fresh over an identity of which nobody
	// knows whose it is. The answers are of wire/passes.go.
	Known, Fresh func(ctx context.Context, at peers.Addr, question any) (any, error)
}

// Purse may be used from several goroutines; what it does comes one after the other.
type Purse struct {
	cfg    Config
	turn   sync.Mutex     // held from a decision until it is written and sent; what changes wallet holds mu too
	mu     sync.Mutex     // guards wallet, for those whose turn it is not
	wallet *passes.Wallet // nil: it is to be read
}

// New is a purse, whose Store is not asked yet.
func New(cfg Config) *Purse { return &Purse{cfg: cfg} }

// ErrMissing is that the wallet has too few passes for a depot.
var ErrMissing = errors.New("passes are missing")

// A MissingError says how many, for what is due. It wraps ErrMissing.
type MissingError struct{ Missing int64 }

func (e *MissingError) Error() string {
	if e.Missing == 1 {
		return "1 pass is missing"
	}
	return fmt.Sprintf("%d passes are missing", e.Missing)
}
func (e *MissingError) Unwrap() error { return ErrMissing }

// open reads the wallet if that was not done yet. It is the caller's turn.
func (p *Purse) open(ctx context.Context) error {
	if _, err := p.read(ctx); err != nil {
		return err
	}
	return p.write(ctx, p.wallet.Forget(p.cfg.Now()))
}

// read is the wallet, which is read first if need be.
func (p *Purse) read(ctx context.Context) (_ *passes.Wallet, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wallet == nil {
		if p.wallet, err = p.cfg.Store.Wallet(ctx); err != nil {
			return nil, fmt.Errorf("the wallet cannot be read: %w", err)
		}
	}
	return p.wallet, nil
}

// write makes a change durable, and then does it.
func (p *Purse) write(ctx context.Context, c passes.Change) error {
	if c.Empty() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cfg.Store.WriteWallet(ctx, c); err != nil {
		p.wallet = nil // nobody knows what is written
		return fmt.Errorf("the wallet cannot be written: %w", err)
	}
	p.wallet.Apply(c)
	return nil
}

// id is a number that nothing else has.
func (p *Purse) id() (id passes.RequestID, err error) {
	_, err = io.ReadFull(p.cfg.Chance, id[:])
	return id, err
}

// Pay is what is to be sent to a depot: a payment that was begun and not answered, or else one of units,
// if that is not 0; none if m.Passes is empty. Where only larger passes are here they are exchanged first.
func (p *Purse) Pay(ctx context.Context, at peers.Addr, units int64) (m wire.Pay, err error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.open(ctx); err != nil {
		return m, err
	}
	if ids := p.wallet.Paying(string(at.ID)); len(ids) > 0 {
		return p.payment(at.ID, ids[0]), nil
	}
	stuck := p.finish(ctx, at)
	if units <= 0 {
		return m, stuck
	}
	if err := p.open(ctx); err != nil { // what finish could not write is read again
		return m, errors.Join(err, stuck)
	}
	id, err := p.id()
	if err == nil {
		err = p.reserve(ctx, at, units, id)
	}
	if err != nil {
		return m, errors.Join(err, stuck)
	}
	return p.payment(at.ID, id), nil
}

// reserve sets passes aside, of which some may be exchanged first. No more of them than can be sent at a time:
// then the depot says again what is missing.
func (p *Purse) reserve(ctx context.Context, at peers.Addr, units int64, id passes.RequestID) error {
	var seed [16]byte
	if _, err := io.ReadFull(p.cfg.Chance, seed[:]); err != nil {
		return err
	}
	chance := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	for range 1 + len(passes.Sizes) {
		c, err := p.wallet.Reserve(string(at.ID), units, id, p.cfg.Now(), chance)
		var short *passes.ShortError
		var change *passes.ChangeError
		switch {
		case errors.As(err, &short):
			return &MissingError{short.Missing}
		case errors.As(err, &change):
			if err := p.exchange(ctx, at, change.Break); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		c.Put = c.Put[:min(len(c.Put), wire.MaxPays)]
		return p.write(ctx, c)
	}
	return errors.New("passes were exchanged, and are still too large for what is due")
}

// payment is what a request pays with.
func (p *Purse) payment(at peers.ID, id passes.RequestID) wire.Pay {
	b := passes.PaymentOf(string(at), string(p.cfg.Self()), id)
	var spends []passes.Spend
	for _, h := range p.wallet.Reserved(id) {
		spends = append(spends, h.Spend(b))
	}
	return wire.Pay{ID: id, Passes: passes.AppendSpends(nil, spends)}
}

// final says that a refusal will not become anything else.
func final(r depot.Reason) bool {
	return slices.Contains([]depot.Reason{depot.BadPasses, depot.SpentPasses, depot.WrongSum, depot.BadRequest}, r)
}

// Paid enters what a depot has answered to a payment: its passes are gone, or here again, but for those that
// were spent before. It says how much was paid. After any other answer the payment stands, and Pay brings it again.
func (p *Purse) Paid(ctx context.Context, at peers.ID, m wire.Paid) (units int64, err error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.open(ctx); err != nil {
		return 0, err
	}
	held := p.wallet.Reserved(m.ID)
	if len(held) == 0 || held[0].Depot != string(at) {
		return 0, fmt.Errorf("%w: the depot answered another payment", peers.ErrProtocol)
	}
	if m.Refused == 0 {
		for _, h := range held {
			units += int64(h.Size)
		}
		return units, p.write(ctx, p.wallet.Spent(m.ID))
	}
	r := &depot.Refusal{Reason: depot.Reason(m.Refused)}
	if final(r.Reason) {
		return 0, errors.Join(p.write(ctx, p.wallet.Refused(m.ID, named(m.Bad))), r)
	}
	return 0, r
}

// named says which passes a list of names has.
func named(b []byte) func(passes.Name) bool {
	all := map[passes.Name]bool{}
	for ; len(b) >= wire.PassNames; b = b[wire.PassNames:] {
		all[passes.Name(b)] = true
	}
	return func(n passes.Name) bool { return all[n] }
}

// A Stock is what is here for one depot.
type Stock struct {
	Depot    peers.ID
	Units    int64     // that can be spent
	Reserved int64     // of payments and exchanges that are not answered yet
	Bad      int64     // that the issuer does not take
	Ordered  int64     // of vouchers that are not signed yet
	Until    time.Time // when the first of Units are worth nothing any more
}

// Stock is what is here, in the order of depots.
func (p *Purse) Stock(ctx context.Context) (all []Stock, err error) {
	w, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := map[string]*Stock{}
	of := func(depot string) *Stock {
		if at[depot] == nil {
			at[depot] = &Stock{Depot: peers.ID(depot)}
		}
		return at[depot]
	}
	for _, h := range w.All() {
		s := of(h.Depot)
		switch {
		case h.Bad || !h.Epoch.Alive(p.cfg.Now()):
			s.Bad += int64(h.Size)
		case h.Request != passes.RequestID{}:
			s.Reserved += int64(h.Size)
		default:
			s.Units += int64(h.Size)
			if end := h.Epoch.End(); s.Until.IsZero() || end.Before(s.Until) {
				s.Until = end
			}
		}
	}
	for _, o := range w.Orders() {
		if o.Voucher != (passes.Voucher{}) {
			of(o.Depot).Ordered += o.Units()
		}
	}
	for _, s := range at {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Stock) int { return cmpID(a.Depot, b.Depot) })
	return all, nil
}
