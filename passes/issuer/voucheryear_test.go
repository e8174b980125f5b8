package issuer

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

// A code can be entered within a year, as its buyer is told, whenever in a half year it was sold.
func TestAVoucherIsGoodForAYear(t *testing.T) {
	for _, age := range []time.Duration{0, epoch / 2, epoch - time.Hour} { // of the half year in which it is sold
		i := opened(t, storetest.New(1<<24), now)
		sold := time.Unix(0, 0).Add(100*epoch + age)
		v := must[passes.Voucher](t)(i.Sell(64, sold))
		for month := range 13 { // in each of which the keys are asked for
			at := sold.Add(time.Duration(month) * 30 * 24 * time.Hour)
			must[passes.Listing](t)(i.Listing(at))
		}
		at := sold.Add(364 * 24 * time.Hour)
		if _, err := i.Redeem(v, order(t, i, 64, 1, at).Requests, at); err != nil {
			t.Errorf("sold %v after a half year began: %v", age, err)
		}
	}
}
