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
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/turns"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
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

// Purse may be used from several goroutines; what it does with one depot happens one after the other.
type Purse struct {
	cfg    Config
	turns  turns.Turns[peers.ID]       // of what is asked of a depot, answers included
	mu     sync.Mutex                  // guards the fields below, from a decision until it is written; never held while a depot is asked
	wallet *passes.Wallet              // nil: not read yet
	listed map[peers.ID]passes.Listing // the keys that issuers list to the account that pays, as last heard
}

// New returns a purse. It does not use the Store yet.
func New(cfg Config) *Purse { return &Purse{cfg: cfg, listed: map[peers.ID]passes.Listing{}} }

// ErrMissing means that the wallet has too few passes for a depot.
var ErrMissing = errors.New("passes are missing")

// A MissingError says how many are missing for what is due. It wraps ErrMissing.
type MissingError struct{ Missing int64 }

func (e *MissingError) Error() string {
	is := "are"
	if e.Missing == 1 {
		is = "is"
	}
	return fmt.Sprintf("%s %s missing", words.Count(int(e.Missing), "pass"), is)
}
func (e *MissingError) Unwrap() error { return ErrMissing }

// IsMissing reports whether a text is that of an error that wraps a MissingError: a restart leaves no more of one.
func IsMissing(text string) bool {
	return strings.Contains(text, " passes are missing") || strings.Contains(text, "1 pass is missing")
}

// look has f look at the wallet, which is read first if need be.
func (p *Purse) look(ctx context.Context, f func(w *passes.Wallet)) error {
	return p.change(ctx, func(w *passes.Wallet) (c passes.Change, err error) {
		f(w)
		return c, nil
	})
}

// change makes what decide returns durable, and then applies it. decide may return nothing to do.
func (p *Purse) change(ctx context.Context, decide func(w *passes.Wallet) (passes.Change, error)) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wallet == nil {
		if p.wallet, err = p.cfg.Store.Wallet(ctx); err != nil {
			return fmt.Errorf("the wallet cannot be read: %w", err)
		}
	}
	c, err := decide(p.wallet)
	if err != nil || c.Empty() {
		return err
	}
	if err := p.cfg.Store.WriteWallet(ctx, c); err != nil {
		p.wallet = nil // what is on the disk is unknown
		return fmt.Errorf("the wallet cannot be written: %w", err)
	}
	p.wallet.Apply(c)
	return nil
}

// begin takes the turn of a depot, until leave is called, and forgets passes that have ended.
func (p *Purse) begin(ctx context.Context, at peers.ID) (leave func(), err error) {
	if leave, err = p.turns.Take(ctx, at); err != nil {
		return nil, err
	}
	err = p.change(ctx, func(w *passes.Wallet) (passes.Change, error) {
		return w.Forget(string(at), p.listed[at], p.cfg.Now()), nil
	})
	if err != nil {
		leave()
	}
	return leave, err
}

// id returns a new random number.
func (p *Purse) id() (id passes.RequestID, err error) {
	_, err = io.ReadFull(p.cfg.Chance, id[:])
	return id, err
}

// Pay returns the payment to send to a depot: one that was begun and is not over, nor among those that are counted, or else a
// new one of units for the lease of a share; m.Passes is empty if there is nothing to pay. If there are only larger passes they are exchanged first.
func (p *Purse) Pay(ctx context.Context, at peers.Addr, lease share.ID, units int64, counted [][wire.PaymentID]byte) (m wire.Pay, err error) {
	leave, err := p.begin(ctx, at.ID)
	if err != nil {
		return m, err
	}
	defer leave()
	var begun []passes.RequestID
	if err := p.look(ctx, func(w *passes.Wallet) { begun = w.Paying(string(at.ID)) }); err != nil {
		return m, err
	}
	begun = slices.DeleteFunc(begun, func(id passes.RequestID) bool { return slices.Contains(counted, [wire.PaymentID]byte(id)) })
	if len(begun) > 0 {
		return p.payment(ctx, at.ID, begun[0])
	}
	stuck := p.finish(ctx, at)
	if units <= 0 {
		return m, stuck
	}
	id, err := p.id()
	if err == nil {
		err = p.reserve(ctx, at, lease, units, id)
	}
	if err != nil {
		return m, errors.Join(err, stuck)
	}
	return p.payment(ctx, at.ID, id)
}

// reserve sets passes aside, after exchanging some if need be, but at most as many as one message
// holds; then the depot says again what is missing.
func (p *Purse) reserve(ctx context.Context, at peers.Addr, lease share.ID, units int64, id passes.RequestID) error {
	var seed [16]byte
	if _, err := io.ReadFull(p.cfg.Chance, seed[:]); err != nil {
		return err
	}
	chance := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	asked := false
	for range 2 + len(passes.Sizes) {
		err := p.change(ctx, func(w *passes.Wallet) (passes.Change, error) {
			all := w
			if asked { // what is not listed stays, and the rest may do
				w = w.Listed(p.listed[at.ID])
			}
			c, err := w.Reserve(string(at.ID), units, id, p.cfg.Now(), chance)
			if errors.As(err, new(*passes.ShortError)) && all.Units(string(at.ID), p.cfg.Now()) >= units {
				err = passes.ErrTagged
			}
			c.Put = c.Put[:min(len(c.Put), wire.MaxPays)]
			for i := range c.Put {
				c.Put[i].Lease = lease.String()
			}
			return c, errors.Join(err, p.known(at.ID, c.Put, err))
		})
		var short *passes.ShortError
		var change *passes.ChangeError
		switch {
		case errors.Is(err, passes.ErrTagged) && !asked:
			asked = true
			if err := p.ask(ctx, at); err != nil {
				return err
			}
			continue
		case errors.Is(err, passes.ErrTagged):
			return passes.ErrTagged
		case errors.As(err, &short):
			return &MissingError{short.Missing}
		case !errors.As(err, &change):
			return err
		}
		if err := p.exchange(ctx, at, change.Break); err != nil {
			return err
		}
	}
	return errors.New("passes were exchanged, and are still too large for what is due")
}

// known returns passes.ErrTagged if passes that are to be spent, or exchanged before as err says, have keys that their issuer does
// not list to the account.
func (p *Purse) known(at peers.ID, spent []passes.Held, err error) error {
	if change, ok := errors.AsType[*passes.ChangeError](err); ok {
		spent = []passes.Held{change.Break}
	}
	for _, h := range spent {
		if p.listed[at].Key(h.Key) == nil {
			return passes.ErrTagged
		}
	}
	return nil
}

// ask asks an issuer for the keys that it lists to the account.
func (p *Purse) ask(ctx context.Context, at peers.Addr) error {
	l, err := p.keys(ctx, at, p.cfg.Known)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed[at.ID] = l
	return nil
}

// payment returns the payment with the passes that are reserved for a request.
func (p *Purse) payment(ctx context.Context, at peers.ID, id passes.RequestID) (m wire.Pay, err error) {
	spends, err := p.spends(ctx, id, passes.PaymentOf(string(at), string(p.cfg.Self()), id))
	return wire.Pay{ID: id, Passes: spends}, err
}

// spends returns the passes that are reserved for a request, spent for what b names.
func (p *Purse) spends(ctx context.Context, id passes.RequestID, b passes.Binding) (list []byte, err error) {
	var spends []passes.Spend
	err = p.look(ctx, func(w *passes.Wallet) {
		for _, h := range w.Reserved(id) {
			spends = append(spends, h.Spend(b))
		}
	})
	return passes.AppendSpends(nil, spends), err
}

// final reports whether a refusal will never become anything else.
func final(r depot.Reason) bool {
	return slices.Contains([]depot.Reason{depot.BadPasses, depot.SpentPasses, depot.WrongSum, depot.BadRequest}, r)
}

// Paid enters a depot's answer to a payment: after a final refusal its passes are free again except those that
// were spent before. It returns for which lease how much was paid. The payment stands, and Pay returns it again, until
// Counted is told that this is written down.
func (p *Purse) Paid(ctx context.Context, at peers.ID, m wire.Paid) (lease share.ID, units int64, err error) {
	r := &depot.Refusal{Reason: depot.Reason(m.Refused)}
	err = p.change(ctx, func(w *passes.Wallet) (c passes.Change, err error) {
		held := w.Reserved(m.ID)
		switch {
		case len(held) == 0 || held[0].Depot != string(at):
			return c, fmt.Errorf("%w: what the depot answered is about another payment", peers.ErrProtocol)
		case final(r.Reason):
			return p.refused(w, at, m.ID, r.Reason, m.Bad), nil
		case r.Reason != 0:
			return c, nil
		}
		for _, h := range held {
			units += int64(h.Size)
		}
		return c, lease.UnmarshalText([]byte(held[0].Lease))
	})
	if r.Reason != 0 {
		err = errors.Join(err, r)
	}
	return lease, units, err
}

// Counted drops the passes of payments that were made, and that their owner has counted durably.
func (p *Purse) Counted(ctx context.Context, payments [][wire.PaymentID]byte) error {
	return p.change(ctx, func(w *passes.Wallet) (c passes.Change, err error) {
		for _, id := range payments {
			c.Drop = append(c.Drop, w.Spent(id).Drop...)
		}
		return c, nil
	})
}

// refused is the change when a request was refused for good; bad has the names of passes. If these may have keys that are not in use
// any more, the account asks for those that are before it spends others.
func (p *Purse) refused(w *passes.Wallet, at peers.ID, id passes.RequestID, r depot.Reason, bad []byte) passes.Change {
	if r == depot.BadPasses {
		delete(p.listed, at)
	}
	all := map[passes.Name]bool{}
	for ; len(bad) >= wire.PassNames; bad = bad[wire.PassNames:] {
		all[passes.Name(bad)] = true
	}
	return w.Refused(id, func(n passes.Name) bool { return all[n] })
}

// A Stock describes the passes for one depot.
type Stock struct {
	Depot    peers.ID
	Units    int64     // that can be spent
	Reserved int64     // in payments and exchanges that are not answered yet
	Bad      int64     // worthless, or refused by the issuer
	Ordered  int64     // for vouchers that are not signed yet
	Until    time.Time // when the first of Units become worthless
	Later    int64     // of Units, that are good for longer
}

// Stock returns the passes of each depot, in the order of depots.
func (p *Purse) Stock(ctx context.Context) (all []Stock, err error) {
	now, at := p.cfg.Now(), map[string]*Stock{}
	err = p.look(ctx, func(w *passes.Wallet) {
		for _, h := range w.All() {
			stockOf(at, h.Depot).add(h, now)
		}
		for _, o := range w.Orders() {
			if o.Voucher != (passes.Voucher{}) {
				stockOf(at, o.Depot).Ordered += o.Units()
			}
		}
	})
	for _, s := range at {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Stock) int { return cmp.Compare(a.Depot, b.Depot) })
	return all, err
}

func stockOf(all map[string]*Stock, depot string) *Stock {
	if all[depot] == nil {
		all[depot] = &Stock{Depot: peers.ID(depot)}
	}
	return all[depot]
}

// add counts a pass.
func (s *Stock) add(h passes.Held, now time.Time) {
	switch {
	case h.Bad || !h.Epoch.Alive(now):
		s.Bad += int64(h.Size)
	case h.Request != passes.RequestID{}:
		s.Reserved += int64(h.Size)
	default:
		switch end := h.Epoch.End(); {
		case s.Until.IsZero():
			s.Until = end
		case end.Before(s.Until): // two epochs are alive
			s.Until, s.Later = end, s.Units
		case end.After(s.Until):
			s.Later += int64(h.Size)
		}
		s.Units += int64(h.Size)
	}
}
