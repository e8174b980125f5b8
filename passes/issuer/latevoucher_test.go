package issuer

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

// A voucher is redeemed late, the answer is lost, and the node is away for a while: what was signed is asked for again as long as it is good.
func TestAVoucherIsKnownWhileWhatItPaidForIsGood(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	v := must[passes.Voucher](t)(i.Sell(64, now))
	late := passes.EpochAt(now).End().Add(-24 * time.Hour)
	p := order(t, i, 64, 1, late)
	must[passes.Responses](t)(i.Redeem(v, p.Requests, late))
	again := late.Add(40 * 24 * time.Hour)
	must[passes.Listing](t)(i.Listing(again))
	i.Close()
	i = opened(t, d, again)
	signed, err := i.Redeem(v, p.Requests, again)
	if err != nil {
		t.Fatalf("after 40 days: %v", err)
	}
	if held := must[[]passes.Held](t)(p.Finish(signed)); !held[0].Epoch.Alive(again.Add(100 * 24 * time.Hour)) {
		t.Error("they are good for no longer")
	}
}
