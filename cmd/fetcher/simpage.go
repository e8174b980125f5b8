package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/report"
)

// writePage writes the page about a run. A run that was not recorded is
// repeated.
func (a *app) writePage(ctx context.Context, s *simnet.Scenario, fl simFlags, x *seen) error {
	r := x.Result
	if r.Recording == nil {
		var err error
		if r, err = s.RunWith(ctx, simnet.RunOptions{Seed: x.Seed, Nodes: fl.nodes, Record: true}); err != nil {
			return cause(ctx)
		}
		if r.Trace != x.Trace {
			return fmt.Errorf("%s with seed %d went differently the second time: trace %016x, then %016x", s.Name, x.Seed, x.Trace, r.Trace)
		}
	}
	shown := *r
	shown.Says = saysWith(s, fl)
	var page bytes.Buffer
	if err := report.Write(&page, &shown, replay(s, fl, x.Seed)); err != nil {
		return err
	}
	if err := os.WriteFile(fl.report, page.Bytes(), 0o666); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	a.out.sum(map[string]any{"report": fl.report})
	fmt.Fprintf(a.stderr, "%s: %s, the run with seed %d\n", fl.report, share.Size(int64(page.Len())), x.Seed)
	return nil
}
