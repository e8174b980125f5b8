package fetcher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// The times that a depot says are read whatever they are, up to the year 36812. What is shown of them can be written as JSON all the same: else one lease
// keeps the answer to "fetcher holdings" from its reader.
func TestTimesThatADepotSaysCanBeShown(t *testing.T) {
	t.Parallel()
	const most = 1 << 40
	page, err := wire.Parse[wire.HoldingsPage](wire.Append(nil, wire.HoldingsPage{At: most, Items: []wire.Holding{{Share: share.IDOf([]byte("x")), State: 2, Bytes: 1, Expires: most}}}))
	if err != nil {
		t.Fatal(err)
	}
	u, err := usageOf(wire.UsageReport{At: most, MaxLease: most})
	if err != nil || u.MaxLease < time.Hour {
		t.Errorf("%+v, %v", u, err)
	}
	h := holding(page.At, page.Items[0])
	for _, x := range []time.Time{h.At, h.Expires, u.At} {
		if _, err := json.Marshal(x); err != nil {
			t.Error(err)
		}
	}
	if d := lasting(most); d < time.Hour {
		t.Error(d)
	}
}
