package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
)

// errFaults says that a scenario failed.
var errFaults = errors.New("failed")

// simulate runs a scenario with one seed or many, and reports the results.
func (a *app) simulate(ctx context.Context, s *simnet.Scenario, fl simFlags) error {
	began := time.Now()
	var all tally
	find := &search{scenario: s, first: fl.seed, seeds: fl.seeds, nodes: fl.nodes, told: func(x seen) {
		all.add(x)
		a.out.write("run", runFields(x))
		if fl.seeds > 1 {
			a.out.throttled("progress", map[string]any{"seeds": fl.seeds, "done_seeds": all.runs})
			a.stderr.show(fmt.Sprintf("%s: %d of %s, %.1f a second, slowest %v of virtual time", s.Name, all.runs, words.Count(fl.seeds, "seed"),
				float64(all.runs)/time.Since(began).Seconds(), brief(all.slowest.Virtual)), nil, false)
		}
	}}
	if fl.seeds == 1 {
		find.record = fl.report != ""
		if a.stderr.columns() > 0 {
			find.tell = func(now time.Duration) {
				a.stderr.show(fmt.Sprintf("%s: %v of virtual time", s.Name, brief(now)), nil, false)
			}
		}
	}
	failed, err := find.run(ctx)
	a.stderr.clear()
	a.out.sum(map[string]any{"scenario": s.Name, "seed": fl.seed, "seeds": fl.seeds, "done_seeds": all.runs, "seconds": time.Since(began).Seconds()})
	if find.broken != nil {
		return err
	}
	if err != nil && failed == nil {
		fmt.Fprintf(a.stderr, "%s: %d of %s tried, and none failed\n", s.Name, all.runs, words.Count(fl.seeds, "seed"))
		return cause(ctx)
	}
	a.out.sum(map[string]any{"holds": failed == nil})
	shown := failed
	if shown == nil {
		shown = all.first
	}
	if err := a.show(s, fl, shown, all, time.Since(began)); err != nil {
		return err
	}
	if fl.report != "" {
		if err := a.writePage(ctx, s, fl, shown); err != nil {
			return err
		}
	}
	if failed == nil {
		return nil
	}
	a.out.sum(map[string]any{"failed_seed": failed.Seed, "replay": replay(s, fl, failed.Seed)})
	return fmt.Errorf("%s %w with seed %d: %s", s.Name, errFaults, failed.Seed, words.Count(len(failed.Faults), "fault"))
}

// tally sums up many runs.
type tally struct {
	runs           int
	virtual        time.Duration
	fetched, twice int64
	slowest        seen // in virtual time
	most           seen // of copies
	first          *seen
}

func (t *tally) add(x seen) {
	t.runs++
	t.virtual += x.Virtual
	t.fetched += x.Fetched
	t.twice += x.Twice
	light := seen{&simnet.Result{Seed: x.Seed, Virtual: x.Virtual, Copies: x.Copies}, x.wall} // without its whole world
	if t.slowest.Result == nil || x.Virtual > t.slowest.Virtual {
		t.slowest = light
	}
	if t.most.Result == nil || x.Copies > t.most.Copies {
		t.most = light
	}
	if t.first == nil || x.Seed < t.first.Seed {
		t.first = &x
	}
}

// replay is the command that repeats a run.
func replay(s *simnet.Scenario, fl simFlags, seed uint64) string {
	c := fmt.Sprintf("fetcher sim run %s --seed %d", s.Name, seed)
	if fl.nodes > 0 {
		c += fmt.Sprintf(" --nodes %d", fl.nodes)
	}
	return c
}

// saysWith is what a scenario says of itself, and how many nodes it has here, if not as many as it means.
func saysWith(s *simnet.Scenario, fl simFlags) string {
	if fl.nodes > 0 && fl.nodes != s.Nodes {
		return s.Says + fmt.Sprintf("\nHere with --nodes %d, in place of %d.", fl.nodes, s.Nodes)
	}
	return s.Says
}

// show reports one run, and all of them, to people and programs.
func (a *app) show(s *simnet.Scenario, fl simFlags, x *seen, all tally, wall time.Duration) error {
	if a.flags.json {
		a.showJSON(fl, x)
		return nil
	}
	w, says := &catcher{w: a.stdout}, saysWith(s, fl)
	switch {
	case !x.OK():
		fmt.Fprintf(w, "%s DOES NOT HOLD with seed %d\n%s\n\n", s.Name, x.Seed, says)
	case fl.seeds > 1:
		fmt.Fprintf(w, "%s holds with %s\n%s\n\n", s.Name, words.Count(fl.seeds, "seed"), says)
	default:
		fmt.Fprintf(w, "%s holds with seed %d\n%s\n\n", s.Name, x.Seed, says)
	}
	if fl.seeds > 1 {
		fmt.Fprintf(w, "over %s\n", words.Count(all.runs, "seed"))
		fmt.Fprintf(w, "  virtual time  %v; longest %v, with seed %d\n", brief(all.virtual), brief(all.slowest.Virtual), all.slowest.Seed)
		fmt.Fprintf(w, "  wall time     %v; %s\n", brief(wall), times(all.virtual, wall))
		fmt.Fprintf(w, "  fetched       %s, and %s of it twice (%.2f %%)\n", share.Size(all.fetched), share.Size(all.twice), percent(all.twice, all.fetched))
		fmt.Fprintf(w, "  copies sent   at most %.2f by the sources, with seed %d\n\nseed %d\n", all.most.Copies, all.most.Seed, x.Seed)
	}
	fmt.Fprintf(w, "  nodes         %d\n", x.Nodes)
	fmt.Fprintf(w, "  virtual time  %v\n", brief(x.Virtual))
	fmt.Fprintf(w, "  wall time     %v; %s\n", brief(x.wall), times(x.Virtual, x.wall))
	fmt.Fprintf(w, "  fetched       %s, and %s of it twice (%.2f %%)\n", share.Size(x.Fetched), share.Size(x.Twice), percent(x.Twice, x.Fetched))
	fmt.Fprintf(w, "  sent          %s\n", share.Size(x.Sent))
	fmt.Fprintf(w, "  copies sent   %.2f by the sources\n", x.Copies)
	fmt.Fprintf(w, "  trace         %016x\n", x.Trace)
	fmt.Fprintf(w, "  faults        %s\n", either(x.OK(), "none", fmt.Sprint(len(x.Faults))))
	if !x.OK() {
		w.failure(s, fl, x)
	} else if fl.timeline {
		fmt.Fprintf(w, "\ntimeline\n%s", x.Timeline.All())
	}
	return w.err
}

// failure is what a person needs to find the cause.
func (w *catcher) failure(s *simnet.Scenario, fl simFlags, x *seen) {
	fmt.Fprintf(w, "\nfaults\n")
	for _, f := range x.Faults {
		fmt.Fprintf(w, "  %v\n", f)
	}
	for _, m := range x.Missing {
		fmt.Fprintf(w, "\npieces of %s that %s does not have\n", m.Share, m.Node)
		for _, why := range m.Why {
			fmt.Fprintf(w, "  %s\n", why)
		}
	}
	if fl.timeline {
		fmt.Fprintf(w, "\ntimeline\n%s", x.Timeline.All())
	} else {
		fmt.Fprintf(w, "\nthe end of the timeline; --timeline prints all of it\n%s", x.Timeline)
	}
	fmt.Fprintf(w, "\nagain\n  %s\n", replay(s, fl, x.Seed))
}

// catcher keeps the first error of many writes.
type catcher struct {
	w   io.Writer
	err error
}

func (c *catcher) Write(b []byte) (int, error) {
	if c.err != nil {
		return len(b), nil
	}
	_, c.err = c.w.Write(b)
	return len(b), nil
}

func (a *app) showJSON(fl simFlags, x *seen) {
	for _, f := range x.Faults {
		a.out.write("fault", map[string]any{"seed": x.Seed, "at": f.At.Seconds(), "node": string(f.Node), "rule": f.Rule, "text": f.Text})
	}
	for _, m := range x.Missing {
		a.out.write("missing", map[string]any{"seed": x.Seed, "node": m.Node, "share": m.Share, "why": m.Why})
	}
	if x.OK() && !fl.timeline {
		return
	}
	for _, e := range x.Timeline.Entries() {
		a.out.write("timeline", map[string]any{"seed": x.Seed, "at": e.At.Seconds(), "node": string(e.Node), "text": e.Text})
	}
}

func runFields(x seen) map[string]any {
	return map[string]any{"scenario": x.Scenario, "seed": x.Seed, "nodes": x.Nodes, "holds": x.OK(), "faults": len(x.Faults),
		"virtual_seconds": x.Virtual.Seconds(), "seconds": x.wall.Seconds(), "trace": fmt.Sprintf("%016x", x.Trace),
		"verified_bytes": x.Fetched, "duplicate_bytes": x.Twice, "sent_bytes": x.Sent, "copies": x.Copies}
}

// percent is a part of a whole.
func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// times is how much faster than the wall clock virtual time passed, in two digits or more.
func times(virtual, wall time.Duration) string {
	x := virtual.Seconds() / wall.Seconds()
	text := strconv.FormatFloat(x, 'g', 2, 64)
	if x >= 9.95 {
		text = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return either(text == "1", "about as fast", text+" times as fast") + " as real time"
}

// brief is a duration for people: three digits or so.
func brief(d time.Duration) string {
	if d < time.Second || d >= 2*time.Minute {
		return words.Duration(d.Round(time.Millisecond))
	}
	return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + " s"
}
