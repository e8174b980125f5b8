package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/scenarios"
)

func (a *app) simCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "sim",
		Short: "Run whole nodes on a simulated network, in virtual time",
		Long: `Run whole nodes on a simulated network, in virtual time: an hour takes seconds,
and the same seed gives the same run, on every machine.

  fetcher sim list              lists the scenarios
  fetcher sim run flash-crowd   runs one; exits with 1 if it failed`,
	})
	c.AddCommand(a.simListCommand(), a.simRunCommand())
	return c
}

func (a *app) simListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the scenarios, with a description of each", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.simList() },
	}
}

func (a *app) simList() error {
	all := scenarios.All()
	width := 0
	for _, s := range all {
		width = max(width, len(s.Name))
	}
	columns := newTerminal(a.stdout).columns()
	text := ""
	for _, s := range all {
		if a.flags.json {
			a.out.write("scenario", map[string]any{"scenario": s.Name, "says": s.Says, "nodes": s.Nodes})
			continue
		}
		text += fmt.Sprintf("%-*s  %s\n", width, s.Name, beside(s.Says, columns, width+len(between)))
	}
	_, err := fmt.Fprint(a.prose(), text)
	return err
}

// beside breaks text that stands in the last column of a terminal, from column at on.
func beside(text string, columns, at int) string {
	if columns < at+20 { // 0, if it is not a terminal
		return text
	}
	return strings.Join(wrap(text, columns-at), "\n"+strings.Repeat(" ", at-2)) // wrap indents by 2
}

// simFlags are the flags of sim run.
type simFlags struct {
	seed     uint64
	seeds    int
	nodes    int
	timeline bool
	report   string
}

func (a *app) simRunCommand() *cobra.Command {
	var fl simFlags
	c := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a scenario, or search for a seed with which it fails",
		Long: `Run a scenario: the real nodes over modelled links and disks, in one thread, in
virtual time. What must hold is checked throughout; where it does not, the seed,
what was wrong, why each missing piece is missing and the timeline are printed,
and the exit code is 1.

With --seeds, many seeds are tried, one on each core at a time, up to the first
with which the scenario fails.`,
		Args:              exactly("SCENARIO"),
		ValidArgsFunction: scenarioNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := fl.check(cmd.Flags(), args[0])
			if err != nil {
				return err
			}
			return a.simulate(cmd.Context(), s, fl)
		},
	}
	f := c.Flags()
	f.Uint64Var(&fl.seed, "seed", 1, "the `NUMBER` that all random choices follow from")
	f.IntVar(&fl.seeds, "seeds", 1, "try this `NUMBER` of seeds, from --seed on")
	f.IntVar(&fl.nodes, "nodes", 0, "have this `NUMBER` of nodes, where the scenario leaves that open (default the scenario's own, which sim list --json shows)")
	f.BoolVar(&fl.timeline, "timeline", false, "print all that happened, even if all is well")
	f.StringVar(&fl.report, "report", "", "write a page with pictures of the run to this `FILE`: of the seed that failed, or else of the first")
	return c
}

// scenarioNames completes the name of a scenario.
func scenarioNames(*cobra.Command, []string, string) (out []string, _ cobra.ShellCompDirective) {
	for _, s := range scenarios.All() {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.Says))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// mostNodes is ten times what simulations are made for: more take days, or all memory.
const mostNodes = 10_000

// check finds the scenario and checks that the flags fit it.
func (fl simFlags) check(f *pflag.FlagSet, name string) (*simnet.Scenario, error) {
	s := scenarios.Find(name)
	switch {
	case s == nil:
		return nil, usageError{fmt.Errorf("there is no scenario %q%s; see fetcher sim list", name, nearTo(name))}
	case fl.seeds < 1:
		return nil, usageError{errors.New("--seeds must be at least 1")}
	case uint64(fl.seeds-1) > math.MaxUint64-fl.seed:
		return nil, usageError{fmt.Errorf("there are fewer than %d seeds from %d on", fl.seeds, fl.seed)}
	case fl.nodes < 1 && f.Changed("nodes"):
		return nil, usageError{errors.New("--nodes must be at least 1")}
	case fl.nodes > mostNodes:
		return nil, usageError{fmt.Errorf("--nodes must be at most %d: each is a whole node in this machine's memory", mostNodes)}
	case fl.nodes > 0 && s.Nodes == 0:
		return nil, usageError{fmt.Errorf("--nodes: in %s each node has its part, and there can be no more or fewer", name)}
	case fl.nodes > 0 && fl.nodes < s.Fewest:
		return nil, usageError{fmt.Errorf("--nodes: %s needs at least %d", name, s.Fewest)}
	}
	if fl.report != "" {
		if i, err := os.Stat(fl.report); err == nil && i.IsDir() {
			return nil, usageError{fmt.Errorf("--report: %s is a folder: name a file", printable(fl.report))}
		}
		if err := inFolder(fl.report); err != nil {
			return nil, usageError{fmt.Errorf("--report: %w", err)}
		}
	}
	return s, nil
}

// nearTo names the scenarios that may have been meant.
func nearTo(name string) string {
	type near struct {
		name string
		far  int
	}
	var found []near
	for _, s := range scenarios.All() {
		d := distance(name, s.Name)
		if strings.Contains(s.Name, name) {
			d = 0
		}
		if d <= max(2, len(name)/3) {
			found = append(found, near{s.Name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, n := range found[:min(len(found), 3)] {
		names = append(names, n.name)
	}
	if len(names) == 0 {
		return ""
	}
	return "; perhaps " + strings.Join(names, ", ")
}

// distance is how many characters must be inserted, deleted or changed to turn a
// into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
