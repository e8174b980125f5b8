package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// daemonProcess is a running node, as a process.
type daemonProcess struct {
	t      testing.TB
	dir    string
	args   []string
	cmd    *exec.Cmd
	stderr *bytes.Buffer // to be read when it has ended
	client *api.Client
}

// startNode runs a node, and ends it with the test.
func startNode(t testing.TB, dir string, args ...string) *daemonProcess {
	t.Helper()
	return startUnder(t, nil, dir, args...)
}

// startUnder starts a node by a command that runs what its arguments say.
func startUnder(t testing.TB, under []string, dir string, args ...string) *daemonProcess {
	t.Helper()
	n := &daemonProcess{t: t, dir: dir, args: append(append(slices.Clone(under), built(t), "node", "run", "--json", "--dir", dir), args...)}
	if !slices.Contains(args, "--listen") {
		n.args = append(n.args, "--listen", "/ip4/127.0.0.1/tcp/0")
	}
	t.Cleanup(func() { n.end(os.Kill) })
	n.start()
	return n
}

func (n *daemonProcess) start() {
	n.t.Helper()
	n.cmd, n.stderr = exec.Command(n.args[0], n.args[1:]...), &bytes.Buffer{}
	n.cmd.Stderr = n.stderr
	out, err := n.cmd.StdoutPipe()
	must(n.t, err)
	must(n.t, n.cmd.Start())
	r := bufio.NewScanner(out)
	for r.Scan() {
		var l line
		must(n.t, json.Unmarshal(r.Bytes(), &l))
		if l.Type == "node" {
			n.client, err = api.Dial(context.Background(), daemon.Socket(n.dir))
			must(n.t, err)
			go io.Copy(io.Discard, out) // ends with the process
			return
		}
	}
	n.cmd.Wait()
	n.t.Fatalf("the node did not start: %s", n.stderr)
}

// end sends a signal, and waits for the end.
func (n *daemonProcess) end(s os.Signal) {
	if n.cmd == nil {
		return
	}
	if n.client != nil { // it had started
		n.client.Close()
	}
	n.cmd.Process.Signal(s)
	n.cmd.Wait()
	n.cmd = nil
}

// day is how many entries the scripted day has; .ci/run and people ask for more.
func day(t testing.TB) int {
	n, err := strconv.Atoi(os.Getenv("NODE_DAY"))
	if err != nil {
		return 8
	}
	return n
}

// wanted is what an entry must be at the end.
type wanted struct {
	kind  string
	print string // of the content
}

// scripted is a day of a node: the requests to it, and what must come of them.
type scripted struct {
	testing.TB
	rng     *rand.Rand
	node    *daemonProcess
	into    string
	entries map[int64]wanted
	kills   int
}

// do sends a request to the node, and kills it meanwhile if it is time. A request in progress then may
// have been done or not; it is sent again.
func (s *scripted) do(what string, kill bool, f func(*api.Client) error) {
	s.Helper()
	for try := 0; ; try++ {
		answered := make(chan error, 1)
		go func() { answered <- f(s.node.client) }()
		if kill {
			kill = false
			s.kills++
			s.node.cmd.Process.Kill()
		}
		err := <-answered
		if errors.Is(err, api.ErrNoNode) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			if try > 3 {
				s.Fatalf("%s: %v", what, err)
			}
			s.node.end(os.Kill)
			s.node.start()
			continue
		}
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		return
	}
}

func (s *scripted) add(kill bool, a api.Add, w wanted) {
	s.do("add", kill, func(c *api.Client) error {
		e, err := c.Add(s.Context(), a)
		if errors.Is(err, api.ErrHave) { // before the kill
			all, err := c.Entries(s.Context())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(e api.Entry) bool {
				_, known := s.entries[e.ID]
				return !known
			})
			if i < 0 {
				return errors.New("an entry is refused as known that is not there")
			}
			e = all[i]
		} else if err != nil {
			return err
		}
		s.entries[e.ID] = w
		return nil
	})
}

func (s *scripted) some() int64 {
	ids := make([]int64, 0, len(s.entries))
	for id := range s.entries {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[s.rng.IntN(len(ids))]
}

func (s *scripted) change(kill bool) {
	id, yes := s.some(), true
	switch s.rng.IntN(4) {
	case 0:
		s.do("pause", kill, func(c *api.Client) error { _, err := c.Set(s.Context(), id, api.Set{Paused: &yes}); return err })
	case 1:
		high := "high"
		s.do("set", kill, func(c *api.Client) error { _, err := c.Set(s.Context(), id, api.Set{Priority: &high}); return err })
	case 2:
		no := false
		s.do("resume", kill, func(c *api.Client) error { _, err := c.Set(s.Context(), id, api.Set{Paused: &no}); return err })
	case 3:
		s.do("remove", kill, func(c *api.Client) error {
			_, err := c.Remove(s.Context(), id, false)
			if errors.Is(err, api.ErrNoEntry) {
				err = nil // before the kill
			}
			return err
		})
		delete(s.entries, id)
	}
}

// settle lets everything continue, waits until all is here, and compares.
func (s *scripted) settle() {
	no, none := false, int64(0)
	s.do("limits", false, func(c *api.Client) error { _, err := c.SetLimits(s.Context(), api.SetLimits{Down: &none}); return err })
	for id := range s.entries {
		s.do("resume", false, func(c *api.Client) error {
			_, err := c.Set(s.Context(), id, api.Set{Paused: &no, Rescan: true})
			return err
		})
	}
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	var all []api.Entry
	err := s.node.client.Events(ctx, "0-0", func(api.Event) bool { // an unknown ID: the first comes at once
		var err error
		all, err = s.node.client.Entries(s.Context())
		must(s, err)
		return !slices.ContainsFunc(all, func(e api.Entry) bool { return e.State != api.Served })
	})
	if err != nil {
		s.Fatalf("not all is served: %v\n%+v", err, all)
	}
	if len(all) != len(s.entries) {
		s.Fatalf("%d entries, and %d were asked for", len(all), len(s.entries))
	}
	s.compare(all)
}

func (s *scripted) compare(all []api.Entry) {
	for _, e := range all {
		w, ok := s.entries[e.ID]
		if !ok || w.kind != e.Kind {
			s.Errorf("entry %d, %s, was not asked for", e.ID, e.Kind)
		}
		if e.Kind == "fetch" {
			if got := rig.Fingerprint(s, e.Path); got != w.print {
				s.Errorf("entry %d, %s, has other content", e.ID, e.Name)
			}
		}
	}
}

// A day of a node: entries are added, paused, changed and removed while others are
// fetched, and it is killed again and again. At the end every entry is there that was
// asked for, and every byte is right.
func TestAScriptedDay(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	n := day(t)
	src, into := t.TempDir(), t.TempDir()
	origin := startNode(t, t.TempDir())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &scripted{TB: t, rng: rand.New(rand.NewPCG(seed, 0)), into: into, entries: map[int64]wanted{}}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "node.toml"), []byte("fetches = 20\nlimit-down = \"20M\"\n"), 0o600))
	s.node = startNode(t, dir, "--into", into)
	kills := max(3, n*30/200)
	for i := range n {
		at := filepath.Join(src, fmt.Sprint("share", i))
		must(t, os.Mkdir(at, 0o700))
		rig.WriteRandom(t, filepath.Join(at, "f"), 100_000+s.rng.IntN(3_000_000), uint64(i))
		kill := i%max(1, n/kills) == 0
		if i%3 == 0 {
			s.add(kill, api.Add{Paths: []string{at}}, wanted{"serve", ""})
		} else {
			e, err := origin.client.Add(t.Context(), api.Add{Paths: []string{at}})
			must(t, err)
			s.add(kill, api.Add{Ticket: e.Ticket}, wanted{"fetch", rig.Fingerprint(t, at)})
		}
		if len(s.entries) > 2 {
			s.change(s.rng.IntN(n) < kills)
		}
	}
	s.settle()
	t.Logf("%d entries of %d at the end; killed %d times", len(s.entries), n, s.kills)
	if s.kills < 3 {
		t.Error("the node was hardly killed")
	}
}

func TestWhatComesFirstCanBeTakenBack(t *testing.T) {
	for _, x := range []struct{ given, want []string }{{[]string{""}, nil}, {[]string{"a", "", "b"}, []string{"a", "b"}}} {
		s, _, err := setFlags{first: x.given}.check([]string{"1"})
		if err != nil || s.First == nil || !slices.Equal(*s.First, x.want) {
			t.Errorf("%q: %v, %v", x.given, s.First, err)
		}
	}
}

func TestTheCommandsOfANode(t *testing.T) {
	t.Parallel()
	src, dir := t.TempDir(), t.TempDir()
	rig.WriteRandom(t, filepath.Join(src, "f"), 100_000, 1)
	n := startNode(t, dir)
	on := func(args ...string) (stdout, stderr string, code int) {
		return inside(append(args, "--dir", dir)...)
	}
	ticket, says, code := on("add", src)
	if code != 0 || strings.Count(ticket, "\n") != 1 || !strings.HasPrefix(ticket, "share") || !strings.Contains(says, "served") {
		t.Fatalf("add: %d\n%s%s", code, ticket, says)
	}
	got := filepath.Join(t.TempDir(), "new")
	other := startNode(t, t.TempDir())
	if _, says, code := inside("add", strings.TrimSpace(ticket), "--only", "nope", "--wait", "--dir", other.dir); code != exitUsage || !strings.Contains(says, "nope") {
		t.Errorf("add --only of nothing: exit %d, %s", code, says)
	}
	if _, says, code := inside("rm", "1", "--dir", other.dir); code != 0 {
		t.Fatal(says)
	}
	r := exec.Command(built(t), "add", strings.TrimSpace(ticket), "-o", got, "--wait", "--seed-until", "never", "--dir", other.dir)
	if out, err := r.CombinedOutput(); err != nil || !strings.Contains(string(out), filepath.Join(got, filepath.Base(src))) {
		t.Fatalf("add --wait: %v\n%s", err, out)
	}
	if rig.Fingerprint(t, filepath.Join(got, filepath.Base(src))) != rig.Fingerprint(t, src) {
		t.Error("other content")
	}
	for _, command := range []string{"set", "rm"} {
		if offers := output(t, built(t), "__complete", "--dir", dir, command, ""); !strings.HasPrefix(offers, "1\t"+filepath.Base(src)+", served\n:4") {
			t.Errorf("%s completes to %q", command, offers)
		}
	}
	unknown, numbered := share.IDOf([]byte("x")), filepath.Join(t.TempDir(), "numbered")
	rig.WriteRandom(t, numbered, 10, 9)
	for _, x := range []struct {
		args  string
		code  int
		wants string
	}{
		{"add " + src, exitHeld, "entry 1"},
		{"add nothing-here", exitUsage, `"nothing-here" is neither a file or folder on this machine nor a ticket or an ID`},
		{"add", exitUsage, "needs a TICKET or a PATH"},
		{"add " + src + " --seed-until soon", exitUsage, "--seed-until"},
		{"add " + src + " --links x", exitUsage, "--links"},
		{"add -o x --priority urgent " + strings.TrimSpace(ticket), exitUsage, `--priority is low, normal or high, not "urgent"`},
		{"hold " + filepath.Dir(src) + " --copies 2 --on /ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN", exitUsage, "--copies 2 needs as many depots"},
		{"list", 0, filepath.Base(src)},
		{"node status", 0, "entries   1"},
		{"set 1 --pause", 0, "paused"},
		{"list 1", 0, "ticket    none while the entry is paused; fetcher --dir " + dir + " set 1 --resume brings the ticket back"},
		{"set " + filepath.Base(src) + " --resume", exitUsage, "Entry 1 has that name"}, // digits
		{"set 1 --resume", 0, "entry 1"},
		{"set 9 --pause", exitUsage, "no entry \"9\""},
		{"set 1", exitUsage, "what to change"},
		{"set", exitUsage, "needs an ENTRY"},
		{"set 1 --pause --resume", exitUsage, "not both"},
		{"set 1 --all --only x", exitUsage, "--all cannot"},
		{"set --limit-up 5M", 0, "5.00 MB/s up"},
		{"set --limit-up 0", 0, "no limit up"},
		{"set 1 --limit-up 5M", 0, "entry 1"},
		{"list 1", 0, "limits    5.00 MB/s up, no limit down"},
		{"set 1 --limit-up 0", 0, "entry 1"},
		{"set 1 --limit-down 5M", exitUsage, "--limit-down is for what is fetched; nothing was changed"},
		{"set 1 --seed-until 2", exitUsage, "--seed-until is for what is fetched"},
		{"set 1 --repair", exitUsage, "--repair is for what is fetched"},
		{"set 1 --all", exitUsage, "--all is for what is fetched"},
		{"set 1 --only x", exitUsage, "--only is for what is fetched"},
		{"set 1 --first x", exitUsage, "--first is for what is fetched"},
		{"set 1 --skip x", exitUsage, "--skip is for what is fetched"},
		{"set 1 --visible moon", exitUsage, `--visible: "moon" is not private, lan or public`},
		{"set 1 --visible private", 0, "visibility private, priority normal"},
		{"set 1 --visible public", exitUsage, "the node takes part in no distributed hash table"},
		{"set 1 --priority urgent", exitUsage, `--priority is low, normal or high, not "urgent"`},
		{"set 1 --priority high", 0, "visibility private, priority high, no limit up, no limit down"},
		{"list 1", 0, "priority  high"},
		{"set 1 --rescan", 0, " list 1 then shows their new ticket"},
		{"set 1 --pause --rescan", 0, "looked at when it is resumed"},
		{"set 1 --resume", 0, "entry 1"},
		{"rm 1 nosuch", exitUsage, "shows what it has; nothing was removed"},
		{"set --pause", exitUsage, "needs an ENTRY"},
		{"set --pause --limit-up 5M", exitUsage, "needs an ENTRY"},
		{"set --limit-up 1", exitUsage, "1024"},
		{"rm 1 --data", exitUsage, "did not make"},
		{"id", 0, "12D3"},
		{"node run", exitHeld, "another fetcher is using the state directory"},
		{"node open", exitUsage, "--http"},
		{"list 1", 0, "ticket    share"},
		{"list 9", exitUsage, "no entry"},
		{"rm 1", 0, "is removed"},
		{"rm 1", exitUsage, "no entry"},
		{"list", 0, "no entries"},
		{"add " + unknown.String() + " --peer /ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN --first a --first b", 0, "entry 2: share " + unknown.Short()},
		{"list nosuch", exitUsage, "entry 2 has no name until its list of files is here"},
		{"list " + unknown.Short(), 0, "not known until its list of files is here"},
		{"list 2", 0, "first     a b"},
		{"set 2 --first c", 0, "entry 2"},
		{"list 2", 0, "first     c"},
		{"set 2 --first=", 0, "entry 2"},
		{"rm 2", 0, "is removed"},
		{"add " + numbered + " --name 7", 0, "entry 3: 7"},
		{"list 7", exitUsage, `what it has. Entry 3 has that name: give its number`},
		{"set 03 --pause", exitUsage, `no entry "03"`},
		{"rm 7", exitUsage, "nothing was removed"},
		{"release 7", exitUsage, "neither an entry of the node nor a share"},
		{"rm 3", 0, "entry 3, 7, is removed"},
	} {
		out, says, code := on(strings.Fields(x.args)...)
		for end := time.Now().Add(30 * time.Second); strings.HasPrefix(x.args, "list ") && code == 0 && !strings.Contains(out, x.wants) && time.Now().Before(end); {
			out, says, code = on(strings.Fields(x.args)...) // what was asked before may be under way
		}
		if code != x.code || !strings.Contains(out+says, x.wants) {
			t.Errorf("%s: %d, want %d and %q\n%s%s", x.args, code, x.code, x.wants, out, says)
		}
	}
	beside := startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", dir, "--listen", "none"))
	beside.stop(t)
	if says := beside.stderr.String(); !strings.Contains(says, "fetcher --dir "+dir+" add "+src) || !strings.Contains(says, "its addresses and tickets are good only while it runs") {
		t.Errorf("share beside the node says:\n%s", says)
	}
	on("add", src)
	beside = startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", dir, "--listen", "none"))
	beside.stop(t)
	if says := beside.stderr.String(); strings.Contains(says, " add ") {
		t.Errorf("share beside the node that shares it says:\n%s", says)
	}
	n.end(syscall.SIGTERM)
	if out, says, code := on("list"); code != exitNoNode || !strings.Contains(says, "fetcher --dir "+dir+" node run") {
		t.Errorf("without a node: %d\n%s%s", code, out, says)
	}
	if out, _, code := on("id"); code != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("id without a node: %d\n%s", code, out)
	}
}

// A node that is starting has the key before it answers.
func TestTheIDIsThereOnceANodeHasStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	starting, err := fetcher.Open(t.Context(), fetcher.Config{Dir: dir, Listen: []string{"none"}})
	must(t, err)
	closed := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() { closed <- starting.Close() }) // later than one attempt takes
	if out, says, code := inside("id", "--dir", dir); code != exitOK || strings.TrimSpace(out) != string(starting.ID()) {
		t.Errorf("%d, %q, %s", code, out, says)
	}
	must(t, <-closed)
}

// The first SIGTERM ends a node in good order, which waits for requests in progress; a second
// one at once.
func TestASecondSignalEndsANodeAtOnce(t *testing.T) {
	rig.Slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	t.Parallel()
	n := startNode(t, t.TempDir())
	at := daemon.Socket(n.dir)
	asks, err := net.Dial("unix", at) // and does not say what
	must(t, err)
	defer asks.Close()
	_, err = io.WriteString(asks, "GET /v1/node HTTP/1.1\r\nHost:")
	must(t, err)
	n.client.Close()
	after, err := api.Dial(t.Context(), at) // when this one is answered, the one before has been taken
	must(t, err)
	_, err = after.Status(t.Context())
	must(t, err)
	after.Close()
	must(t, n.cmd.Process.Signal(syscall.SIGTERM))
	for end := time.Now().Add(30 * time.Second); ; { // until it has heard the first
		c, err := net.Dial("unix", at)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatal("it answers still")
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- n.cmd.Wait() }()
	for over := false; !over; { // those just after the first are the same
		n.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			over = true
		case <-time.After(sameSignal / 2):
		}
	}
	if code := n.cmd.ProcessState.ExitCode(); code != exitInterrupted || strings.Contains(n.stderr.String(), "ended by SIGTERM") {
		t.Errorf("exit %d:\n%s", code, n.stderr)
	}
	n.cmd = nil
}

func TestANodeReadsItsSettingsAgainAndEndsInGoodOrder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGHUP")
	}
	t.Parallel()
	dir := t.TempDir()
	n := startUnder(t, []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, dir) // as nohup does
	must(t, os.WriteFile(filepath.Join(dir, "node.toml"), []byte("limit-up = \"3M\"\nhttp = \"127.0.0.1:1\"\n"), 0o600))
	changed := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		changed <- n.client.Events(ctx, "0-0", func(e api.Event) bool {
			if e.Type == "reset" { // now we hear
				n.cmd.Process.Signal(syscall.SIGHUP)
			}
			return e.Type == "limits"
		})
	}()
	must(t, <-changed)
	if s, err := n.client.Status(t.Context()); err != nil || s.Limits.Up != 3e6 {
		t.Errorf("%+v, %v", s.Limits, err)
	}
	began := time.Now()
	n.client.Close()
	n.cmd.Process.Signal(syscall.SIGTERM)
	err := n.cmd.Wait()
	if took := time.Since(began); err != nil || took > 30*time.Second {
		t.Errorf("it ended after %v: %v\n%s", took, err, n.stderr)
	}
	if !strings.Contains(n.stderr.String(), "only at the next start") || !strings.Contains(n.stderr.String(), "settings=[http]") {
		t.Errorf("it said of the new settings:\n%s", n.stderr)
	}
	if _, err := os.Stat(daemon.Socket(dir)); err == nil {
		t.Error("its socket is still there")
	}
	n.cmd = nil
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	r := command(t, "node", "run", "--dir", dir, "--listen", "none", "--http", l.Addr().String())
	if r.code != exitNetwork || !strings.Contains(r.stderr, "another address with --http") {
		t.Errorf("on a used port: exit %d: %s", r.code, r.stderr)
	}
	must(t, os.WriteFile(filepath.Join(dir, "node.toml"), []byte("fetchs = 1\n"), 0o600))
	out, err := exec.Command(built(t), "node", "run", "--dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `node.toml: line 1: there is no setting "fetchs"`) {
		t.Errorf("%v\n%s", err, out)
	}
}
