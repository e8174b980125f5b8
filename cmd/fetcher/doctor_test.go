package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/store"
)

// examined is the output of doctor about a state directory, and its exit code.
func examined(t *testing.T, dir string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run([]string{"doctor", "--dir", dir}, nil, &out, &errs, t.Context())
	return out.String(), code
}

func finds(t *testing.T, said, mark, what, text string) {
	t.Helper()
	for l := range strings.Lines(said) {
		if strings.HasPrefix(l, mark) && strings.Contains(l, what) && strings.Contains(l, text) {
			return
		}
	}
	t.Errorf("no line %s %s ... %q in\n%s", mark, what, text, said)
}

func TestDoctorNamesWhatIsWrongAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	said, _ := examined(t, dir)
	finds(t, said, "ok", "state", "can be written to")
	finds(t, said, "ok", "clock", "")
	finds(t, said, "ok", "node", " node run starts one")
	finds(t, said, "ok", "port", "no port is kept from an earlier run")

	st, err := store.OpenState(dir) // the last port, which another program has now
	must(t, err)
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	must(t, st.SavePort(port))
	must(t, st.Close())
	said, code := examined(t, dir)
	if code != exitOther {
		t.Errorf("exit code %d", code)
	}
	finds(t, said, "WRONG", "port", fmt.Sprint("port ", port))
	if !strings.Contains(said, "Tickets that were handed out name the old port") || st == nil {
		t.Errorf("nothing is advised:\n%s", said)
	}
	if again, err := store.OpenState(dir); err != nil || again.LoadPort() != port {
		t.Errorf("doctor has changed the port that tickets name: %v", err)
	}
}

func TestDoctorKnowsWhatDepotsDoNotDo(t *testing.T) {
	fine, late, ending := api.StandingHold{}, api.StandingHold{Late: true, Why: "refused"}, api.StandingHold{Ending: true, Why: "refused"}
	for want, all := range map[string][]api.StandingHold{
		"1 lease at depots elsewhere":                                   {fine},
		"2 leases at depots elsewhere; not renewed: 1":                  {fine, late},
		"3 leases at depots elsewhere; not renewed: 1; not released: 1": {fine, late, ending},
		"1 lease at depots elsewhere; not released: 1":                  {ending},
	} {
		f := checkHolds(all, nil)
		if len(f) != 1 || f[0].text != want || f[0].ok != !strings.Contains(want, "not") || f[0].ok != (f[0].advice == "") {
			t.Errorf("%+v, want %s", f, want)
		}
	}
	if f := checkHolds(nil, nil); f != nil {
		t.Errorf("%+v", f)
	}
	if f := checkHolds(nil, errors.New("x")); len(f) != 1 || f[0].ok {
		t.Errorf("%+v", f)
	}
}

func TestDoctorKnowsAClockThatIsOff(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "key"), nil, 0o600))
	now := time.Now()
	for off, well := range map[time.Duration]bool{0: true, time.Hour: true, -time.Hour: true, -366 * 24 * time.Hour: false, 366 * 24 * time.Hour: true} {
		f := checkClock(dir, now.Add(off))
		if f.ok != well || !well && !strings.Contains(f.advice, "Set the clock") {
			t.Errorf("%v off: %+v", off, f)
		}
		if late := off > 300*24*time.Hour; late != strings.Contains(f.advice, "If the node has been used since") {
			t.Errorf("%v off: %+v", off, f)
		}
	}
}

func TestDoctorKnowsAStateThatCannotBeWritten(t *testing.T) {
	f := checkState(filepath.Join(filepath.Dir(writeFile(t)), "file", "below"))
	if f.ok || !strings.Contains(f.text, "cannot be a folder: a file is in its way") || !strings.Contains(f.advice, "--dir") {
		t.Errorf("below a file: %+v", f)
	}
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		return // root may write anywhere
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	if f := checkState(dir); f.ok || !strings.Contains(f.advice, "right to write") {
		t.Errorf("a folder that is read only: %+v", f)
	}
}

func writeFile(t *testing.T) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(at, nil, 0o600))
	return at
}

func TestDoctorMakesANoteOfWhatIsNotKnown(t *testing.T) {
	if f := checkDisk("there", freeAt(filepath.Join(t.TempDir(), "nowhere"))); !f.ok || f.advice == "" {
		t.Errorf("%+v", f)
	}
}

func TestDoctorKnowsFromWhereANodeCanBeReached(t *testing.T) {
	id := "/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	const relay = "12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"
	relayed := "/ip4/8.8.8.8/tcp/1/p2p/" + relay + "/p2p-circuit" + id
	for what, x := range map[string]struct {
		addrs  []string
		places []fetcher.Place
		tried  []api.Tried
		ok     bool
		wants  string
	}{
		"public":              {[]string{"/ip4/127.0.0.1/tcp/1" + id, "/ip4/8.8.8.8/tcp/1" + id}, nil, nil, true, "if no firewall"},
		"NAT":                 {[]string{"/ip4/127.0.0.1/tcp/1" + id, "/ip4/192.168.1.2/tcp/1" + id}, nil, nil, true, "forward the node's port"},
		"machine":             {[]string{"/ip4/127.0.0.1/tcp/1" + id}, nil, nil, false, "give only a port"},
		"nowhere":             {nil, nil, nil, false, "told to"},
		"relay":               {[]string{relayed}, []fetcher.Place{{Relay: relay, Held: true, Carries: 1 << 30}}, nil, true, "through the relay, up to 1.07 GB on each connection"},
		"no place at a relay": {[]string{relayed}, []fetcher.Place{{Relay: relay, Why: "it is full"}}, nil, false, "does not serve the node: it is full"},
		"reached":             {[]string{"/ip4/8.8.8.8/tcp/1" + id}, nil, []api.Tried{{Addr: "/ip4/8.8.8.8/tcp/2"}, {Addr: "/ip4/8.8.8.8/tcp/1", Reached: true}}, true, "a relay has reached it at /ip4/8.8.8.8/tcp/1"},
		"firewall":            {[]string{"/ip4/8.8.8.8/tcp/1" + id}, nil, []api.Tried{{Addr: "/ip4/8.8.8.8/tcp/1"}}, false, "Let the node's port through"},
		"firewall, and relay": {[]string{"/ip4/127.0.0.1/tcp/1" + id, relayed}, []fetcher.Place{{Relay: relay, Held: true}}, []api.Tried{{Addr: "/ip4/8.8.8.8/tcp/1"}}, true, "a relay could not reach the node directly at /ip4/8.8.8.8/tcp/1"},
	} {
		f := checkReach("the node", x.addrs, x.places, x.tried)
		if f.ok != x.ok || !strings.Contains(f.text+f.advice, x.wants) {
			t.Errorf("%s: %+v", what, f)
		}
		var out bytes.Buffer
		err := asker{&app{stdout: &out, out: &reporter{}}}.tellFindings([]finding{f})
		if mark := map[string]string{"public": "ok   ", "relay": "ok   ", "reached": "ok   ", "firewall, and relay": "ok   ", "NAT": "note "}[what]; (err == nil) != x.ok || !strings.HasPrefix(out.String(), cmp.Or(mark, "WRONG")) {
			t.Errorf("%s: %v\n%s", what, err, &out)
		}
	}
}

// On a terminal the text of a finding stays in its column.
func TestAFindingStaysInItsColumn(t *testing.T) {
	f := finding{"reach", true, strings.Repeat("found ", 30), strings.Repeat("advice ", 30)}
	for l := range strings.Lines(f.lines(80)) {
		if !strings.HasPrefix(l, "note   reach    found") && !strings.HasPrefix(l, strings.Repeat(" ", 16)) || len(l) > 81 || l[16] == ' ' {
			t.Errorf("%q", l)
		}
	}
	if n := strings.Count(f.lines(0), "\n"); n != 2 {
		t.Errorf("%d lines where there is no terminal", n)
	}
}
