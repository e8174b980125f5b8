package depots

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
)

// One account holds two shares until the same time, and one share again.
func TestHRHoldAsOfTwoShares(t *testing.T) {
	histories(t, 1, func(s *Story) {
		d := New(s.Net, Config{Name: "depot"})
		s.Pass(time.Second)
		a, b := s.File("a", 20_000), s.File("b", 20_000)
		d.Copy(a)
		d.Copy(b)
		s.Do(d, actors.CrawlNow{})
		s.Is(d, a, depot.Stable)
		s.Is(d, b, depot.Stable)
		until := d.Reading().Wall.Add(240 * time.Hour)
		d.HoldAs("x", a, until)
		d.HoldAs("x", a, until)
		d.HoldAs("x", a, until.Add(time.Hour))
		func() {
			defer func() {
				if why := recover(); why != nil {
					t.Errorf("the second share: %v", why)
				}
			}()
			d.HoldAs("x", b, until)
		}()
		if d.Promised("x", b).IsZero() {
			t.Error("the second share is not held")
		}
	})
}
