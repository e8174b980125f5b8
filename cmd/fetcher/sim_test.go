package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/scenarios"
)

// sim runs fetcher sim in this process.
func sim(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"sim"}, args...), strings.NewReader(""), &out, &errs, t.Context())
	return code, out.String(), errs.String()
}

// objects are the lines of stdout with --json, by type.
func objects(t *testing.T, stdout string) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	for l := range strings.Lines(stdout) {
		var o map[string]any
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		typ := o["type"].(string)
		all[typ] = append(all[typ], o)
	}
	return all
}

// told is the value behind a word of what sim run prints.
func told(t *testing.T, stdout, word string) string {
	t.Helper()
	for l := range strings.Lines(stdout) {
		if v, ok := strings.CutPrefix(l, "  "+word+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("no %q in\n%s", word, stdout)
	return ""
}

func TestSimListHasALineForEachScenario(t *testing.T) {
	code, out, _ := sim(t, "list")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || len(lines) != len(scenarios.All()) {
		t.Fatalf("exit %d, %d lines for %d scenarios", code, len(lines), len(scenarios.All()))
	}
	column := strings.Index(lines[0], "  ")
	for strings.HasPrefix(lines[0][column:], " ") {
		column++
	}
	for i, s := range scenarios.All() {
		if strings.TrimSpace(lines[i][:column]) != s.Name || lines[i][column:] != s.Says || s.Says == "" {
			t.Errorf("%q is not %q, then %q at column %d", lines[i], s.Name, s.Says, column)
		}
	}
	code, out, _ = sim(t, "list", "--json")
	if got := objects(t, out)["scenario"]; code != 0 || len(got) != len(lines) || got[0]["scenario"] != scenarios.All()[0].Name || got[0]["says"] != scenarios.All()[0].Says {
		t.Errorf("exit %d, and with --json %d, first %v", code, len(got), got)
	}
}

// On a terminal the descriptions stay in their column.
func TestTextBesideANameStaysThere(t *testing.T) {
	if got, want := beside("it is here, and goes on below", 34, 10), "it is here, and goes on\n          below"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, columns := range []int{0, 29} { // no terminal, or too narrow
		if got := beside("it is here, and goes on below", columns, 10); strings.Contains(got, "\n") {
			t.Errorf("%q at %d", got, columns)
		}
	}
}

func TestSimRunSaysWhatWasSeen(t *testing.T) {
	code, out, errs := sim(t, "run", "garbled")
	if code != 0 || !strings.HasPrefix(out, "garbled holds with seed 1\n") || errs != "" {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for word, want := range map[string]string{"nodes": "3", "virtual time": "1.", "wall time": "as fast", "fetched": "16.8 MB, and ",
		"sent": "MB", "copies sent": "1.0", "faults": "none"} {
		if got := told(t, out, word); !strings.Contains(got, want) {
			t.Errorf("%s: %q has no %q", word, got, want)
		}
	}
	if strings.Contains(out, "timeline") {
		t.Errorf("the timeline of a run that holds is printed unasked:\n%s", out)
	}
}

func TestHowFastAWorldWasIsSaid(t *testing.T) {
	for wall, want := range map[time.Duration]string{time.Second: "about as fast", 990 * time.Millisecond: "about as fast", 500 * time.Millisecond: "2 times as fast", 3 * time.Second: "0.33 times as fast",
		100 * time.Millisecond: "10 times as fast", 8 * time.Millisecond: "125 times as fast"} {
		if got := times(time.Second, wall); got != want+" as real time" {
			t.Errorf("1 s in %v is %q, want %q", wall, got, want)
		}
	}
}

func TestEveryFlagOfSimRunDoesSomething(t *testing.T) {
	rig.Slow(t)
	_, plain, _ := sim(t, "run", "one-honest")
	_, other, _ := sim(t, "run", "one-honest", "--seed", "2")
	_, again, _ := sim(t, "run", "one-honest", "--seed", "1")
	if told(t, plain, "trace") == told(t, other, "trace") || told(t, plain, "trace") != told(t, again, "trace") {
		t.Errorf("seed 1 has trace %s, and again %s; seed 2 has %s", told(t, plain, "trace"), told(t, again, "trace"), told(t, other, "trace"))
	}
	if _, few, _ := sim(t, "run", "one-honest", "--nodes", "3"); told(t, plain, "nodes") != "11" || told(t, few, "nodes") != "4" {
		t.Errorf("%s nodes, and 3 and one: %s", told(t, plain, "nodes"), told(t, few, "nodes"))
	}
	if _, all, _ := sim(t, "run", "one-honest", "--nodes", "3", "--timeline"); !strings.Contains(all, "\ntimeline\n      0.000  node      fetches film\n") || !strings.Contains(all, "ended: whole\n") {
		t.Errorf("--timeline prints\n%s", all)
	}
	code, many, errs := sim(t, "run", "unknown-share", "--seeds", "7", "--seed", "100")
	if code != 0 || !strings.HasPrefix(many, "unknown-share holds with 7 seeds\n") || !strings.Contains(many, "\nseed 100\n") {
		t.Errorf("exit %d\n%s%s", code, many, errs)
	}
}

func TestTwinsOfSimAreItsOwn(t *testing.T) {
	t.Setenv("FETCHER_SEED", "30m") // of fetch: for how long it serves
	t.Setenv("FETCHER_SIM_SEED", "7")
	code, out, errs := sim(t, "run", "unknown-share")
	_, seven, _ := sim(t, "run", "unknown-share", "--seed", "7")
	if code != 0 || told(t, out, "trace") != told(t, seven, "trace") {
		t.Errorf("exit %d: %s%s\nand with --seed 7: %s", code, out, errs, seven)
	}
}

func TestSimRunWritesAPage(t *testing.T) {
	rig.Slow(t)
	page := filepath.Join(t.TempDir(), "out.html")
	code, out, errs := sim(t, "run", "unknown-share", "--report", page, "--seed", "4", "--json")
	b, err := os.ReadFile(page)
	if code != 0 || err != nil || !strings.Contains(string(b), "unknown-share, seed 4: passed") || !strings.Contains(errs, "the run with seed 4") || objects(t, out)["summary"][0]["report"] != page {
		t.Errorf("exit %d, %v, %d bytes: %s%s", code, err, len(b), errs, out)
	}
	_, errs, err = simulate(t.Context(), failing(3), simFlags{seed: 1, seeds: 5, report: page}, false)
	b, _ = os.ReadFile(page)
	if exitCode(err) != exitOther || !strings.Contains(string(b), "made-up, seed 3: failed") || !strings.Contains(string(b), "Again: <code>fetcher sim run made-up --seed 3</code>") {
		t.Errorf("%v: %s", err, errs)
	}
	if code, _, errs := sim(t, "run", "unknown-share", "--report", t.TempDir()); code != exitUsage || !strings.Contains(errs, "is a folder: name a file") {
		t.Errorf("a folder as a page: exit %d: %s", code, errs)
	}
}

// The session in the README works when it is pasted.
func TestTheSessionInTheReadmeWorks(t *testing.T) {
	rig.OnlyLong(t)
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## Simulate\n")
	section, _, _ = strings.Cut(section, "\n## ")
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("bin", 0o755))
	n := 0
	for l := range strings.Lines(section) {
		l, ok := strings.CutPrefix(l, "$ bin/fetcher sim ")
		if !ok {
			continue
		}
		n++
		l, _, _ = strings.Cut(l, "#")
		if code, _, errs := sim(t, strings.Fields(l)...); code != 0 {
			t.Errorf("sim %s: exit %d: %s", l, code, errs)
		}
	}
	if pages, _ := os.ReadDir("bin"); n < 4 || len(pages) != 1 {
		t.Errorf("%d commands, %d pages", n, len(pages))
	}
}

func TestMistakesInSimRunAreExplained(t *testing.T) {
	for want, args := range map[string][]string{
		`there is no scenario "flashcrowd"; perhaps flash-crowd; see fetcher sim list`: {"run", "flashcrowd"},
		`there is no scenario "xyzzy"; see fetcher sim list`:                           {"run", "xyzzy"},
		"perhaps half-lie": {"run", "lie"},
		"--nodes: in one-source each node has its part":             {"run", "one-source", "--nodes", "3"},
		"--nodes must be at least 1":                                {"run", "churn", "--nodes", "0"},
		"--nodes must be at most 10000: each is a whole node":       {"run", "churn", "--nodes", "10001"},
		"--nodes: half-lie needs at least 2":                        {"run", "half-lie", "--nodes", "1"},
		"--seeds must be at least 1":                                {"run", "churn", "--seeds", "0"},
		"there are fewer than 2 seeds from 18446744073709551615 on": {"run", "churn", "--seeds", "2", "--seed", "18446744073709551615"},
		"needs a SCENARIO":                                          {"run"},
		`there is no command "xyzzy"; see fetcher sim --help`:       {"xyzzy"},
		"sim list takes no arguments":                               {"list", "all"},
		"--report: there is no folder /no/such":                     {"run", "churn", "--report", "/no/such/out.html"},
	} {
		code, out, errs := sim(t, args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %q, not %q", args, code, errs, want)
		}
	}
}

// failing is a scenario that does not hold with some seeds.
func failing(seeds ...uint64) *simnet.Scenario {
	bad := map[uint64]bool{}
	for _, s := range seeds {
		bad[simnet.New(s).Rand("seed").Uint64()] = true
	}
	return &simnet.Scenario{Name: "made-up", Says: "It fails sometimes.", Nodes: 2, Set: func(r *simnet.Run) {
		c := r.File("book", 3<<20)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		if bad[r.Rand("seed").Uint64()] {
			source = r.Add(simnet.NodeConfig{Name: "empty"})
		}
		for i := range r.Nodes {
			r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i)}).Fetch(c, source)
		}
	}}
}

// simulate runs a scenario that no list has.
func simulate(ctx context.Context, s *simnet.Scenario, fl simFlags, asJSON bool) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: newTerminal(&errs), flags: globals{json: asJSON}, out: newReporter(&out, asJSON)}
	err = a.simulate(ctx, s, fl)
	a.out.finish(exitCode(err), err)
	return out.String(), errs.String(), err
}

func TestTheLowestSeedThatFailsIsFound(t *testing.T) {
	rig.Slow(t)
	out, _, err := simulate(t.Context(), failing(5, 6, 9), simFlags{seed: 2, seeds: 1000, nodes: 2}, false)
	if exitCode(err) != exitOther || err.Error() != "made-up failed with seed 5: 2 faults" {
		t.Errorf("exit %d: %v", exitCode(err), err)
	}
	for _, want := range []string{"made-up DOES NOT HOLD with seed 5\nIt fails sometimes.\n", "  faults        2\n", "node0: end: ended: ",
		"\npieces of book that node1 does not have\n  pieces 0-2: the fetch ended after ", "\nthe end of the timeline", "node0     fetches book\n",
		"\nagain\n  fetcher sim run made-up --seed 5 --nodes 2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestSimRunInJSON(t *testing.T) {
	rig.Slow(t)
	out, _, err := simulate(t.Context(), failing(3), simFlags{seed: 1, seeds: 10}, true)
	all := objects(t, out)
	sum := all["summary"][0]
	if err == nil || sum["exit"] != 1. || sum["holds"] != false || sum["failed_seed"] != 3. || sum["replay"] != "fetcher sim run made-up --seed 3" || sum["scenario"] != "made-up" {
		t.Errorf("%v", sum)
	}
	if n := len(all["run"]); n < 3 || n > 10 || float64(n) != sum["done_seeds"] {
		t.Errorf("%d runs of 10, and the third fails", n)
	}
	for _, r := range all["run"] {
		if r["holds"] != (r["seed"] != 3.) || (r["faults"] == 0.) != r["holds"].(bool) {
			t.Errorf("%v", r)
		}
		if r["holds"] == true && (r["verified_bytes"] != 2.*3*(1<<20) || r["copies"].(float64) < 1 || r["virtual_seconds"].(float64) <= 0 || len(r["trace"].(string)) != 16 || r["nodes"] != 3.) {
			t.Errorf("%v", r)
		}
	}
	if len(all["progress"]) == 0 || len(all["fault"]) != 2 || all["fault"][0]["rule"] != "end" || all["fault"][0]["seed"] != 3. {
		t.Errorf("%d times progress, faults %v", len(all["progress"]), all["fault"])
	}
	if m := all["missing"]; len(m) != 2 || m[0]["node"] != "node0" || m[0]["share"] != "book" || len(m[0]["why"].([]any)) != 1 {
		t.Errorf("missing: %v", m)
	}
	if tl := all["timeline"]; len(tl) < 4 || tl[0]["node"] != "node0" || tl[0]["at"] != 0. || tl[0]["text"] != "fetches book" {
		t.Errorf("timeline: %v", tl)
	}
	if e := all["error"][0]; e["name"] != "faults" || e["code"] != 1. {
		t.Errorf("%v", e)
	}

	out, _, _ = simulate(t.Context(), failing(), simFlags{seed: 1, seeds: 1}, true)
	if all := objects(t, out); len(all["run"]) != 1 || len(all["timeline"]) != 0 || all["summary"][0]["holds"] != true {
		t.Errorf("%s", out)
	}
	out, _, _ = simulate(t.Context(), failing(), simFlags{seed: 1, seeds: 1, timeline: true}, true)
	if all := objects(t, out); len(all["timeline"]) == 0 {
		t.Errorf("no timeline with --timeline:\n%s", out)
	}
}

func TestAPanicNamesItsSeed(t *testing.T) {
	rig.Slow(t)
	bad := failing(3)
	set := bad.Set
	bad.Set = func(r *simnet.Run) {
		set(r)
		if len(r.Net.Nodes()) > 3 {
			panic("at sea")
		}
	}
	_, _, err := simulate(t.Context(), bad, simFlags{seed: 1, seeds: 10}, false)
	if exitCode(err) != exitOther || !strings.HasPrefix(err.Error(), "made-up with seed 3 panics: at sea\n") || !strings.Contains(err.Error(), "sim_test.go") {
		t.Errorf("exit %d: %v", exitCode(err), err)
	}
}

func TestCtrlCEndsASearch(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	endless := &simnet.Scenario{Name: "endless", Limit: 10_000 * time.Hour, Set: func(r *simnet.Run) {
		c := r.File("book", 1<<20)
		r.AtLeast(10_000 * time.Hour)
		r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		r.After(time.Hour, func() { cancel(signalled{syscall.SIGINT}) })
	}}
	_, errs, err := simulate(ctx, endless, simFlags{seed: 1, seeds: 1000}, false)
	if exitCode(err) != exitInterrupted || !strings.Contains(errs, "endless: 0 of 1000 seeds tried, and none failed") {
		t.Errorf("exit %d: %v\n%s", exitCode(err), err, errs)
	}
}

// A seed that fails is reported, and not a higher one that panicked sooner on another core.
func TestTheLowestSeedIsFoundBesideAPanic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	higher := make(chan struct{})
	bad := failing(1)
	bad.Nodes = 20
	set, first := bad.Set, simnet.New(1).Rand("seed").Uint64()
	bad.Set = func(r *simnet.Run) {
		if r.Rand("seed").Uint64() != first {
			close(higher)
			panic("at sea")
		}
		<-higher
		set(r)
	}
	out, _, err := simulate(t.Context(), bad, simFlags{seed: 1, seeds: 2}, false)
	if exitCode(err) != exitOther || !strings.HasPrefix(err.Error(), "made-up failed with seed 1: ") || !strings.Contains(out, "made-up DOES NOT HOLD with seed 1") {
		t.Errorf("exit %d: %.60s\n%s", exitCode(err), err, out)
	}
}

// A search that a panic or Ctrl-C has ended has not found out whether the scenario holds.
func TestWhatWasNotTriedIsNotSaidToHold(t *testing.T) {
	for _, panics := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &simnet.Scenario{Name: "cut-short", Set: func(r *simnet.Run) {
			r.AtLeast(time.Second)
			r.After(0, func() {
				if panics {
					panic("at sea")
				}
				cancel(signalled{syscall.SIGINT})
			})
		}}
		out, _, err := simulate(ctx, s, simFlags{seed: 1, seeds: 1}, true)
		if sum := objects(t, out)["summary"][0]; err == nil || sum["done_seeds"] != 0. || sum["holds"] == true {
			t.Errorf("panics: %v: %v, and the summary is %v", panics, err, sum)
		}
	}
}

// Worlds share nothing: each of many at once runs as it does alone. Under -race this is
// where it would show.
func TestWorldsAtOnceAreTheSame(t *testing.T) {
	rig.Slow(t)
	const seeds = 6
	s := scenarios.Find("garbled")
	var got [seeds]uint64
	find := &search{scenario: s, first: 1, seeds: seeds, told: func(x seen) { got[x.Seed-1] = x.Trace }}
	if failed, err := find.run(t.Context()); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	for i := range got {
		if want := s.Run(uint64(i+1), 0).Trace; got[i] != want {
			t.Errorf("seed %d: trace %x alone, %x among others", i+1, want, got[i])
		}
	}
}
