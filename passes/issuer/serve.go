package issuer

import (
	"errors"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A Counter is an Issuer in the form that actors use: an actors.Issuer.
type Counter struct{ *Issuer }

// Keys returns the Listing as it is sent.
func (c Counter) Keys(now time.Time) ([]byte, error) {
	l, err := c.Listing(now)
	return l.Append(nil), err
}

// Redeem signs the requests that a voucher pays for.
func (c Counter) Redeem(m wire.Redeem, now time.Time) ([wire.PassSizes][]byte, error) {
	signed, err := c.Issuer.Redeem(m.Voucher, m.Requests, now)
	return signed, refusal(err)
}

// Exchange signs the requests that passes for a depot pay for.
func (c Counter) Exchange(at peers.ID, m wire.Exchange, now time.Time) (signed [wire.PassSizes][]byte, bad []byte, err error) {
	spends, err := passes.ParseSpends(m.Passes)
	if err != nil {
		return signed, nil, refusal(err)
	}
	r := passes.Requests(m.Requests)
	b := passes.Binding{Depot: string(at), Request: m.ID, Batch: r.Hash()}
	signed, names, err := c.Issuer.Exchange(spends, b, r, now)
	return signed, joined(names), refusal(err)
}

// Worth returns what passes claim to be worth.
func (c Counter) Worth(b []byte) (units int64, err error) {
	spends, err := passes.ParseSpends(b)
	if err != nil {
		return 0, refusal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range spends {
		key := c.key(s.Key)
		if key == nil {
			return 0, refusal(passes.ErrKey)
		}
		units += int64(key.Size)
	}
	return units, nil
}

// Spend takes passes that an account spends at a depot for a payment, which the depot's ledger has noted under a mark.
func (c Counter) Spend(at, account peers.ID, m wire.Pay, mark [16]byte, units int64, now time.Time) (bad []byte, err error) {
	spends, err := passes.ParseSpends(m.Passes)
	if err != nil {
		return nil, refusal(err)
	}
	names, err := c.Issuer.Spend(spends, passes.PaymentOf(string(at), string(account), m.ID), mark, units, now)
	return joined(names), refusal(err)
}

func joined(names []passes.Name) (b []byte) {
	for _, n := range names {
		b = append(b, n[:]...)
	}
	return b
}

// refusal turns an error into what the peer is told; any other error is a fault of the disk.
func refusal(err error) error {
	for _, x := range []struct {
		is error
		by depot.Reason
	}{
		{passes.ErrSpent, depot.SpentPasses}, {passes.ErrRedeemed, depot.UsedVoucher}, {passes.ErrUnknown, depot.NoVoucher}, {passes.ErrUnits, depot.WrongSum},
		{passes.ErrForeign, depot.BadPasses}, {passes.ErrKey, depot.BadPasses}, {passes.ErrForged, depot.BadPasses}, {passes.ErrMessage, depot.BadRequest},
	} {
		if errors.Is(err, x.is) {
			return &depot.Refusal{Reason: x.by}
		}
	}
	return err
}
