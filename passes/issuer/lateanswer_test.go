package issuer

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

// The answer to an exchange is lost, and is asked for again when the passes that paid have ended: those that were
// signed are good for half a year more.
func TestAnExchangeIsAnsweredAgainWhenItsPassesHaveEnded(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	held := bought(t, i, 64, 1)
	end := held[0].Epoch.End()
	p := order(t, i, 64, 2, end.Add(-time.Minute))
	b := passes.Binding{Depot: "depot", Request: passes.RequestID{2}, Batch: p.Hash()}
	all, _ := spends(held, b)
	if _, _, err := i.Exchange(all, b, p.Requests, end.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{10 * time.Minute, 40 * 24 * time.Hour, epoch - time.Hour} {
		must[passes.Listing](t)(i.Listing(end.Add(later)))
		i.Close()
		i = opened(t, d, end.Add(later))
		signed, _, err := i.Exchange(all, b, p.Requests, end.Add(later))
		if err == nil {
			_, err = p.Finish(signed)
		}
		if err != nil {
			t.Errorf("asked for again after %v: %v", later, err)
		}
	}
}
