package purse

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/passes/issuer"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

const account = peers.ID("12D3KooWTheAccountThatPays")

var (
	seller = peers.Addr{ID: "12D3KooWTheDepotThatIssues"}
	now    = time.Unix(1e9, 0)
)

// A market is a depot that issues passes, a wallet, and all that travels between them: over the account's connections, and over
// those of strangers.
type market struct {
	*testing.T
	issuer         issuer.Counter
	purse          *Purse
	wallet         *passes.Wallet
	got            [][]passes.Held // by order
	known, fresh   [][]byte        // what travelled
	knownTo        func(wire.PassKeyList) wire.PassKeyList
	redeemed, paid []any // questions
}

func newMarket(t *testing.T, chance *rand.ChaCha8) *market {
	m := &market{T: t, wallet: passes.Load(nil, nil)}
	i, err := issuer.Open(storetest.New(1<<22).FS(), chance)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	m.issuer = issuer.Counter{Issuer: i}
	m.purse = New(Config{Store: m, Self: func() peers.ID { return account }, Now: func() time.Time { return now }, Chance: chance,
		Known: func(_ context.Context, at peers.Addr, q any) (any, error) {
			a, err := m.answer(at, q)
			if l, ok := a.(wire.PassKeyList); ok && m.knownTo != nil {
				a = m.knownTo(l)
			}
			m.known = append(m.known, []byte(account), encoded(q), encoded(a))
			return a, err
		},
		Fresh: func(_ context.Context, at peers.Addr, q any) (any, error) {
			a, err := m.answer(at, q)
			m.fresh, m.redeemed = append(m.fresh, encoded(q), encoded(a)), append(m.redeemed, q)
			return a, err
		}})
	return m
}

func (m *market) Wallet(context.Context) (*passes.Wallet, error) { return m.wallet, nil }

func (m *market) WriteWallet(_ context.Context, c passes.Change) error {
	if c.DropOrder != (passes.RequestID{}) {
		m.got = append(m.got, c.Put)
	}
	return nil
}

func (m *market) answer(at peers.Addr, q any) (any, error) {
	refused := func(err error) uint8 {
		if r, ok := errors.AsType[*depot.Refusal](err); ok {
			return uint8(r.Reason)
		}
		return 0
	}
	switch q := q.(type) {
	case wire.PassKeys:
		keys, err := m.issuer.Keys(now)
		return wire.PassKeyList{Keys: keys}, err
	case wire.Redeem:
		s, err := m.issuer.Redeem(q, now)
		return wire.Signed{Refused: refused(err), Signed: s}, nil
	case wire.Exchange:
		s, bad, err := m.issuer.Exchange(at.ID, q, now)
		return wire.Signed{Refused: refused(err), Signed: s, Bad: bad}, nil
	}
	return nil, errors.New("another question")
}

func encoded(m any) []byte {
	switch m := m.(type) {
	case wire.PassKeys:
		return wire.Append(nil, m)
	case wire.PassKeyList:
		return wire.Append(nil, m)
	case wire.Redeem:
		return wire.Append(nil, m)
	case wire.Exchange:
		return wire.Append(nil, m)
	case wire.Signed:
		return wire.Append(nil, m)
	case wire.Pay:
		return wire.Append(nil, m)
	case wire.Paid:
		return wire.Append(nil, m)
	}
	panic("a message of another type")
}

func (m *market) buy(units int64) {
	m.Helper()
	v, err := m.issuer.Sell(units, now)
	if err == nil {
		err = m.purse.Redeem(m.Context(), seller, v, units)
	}
	if err != nil {
		m.Fatal(err)
	}
}

// pay has the account pay the depot.
func (m *market) pay(units int64) wire.Pay {
	m.Helper()
	q, err := m.purse.Pay(m.Context(), seller, share.ID{}, units, nil)
	if err != nil {
		m.Fatal(err)
	}
	worth, err := m.issuer.Worth(q.Passes)
	if err != nil {
		m.Fatal(err)
	}
	if _, err := m.issuer.Spend(seller.ID, account, q, [16]byte(q.ID), worth, now); err != nil {
		m.Fatal(err)
	}
	a := wire.Paid{ID: q.ID}
	m.known, m.paid = append(m.known, []byte(account), encoded(q), encoded(a)), append(m.paid, q)
	if _, n, err := m.purse.Paid(m.Context(), seller.ID, a); err != nil || n != units {
		m.Fatalf("%d of %d were paid: %v", n, units, err)
	}
	if err := m.purse.Counted(m.Context(), [][wire.PaymentID]byte{q.ID}); err != nil {
		m.Fatal(err)
	}
	return q
}

// windows are all runs of some bytes in messages.
func windows(all [][]byte) map[[8]byte]bool {
	out := map[[8]byte]bool{}
	for _, b := range all {
		for i := 0; i+8 <= len(b); i++ {
			out[[8]byte(b[i:])] = true
		}
	}
	return out
}

// What a stranger sends to redeem vouchers and what the account sends to pay have nothing in common, down to eight bytes, but for
// what is the same for everybody: the issuer's list of keys, and in an exchange, which spends passes too, their keys and the depot.
func TestNothingOnBothWiresIsTheWallets(t *testing.T) {
	t.Parallel()
	m := newMarket(t, rand.NewChaCha8([32]byte{1}))
	m.buy(130)
	if len(m.known) > 0 {
		t.Error("the account asked something when a stranger redeemed its voucher: the time links the two")
	}
	m.buy(7)
	for _, units := range []int64{9, 64, 3} { // the first wants change
		m.pay(units)
	}
	exchanges := slices.DeleteFunc(slices.Clone(m.redeemed), func(q any) bool { _, ok := q.(wire.Exchange); return !ok })
	if len(exchanges) == 0 || len(m.redeemed) < 5 {
		t.Fatalf("%d questions of strangers, %d exchanges", len(m.redeemed), len(exchanges))
	}
	keys, err := m.issuer.Keys(now)
	if err != nil {
		t.Fatal(err)
	}
	same := [][]byte{encoded(wire.PassKeyList{Keys: keys})}
	listed, err := passes.ParseListing(keys)
	if err != nil {
		t.Fatal(err)
	}
	place := passes.Challenge(string(seller.ID))
	for _, k := range listed {
		id := k.ID()
		same = append(same, slices.Concat(place[:], id[:]))
	}
	everybodys, strangers := windows(same), windows(m.fresh)
	for w := range windows(m.known) {
		if strangers[w] && !everybodys[w] {
			t.Errorf("%x is on both wires", w)
		}
	}
}

// How many passes of which sizes a stranger asks for follows from the voucher alone, whatever the wallet has, and so does the length of
// what it sends.
func TestARedemptionTellsNothingOfTheWallet(t *testing.T) {
	t.Parallel()
	var sent [][]int
	for seed := range byte(2) {
		m := newMarket(t, rand.NewChaCha8([32]byte{seed}))
		if seed == 1 { // it has something, and has paid
			m.buy(3)
			m.pay(2)
		}
		before := len(m.fresh)
		m.buy(130)
		var lengths []int
		for _, b := range m.fresh[before:] {
			lengths = append(lengths, len(b))
		}
		sent = append(sent, lengths)
	}
	if !slices.Equal(sent[0], sent[1]) {
		t.Errorf("messages of %v bytes and of %v", sent[0], sent[1])
	}
}

// Which passes of a batch are spent first, and in which order, is left to chance: the place of a pass in its batch tells nothing.
func TestAnyPassOfABatchIsSpentFirst(t *testing.T) {
	t.Parallel()
	const batch, runs = 4, 64
	var first [batch]int
	m := newMarket(t, rand.NewChaCha8([32]byte{3}))
	for range runs {
		m.buy(batch)
		mine := m.got[len(m.got)-1]
		spends, err := passes.ParseSpends(m.pay(1).Passes)
		if err != nil || len(spends) != 1 || len(mine) != batch {
			t.Fatal(err, len(spends), len(mine))
		}
		first[slices.IndexFunc(mine, func(h passes.Held) bool { return h.Nonce == spends[0].Nonce })]++
		rest, err := passes.ParseSpends(m.pay(batch - 1).Passes)
		if err != nil || !slices.IsSortedFunc(rest, func(a, b passes.Spend) int { return bytes.Compare(a.Nonce[:], b.Nonce[:]) }) {
			t.Errorf("passes are sent in another order than that of their nonces: %v", err)
		}
	}
	for i, n := range first {
		if n < runs/batch/2 || n > runs/batch*2 {
			t.Errorf("the pass at place %d was spent first in %d of %d cases: %v", i, n, runs, first)
		}
	}
}

// An issuer that sells a stranger passes under a key that it does not list to the account gets none of them back.
func TestATaggedPassIsNotSpent(t *testing.T) {
	t.Parallel()
	m := newMarket(t, rand.NewChaCha8([32]byte{4}))
	other := newMarket(t, rand.NewChaCha8([32]byte{5}))
	m.buy(3)
	m.knownTo = func(wire.PassKeyList) (l wire.PassKeyList) { l.Keys, _ = other.issuer.Keys(now); return l }
	for range 2 {
		if q, err := m.purse.Pay(t.Context(), seller, share.ID{}, 2, nil); !errors.Is(err, passes.ErrTagged) || len(q.Passes) > 0 {
			t.Fatalf("%d bytes of passes, %v", len(q.Passes), err)
		}
	}
	v, err := m.issuer.Sell(3, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.purse.Redeem(t.Context(), seller, v, 3); !errors.Is(err, passes.ErrTagged) {
		t.Errorf("more are bought: %v", err)
	}
	if s, err := m.purse.Stock(t.Context()); err != nil || len(s) != 1 || s[0].Units != 3 || s[0].Reserved != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	m.knownTo = nil
	m.pay(2)
	m.buy(3)
}

// Passes whose key is not listed any more, as an issuer has lost it, do not keep those from being spent that have one.
func TestAPassOfALostKeyIsNoHindrance(t *testing.T) {
	t.Parallel()
	m := newMarket(t, rand.NewChaCha8([32]byte{6}))
	m.buy(7)
	m.issuer = newMarket(t, rand.NewChaCha8([32]byte{7})).issuer
	m.buy(3)
	m.pay(2)
	m.pay(1)
	if q, err := m.purse.Pay(t.Context(), seller, share.ID{}, 2, nil); !errors.Is(err, passes.ErrTagged) || len(q.Passes) > 0 {
		t.Errorf("%d bytes of passes, %v", len(q.Passes), err)
	}
	if _, err := m.purse.Pay(t.Context(), seller, share.ID{}, 20, nil); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}
