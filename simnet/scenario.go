package simnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
)

// Scenario is a story that must end well: nodes, what happens to them, and what must
// hold besides the referee's rules.
type Scenario struct {
	Name string // as it is typed
	Says string // one sentence
	// Nodes is how many nodes there are that can be more or fewer; 0: the story
	// has fixed roles.
	Nodes int
	// Fewest is the smallest number of nodes with which the story makes sense; default 1.
	Fewest int
	// Limit is how long it may take in virtual time; default 10 minutes.
	Limit time.Duration
	// Duplicate is how many bytes may be fetched twice, as a share of all;
	// default 0.1.
	Duplicate float64
	// Worst bounds runs with the seeds and numbers of nodes that were measured; see
	// [Worst].
	Worst []Worst
	// Only says why whole nodes cannot play the story; empty: they can. See
	// package bubble.
	Only string
	// Set makes the nodes and says what happens. It must not be nil.
	Set func(r *Run)
}

// Run is one run of a scenario.
type Run struct {
	*Net
	Nodes  int // how many were asked for
	checks []func()
	until  time.Duration
}

// Finally has f called when every fetch has ended.
func (r *Run) Finally(f func()) { r.checks = append(r.checks, f) }

// Expect reports a fault unless ok.
func (r *Run) Expect(ok bool, format string, args ...any) {
	if !ok {
		r.ref.broken("", "not as expected", format, args...)
	}
}

// slack is how much longer than the modelled TCP whole nodes may take: QUIC starts
// slower, and after a cut it waits longer before it tries again.
const slack = 2

// Soon says whether something took less than a bound, which is for modelled links.
func (r *Run) Soon(took, bound time.Duration) bool {
	if r.tier != nil {
		bound *= slack
	}
	return took < bound
}

// Patience sets how long a fetch may wait though an honest node could help it.
// The default is 40 s; negative: for ever.
func (r *Run) Patience(d time.Duration) { r.ref.patience, r.ref.exempt = d, d < 0 }

// AtLeast makes the run go on until then, even if every fetch has ended. A run that its
// Limit ends sooner does not hold.
func (r *Run) AtLeast(d time.Duration) { r.until = d }

// Result is the result of a run.
type Result struct {
	Scenario string
	Says     string // what the scenario is about
	Seed     uint64
	Nodes    int
	Virtual  time.Duration // how long it took in its own time
	// Trace is a digest of everything that happened: which mailbox was drawn out of
	// how many, every message, every event, every byte that was handed over. It is
	// equal for equal runs.
	Trace    uint64
	Steps    uint64 // messages handed to actors, and events
	Faults   []Fault
	Timeline *Timeline
	Fetched  int64 // bytes verified
	Twice    int64 // bytes fetched twice
	Sent     int64 // bytes that left any node, framing included
	Leases   LeaseEnds
	// Copies is how often the nodes that had content from the start sent it, in
	// bytes: 1 is each byte once.
	Copies    float64
	Missing   []Missing  // of every fetch that should be whole and is not
	Recording *Recording // nil unless asked for
	Net       *Net
}

// OK says whether everything held.
func (r *Result) OK() bool { return len(r.Faults) == 0 }

// Report is what a person needs to find a fault: the seed, what did not hold, why
// every missing piece is missing, and the timeline.
func (r *Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %s, seed %d, %s: %s in %v of virtual time\n", r.Scenario, r.Seed, words.Count(r.Nodes, "node"), words.Count(len(r.Faults), "fault"), r.Virtual)
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "pieces of %s that %s does not have:\n", m.Share, m.Node)
		for _, line := range m.Why {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	fmt.Fprintf(&b, "timeline:\n%s", r.Timeline)
	return b.String()
}

// RunOptions are how a scenario is run.
type RunOptions struct {
	Seed uint64
	// Nodes is how many nodes there are, in scenarios whose size can be chosen; 0
	// is the scenario's own.
	Nodes int
	// Record keeps what a page about the run draws. It does not change the run.
	Record bool
	// Tell is called after each second of virtual time; default: nothing is called.
	Tell func(now time.Duration)
}

// Run runs the scenario with a seed, with this many nodes where that can be chosen;
// 0 is the scenario's own.
func (s *Scenario) Run(seed uint64, nodes int) *Result { return s.RunOn(New(seed), nodes) }

// RunOn is Run in a world in which nothing has happened yet.
func (s *Scenario) RunOn(n *Net, nodes int) *Result {
	res, err := s.run(context.Background(), n, RunOptions{Nodes: nodes})
	if err != nil {
		panic(fmt.Sprintf("simnet: %v", err))
	}
	return res
}

// RunWith is Run with options. It ends with the context's error as soon as the
// context ends.
func (s *Scenario) RunWith(ctx context.Context, o RunOptions) (*Result, error) {
	n := New(o.Seed)
	if o.Record {
		n.rec = newRecorder(n)
	}
	return s.run(ctx, n, o)
}

func (s *Scenario) run(ctx context.Context, n *Net, o RunOptions) (*Result, error) {
	if s.Set == nil {
		return nil, fmt.Errorf("the scenario %q has no Set", s.Name)
	}
	nodes := o.Nodes
	if nodes <= 0 || s.Nodes == 0 {
		nodes = s.Nodes
	}
	r := &Run{Net: n, Nodes: nodes}
	s.Set(r)
	r.Interrupted = func() bool { return ctx.Err() != nil || r.ref.spins() }
	steps := 0
	ends := func() bool {
		steps++
		return steps%1024 == 0 && r.Interrupted()
	}
	over := func() bool { return ends() || r.over() }
	limit := cmp.Or(s.Limit, 10*time.Minute)
	for r.Elapsed() < limit && ctx.Err() == nil && !over() && !r.ref.inCircles {
		r.Pass(over, min(time.Second, limit-r.Elapsed()))
		if o.Tell != nil {
			o.Tell(r.Elapsed())
		}
	}
	took := r.Elapsed()
	r.ref.over = true
	if took >= limit && took < r.until {
		r.ref.broken("", "limit", "the run ends after %s, before its story is over", words.Duration(limit))
	}
	if r.rec != nil {
		r.rec.end()
	}
	r.Pass(ends, 2*time.Second) // what is in flight arrives
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.ref.final()
	for _, f := range r.checks {
		f()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	res := s.result(r, took)
	if !r.ref.inCircles {
		for _, x := range r.nodes {
			x.Stop()
		}
		r.Pass(ends, time.Minute)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	res.Trace, res.Steps, res.Faults = r.Trace(), r.Steps(), r.ref.Faults
	if r.rec != nil {
		res.Recording = &r.rec.out
	}
	return res, nil
}

// over says whether the story is over: it lasted long enough, and every fetch has ended.
func (r *Run) over() bool {
	if r.Elapsed() < r.until {
		return false
	}
	for _, x := range r.nodes {
		for _, f := range x.fetches {
			if !f.over() {
				return false
			}
		}
	}
	return true
}

// result is the result of a run that took this long, while its nodes still exist.
func (s *Scenario) result(r *Run, took time.Duration) *Result {
	res := &Result{Scenario: s.Name, Says: s.Says, Seed: r.seed, Nodes: len(r.nodes), Virtual: took, Timeline: r.log, Net: r.Net}
	res.Copies = r.copies()
	for _, x := range r.nodes {
		res.Sent += x.Sent()
		for _, f := range x.fetches {
			res.Fetched += f.bytes
			res.Twice += f.twice + f.last.Duplicate
			res.Leases = res.Leases.plus(f.leases).add(f.last.Leases)
		}
	}
	if bound := cmp.Or(s.Duplicate, 0.1); float64(res.Twice) > bound*float64(res.Fetched) {
		r.ref.broken("", "duplicates", "%d bytes of %d were fetched twice", res.Twice, res.Fetched)
	}
	s.bounded(r, res)
	if len(r.ref.Faults) > 0 {
		res.Missing = r.ref.missing()
	}
	return res
}

// over says whether the run need not wait for the fetch any more. One that failed
// and should not have may be begun again: the power may go a moment later.
func (f *Fetch) over() bool {
	switch {
	case f.ended == nil:
		return f.opt.MayFail && f.x.state == stopped
	case f.ended.Err == nil || f.opt.MayFail || f.opt.Want != nil:
		return true
	}
	return f.x.net.Elapsed() >= f.endedAt+2*time.Second
}

// copies is how often the nodes that had content from the start have sent it.
func (n *Net) copies() float64 {
	var sent, had int64
	seen := map[*Content]bool{}
	for _, x := range n.nodes {
		for _, c := range x.seeded {
			if !seen[c] {
				seen[c] = true
				had += c.bytes
			}
		}
		if len(x.seeded) > 0 {
			sent += x.Sent()
		}
	}
	return float64(sent) / float64(max(1, had))
}

func is(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}
