package actors

import (
	"context"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/passes/issuer"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

var paySeeds = flag.Int("pay-seeds", rig.Most(5, 2), "random histories of an account that pays")

var errCut = errors.New("cut short")

// payer is an account that pays a depot, both with what is durable of them. At each step either may crash, and
// each message may be lost.
type payer struct {
	*testing.T
	rng    *rand.Rand
	faults bool
	db     *leasedb.DB
	issuer *issuer.Issuer
	held   map[[32]byte]passes.Held
	orders map[passes.RequestID]passes.Order
	purse  *purse.Purse
	now    time.Time
	who    depot.Account
	asked  int
	sold   int64
	paid   int64                  // units that are counted
	booked [][wire.PaymentID]byte // for these payments
	cost   int64                  // MiB-seconds that were granted
}

func (x *payer) cut(n int) bool { return x.faults && x.rng.IntN(n) == 0 }

// around does something durable, and may crash before or after.
func around[V any](x *payer, f func() (V, error)) (v V, err error) {
	if x.cut(15) {
		return v, errCut
	}
	if v, err = f(); err == nil && x.cut(15) {
		return v, errCut
	}
	return v, err
}

// The wallet's disk.
func (x *payer) Wallet(context.Context) (*passes.Wallet, error) {
	var held []passes.Held
	var orders []passes.Order
	for _, h := range x.held {
		held = append(held, h)
	}
	for _, o := range x.orders {
		orders = append(orders, o)
	}
	return passes.Load(held, orders), nil
}

func (x *payer) WriteWallet(_ context.Context, c passes.Change) error {
	_, err := around(x, func() (any, error) {
		for _, n := range c.Drop {
			delete(x.held, n)
		}
		for _, h := range c.Put {
			x.held[h.Nonce] = h
		}
		if c.Order != nil {
			x.orders[c.Order.ID] = *c.Order
		}
		delete(x.orders, c.DropOrder)
		return nil, nil
	})
	return err
}

// cutLedger and cutIssuer are those of a depot that crashes.
type (
	cutLedger struct {
		Ledger
		x *payer
	}
	cutIssuer struct {
		issuer.Counter
		x *payer
	}
	intended struct {
		done bool
		mark [16]byte
	}
)

func (l cutLedger) Intend(ctx context.Context, now time.Time, p depot.Payment) (bool, [16]byte, error) {
	i, err := around(l.x, func() (i intended, err error) {
		i.done, i.mark, err = l.Ledger.Intend(ctx, now, p)
		return i, err
	})
	return i.done, i.mark, err
}

func (l cutLedger) Deposit(ctx context.Context, now time.Time, p depot.Payment) error {
	_, err := around(l.x, func() (any, error) { return nil, l.Ledger.Deposit(ctx, now, p) })
	return err
}

func (i cutIssuer) Spend(at, account peers.ID, m wire.Pay, mark [16]byte, units int64, now time.Time) ([]byte, error) {
	return around(i.x, func() ([]byte, error) { return i.Counter.Spend(at, account, m, mark, units, now) })
}

// ask is the network, and the depot's answer.
func (x *payer) ask(ctx context.Context, _ peers.Addr, question any) (any, error) {
	return around(x, func() (answer any, err error) {
		c := issuer.Counter{Issuer: x.issuer}
		switch m := question.(type) {
		case wire.PassKeys:
			var l wire.PassKeyList
			l.Keys, err = c.Keys(x.now)
			return l, err
		case wire.Redeem:
			s, err := c.Redeem(m, x.now)
			reason, fault := refusedFor(err)
			return wire.Signed{Refused: reason, Signed: s}, fault
		case wire.Exchange:
			s, bad, err := c.Exchange("depot", m, x.now)
			reason, fault := refusedFor(err)
			return wire.Signed{Refused: reason, Signed: s, Bad: bad}, fault
		case wire.Pay:
			p, err := takePasses(ctx, cutLedger{x.db, x}, cutIssuer{c, x}, x.now, "depot", "account", x.who, m)
			reason, fault := refusedFor(err)
			p.ID, p.Refused = m.ID, max(p.Refused, reason)
			return p, fault
		}
		return nil, errors.New("another question")
	})
}

func newPayer(t *testing.T, seed uint64) *payer {
	x := &payer{T: t, rng: rand.New(rand.NewPCG(seed, 1)), db: ledgerOf(t), held: map[[32]byte]passes.Held{}, orders: map[passes.RequestID]passes.Order{}, now: time.Unix(1e9, 0)}
	var err error
	if x.issuer, err = issuer.Open(storetest.New(1<<22).FS(), crand.Reader); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.issuer.Close() })
	x.open()
	if x.who, err = x.db.AddAccount(t.Context(), x.now, "a", depot.Terms{Quota: 1 << 40, MaxLease: 31 * 24 * time.Hour, Paid: true}); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *payer) open() {
	x.purse = x.purseWith(x.ask)
	x.purse.Counted(x.Context(), x.booked) // or later, after a crash
}

var payee = peers.Addr{ID: "depot"}

func (x *payer) buy(units int64) {
	x.Helper()
	v, err := x.issuer.Sell(units, x.now)
	if err != nil {
		x.Fatal(err)
	}
	x.sold += units
	for {
		err := x.purse.Redeem(x.Context(), payee, v, units)
		var r *depot.Refusal
		if err == nil || errors.As(err, &r) && r.Reason == depot.UsedVoucher { // the answer was lost after the passes were written
			return
		}
		if !errors.Is(err, errCut) {
			x.Fatal(err)
		}
		x.open()
	}
}

// pay sends what is begun, or units, once.
func (x *payer) pay(units int64) (bool, error) {
	m, err := x.purse.Pay(x.Context(), payee, share.ID{}, units, x.booked)
	if err != nil || len(m.Passes) == 0 {
		return false, err
	}
	a, err := x.ask(x.Context(), payee, m)
	if err != nil {
		return false, err
	}
	_, n, err := x.purse.Paid(x.Context(), "depot", a.(wire.Paid))
	if err != nil || n == 0 {
		return err == nil, err
	}
	if _, err = around(x, func() (any, error) {
		x.paid, x.booked = x.paid+n, append(x.booked, m.ID)
		return nil, nil
	}); err == nil {
		err = x.purse.Counted(x.Context(), x.booked)
	}
	return err == nil, err
}

// renew holds a share for longer, and pays for it.
func (x *payer) renew(mib int64, until time.Time) error {
	x.asked++
	ask := depot.Ask{Account: x.who, Request: fmt.Sprint(x.asked), Share: share.IDOf([]byte("x")), Bytes: mib << 20, Until: until, Space: depot.Space{Free: 1 << 50}}
	for {
		g, err := x.db.Hold(x.Context(), x.now, ask)
		var r *depot.Refusal
		switch {
		case err == nil:
			x.cost += mib * int64(g.Added/time.Second)
			return nil
		case !errors.As(err, &r) || r.Reason != depot.Unpaid:
			return err
		}
		if _, err := x.pay(r.Room); err != nil {
			return err
		}
	}
}

func (x *payer) credit() int64 {
	i, err := x.db.Info(x.Context(), x.now, x.who)
	if err != nil {
		x.Fatal(err)
	}
	return i.Credit
}

const passTime = int64(renewal.UnitTime / time.Second)

// Whatever crashes and whatever is lost: no pass is lost and none pays twice, and what is
// paid is the closed form of all time that was added, to the pass.
func TestNoPassIsLostAndNonePaysTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*paySeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { paysThroughCrashes(t, seed) })
	}
}

func paysThroughCrashes(t *testing.T, seed uint64) {
	x := newPayer(t, seed)
	x.faults = true
	mib := 1 + x.rng.Int64N(90)
	for range 12 {
		if x.rng.IntN(3) == 0 {
			x.buy(64*x.rng.Int64N(3) + 1 + x.rng.Int64N(6)) // not many: signing is slow
		}
		x.now = x.now.Add(time.Duration(x.rng.IntN(20*24)) * time.Hour)
		err := x.renew(mib, x.now.Add(time.Duration(1+x.rng.IntN(31))*24*time.Hour))
		switch {
		case errors.Is(err, purse.ErrMissing):
		case errors.Is(err, errCut):
			x.open()
		case err != nil:
			t.Fatal(err)
		}
	}
	x.faults = false
	x.open()
	for more := true; more; {
		var err error
		var r *depot.Refusal
		if more, err = x.pay(0); errors.As(err, &r) && r.Reason == depot.UsedVoucher { // an order made again for a voucher whose passes are here
			more = true
		} else if err != nil {
			t.Fatal(err)
		}
	}
	all, err := x.purse.Stock(t.Context())
	left := int64(0)
	for _, s := range all {
		left += s.Units
		if s.Bad != 0 || s.Reserved != 0 || s.Ordered != 0 {
			t.Errorf("%+v", s)
		}
	}
	if got := (x.sold - left) * passTime; err != nil || got != x.cost+x.credit() || x.paid != x.sold-left {
		t.Fatalf("%d sold, %d left, %d counted, %d of credit, and %d granted: %v", x.sold, left, x.paid, x.credit(), x.cost, err)
	}
	x.buy(8 * 64)
	if err := x.renew(mib, x.now.Add(31*24*time.Hour)); err != nil || x.credit() >= max(passTime, mib*31*86400) {
		t.Errorf("%d of credit, %v", x.credit(), err)
	}
}

// Without faults the units paid are the closed form at any time.
func TestWhatIsPaidIsTheClosedForm(t *testing.T) {
	t.Parallel()
	x := newPayer(t, 1)
	x.buy(1_000)
	for range 40 {
		x.now = x.now.Add(time.Duration(x.rng.IntN(8*24)) * time.Hour)
		if err := x.renew(77, x.now.Add(time.Duration(1+x.rng.IntN(40*86400))*time.Second)); err != nil {
			t.Fatal(err)
		}
		if want := (x.cost + passTime - 1) / passTime; x.paid != want || x.credit() != x.paid*passTime-x.cost {
			t.Fatalf("%d passes, want %d; %d of credit", x.paid, want, x.credit())
		}
	}
}

// olderLedger is an account with 64 passes, a copy of the depot's ledger, and the payment of these passes
// that is begun after it.
func olderLedger(t *testing.T) (x *payer, old *leasedb.DB, m wire.Pay) {
	x = newPayer(t, 1)
	x.buy(64)
	old = ledgerOf(t)
	if err := x.db.CopyTo(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	m, err := x.purse.Pay(t.Context(), payee, share.ID{}, 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x, old, m
}

// A ledger that was lost, or is older than a payment, does not let its passes live again.
func TestALostLedgerBringsNoPassBack(t *testing.T) {
	t.Parallel()
	x, old, m := olderLedger(t)
	for range 2 { // the answer to the first is lost
		if a, err := x.ask(t.Context(), payee, m); err != nil || a.(wire.Paid).Refused != 0 || x.credit() != 64*passTime {
			t.Fatalf("%+v, %v, credit %d", a, err, x.credit())
		}
	}
	x.db = old
	for range 2 {
		if a, err := x.ask(t.Context(), payee, m); err != nil || depot.Reason(a.(wire.Paid).Refused) != depot.SpentPasses || x.credit() != 0 {
			t.Fatalf("%+v, %v, credit %d", a, err, x.credit())
		}
	}
	c := issuer.Counter{Issuer: x.issuer}
	if bad, err := c.Spend("depot", "account", wire.Pay{ID: [16]byte{1}, Passes: m.Passes}, [16]byte{}, 64, x.now); err == nil || len(bad) != 0 {
		t.Errorf("for another request: %v, %v", bad, err)
	}
}

// An order that its issuer does not answer keeps nothing else from being paid.
func TestAnOrderThatIsStuckStopsNoPayment(t *testing.T) {
	t.Parallel()
	x := newPayer(t, 1)
	x.buy(3)
	x.purse = x.purseWith(func(ctx context.Context, at peers.Addr, question any) (any, error) {
		if _, ok := question.(wire.Redeem); ok {
			return nil, errCut
		}
		return x.ask(ctx, at, question)
	})
	v, err := x.issuer.Sell(5, x.now)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.purse.Redeem(t.Context(), payee, v, 5); !errors.Is(err, errCut) || len(x.orders) != 1 {
		t.Fatalf("%v, %d orders", err, len(x.orders))
	}
	if _, err := x.pay(4); !errors.Is(err, purse.ErrMissing) || !errors.Is(err, errCut) {
		t.Errorf("more than is here: %v", err)
	}
	if ok, err := x.pay(3); !ok || err != nil || x.credit() != 3*passTime {
		t.Errorf("what is here: %v, %v, credit %d", ok, err, x.credit())
	}
}

// slowIssuer waits before it spends.
type slowIssuer struct {
	issuer.Counter
	wait func()
}

func (i slowIssuer) Spend(at, account peers.ID, m wire.Pay, mark [16]byte, units int64, now time.Time) ([]byte, error) {
	i.wait()
	return i.Counter.Spend(at, account, m, mark, units, now)
}

// slowLedger waits before it enters a payment.
type slowLedger struct {
	Ledger
	wait func()
}

func (l slowLedger) Deposit(ctx context.Context, now time.Time, p depot.Payment) error {
	l.wait()
	return l.Ledger.Deposit(ctx, now, p)
}

// readyToPay is a payer with a payment of 64 passes for a depot, and what takes it there.
func readyToPay(t *testing.T) (*payer, wire.Pay, issuer.Counter) {
	t.Helper()
	x := newPayer(t, 1)
	x.buy(64)
	m, err := x.purse.Pay(t.Context(), payee, share.ID{}, 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x, m, issuer.Counter{Issuer: x.issuer}
}

// The same payment comes twice at once: a visit was given up and another sends it again. The one that
// noted it first comes to the book second.
func TestAPaymentThatComesTwiceAtOnceIsEntered(t *testing.T) {
	t.Parallel()
	x, m, c := readyToPay(t)
	noted, go1, done1 := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		defer close(done1)
		slow := slowIssuer{c, func() { close(noted); <-go1 }}
		p, err := takePasses(t.Context(), x.db, slow, x.now, "depot", "account", x.who, m)
		t.Logf("the first is answered %+v, %v", p, err)
	}()
	<-noted
	slow := slowLedger{x.db, func() { close(go1); <-done1 }}
	p, err := takePasses(t.Context(), slow, c, x.now, "depot", "account", x.who, m)
	if err != nil {
		t.Fatal(err)
	}
	_, units, err := x.purse.Paid(t.Context(), "depot", wire.Paid{ID: m.ID, Units: p.Units, Refused: p.Refused})
	if err == nil && x.credit() != units*passTime {
		t.Errorf("the second is answered %+v: the wallet has given %d passes away, and the credit is %d", p, units, x.credit())
	}
}

// What a ledger was put back before stays spent, also if the payment comes twice at once, or the depot
// crashed between noting it and refusing it.
func TestALostLedgerBringsNoPassBackWhateverIsCutShort(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"twice at once", "a crash after it was noted"} {
		x, old, m := olderLedger(t)
		c := issuer.Counter{Issuer: x.issuer}
		if p, err := takePasses(t.Context(), x.db, c, x.now, "depot", "account", x.who, m); err != nil || p.Refused != 0 {
			t.Fatal(p, err)
		}
		x.db = old
		if how == "twice at once" {
			noted, go1, done1 := make(chan bool), make(chan bool), make(chan bool)
			go func() {
				defer close(done1)
				takePasses(t.Context(), x.db, slowIssuer{c, func() { close(noted); <-go1 }}, x.now, "depot", "account", x.who, m)
			}()
			<-noted
			takePasses(t.Context(), x.db, c, x.now, "depot", "account", x.who, m)
			close(go1)
			<-done1
		} else {
			if _, _, err := x.db.Intend(t.Context(), x.now, depot.Payment{Account: x.who, Request: m.ID, Units: 64}); err != nil {
				t.Fatal(err)
			}
			takePasses(t.Context(), x.db, c, x.now, "depot", "account", x.who, m)
		}
		if x.credit() != 0 {
			t.Errorf("%s: passes that were spent before the copy was put back are %d of credit", how, x.credit())
		}
	}
}

// Spent and not yet entered, as after a full disk: the payment is finished even when the passes are no
// longer good for a new one.
func TestAPaymentThatWasCutShortIsFinishedLate(t *testing.T) {
	t.Parallel()
	x, m, c := readyToPay(t)
	full := errors.New("the disk is full")
	if _, err := takePasses(t.Context(), failing{x.db, full}, c, x.now, "depot", "account", x.who, m); !errors.Is(err, full) {
		t.Fatal(err)
	}
	x.now = x.now.Add(367 * 24 * time.Hour) // the passes have ended; a payment is remembered for 400 days
	p, err := takePasses(t.Context(), x.db, c, x.now, "depot", "account", x.who, m)
	t.Logf("late: %+v, %v", p, err)
	if x.credit() != 64*passTime {
		t.Errorf("64 passes were spent, and the credit is %d", x.credit())
	}
}

type failing struct {
	Ledger
	err error
}

func (l failing) Deposit(context.Context, time.Time, depot.Payment) error { return l.err }

// A depot that takes its time to answer keeps neither a visit of another depot waiting, which begins with the
// purse also where nothing is to be paid, nor a payment there.
func TestASlowDepotKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	x := newPayer(t, 1)
	x.buy(64)
	asked, answer := make(chan bool, 10), make(chan bool)
	p := x.purseWith(func(context.Context, peers.Addr, any) (any, error) {
		asked <- true
		<-answer
		return nil, errCut
	})
	var all sync.WaitGroup
	all.Go(func() { p.Pay(t.Context(), payee, share.ID{}, 1, nil) })
	defer all.Wait()
	defer close(answer)
	<-asked
	if m, err := p.Pay(t.Context(), peers.Addr{ID: "free"}, share.ID{}, 0, nil); err != nil || len(m.Passes) != 0 {
		t.Error(m, err)
	}
	if s, err := p.Stock(t.Context()); err != nil || len(s) != 1 {
		t.Error(s, err)
	}
	if _, _, err := p.Paid(t.Context(), "free", wire.Paid{ID: [16]byte{1}}); !errors.Is(err, peers.ErrProtocol) {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Pay(ended, payee, share.ID{}, 1, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A voucher that was first tried where nobody answers is redeemed where it was sold.
func TestAVoucherThatWasOrderedElsewhereIsRedeemed(t *testing.T) {
	t.Parallel()
	x := newPayer(t, 1)
	p := x.purseWith(func(ctx context.Context, at peers.Addr, question any) (any, error) {
		if _, ok := question.(wire.Redeem); ok && at.ID == "old" {
			return nil, errCut
		}
		return x.ask(ctx, at, question)
	})
	v, err := x.issuer.Sell(5, x.now)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Redeem(t.Context(), peers.Addr{ID: "old"}, v, 5); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	err = p.Redeem(t.Context(), payee, v, 5)
	all, _ := p.Stock(t.Context())
	units := int64(0)
	for _, s := range all {
		units += s.Units
	}
	if err != nil || units != 5 {
		t.Errorf("%v, and there are %d passes: %+v", err, units, all)
	}
}

func (x *payer) purseWith(ask func(context.Context, peers.Addr, any) (any, error)) *purse.Purse {
	return purse.New(purse.Config{Store: x, Self: func() peers.ID { return "account" }, Now: func() time.Time { return x.now }, Chance: crand.Reader, Known: ask, Fresh: ask})
}
