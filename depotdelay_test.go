package fetcher_test

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
)

// An account that holds a share that nobody has is told why it makes no progress.
func TestAHoldOfWhatNobodyHasSaysWhy(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	d := k.at(owner)
	_, err := d.Hold(t.Context(), fetcher.HoldRequest{Share: share.IDOf([]byte("x")), Bytes: 10_000, Until: k.reading().Wall.Add(day)})
	k.ok(err)
	late, look := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for {
		all, err := d.Holdings(t.Context())
		k.ok(err)
		if len(all) != 1 || all[0].State != fetcher.HoldComing {
			t.Fatalf("%+v", all)
		}
		if all[0].Delay == fetcher.HoldNowhere {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("%v: %+v", all[0].Delay, all)
		}
	}
}
