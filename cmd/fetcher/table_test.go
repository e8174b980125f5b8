package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

// A table on a narrow terminal loses no column and cuts no name that a line can hold.
func TestATableLosesNothing(t *testing.T) {
	name := strings.Repeat("a name ", 4) + "end"
	rows := [][]string{{"ENTRY", "STATE", "NAME"}, {"1", "served", name}, {"22", "", ""}}
	if got, want := tabular(rows, 0), "ENTRY  STATE   NAME\n1      served  "+name+"\n22\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := tabular(rows, 40), "ENTRY  STATE   NAME\n1      served\n  "+name+"\n22\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := tabular(rows, 20); !strings.Contains(got, "\n  a name a name a n…\n") {
		t.Errorf("%q", got)
	}
}

// An empty list says so, instead of a head alone.
func TestEmptyListsSaySo(t *testing.T) {
	for what, print := range map[string]func(depots) error{
		"no passes":    func(a depots) error { return a.printPasses(nil) },
		"no depot":     func(a depots) error { return a.printHolds(nil, nil, time.Time{}) },
		"fetcher add ": func(a depots) error { return a.printList(nil) },
		"no account":   func(a depots) error { return a.printLeases(nil, nil) },
		"hold nothing": func(a depots) error { return a.printLeases(nil, []string{"a", "b"}) },
	} {
		var stdout, stderr strings.Builder
		a := depots{asker{&app{stdout: &stdout, stderr: newTerminal(&stderr), out: newReporter(&stdout, false)}}}
		if err := print(a); err != nil || stdout.Len() > 0 || !strings.Contains(stderr.String(), what) {
			t.Errorf("%s: %v, %q, %q", what, err, &stdout, &stderr)
		}
	}
}

// What the crawl has found is told apart from the shares by state, which may be called the same.
func TestADepotsCrawlIsIndented(t *testing.T) {
	var out strings.Builder
	a := depots{asker{&app{stdout: &out, out: &reporter{}}}}
	d := api.Depot{Complete: true, Free: -1, States: []api.Kept{{State: "corrupt", Shares: 1, Bytes: 5}}, Crawl: api.Crawl{Corrupt: 2}}
	if err := a.printDepot(d); err != nil || !strings.Contains(out.String(), "\ncorrupt   1 share, 5 B\n") || !strings.Contains(out.String(), "\n  corrupt   2 shares\n  failed    0 shares\n") {
		t.Errorf("%v, %s", err, &out)
	}
}

// A terminal shows the leases that end first, and no more than a person reads; a pipe gets all, as they come.
func TestManyLeasesDoNotFillATerminal(t *testing.T) {
	var all []api.Lease
	for i := range mostLeases + 1 {
		all = append(all, api.Lease{Share: fmt.Sprint(i), Expires: time.Unix(int64(1000-i), 0)})
	}
	if got := leasesShown(all, 80); len(got) != mostLeases || got[0].Share != fmt.Sprint(mostLeases) || all[0].Share != "0" {
		t.Errorf("%d leases, first %s", len(got), got[0].Share)
	}
	if got := leasesShown(all, 0); len(got) != len(all) || got[0].Share != "0" {
		t.Errorf("%d leases in a pipe", len(got))
	}
	if got := leasesShown(all[1:], 80); len(got) != mostLeases || got[0].Share != "1" {
		t.Errorf("%d leases that have room", len(got))
	}
}
