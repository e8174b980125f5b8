package issuer

import (
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

// A clock that was wrong for a moment makes no spent pass valid again, and loses no voucher.
func TestAClockThatJumpsForgetsNothing(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	held := bought(t, i, 1, 1)
	v := must[passes.Voucher](t)(i.Sell(1, now))
	p := order(t, i, 1, 9, now)
	b := passes.Binding{Depot: "depot", Request: passes.RequestID{1}}
	all, units := spends(held, b)
	if _, err := i.Spend(all, b, passes.Mark{}, units, now); err != nil {
		t.Fatal(err)
	}
	i.Close()
	opened(t, d, now.Add(4*epoch)).Close()
	i = opened(t, d, now)
	b.Request[0]++
	all, _ = spends(held, b)
	if _, err := i.Spend(all, b, passes.Mark{}, units, now); !errors.Is(err, passes.ErrSpent) {
		t.Errorf("spent twice: %v", err)
	}
	if _, err := i.Redeem(v, p.Requests, now); err != nil {
		t.Errorf("a voucher that was paid for is gone: %v", err)
	}
}

// Synchronisation often sets a clock back by a second.
func TestAKeyStaysWhenTheClockIsSetBack(t *testing.T) {
	i := opened(t, storetest.New(1<<24), now)
	begin := time.Unix(0, 0).Add(101 * epoch)
	first := must[passes.Listing](t)(i.Listing(begin))
	must[passes.Listing](t)(i.Listing(begin.Add(-time.Second)))
	second := must[passes.Listing](t)(i.Listing(begin))
	for _, k := range first {
		if second.Key(k.ID()) == nil {
			t.Errorf("the key of epoch %d for %d MiB is gone, and with it all passes that it signed", k.Epoch, k.Size)
		}
	}
}
