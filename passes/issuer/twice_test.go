package issuer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

// A request ID that is used again for something else is another spend, even though the account
// chose the same ID.
func TestAPassPaysOnceWhateverTheRequestIsCalled(t *testing.T) {
	i := opened(t, storetest.New(1<<24), now)
	held := bought(t, i, 64, 1)
	first := passes.Binding{Depot: "depot", Account: "a", Share: "s", Until: now.Add(time.Hour), Request: passes.RequestID{1}}
	all, units := spends(held, first)
	if bad, err := i.Spend(all, first, passes.Mark{}, units, now); err != nil {
		t.Fatal(bad, err)
	}
	other := first
	other.Share, other.Until = "another", now.Add(31*24*time.Hour)
	again, _ := spends(held, other)
	if _, err := i.Spend(again, other, passes.Mark{}, units, now); !errors.Is(err, passes.ErrSpent) {
		t.Errorf("one pass pays for two shares: %v", err)
	}
	for n := range byte(2) { // whoever has one pass can make as many as they like
		p := order(t, i, 64, 2+n, now)
		b := passes.Binding{Depot: "depot", Request: passes.RequestID{1}, Batch: p.Hash()}
		s, _ := spends(held, b)
		if _, _, err := i.Exchange(s, b, p.Requests, now); !errors.Is(err, passes.ErrSpent) {
			t.Errorf("a pass that was spent is exchanged for a new one: %v", err)
		}
	}
}

// A pass that occurs twice in a request pays once.
func TestAPassTwiceInOneRequest(t *testing.T) {
	i := opened(t, storetest.New(1<<24), now)
	held := bought(t, i, 1, 1)
	b := passes.Binding{Depot: "depot", Request: passes.RequestID{1}}
	all, _ := spends(slices.Repeat(held, 2), b)
	if _, err := i.Spend(all, b, passes.Mark{}, 2, now); err == nil {
		t.Error("one pass of 1 MiB pays for 2")
	}
}
