package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
)

// A list that is full is shown in a moment, however many shares each member reports: whoever asks waits for that, and so does the next.
func TestAListThatIsFullIsShownInAMoment(t *testing.T) {
	t.Parallel()
	var r fetcher.Rollout
	var has []fetcher.ShareReport
	for i := range fetcher.MaxListed {
		id := share.IDOf(fmt.Append(nil, i))
		r.Shares = append(r.Shares, fetcher.ShareRollout{ListedShare: fetcher.ListedShare{ID: id}})
		has = append(has, fetcher.ShareReport{ID: id.String(), Done: true})
	}
	for range 100 {
		r.Members = append(r.Members, fetcher.MemberReport{Shares: has})
	}
	began := time.Now()
	f := FleetView(r, began)
	if took := time.Since(began); len(f.Shares) != fetcher.MaxListed || took > 3*time.Second { // each is looked up in 40 ns or so, and takes 100
		t.Errorf("%d shares of 100 members took %v", len(f.Shares), took)
	}
}
