// Package purse keeps a wallet of passes and speaks with issuers: it redeems vouchers,
// exchanges passes, and makes the payments to depots. It promises nothing to outsiders.
//
//	purse.go   Purse: pays, and enters what depots answer
//	order.go   vouchers and exchanges
//
// Everything is durable before it is sent. A payment or an order that was interrupted, by a
// crash or a lost answer, is sent again unchanged.
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

// Config is what a Purse needs.
type Config struct {
	Store  Store
	Self   func() peers.ID // the account that pays
	Now    func() time.Time
	Chance io.Reader // crypto/rand.Reader
	// Known asks a depot or issuer as this node, and Fresh as an identity that nobody can link to
	// it. The answers are messages of wire/passes.go.
	Known, Fresh func(ctx context.Context, at peers.Addr, question any) (any, error)
}

// Purse may be used from several goroutines; its operations run one after the other.
type Purse struct {
	cfg    Config
	turn   sync.Mutex     // held from a decision until it is written and sent; changes to wallet also hold mu
	mu     sync.Mutex     // guards wallet for those that do not hold turn
	wallet *passes.Wallet // nil: not read yet
}

// New returns a purse. It does not use the Store yet.
func New(cfg Config) *Purse { return &Purse{cfg: cfg} }

// ErrMissing means that the wallet has too few passes for a depot.
var ErrMissing = errors.New("passes are missing")

// A MissingError says how many are missing for what is due. It wraps ErrMissing.
type MissingError struct{ Missing int64 }

func (e *MissingError) Error() string {
	if e.Missing == 1 {
		return "1 pass is missing"
	}
	return fmt.Sprintf("%d passes are missing", e.Missing)
}
func (e *MissingError) Unwrap() error { return ErrMissing }

// open reads the wallet if that was not done yet. The caller holds turn.
func (p *Purse) open(ctx context.Context) error {
	if _, err := p.read(ctx); err != nil {
		return err
	}
	return p.write(ctx, p.wallet.Forget(p.cfg.Now()))
}

// read returns the wallet, and reads it first if need be.
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

// write makes a change durable, and then applies it.
func (p *Purse) write(ctx context.Context, c passes.Change) error {
	if c.Empty() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cfg.Store.WriteWallet(ctx, c); err != nil {
		p.wallet = nil // what is on the disk is unknown
		return fmt.Errorf("the wallet cannot be written: %w", err)
	}
	p.wallet.Apply(c)
	return nil
}

// id returns a new random number.
func (p *Purse) id() (id passes.RequestID, err error) {
	_, err = io.ReadFull(p.cfg.Chance, id[:])
	return id, err
}

// Pay returns the payment to send to a depot: one that was begun and not answered, or else a new
// one of units; m.Passes is empty if there is nothing to pay. If there are only larger passes they
// are exchanged first.
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
	if err := p.open(ctx); err != nil { // finish may have failed to write: read the wallet again
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

// reserve sets passes aside, after exchanging some if need be, but at most as many as one message
// holds; then the depot says again what is missing.
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

// payment returns the payment with the passes that are reserved for a request.
func (p *Purse) payment(at peers.ID, id passes.RequestID) wire.Pay {
	b := passes.PaymentOf(string(at), string(p.cfg.Self()), id)
	var spends []passes.Spend
	for _, h := range p.wallet.Reserved(id) {
		spends = append(spends, h.Spend(b))
	}
	return wire.Pay{ID: id, Passes: passes.AppendSpends(nil, spends)}
}

// final reports whether a refusal will never become anything else.
func final(r depot.Reason) bool {
	return slices.Contains([]depot.Reason{depot.BadPasses, depot.SpentPasses, depot.WrongSum, depot.BadRequest}, r)
}

// Paid enters a depot's answer to a payment: its passes are gone, or free again except those that
// were spent before. It returns how much was paid. After any other answer the payment stands, and Pay
// returns it again.
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

// named reports which passes are in a list of names.
func named(b []byte) func(passes.Name) bool {
	all := map[passes.Name]bool{}
	for ; len(b) >= wire.PassNames; b = b[wire.PassNames:] {
		all[passes.Name(b)] = true
	}
	return func(n passes.Name) bool { return all[n] }
}

// A Stock describes the passes for one depot.
type Stock struct {
	Depot    peers.ID
	Units    int64     // that can be spent
	Reserved int64     // in payments and exchanges that are not answered yet
	Bad      int64     // worthless, or refused by the issuer
	Ordered  int64     // for vouchers that are not signed yet
	Until    time.Time // when the first of Units become worthless
}

// Stock returns the passes of each depot, in the order of depots.
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
