package purse

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

var errDisk = errors.New("the disk failed")

// kept is a wallet on a disk.
type kept struct {
	*passes.Wallet
	before, after error // of the next write: it is not done, or is done and not known to be
}

// disk is a kept as a Store.
type disk struct{ *kept }

func (d disk) Wallet(context.Context) (*passes.Wallet, error) {
	return passes.Load(d.All(), d.Orders()), nil
}

func (d disk) WriteWallet(_ context.Context, c passes.Change) error {
	before, after := d.before, d.after
	d.before, d.after = nil, nil
	if before == nil {
		d.Apply(c)
	}
	return errors.Join(before, after)
}

// onDisk is a market with a wallet on a disk, which has passes of some units.
func onDisk(t *testing.T, units int64) (*market, *kept) {
	t.Helper()
	m, k := newMarket(t, rand.NewChaCha8([32]byte{7})), &kept{Wallet: passes.Load(nil, nil)}
	m.purse.cfg.Store = disk{k}
	if units > 0 {
		m.buy(units)
	}
	return m, k
}

// A payment that may have been written is the one that is sent, and no other.
func TestAPaymentWhoseWriteFailedIsReadBack(t *testing.T) {
	t.Parallel()
	m, k := onDisk(t, 6)
	k.after = errDisk
	if _, err := m.purse.Pay(t.Context(), seller, share.ID{}, 3, nil); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	begun := k.Paying(string(seller.ID))
	q, err := m.purse.Pay(t.Context(), seller, share.ID{}, 3, nil)
	if err != nil || len(begun) != 1 || q.ID != begun[0] {
		t.Errorf("%v is sent, and begun was %v; %v", q.ID, begun, err)
	}
}

// A depot's answer to another's payment changes nothing.
func TestOnlyThePayeeAnswersAPayment(t *testing.T) {
	t.Parallel()
	m, k := onDisk(t, 3)
	q, err := m.purse.Pay(t.Context(), seller, share.ID{}, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, n, err := m.purse.Paid(t.Context(), "another depot", wire.Paid{ID: q.ID}); !errors.Is(err, peers.ErrProtocol) || n != 0 {
		t.Errorf("%d were paid, %v", n, err)
	}
	if len(k.Reserved(q.ID)) == 0 {
		t.Error("the payment is forgotten")
	}
}

// A clock that is years ahead while a depot is visited costs no passes.
func TestAClockThatIsAheadForAMomentCostsNoPasses(t *testing.T) {
	t.Parallel()
	m, k := onDisk(t, 6)
	if _, err := m.purse.Pay(t.Context(), seller, share.ID{}, 2, nil); err != nil { // which stays under way
		t.Fatal(err)
	}
	m.purse.cfg.Now = func() time.Time { return now.AddDate(9, 0, 0) }
	m.purse.Pay(t.Context(), seller, share.ID{}, 3, nil)
	if n := len(k.All()); n != 6 {
		t.Errorf("%d passes are left of 6", n)
	}
}

// A voucher that somebody else has used leaves no order that would be sent for ever.
func TestAnOrderForAUsedVoucherEnds(t *testing.T) {
	t.Parallel()
	m, k := onDisk(t, 0)
	v, err := m.issuer.Sell(3, now)
	if err == nil {
		err = m.purse.Redeem(t.Context(), seller, v, 3)
	}
	if err != nil {
		t.Fatal(err)
	}
	var r *depot.Refusal
	if err := m.purse.Redeem(t.Context(), seller, v, 3); !errors.As(err, &r) || r.Reason != depot.UsedVoucher {
		t.Error(err)
	}
	if n := len(k.Orders()); n > 0 {
		t.Errorf("%d orders are left", n)
	}
}

// What cannot be written is not ordered, and whoever redeems the voucher is told so.
func TestAnOrderThatCannotBeWrittenIsNotSent(t *testing.T) {
	t.Parallel()
	m, k := onDisk(t, 0)
	v, err := m.issuer.Sell(3, now)
	if err != nil {
		t.Fatal(err)
	}
	k.before = errDisk
	if err := m.purse.Redeem(t.Context(), seller, v, 3); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	for _, q := range m.redeemed {
		if _, sent := q.(wire.Redeem); sent {
			t.Error("it was sent")
		}
	}
}

// Of the passes for a depot, those that are good for longer than the first to end are counted, in whichever order they come.
func TestAStockSaysWhatLastsLonger(t *testing.T) {
	t.Parallel()
	e := passes.EpochAt(now)
	old, next := passes.Held{Size: 4096, Epoch: e - 1}, passes.Held{Size: 64, Epoch: e}
	for _, c := range []struct {
		held []passes.Held
		want Stock
	}{
		{[]passes.Held{old, next, old}, Stock{Units: 8256, Until: (e - 1).End(), Later: 64}},
		{[]passes.Held{next, next, old}, Stock{Units: 4224, Until: (e - 1).End(), Later: 128}},
		{[]passes.Held{next, next}, Stock{Units: 128, Until: e.End()}},
	} {
		var s Stock
		for _, h := range c.held {
			s.add(h, now)
		}
		if s != c.want {
			t.Errorf("%+v, want %+v", s, c.want)
		}
	}
}

// What was written down of missing passes is known as that, of one or of many, also beside another error.
func TestMissingPassesAreKnownByTheirText(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{&MissingError{1}: true, &MissingError{1234}: true, errors.Join(&MissingError{2}, errDisk): true, passes.ErrTagged: false, errDisk: false} {
		if IsMissing(err.Error()) != want {
			t.Errorf("%v: not %v", err, want)
		}
	}
}
