package depots

import (
	"context"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
)

// A share that an earlier version of the program has measured, by another formula, is measured again by the crawler, and its lease stands.
func TestTheCrawlerMeasuresAShareAgain(t *testing.T) {
	s := &simnet.Scenario{Name: "measured", Limit: Limit, Set: func(r *simnet.Run) {
		Tell(r, func(s *Story) {
			d, a := New(s.Net, Config{Name: "depot"}), s.Add(simnet.NodeConfig{Name: "anna"})
			d.Account("anna", 1<<30, a)
			c := s.File("one", 100_000)
			a.Seed(c)
			s.Hold(a, d, c, 20*24*time.Hour)
			s.Kept(d, c)
			ctx, size := context.Background(), depot.Bytes(c.Manifest)
			_, err := d.DB.Found(ctx, d.Reading().Wall, c.ID(), size-1, true, nil)
			s.Expect(err == nil, "%v", err)
			s.Pass(8 * 24 * time.Hour) // more than a cycle
			k, err := d.DB.Share(ctx, c.ID())
			s.Expect(err == nil && k.State == depot.Stable && k.Bytes == size, "%+v, %v", k, err)
			all, err := d.DB.Leases(ctx, d.Reading().Wall, c.ID())
			s.Expect(err == nil && len(all) == 1 && all[0].Bytes == size, "%+v, %v", all, err)
		})
	}}
	if r := s.Run(1, 0); !r.OK() {
		t.Error(r.Report())
	}
}
