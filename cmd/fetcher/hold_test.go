package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// A hold with leases of some seconds is kept for many of them, while its node and the
// depot are killed at random and the depot removes what nobody holds. It follows the files, and
// when it is released nothing is left. HOLD_SECONDS is how long it is kept, with leases of 31 s.
func TestAHoldOutlivesItsLeases(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	length, stands := "12s", 14*time.Second
	n, _ := strconv.Atoi(os.Getenv("HOLD_SECONDS"))
	if n > 0 {
		length, stands = "31s", time.Duration(n)*time.Second
	}
	src := filepath.Join(t.TempDir(), "photos")
	for i := range 4 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprint(i)), 500_000, uint64(i))
	}
	keeper := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-reserve", "1M", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	owner := startNode(t, t.TempDir())
	at := keeper.status().Addrs[0]
	keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")
	keeper.sure("depot", "gc", "on")
	if r := owner.on("hold", src, "--on", at, "--for", "1s"); r.code == 0 || len(owner.held()) != 0 {
		t.Errorf("leases of a second: exit %d, %s; %+v", r.code, r.stderr, owner.held())
	}
	owner.sure("hold", src, "--on", at, "--for", length, "--wait")
	if out, err := exec.Command(built(t), "hold", src, "--on", at, "--for", length, "--dir", owner.dir).Output(); err != nil || !strings.Contains(string(out), "photos") {
		t.Errorf("fetcher hold of what is held: %v, %s", err, out)
	}

	whole := func(l api.Lease) bool { return l.State == "stable" }
	lapses, kills, edits := 0, 0, 0
	for end := time.Now().Add(stands); time.Now().Before(end); {
		for n > 0 && owner.nearlyOver(keeper) {
		}
		wait := time.NewTimer(time.Duration(500+rand.IntN(4000)) * time.Millisecond)
		<-wait.C
		kills++
		if rand.IntN(2) == 0 {
			keeper.again()
		} else {
			owner.again()
		}
		if l, err := keeper.client.Leases(t.Context(), "owner"); err != nil || !slices.ContainsFunc(l, whole) {
			lapses++
			t.Logf("after %d kills and %d edits the depot has %+v, %v", kills, edits, l, err)
		}
		if kills%3 == 0 {
			edits++
			rig.WriteRandom(t, filepath.Join(src, "edited"), 100_000, uint64(100+edits))
		}
	}
	t.Logf("stood for %v with leases of %s, %d kills and %d edits; %d lapses", stands, length, kills, edits, lapses)
	if n > 0 && lapses > 0 {
		t.Errorf("%d lapses", lapses)
	}
	owner.until("the lease is live, long after the first has ended", func() (bool, error) {
		l, err := keeper.client.Leases(t.Context(), "owner")
		h := owner.held()
		return err == nil && len(l) == 1 && l[0].State == "stable" && len(h) == 1 && h[0].State == "stable" && h[0].Left > 0 && h[0].Why == "", err
	})

	rig.WriteRandom(t, filepath.Join(src, "new"), 300_000, 9)
	files, err := os.ReadDir(src)
	must(t, err)
	owner.until("the depot has the new version alone", func() (bool, error) {
		e, err := owner.client.Entries(t.Context())
		must(t, err)
		l, err := keeper.client.Leases(t.Context(), "owner")
		if err == nil && !slices.ContainsFunc(l, whole) {
			t.Errorf("the depot has %+v", l)
		}
		return err == nil && e[0].Files == len(files) && len(l) == 1 && l[0].State == "stable" && l[0].Share == e[0].Share, err
	})
	if s := owner.status(); s.Holds != 1 || s.HoldEnds.IsZero() {
		t.Errorf("%+v", s)
	}
	if out, err := exec.Command(built(t), "holds", "--dir", owner.dir).CombinedOutput(); err != nil || !strings.Contains(string(out), "photos") || !strings.Contains(string(out), "stable") {
		t.Errorf("fetcher holds: %v, %s", err, out)
	}

	keeper.until("the first cycle is done", func() (bool, error) { d, err := keeper.client.Depot(t.Context()); return d.Complete, err })
	owner.sure("release", "photos")
	if h := owner.held(); len(h) != 0 {
		t.Errorf("still held: %+v", h)
	}
	keeper.sure("depot", "gc", "run")
	keeper.until("nothing is left", func() (bool, error) {
		r, err := keeper.client.Rehearse(t.Context())
		return r.Examined == 0, err
	})
}

// nearlyOver says whether a lease at a depot is in its last seconds, and waits a moment if so: a busy machine may need them to
// start what was killed, and to connect it.
func (n *daemonProcess) nearlyOver(keeper *daemonProcess) bool {
	all, err := keeper.client.Leases(n.t.Context(), "owner")
	if err != nil || !slices.ContainsFunc(all, func(l api.Lease) bool { left := time.Until(l.Expires); return left > 0 && left < 6*time.Second }) {
		return false
	}
	wait := time.NewTimer(200 * time.Millisecond)
	<-wait.C
	return true
}

// A share that is released still has the name of the entry that serves it.
func TestHoldsNameTheirEntries(t *testing.T) {
	var out strings.Builder
	a := depots{asker{&app{stdout: &out, out: &reporter{}}}}
	all := []api.StandingHold{{Share: "s1", Entry: 1}, {Share: "s2", Ending: true}, {Share: "s3", Entry: 3}, {Share: "s4", Ending: true}}
	must(t, a.printHolds(all, []api.Entry{{ID: 1, Name: "music", Share: "s9"}, {ID: 2, Name: "photos", Share: "s2"}}, time.Now()))
	lines := strings.Split(out.String(), "\n")
	for i, name := range []string{"music", "photos", "entry removed", "now"} {
		if !strings.HasSuffix(strings.TrimSpace(lines[i+1]), name) {
			t.Errorf("%q does not end with %q", lines[i+1], name)
		}
	}
}

// Nobody knows what a depot has whose lease ended while it was away; what it was never asked for has no lease that ends.
func TestWhatHasNoLeaseIsNotSaidToBeKept(t *testing.T) {
	var out strings.Builder
	a, day := depots{asker{&app{stdout: &out, out: &reporter{}}}}, time.Date(2026, 4, 5, 6, 7, 0, 0, time.Local)
	must(t, a.printHolds([]api.StandingHold{{Share: "s1", Depot: "d1", State: "lapsed", Expires: day, Why: "it does not answer"},
		{Share: "s2", Depot: "d1", State: "unknown"}, {Share: "s3", Depot: "d1", State: "missing", Expires: day}, {Share: "s4", Depot: "d1", State: "stable", Expires: day, Left: 60}}, nil, day))
	for i, want := range []string{"s1 d1 lapsed 0 s", "s2 d1 unknown -", "s3 d1 missing 0 s", "s4 d1 stable 60 s", "s1 at d1: its lease ended on 2026-04-05 06:07, so the depot may remove the share; what went wrong last: it does not answer"} {
		if line := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[i+1]), " "); !strings.HasPrefix(line, want) {
			t.Errorf("%q is not %q", line, want)
		}
	}
	for want, s := range map[string]api.Status{
		"1 lease at depots, renewed from here; the first ends in 60 s; 2 ended or not granted yet: see fetcher holds": {Holds: 1, Unheld: 2, HoldEnds: day.Add(time.Minute)},
		"0 leases at depots, renewed from here; 1 ended or not granted yet: see fetcher holds":                        {Unheld: 1},
	} {
		if got := holdsText(s, day); got != want {
			t.Errorf("%q", got)
		}
	}
}

// Where a depot says what is wrong, it is named once.
func TestHoldsNameADepotOnce(t *testing.T) {
	var out strings.Builder
	a := depots{asker{&app{stdout: &out, out: &reporter{}}}}
	all := []api.StandingHold{{Share: "s1", Depot: "d1", Why: "the depot d1 refuses: it is full"}, {Share: "s2", Depot: "d2", Why: "it does not answer"}}
	must(t, a.printHolds(all, nil, time.Now()))
	if want := "\ns1: the depot d1 refuses: it is full\ns2 at d2: it does not answer\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s\nis not with\n%s", &out, want)
	}
}

// What a refused hold has added, and cannot be removed, is not said to be removed.
func TestAHoldThatCannotBeUndoneDoesNotSayThatItIs(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "b")
	must(t, err)
	defer os.RemoveAll(dir)
	path, socket := filepath.Join(dir, "photos"), filepath.Join(dir, "s")
	must(t, os.Mkdir(path, 0o700))
	ln, err := net.Listen("unix", socket)
	must(t, err)
	answer := func(status int, v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/entries", answer(200, api.List[api.Entry]{}))
	mux.HandleFunc("GET /v1/holdings", answer(200, api.List[api.Held]{}))
	mux.HandleFunc("POST /v1/entries", answer(200, api.Entry{ID: 1, Kind: "serve", State: api.Served}))
	mux.HandleFunc("POST /v1/holds", answer(500, api.Problem{Detail: "no room"}))
	mux.HandleFunc("DELETE /v1/entries/1", answer(500, api.Problem{Detail: "the catalog is locked"}))
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(ln) }()
	defer s.Close()
	c, err := api.Dial(t.Context(), socket)
	must(t, err)
	a := depots{asker{&app{stdout: os.Stdout, stderr: newTerminal(io.Discard)}}}
	if err := a.hold(t.Context(), c, path, api.Hold{Depots: []string{"/ip4/192.0.2.1/tcp/1/p2p/x"}}, false); err == nil || !strings.Contains(err.Error(), "the catalog is locked") || strings.Contains(err.Error(), "is removed") {
		t.Errorf("it says: %v", err)
	}
}

// text is what a command of a node shows to people.
func (n *daemonProcess) text(args ...string) string {
	n.t.Helper()
	stdout, stderr, code := inside(append(args, "--dir", n.dir)...)
	if code != 0 {
		n.t.Fatalf("fetcher %s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

func (n *daemonProcess) held() []api.StandingHold {
	n.t.Helper()
	all, err := n.client.Holds(n.t.Context())
	must(n.t, err)
	return all
}

func TestThePathOfAHoldIsFirstTheEntryWithoutAName(t *testing.T) {
	all := []api.Entry{
		{ID: 1, Paths: []string{"/a", "/b"}}, {ID: 2, Paths: []string{"/a"}, Named: "other"}, {ID: 3, Paths: []string{"/a"}, Named: "third"},
		{ID: 4, Paths: []string{"/a"}}, {ID: 5, Path: "/c"}, {ID: 6, Paths: []string{"/d"}, Named: "d"},
	}
	for at, want := range map[string]int64{"/a": 4, "/c": 5, "/d": 6, "/b": 0} {
		if e, ok := entryAt(all, at); e.ID != want || ok != (want != 0) {
			t.Errorf("%s: entry %d", at, e.ID)
		}
	}
}
