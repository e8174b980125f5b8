package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// coordinating is a running coordinate command.
type coordinating struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	begun  fleetLine
}

// fleetLine is a line of --json about a fleet.
type fleetLine struct {
	Type   string
	Epoch  uint64
	Addrs  []string
	Peer   string
	Change string
}

func startCoordinator(t *testing.T, ticket, dir, listen string, allow ...string) *coordinating {
	t.Helper()
	args := []string{"--dir", dir, "--listen", listen}
	for _, id := range allow {
		args = append(args, "--allow", id)
	}
	return startCoordinating(t, ticket, args...)
}

func startCoordinating(t *testing.T, ticket string, args ...string) *coordinating {
	t.Helper()
	c := &coordinating{cmd: exec.Command(built(t), append([]string{"coordinate", ticket, "--json"}, args...)...)}
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	lines := json.NewDecoder(bufio.NewReader(out))
	for c.begun.Type != "coordinate" {
		if err := lines.Decode(&c.begun); err != nil {
			t.Fatalf("coordinate ended: %v\n%s", err, &c.stderr)
		}
	}
	go func() { // ends with the process
		for lines.Decode(new(fleetLine)) == nil {
		}
	}()
	return c
}

// identity is the ID of the node whose state is in dir.
func identity(t *testing.T, dir string) string {
	t.Helper()
	n, err := fetcher.Open(t.Context(), fetcher.Config{Dir: dir, Listen: []string{"none"}})
	must(t, err)
	defer n.Close()
	return string(n.ID())
}

// member is a fetch in a fleet.
type fleetMember struct {
	result
	out string
}

// Leases of a manager in another process, which is killed in the middle and started
// again: every member has every byte, and each came in once.
func TestAFleetOutlivesTheKillingOfItsCoordinator(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	const size = 24 << 20
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, size, 7)
	want := rig.Fingerprint(t, src)
	origin := startSharing(t, shareCommand(t, src, "--limit-up", "8M"))
	dirs := []string{t.TempDir(), t.TempDir()}
	ids := []string{identity(t, dirs[0]), identity(t, dirs[1])}

	state := t.TempDir()
	listen := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)) // which nobody else takes between the two
	first := startCoordinator(t, origin.ticket, state, listen, ids...)
	at := first.begun.Addrs[0]
	half := make(chan struct{})
	var once sync.Once
	members := make([]fleetMember, len(dirs))
	var running sync.WaitGroup
	for i, dir := range dirs {
		m := &members[i]
		m.out = t.TempDir()
		cmd := exec.Command(built(t), "fetch", origin.ticket, "-o", m.out, "--dir", dir, "--listen", "/ip4/127.0.0.1/tcp/0", "--lease-from", at, "--seed=2s", "--json")
		running.Go(func() {
			m.result = finish(t, cmd, func(l line) {
				if l.Type == "progress" && l.Verified > size/3 {
					once.Do(func() { close(half) })
				}
			})
		})
	}
	select {
	case <-half:
	case <-time.After(time.Minute):
		t.Error("a third has not come in a minute")
	}
	must(t, first.cmd.Process.Kill())
	first.cmd.Wait()
	time.Sleep(300 * time.Millisecond)
	second := startCoordinator(t, origin.ticket, state, listen, ids...)
	if second.begun.Peer != first.begun.Peer || second.begun.Epoch != first.begun.Epoch+1 {
		t.Errorf("began as %+v, and again as %+v", first.begun, second.begun)
	}
	running.Wait()
	if sent := written(origin.cmd.Process.Pid); sent > size+size/50+4<<20 {
		t.Errorf("the origin sent %d bytes of a share of %d", sent, size)
	} else {
		t.Logf("the origin sent %d bytes of a share of %d", sent, size)
	}

	var entered int64
	for i, m := range members {
		if m.code != 0 {
			t.Fatalf("member %d: exit %d: %s", i, m.code, m.stderr)
		}
		if rig.Fingerprint(t, filepath.Join(m.out, "big.bin")) != want {
			t.Errorf("member %d has other bytes", i)
		}
		from := fromPeer(m.summary(), originID(origin))
		t.Logf("member %d: %d bytes from outside, %d twice", i, from, m.summary().Dup)
		if from == 0 {
			t.Errorf("member %d fetched nothing from outside", i)
		}
		entered += from
	}
	if entered < size || entered > size+4<<20 {
		t.Errorf("%d bytes entered the fleet, of %d", entered, size)
	}
}

// written is how many bytes a process wrote to sockets and files, 0 where that is
// not known.
func written(pid int) (n int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "wchar: ")
	fmt.Sscan(rest, &n)
	return n
}

func originID(s *sharing) string {
	_, id, _ := strings.Cut(s.addrs[0], "/p2p/")
	return id
}

// fromPeer is how many verified bytes came from a peer, as a summary says.
func fromPeer(l line, id string) (n int64) {
	list, _ := l.Sources.([]any)
	for _, s := range list {
		if m, _ := s.(map[string]any); m["peer"] == id {
			n += int64(m["bytes"].(float64))
		}
	}
	return n
}

func TestFleetFlagsAreChecked(t *testing.T) {
	t.Parallel()
	ticket := "share"
	for _, args := range [][]string{
		{"coordinate", ticket},
		{"coordinate", ticket, "--allow", "nobody"},
		{"coordinate", "nonsense", "--allow", "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"},
		{"fetch", ticket, "--lease-from", "nowhere"},
		{"fetch", ticket, "--lease-from", "/ip4/127.0.0.1/tcp/1"},
		{"fetch", ticket, "--alone-after", "5s"},
		{"fetch", ticket, "--alone-after", "-5s", "--lease-from", "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"},
	} {
		if r := command(t, args...); r.code != exitUsage {
			t.Errorf("%v: exit %d: %s", args, r.code, r.stderr)
		}
	}
}

// A peer that is not on the list reads in the error what to give to --allow.
func TestWhoIsNotAllowedReadsItsID(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "small.bin")
	rig.WriteRandom(t, src, 100<<10, 7)
	origin := startShare(t, src)
	dir := t.TempDir()
	c := startCoordinator(t, origin.ticket, t.TempDir(), "/ip4/127.0.0.1/tcp/0", "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")
	cmd := exec.Command(built(t), "fetch", origin.ticket, "-o", t.TempDir(), "--dir", dir, "--lease-from", c.begun.Addrs[0], "--stall", "6s", "--json")
	r := finish(t, cmd, nil)
	if r.code != exitNotAllowed || !strings.Contains(r.stderr, identity(t, dir)) || !strings.Contains(r.stderr, "--allow-file") || strings.Contains(r.stderr, "being shared") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "key")); err != nil {
		t.Error("--lease-from did not use the stored identity:", err)
	}
}

// A node that is not in the file of allowed peers becomes a member when it is added there.
func TestTheFileOfThoseAllowedIsReadAgain(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "small.bin")
	rig.WriteRandom(t, src, 100<<10, 7)
	origin := startShare(t, src)
	dir, list := t.TempDir(), filepath.Join(t.TempDir(), "allow")
	const somebody = "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	write := func(text string) { must(t, os.WriteFile(list, []byte(text), 0o600)) }
	write("# machines\njunk\n")
	if _, err := (allowance{file: list}).read(); err == nil || err.Error() != "--allow-file: "+list+`, line 2: "junk" is not a peer ID` {
		t.Error(err)
	}
	write("# machines\n" + somebody + " # the first\n")
	c := startCoordinating(t, origin.ticket, "--dir", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--allow-file", list)
	id := identity(t, dir)
	time.AfterFunc(500*time.Millisecond, func() { write(somebody + "\n" + id + "\n") })
	cmd := exec.Command(built(t), "fetch", origin.ticket, "-o", t.TempDir(), "--dir", dir, "--lease-from", c.begun.Addrs[0], "--json")
	if r := finish(t, cmd, nil); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}

	a := allowance{[]string{somebody}, list}
	was, err := a.read()
	if err != nil || len(was) != 3 {
		t.Errorf("%v, %v", was, err)
	}
	if _, changed, err := a.again(was); changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	for _, bad := range []string{"nobody\n", somebody + strings.Repeat("\n", maxAllowFile)} {
		write(bad)
		if _, changed, err := a.again(was); changed || err == nil {
			t.Errorf("%.20q: changed %v, %v", bad, changed, err)
		}
	}
}

func TestACoordinatorIsNamedWithItsID(t *testing.T) {
	now := time.Now()
	x := api.FleetShare{Coordinator: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN", Heard: now.Add(-4 * time.Second), Term: 4}
	if got := coordinatorOf(x, []api.FleetMember{{Name: "vm", Peer: x.Coordinator}}, now); got != "coordinated by vm (vhX5ycZN)" {
		t.Error(got)
	}
	x.Late = true
	if got := coordinatorOf(x, nil, now); got != "coordinated by vhX5ycZN,\nwhich has not been heard from for 4 s" {
		t.Error(got)
	}
	x.Done, x.Members = 1, make([]api.FleetProgress, 2)
	if got := coordinatorOf(x, nil, now); strings.Contains(got, "needs") {
		t.Error(got)
	}
	x.Done = 2
	if got := coordinatorOf(x, nil, now); !strings.HasSuffix(got, "for 4 s; no machine needs a coordinator now") {
		t.Error(got)
	}
	x.Coordinator = ""
	if got := coordinatorOf(x, nil, now); got != "no machine needs a coordinator now" {
		t.Error(got)
	}
	x.Done = 1
	if got := coordinatorOf(x, nil, now); got != "nobody coordinates it" {
		t.Error(got)
	}
}

// The status of a fleet fits on a terminal of 80 columns, whatever the share is called.
func TestFleetStatusFitsOnATerminal(t *testing.T) {
	now := time.Now()
	id := strings.Repeat("b", 59)
	f := api.Fleet{
		Members: []api.FleetMember{{Name: "a-machine-of-20-runes", Peer: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"},
			{Name: "nas", Peer: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZM", Silent: true, At: now.Add(-49*time.Hour - time.Second)},
			{Name: "vm", Peer: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZP", At: now}},
		Shares: []api.FleetShare{{Share: id, Name: strings.Repeat("n", 75), Coordinator: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN", Late: true, Heard: now.Add(-119 * time.Second), Done: 299,
			Members: []api.FleetProgress{{Begun: true, Bytes: 100, Verified: 99, Waits: "waits for leases of the fleet"}, {Begun: true, Bytes: 100, Verified: 40, Waits: strings.Repeat("long ago ", 20)},
				{Begun: true, Bytes: 100, Verified: 99, Waits: "waits for leases of the fleet"}}}},
	}
	var b bytes.Buffer
	fleetApp{&app{stdout: &b, out: &reporter{}}}.showFleet(f, now)
	for line := range strings.Lines(b.String()) {
		if n := columnsOf(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{id + "\n", "99 %, waits for leases of the fleet\n", "vhX5ycZN  not heard from for 119 s, last known: 99 %\n", "not heard from for 49 h, last known: 40 %\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// The members of a fleet to which nothing is added are known to people and to programs.
func TestFleetStatusOfAnEmptyListNamesTheMembers(t *testing.T) {
	var b bytes.Buffer
	fleetApp{&app{flags: globals{json: true}, out: newReporter(&b, true)}}.showFleet(api.Fleet{Members: []api.FleetMember{{Name: "nas", Peer: "x"}, {Name: "vm", Peer: "y", Silent: true}}}, time.Now())
	if got := b.String(); strings.Count(got, `"type":"machine"`) != 2 || !strings.Contains(got, `"name":"vm"`) || !strings.Contains(got, `"silent":true`) {
		t.Error(got)
	}
	b.Reset()
	fleetApp{&app{stdout: &b, out: &reporter{}}}.showFleet(api.Fleet{Members: []api.FleetMember{{Name: "nas", Peer: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"}}}, time.Now())
	if got := b.String(); got != "the fleet has no shares; it has 1 member:\n  nas                  vhX5ycZN\n" {
		t.Errorf("%q", got)
	}
}

// A fleet whose machines were all forgotten is not said never to have run: who coordinates is known.
func TestFleetStatusAfterAllWereForgotten(t *testing.T) {
	f := api.Fleet{Shares: []api.FleetShare{{Share: "x", Coordinator: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"}}}
	var b bytes.Buffer
	fleetApp{&app{stdout: &b, out: &reporter{}}}.showFleet(f, time.Now())
	var says bytes.Buffer
	fleetApp{&app{stdout: &b, stderr: newTerminal(&says), out: &reporter{}}}.showFleet(api.Fleet{Away: "it is away", At: time.Now().Add(-40 * time.Second)}, time.Now())
	if says.String() != "warning: it is away\nthe fleet had no shares 40 s ago\n" {
		t.Errorf("%q", says.String())
	}
	says.Reset()
	var own bytes.Buffer // a node whose store has not answered yet knows what it has itself
	fleetApp{&app{stdout: &own, stderr: newTerminal(&says), out: &reporter{}}}.showFleet(api.Fleet{Away: "it is away", Members: []api.FleetMember{{Name: "nas", Peer: "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"}},
		Shares: []api.FleetShare{{Share: "x", Name: "n", Done: 1, Members: []api.FleetProgress{{Begun: true, Done: true}}}}}, time.Now())
	if says.String() != "warning: it is away\nnothing is known of the other machines yet; what follows is what this one has\n" || !strings.HasPrefix(own.String(), "n\nx\n1 of 1 done, its coordinator is not known\n  nas ") {
		t.Errorf("%q, %q", says.String(), own.String())
	}
	if want := "(its name is not known)\nx\nno machine is listed yet (those whose nodes are running appear within seconds), coordinated by vhX5ycZN\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// A path is served under each name that it was given, and without one: that is what fleet add of the path adds.
func TestAPathThatIsServedUnderTwoNames(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "photos")
	rig.WriteRandom(t, filepath.Join(path, "a"), 1000, 1)
	rig.WriteRandom(t, path+".txt", 1000, 2)
	n := startNode(t, t.TempDir())
	n.sure("add", path, "--name", "other")
	n.sure("add", path, "--name", "photos")
	n.sure("add", path, path+".txt", "--name", "both")
	if e, err := servedAt(t.Context(), n.client, path); err == nil {
		t.Errorf("entry %d %q", e.ID, e.Name)
	}
	n.sure("add", path, "--secret")
	e, err := servedAt(t.Context(), n.client, path)
	must(t, err)
	if all, err := n.client.Entries(t.Context()); err != nil || len(all) != 4 || e.ID != all[3].ID || e.Named != "" || all[1].Named != "photos" {
		t.Errorf("entry %d %q of %d, %v", e.ID, e.Name, len(all), err)
	}
	here, err := os.Getwd()
	must(t, err)
	relative, err := filepath.Rel(here, path)
	must(t, err)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("the secret of a fleet\n"), 0o600))
	if r := inDir(t, n.dir, "fleet", "add", relative, "--fleet", "sqlite:"+filepath.Join(t.TempDir(), "kv"), "--fleet-secret", secret); r.code != 0 || !strings.Contains(r.stderr, e.Share) {
		t.Errorf("exit %d: %s, want %s", r.code, r.stderr, e.Share)
	}
}
