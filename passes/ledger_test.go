package passes

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

var seeds = flag.Int("seeds", rig.Most(100, 25), "random histories of wallets that crash")

// A purse is a wallet, its durable state, and an issuer, without any cryptography: only who has
// which pass matters here. Every step may be the last before a crash, and every message may be
// lost in either direction.
type purse struct {
	t       *testing.T
	chance  *rand.Rand
	now     time.Time
	wallet  *Wallet
	held    map[[nonceBytes]byte]Held // what the wallet has on disk
	orders  map[RequestID]Order
	book    *Book
	log     []Entry // what the issuer has on disk
	keys    [len(Sizes)]*PublicKey
	granted map[RequestID]int64 // what depots keep, and for what
	wanted  map[RequestID]int64 // what the wallet wants kept, and for what
	sold    int64
}

var errCrashed = errors.New("crashed")

func (p *purse) maybe(n int) bool { return p.chance.IntN(n) == 0 }

// write makes a change durable, and then applies it; or there is a crash before or between.
func (p *purse) write(c Change) error {
	if p.maybe(12) {
		return errCrashed
	}
	for _, h := range c.Put {
		p.held[h.Nonce] = h
	}
	for _, n := range c.Drop {
		delete(p.held, n)
	}
	if c.Order != nil {
		p.orders[c.Order.ID] = *c.Order
	}
	delete(p.orders, c.DropOrder)
	if p.maybe(12) {
		return errCrashed
	}
	p.wallet.Apply(c)
	return nil
}

func (p *purse) restart() {
	var held []Held
	var orders []Order
	for _, h := range p.held {
		held = append(held, h)
	}
	for _, o := range p.orders {
		orders = append(orders, o)
	}
	p.wallet = Load(held, orders)
}

// enter is the issuer's disk.
func (p *purse) enter(entries []Entry) error {
	for _, e := range entries {
		if p.maybe(30) { // the others are not written, and nothing is answered
			p.book = NewBook()
			for _, e := range p.log {
				back, err := ParseEntry(e.Append(nil))
				if err != nil || back != e {
					p.t.Fatal(back, err)
				}
				p.book.Enter(back)
			}
			return errCrashed
		}
		p.log = append(p.log, e)
		p.book.Enter(e)
	}
	return nil
}

// requests are the order's, with elements that are not valid.
func (o Order) requests() (r Requests) {
	for i, n := range o.Counts {
		if n == 0 {
			continue
		}
		r[i] = []byte{0, tokenType, 0}
		if n*elementBytes >= 64 {
			r[i] = append(r[i], 0x40|byte(n*elementBytes>>8))
		}
		r[i] = append(r[i], byte(n*elementBytes))
		for at := range n {
			h := sha256.Sum256(binary.BigEndian.AppendUint64(append(o.Seed[:], byte(i)), uint64(at)))
			r[i] = append(r[i], h[:]...)
		}
	}
	return r
}

func (p *purse) signed(o Order) (all []Held) {
	for i, r := range o.requests() {
		for at := len(r) - int(o.Counts[i])*elementBytes; at < len(r); at += elementBytes {
			all = append(all, Held{Pass: Pass{Nonce: [nonceBytes]byte(r[at : at+elementBytes])}, Size: Sizes[i], Epoch: EpochAt(p.now), Issuer: o.Issuer, Depot: o.Depot})
		}
	}
	return all
}

func (p *purse) id() (id RequestID) {
	binary.BigEndian.PutUint64(id[:], p.chance.Uint64()|1)
	return id
}

func (p *purse) spends(id RequestID) (spends []Spend, keys []*PublicKey) {
	for _, h := range p.wallet.Reserved(id) {
		spends = append(spends, Spend{Nonce: h.Nonce})
		keys = append(keys, p.keys[slices.Index(Sizes[:], h.Size)])
	}
	return spends, keys
}

// deliver sends an order until its passes have arrived.
func (p *purse) deliver(o Order) error {
	if p.maybe(5) {
		return errCrashed // the request is lost
	}
	if o.Voucher != (Voucher{}) {
		entries, err := p.book.Redeem(o.Voucher, o.requests(), now)
		if err != nil {
			p.t.Fatalf("redeem: %v", err)
		}
		if err := p.enter(entries); err != nil {
			return err
		}
	} else {
		units, err := o.requests().Units()
		if err != nil {
			p.t.Fatal(err)
		}
		spends, keys := p.spends(o.ID)
		entries, bad, err := p.book.Spend(spends, keys, units, o.ID)
		if err != nil {
			p.t.Fatalf("exchange: %v, %d bad", err, len(bad))
		}
		if err := p.enter(entries); err != nil {
			return err
		}
	}
	if p.maybe(5) {
		return errCrashed // the answer is lost
	}
	err := p.write(p.wallet.Got(o.ID, p.signed(o)))
	if err == nil && p.maybe(5) { // it comes twice
		err = p.write(p.wallet.Got(o.ID, p.signed(o)))
	}
	return err
}

func (p *purse) order(units int64, most Size, v Voucher) Order {
	o, err := NewOrder(p.id(), Seed{byte(p.chance.Uint32()), byte(p.chance.Uint32()), byte(p.chance.Uint32()), byte(p.chance.Uint32())}, "issuer", "depot", p.keys[:], units, most, p.now)
	if err != nil {
		p.t.Fatal(err)
	}
	o.Voucher = v
	return o
}

func (p *purse) buy() error {
	v, units := Voucher{byte(p.chance.Uint32()), byte(p.chance.Uint32()), byte(p.chance.Uint32())}, 1+p.chance.Int64N(300)
	e := p.book.Sell(v, units, p.now)
	p.log = append(p.log, e)
	p.book.Enter(e)
	o := p.order(units, Sizes[0], v)
	p.sold += units
	if err := p.write(p.wallet.Ask(o)); err != nil {
		if _, ok := p.orders[o.ID]; !ok {
			p.sold -= units // the code was never typed, as far as the disk knows
		}
		return err
	}
	return p.deliver(o)
}

// pay pays for a request, new or begun before, until a depot has granted or refused it.
func (p *purse) pay(id RequestID) error {
	units := p.wanted[id]
	c, err := p.wallet.Reserve("depot", units, id, p.now, p.chance)
	var short *ShortError
	var change *ChangeError
	switch {
	case errors.As(err, &short):
		if short.Missing != units-p.wallet.Units("depot", p.now) {
			p.t.Fatalf("%d are missing of %d", short.Missing, units)
		}
		delete(p.wanted, id)
		return nil
	case errors.As(err, &change):
		i := slices.Index(Sizes[:], change.Break.Size)
		o := p.order(int64(change.Break.Size), Sizes[i+1], Voucher{})
		if err := p.write(p.wallet.Break(change.Break, o)); err != nil {
			return err
		}
		return p.deliver(o)
	case err != nil:
		p.t.Fatal(err)
	}
	if err := p.write(c); err != nil {
		return err
	}
	if p.maybe(5) {
		return errCrashed
	}
	if _, had := p.granted[id]; !had && p.maybe(4) { // refused by the depot: the issuer was not asked
		if slices.ContainsFunc(p.log, func(e Entry) bool { return e.Kind == Spent && RequestID(e.For[:16]) == id }) {
			return errCrashed // the issuer was asked, and the depot asks again
		}
		if err := p.write(p.wallet.Refused(id, func(Name) bool { return false })); err != nil {
			return err
		}
		delete(p.wanted, id)
		return nil
	}
	spends, keys := p.spends(id)
	entries, bad, err := p.book.Spend(spends, keys, units, id)
	if err != nil {
		p.t.Fatalf("spend: %v, %d bad", err, len(bad))
	}
	if err := p.enter(entries); err != nil {
		return err
	}
	if had, ok := p.granted[id]; ok && had != units {
		p.t.Fatal("granted twice")
	}
	p.granted[id] = units
	if p.maybe(5) {
		return errCrashed // the answer is lost
	}
	if err := p.write(p.wallet.Spent(id)); err != nil {
		return err
	}
	delete(p.wanted, id)
	return nil
}

// settle finishes what is unfinished, as after a start.
func (p *purse) settle() error {
	p.restart()
	for _, o := range p.wallet.Orders() {
		if err := p.deliver(o); err != nil {
			return err
		}
	}
	for id := range p.wanted {
		if len(p.wallet.Reserved(id)) == 0 {
			if _, done := p.granted[id]; done {
				delete(p.wanted, id)
			}
			continue // it was never begun
		}
		if err := p.pay(id); err != nil {
			return err
		}
	}
	return nil
}

// TestNoPassIsLostOrPaidTwice: whatever crashes and whatever is lost, in the end each pass that
// was paid for is in the wallet or has paid for one request.
func TestNoPassIsLostOrPaidTwice(t *testing.T) {
	var keys [len(Sizes)]*PublicKey
	for i, s := range Sizes {
		keys[i] = &newKey(t, s, byte(i)).PublicKey
	}
	for seed := range *seeds {
		p := &purse{t: t, chance: rand.New(rand.NewPCG(uint64(seed), 1)), now: now, wallet: Load(nil, nil), held: map[[nonceBytes]byte]Held{},
			orders: map[RequestID]Order{}, book: NewBook(), keys: keys, granted: map[RequestID]int64{}, wanted: map[RequestID]int64{}}
		for range 30 {
			var err error
			if p.maybe(3) {
				err = p.buy()
			} else {
				id := p.id()
				p.wanted[id] = 1 + p.chance.Int64N(100)
				err = p.pay(id)
			}
			for err != nil {
				err = p.settle()
			}
		}
		for err := errCrashed; err != nil; {
			err = p.settle()
		}
		var have, paid, spent int64
		for _, h := range p.held {
			have += int64(h.Size)
			if h.Bad || h.Request != (RequestID{}) {
				t.Fatalf("seed %d: left over: %+v", seed, h)
			}
		}
		for _, units := range p.granted {
			paid += units
		}
		names := map[Name]int{}
		for _, e := range p.log {
			if names[e.Name]++; e.Kind == Spent && names[e.Name] > 1 {
				t.Fatalf("seed %d: a pass was spent twice", seed)
			}
			if _, ok := p.granted[RequestID(e.For[:16])]; ok && e.Kind == Spent {
				spent++
			}
		}
		if len(p.orders) > 0 || have+paid != p.sold || paid > 0 && spent == 0 || p.wallet.Units("depot", now) != have {
			t.Fatalf("seed %d: %d sold, %d in the wallet, %d paid, %d orders left", seed, p.sold, have, paid, len(p.orders))
		}
	}
}

func TestTheBookRefuses(t *testing.T) {
	b, key := NewBook(), newKey(t, 64, 1)
	spends := []Spend{{Nonce: [32]byte{1}}, {Nonce: [32]byte{2}}}
	keys := []*PublicKey{&key.PublicKey, &key.PublicKey}
	entries, _, err := b.Spend(spends, keys, 128, RequestID{1})
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	b.Enter(entries[1])
	if again, _, err := b.Spend(spends, keys, 128, RequestID{1}); err != nil || len(again) != 1 {
		t.Errorf("the rest of the same: %v %v", again, err)
	}
	if e, bad, err := b.Spend(spends, keys, 128, RequestID{2}); !errors.Is(err, ErrSpent) || e != nil || len(bad) != 1 || bad[0] != nameOf(spends[1].Nonce) {
		t.Errorf("for another: %v %v %v", e, bad, err)
	}
	for _, units := range []int64{127, 129, 0} {
		if _, _, err := b.Spend(spends, keys, units, RequestID{1}); !errors.Is(err, ErrUnits) {
			t.Errorf("%d units: %v", units, err)
		}
	}
	v, err := NewVoucher(rand.NewChaCha8([32]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	b.Enter(b.Sell(v, 65, now))
	order := func(units int64, seed byte) Requests {
		small := newKey(t, 1, 1)
		o, err := NewOrder(RequestID{9}, Seed{seed}, "issuer", "depot", Listing{&key.PublicKey, &small.PublicKey}, units, Sizes[0], now)
		if err != nil {
			t.Fatal(err)
		}
		return o.requests()
	}
	if _, err := b.Redeem(v, order(66, 1), now); !errors.Is(err, ErrUnits) {
		t.Errorf("too much: %v", err)
	}
	if _, err := b.Redeem(v, Requests{}, now); !errors.Is(err, ErrMessage) {
		t.Errorf("nothing: %v", err)
	}
	entries, err = b.Redeem(v, order(65, 1), now)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	b.Enter(entries[0])
	if again, err := b.Redeem(v, order(65, 1), now); err != nil || len(again) != 0 {
		t.Errorf("again: %v %v", again, err)
	}
	if _, err := b.Redeem(v, order(65, 2), now); !errors.Is(err, ErrRedeemed) {
		t.Errorf("another order: %v", err)
	}
	b.Forget(EpochAt(now).Forget().Add(-time.Second))
	if _, _, err := b.Spend(spends[1:], keys[1:], 64, RequestID{2}); !errors.Is(err, ErrSpent) {
		t.Errorf("forgotten too early: %v", err)
	}
	if _, err := b.Redeem(v, order(65, 2), now); !errors.Is(err, ErrRedeemed) {
		t.Errorf("a voucher is forgotten too early: %v", err)
	}
	b.Enter(spent(key.Epoch, Name{9}, use{mark: Mark{1}}))
	if b.Forget(key.Epoch.Forget()); len(b.spent[key.Epoch]) != 1 || !b.Taken(spends[1:], RequestID{1}) {
		t.Errorf("of a payment and an exchange, %v is known", b.spent)
	}
	b.Forget((key.Epoch + 1).Forget())
	if _, err := b.Redeem(v, order(65, 1), now); !errors.Is(err, ErrUnknown) || len(b.spent) > 0 {
		t.Errorf("not forgotten: %v", err)
	}
}

func TestVouchersAsTheyAreTyped(t *testing.T) {
	v, err := NewVoucher(rand.NewChaCha8([32]byte{7}))
	if err != nil {
		t.Fatal(err)
	}
	s := v.String()
	if len(s) != 29 {
		t.Errorf("%q", s)
	}
	for _, typed := range []string{s, " " + s[:10] + "\n\t" + s[10:] + "\n", string(v[:])} {
		if back, err := ParseVoucher(typed); err != nil || back != v {
			t.Errorf("%q: %v %v", typed, back, err)
		}
	}
	for _, typed := range []string{"", s[1:], s + "a", "1" + s[1:], "ü" + s[2:]} {
		if _, err := ParseVoucher(typed); !errors.Is(err, ErrVoucher) {
			t.Errorf("%q: %v", typed, err)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(Entry{Kind: Redeemed, Epoch: 5}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := ParseEntry(b); err == nil && string(e.Append(nil)) != string(b) {
			t.Errorf("%x comes back as %x", b, e.Append(nil))
		}
	})
}
