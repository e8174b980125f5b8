package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/rig"
)

// machines are processes that belong to one fleet, each with a state directory.
type machines struct {
	t    *testing.T
	dirs []string // state
	outs []string
	runs []*exec.Cmd

	with   []string // further flags of each
	stderr io.Writer
}

// inDir runs the command with a state directory.
func inDir(t testing.TB, dir string, args ...string) result {
	return finish(t, exec.Command(built(t), append(args, "--json", "--dir", dir)...), nil)
}

// newMachines has n machines join a fleet by a token.
func newMachines(t *testing.T, n int) *machines {
	m := &machines{t: t, runs: make([]*exec.Cmd, n), with: []string{"--heartbeat", "300ms"}}
	store := "sqlite:" + filepath.Join(t.TempDir(), "kv")
	for range n {
		m.dirs, m.outs = append(m.dirs, t.TempDir()), append(m.outs, t.TempDir())
	}
	invited := inDir(t, m.dirs[0], "fleet", "invite", "--fleet", store)
	token, _, _ := strings.Cut(output(t, built(t), "fleet", "invite", "--dir", m.dirs[0]), "\n")
	if invited.code != 0 || !strings.HasPrefix(token, "fleet1.") {
		t.Fatalf("%d, %q", invited.code, token)
	}
	for _, dir := range m.dirs {
		if r := inDir(t, dir, "fleet", "join", token); r.code != 0 {
			t.Fatalf("join: %s", r.stderr)
		}
	}
	return m
}

// start starts a machine, or restarts it.
func (m *machines) start(i int) {
	m.t.Helper()
	args := append([]string{"fleet", "run", "-o", m.outs[i], "--dir", m.dirs[i], "--listen", "/ip4/127.0.0.1/tcp/0", "--name", "machine" + string(rune('a'+i)), "--json"}, m.with...)
	cmd := exec.Command(built(m.t), args...)
	cmd.Stderr = m.stderr
	out, err := cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, cmd.Start())
	m.runs[i] = cmd
	m.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), `"addrs"`) {
	}
	go func() { // ends with the process
		for lines.Scan() {
		}
	}()
}

func (m *machines) kill(i int) {
	must(m.t, m.runs[i].Process.Kill())
	m.runs[i].Wait()
}

// rolledOut is what fleet status prints.
type rolledOut struct {
	Type, Name, Coordinator, Peer string
	Done                          any
	Members, Verified             int64
	Term                          uint64
}

// says is what fleet status prints. It is called often, and so runs in this process.
func (m *machines) says(args ...string) string {
	m.t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"fleet", "status", "--dir", m.dirs[0]}, args...), strings.NewReader(""), &stdout, &stderr, m.t.Context()); code != 0 {
		m.t.Fatalf("fleet status: exit %d: %s", code, &stderr)
	}
	return stdout.String()
}

// status is the share's line of fleet status, and those of the machines.
func (m *machines) status() (share rolledOut, each map[string]rolledOut) {
	each = map[string]rolledOut{}
	for text := range strings.Lines(m.says("--json")) {
		var l rolledOut
		must(m.t, json.Unmarshal([]byte(text), &l))
		switch l.Type {
		case "rollout":
			share = l
		case "machine":
			each[l.Name] = l
		}
	}
	return share, each
}

func (m *machines) until(what string, is func(share rolledOut, each map[string]rolledOut) bool) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if is(m.status()) {
			return
		}
	}
	m.t.Fatalf("no %s:\n%s", what, m.says())
}

// Three machines, the coordinator of which is killed in the middle: all have the share,
// and it came in about once.
func TestAFleetOfProcessesElectsAnotherCoordinator(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	const size = 24 << 20
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, size, 7)
	origin := startSharing(t, shareCommand(t, src, "--limit-up", "4M"))
	m := newMachines(t, 3)
	for i := range m.runs {
		m.start(i)
	}
	if r := inDir(t, m.dirs[1], "fleet", "add", origin.ticket); r.code != 0 {
		t.Fatalf("add: %s", r.stderr)
	}
	var first rolledOut
	m.until("third of the share", func(share rolledOut, each map[string]rolledOut) bool {
		first = share
		return each["machinea"].Verified+each["machineb"].Verified+each["machinec"].Verified > size
	})
	victim := -1
	_, each := m.status()
	for i, name := range []string{"machinea", "machineb", "machinec"} {
		if each[name].Peer == first.Coordinator {
			victim = i
		}
	}
	if victim < 0 {
		t.Fatalf("%+v coordinates, which is none of %+v", first, each)
	}
	m.kill(victim)
	killed := time.Now()
	m.until("other coordinator", func(share rolledOut, _ map[string]rolledOut) bool { return share.Term > first.Term })
	t.Logf("another was elected within %v", time.Since(killed))
	m.start(victim)
	m.until("copy on all machines", func(share rolledOut, _ map[string]rolledOut) bool { return share.Done == 3.0 })
	for _, out := range m.outs {
		if rig.Fingerprint(t, filepath.Join(out, "big.bin")) != rig.Fingerprint(t, src) {
			t.Errorf("%s has other bytes", out)
		}
	}
	if sent := written(origin.cmd.Process.Pid); sent > size+size/8 {
		t.Errorf("the origin sent %d bytes of a share of %d", sent, size)
	} else {
		t.Logf("the origin sent %d bytes of a share of %d", sent, size)
	}
	if text := m.says(); !strings.Contains(text, "3 of 3 done, coordinated by machine") {
		t.Errorf("%s", text)
	}
	if r := inDir(t, m.dirs[0], "fleet", "remove", "big"); r.code != exitUsage || !strings.Contains(r.stderr, `no share of the fleet is called "big"`) {
		t.Errorf("remove what is not there: exit %d, %s", r.code, r.stderr)
	}
	if r := inDir(t, m.dirs[0], "fleet", "remove", "big.bin"); r.code != 0 {
		t.Errorf("remove by its name: %s", r.stderr)
	}
	r := finish(t, exec.Command(built(t), "fleet", "remove", origin.ticket, "--dir", m.dirs[0]), nil)
	if r.code != exitUsage || !strings.Contains(r.stderr, "not on the list") || !strings.Contains(r.stderr, "fleet status") {
		t.Errorf("removed twice: exit %d, %q", r.code, r.stderr)
	}
}

func TestFetchTakesPartInAFleet(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "small.bin")
	rig.WriteRandom(t, src, 1<<20, 7)
	origin := startShare(t, src)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("the secret of a fleet\n"), 0o600))
	store := "sqlite:" + filepath.Join(t.TempDir(), "kv")
	r := finish(t, fetchCommand(t, origin.ticket, t.TempDir(), "--fleet", store, "--fleet-secret", secret, "--dir", t.TempDir()), nil)
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if r := command(t, "fleet", "status", "--fleet", store, "--fleet-secret", secret); r.code != 0 {
		t.Errorf("status: %s", r.stderr)
	}
}

func TestWhatAFleetIsToldIsChecked(t *testing.T) {
	t.Parallel()
	short := filepath.Join(t.TempDir(), "short")
	must(t, os.WriteFile(short, []byte("too short"), 0o600))
	dir := t.TempDir()
	for _, args := range [][]string{
		{"fleet", "nonsense"},
		{"fleet", "status"},
		{"fleet", "join", "nonsense"},
		{"fleet", "join", "fleet1." + "e30"},
		{"fleet", "status", "--fleet", "sqlite:" + filepath.Join(dir, "kv")},
		{"fleet", "status", "--fleet-secret", short},
		{"fleet", "status", "--fleet", "sqlite:" + filepath.Join(dir, "kv"), "--fleet-secret", short},
		{"fleet", "status", "--fleet", "nonsense", "--fleet-secret", "/nonexistent"},
		{"fleet", "run", "--heartbeat", "1ms"},
		{"fleet", "run", "--alone-after", "-1s"},
		{"fleet", "run", "--limit-up", "much"},
		{"fetch", "share", "--fleet-secret", short},
		{"fetch", "share", "--fleet", "sqlite:x", "--lease-from", "/ip4/127.0.0.1/tcp/1"},
	} {
		if r := inDir(t, dir, args...); r.code != exitUsage {
			t.Errorf("%v: exit %d: %s", args, r.code, r.stderr)
		}
	}
}

func TestAMachineBelongsToOneFleet(t *testing.T) {
	t.Parallel()
	dir, stores := t.TempDir(), "sqlite:"+t.TempDir()
	a, b := daemon.Membership{URL: stores + "/a", Secret: "the secret of a fleet"}, daemon.Membership{URL: stores + "/b", Secret: "the secret of another"}
	for _, c := range []struct {
		m    daemon.Membership
		want int
	}{{a, 0}, {a, 0}, {b, exitOther}, {daemon.Membership{URL: stores + "/moved", Secret: a.Secret}, 0}} {
		if r := inDir(t, dir, "fleet", "join", c.m.Token()); r.code != c.want {
			t.Errorf("%+v: exit %d: %s", c.m, r.code, r.stderr)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, daemon.MembershipName)); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// What a token says holds in every folder, and nobody is invited to a store that does not exist.
func TestAnInvitationIsToAStoreThatIsThere(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, work := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, daemon.MembershipName)
	if r := inDir(t, dir, "fleet", "invite", "--fleet", "nats://127.0.0.1:1/none"); r.code != exitNetwork || !strings.Contains(r.stderr, "127.0.0.1:1") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it belongs to a fleet without a store: %v", err)
	}
	cmd := exec.Command(built(t), "fleet", "invite", "--fleet", "sqlite:kv", "--dir", dir)
	cmd.Dir = work
	token, err := cmd.Output()
	must(t, err)
	m, err := daemon.ParseToken(string(token))
	if err != nil {
		t.Fatal(err)
	}
	path, ok := strings.CutPrefix(m.URL, "sqlite:")
	if !ok || !filepath.IsAbs(path) {
		t.Errorf("the token says %q", m.URL)
	}
	if _, err := os.Stat(filepath.Join(work, "kv")); err != nil {
		t.Error(err)
	}
	other := t.TempDir() // where join was meant
	if r := inDir(t, other, "fleet", "invite", "--fleet", m.URL); r.code != exitOther || !strings.Contains(r.stderr, "another secret") {
		t.Errorf("a second fleet in one store: exit %d: %s", r.code, r.stderr)
	}
	if _, ok, err := daemon.Joined(other); ok || err != nil {
		t.Errorf("it has joined one: %v", err)
	}
	for _, again := range [][]string{{"fleet", "invite"}, {"fleet", "invite", "--fleet", m.URL}} {
		if out := output(t, built(t), append(again, "--dir", dir)...); !strings.HasPrefix(out, m.Token()+"\n") {
			t.Errorf("%q again: %s", again, out)
		}
	}

	before := m
	before.URL = "sqlite:" + filepath.Dir(path) + "/./" + filepath.Base(path) // as with another password
	must(t, before.Save(dir))
	if r := inDir(t, dir, "fleet", "invite", "--fleet", m.URL); r.code != 0 || !strings.Contains(r.stderr, "this machine has the new URL of the store") {
		t.Errorf("another URL of the same store: exit %d: %s", r.code, r.stderr)
	}
	if is, _, err := daemon.Joined(dir); is != m || err != nil {
		t.Errorf("with another URL of its store it is %+v, %v", is, err)
	}
	elsewhere := filepath.Join(t.TempDir(), "kv") // as with another name of the host
	must(t, os.Link(path, elsewhere))
	if r := inDir(t, dir, "fleet", "invite", "--fleet", "sqlite:"+elsewhere); r.code != 0 || !strings.Contains(r.stderr, "this machine has the new URL of the store") {
		t.Errorf("the same store elsewhere: exit %d: %s", r.code, r.stderr)
	}
	must(t, m.Save(dir))
	if r := inDir(t, dir, "fleet", "invite", "--fleet", "sqlite:"+filepath.Join(work, "another")); r.code != exitOther || !strings.Contains(r.stderr, "a fleet with another store; to leave that fleet, run fetcher") {
		t.Errorf("another store: exit %d: %s", r.code, r.stderr)
	}

	must(t, m.Save(other)) // a second machine, which is to stay
	if r := inDir(t, t.TempDir(), "fleet", "invite", "--new-secret"); r.code != exitUsage || !strings.Contains(r.stderr, "has joined no fleet") {
		t.Errorf("the secret of no fleet: exit %d: %s", r.code, r.stderr)
	}
	next, _, _ := strings.Cut(output(t, built(t), "fleet", "invite", "--new-secret", "--dir", dir), "\n")
	if is, err := daemon.ParseToken(next); err != nil || is.Secret == m.Secret || is.URL != m.URL {
		t.Errorf("the new token: %+v, %v", is, err)
	}
	if r := inDir(t, other, "fleet", "status"); r.code == 0 || !strings.Contains(r.stderr, "another secret") {
		t.Errorf("with the old secret: exit %d: %s", r.code, r.stderr)
	}
	if r := inDir(t, other, "fleet", "invite"); r.code != exitOther || !strings.Contains(r.stderr, "this machine is no longer a member") {
		t.Errorf("invite with the old secret: exit %d: %s", r.code, r.stderr)
	}
	for what, in := range map[string]string{"was put out": other, "is new": t.TempDir()} {
		before, _, err := daemon.Joined(in)
		must(t, err)
		r := inDir(t, in, "fleet", "join", m.Token())
		if after, _, err := daemon.Joined(in); r.code != exitOther || !strings.Contains(r.stderr, "this token is no longer valid") || strings.Contains(r.stderr, joinedText) || after != before || err != nil {
			t.Errorf("a machine that %s joins with the old token: exit %d, %v: %s", what, r.code, err, r.stderr)
		}
	}
	away := daemon.Membership{URL: "nats://127.0.0.1:1/none", Secret: m.Secret}
	if r := inDir(t, t.TempDir(), "fleet", "join", away.Token()); r.code != 0 || !strings.Contains(r.stderr, joinedText+", but the store could not be asked whether the token is still valid: ") {
		t.Errorf("the store is away: exit %d: %s", r.code, r.stderr)
	}
	for _, step := range [][]string{{"fleet", "join", next}, {"fleet", "status"}} {
		if r := inDir(t, other, step...); r.code != 0 {
			t.Errorf("%q: exit %d: %s", step[:2], r.code, r.stderr)
		}
	}
}

// A node is a member of the fleet that its machine has joined: what is added to the fleet
// is in its catalog, and the commands of the fleet ask the node. After a kill it continues.
func TestANodeBelongsToTheFleetThatItsMachineHasJoined(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "film.bin")
	rig.WriteRandom(t, src, 3<<20, 5)
	origin := startShare(t, src)
	m := newMachines(t, 2)
	secret := filepath.Join(t.TempDir(), "secret")
	joined, _, err := daemon.Joined(m.dirs[1])
	must(t, err)
	must(t, os.WriteFile(secret, []byte(joined.Secret), 0o600))
	must(t, os.Remove(filepath.Join(m.dirs[1], daemon.MembershipName)))
	a := startNode(t, m.dirs[0], "--into", m.outs[0], "--name", "nas-7")
	b := startNode(t, m.dirs[1], "--into", m.outs[1], "--fleet", joined.URL, "--fleet-secret", secret) // what a flag says, none has to have joined
	if r := inDir(t, m.dirs[1], "fleet", "add", origin.ticket); r.code != 0 {
		t.Fatalf("add: %s", r.stderr)
	}
	m.until("copy on both", func(share rolledOut, _ map[string]rolledOut) bool { return share.Done == 2.0 })
	for _, out := range m.outs {
		if rig.Fingerprint(t, filepath.Join(out, "film.bin")) != rig.Fingerprint(t, src) {
			t.Errorf("%s has other bytes", out)
		}
	}
	b.end(os.Kill)
	b.start()
	all, err := b.client.Entries(t.Context())
	must(t, err)
	if len(all) != 1 || !all[0].Fleet {
		t.Fatalf("after a kill: %+v", all)
	}
	if r := inDir(t, m.dirs[1], "rm", "1"); r.code != exitUsage || !strings.Contains(r.stderr, "fleet remove") {
		t.Errorf("rm: exit %d, %s", r.code, r.stderr)
	}
	if r := inDir(t, m.dirs[1], "fleet", "remove", "film.bin"); r.code != 0 {
		t.Errorf("remove: %s", r.stderr)
	}
	is, err := b.client.Status(t.Context())
	must(t, err)
	if r := inDir(t, m.dirs[1], "fleet", "forget", is.Peer); r.code != 0 || !strings.Contains(r.stderr, "will be listed again while its node runs as a member") {
		t.Errorf("forget: exit %d, %s", r.code, r.stderr)
	}
	for _, gone := range []string{is.Peer, "nas-7"} { // each may be back at once
		inDir(t, m.dirs[1], "fleet", "forget", gone)
	}
	if s := output(t, "sh", "-c", `"$0" doctor --dir "$1"; true`, built(t), m.dirs[1]); strings.Contains(s, "fleet of 0 machines") {
		t.Errorf("doctor: %s", s)
	}
	if r := inDir(t, m.dirs[1], "fleet", "forget", "nobody"); r.code != exitUsage || !strings.Contains(r.stderr, "not on the list of the fleet; ") || !strings.Contains(r.stderr, " fleet status shows the list\n") {
		t.Errorf("forget nobody: exit %d, %s", r.code, r.stderr)
	}
	for end := time.Now().Add(30 * time.Second); len(all) > 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		all, err = b.client.Entries(t.Context())
		must(t, err)
	}
	if len(all) > 0 {
		t.Errorf("after it was removed: %+v", all)
	}
	if r := inDir(t, m.dirs[1], "fleet", "remove", origin.ticket); r.code != exitUsage || !strings.Contains(r.stderr, "not on the list") {
		t.Errorf("removed twice: exit %d, %s", r.code, r.stderr)
	}

	for range 2 { // a path that the node serves from then on, or already
		if r := inDir(t, m.dirs[0], "fleet", "add", src); r.code != 0 {
			t.Fatalf("add a path: exit %d, %s", r.code, r.stderr)
		}
	}
	m.until("the path on both", func(share rolledOut, _ map[string]rolledOut) bool { return share.Done == 2.0 })
	origin.stop(t) // it serves that path too
	must(t, os.WriteFile(src, []byte("edited"), 0o600))
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		all, err = a.client.Entries(t.Context())
		must(t, err)
		if slices.ContainsFunc(all, func(e api.Entry) bool { return len(e.Older) == 1 && e.State == api.Served }) {
			break
		}
	}
	if r := inDir(t, m.dirs[0], "fleet", "add", src); r.code != 0 || !strings.Contains(r.stderr, "remove that with fetcher --dir "+m.dirs[0]+" fleet remove bafy") || !strings.Contains(r.stderr, "set ENTRY --repair") {
		t.Errorf("add what was edited: exit %d, %s", r.code, r.stderr)
	}
	doctor := exec.Command(built(t), "doctor", "--dir", m.dirs[0])
	if out, err := doctor.Output(); !strings.Contains(string(out), "fleet    this node is a member of a fleet of 2 machines") {
		t.Errorf("doctor: %s, %v", out, err)
	}
	if f, err := a.client.Fleet(t.Context()); err != nil || !slices.ContainsFunc(f.Members, func(m api.FleetMember) bool { return m.Name == "nas-7" }) {
		t.Errorf("%+v, %v", f, err)
	}
	if r := inDir(t, m.dirs[0], "fleet", "leave"); r.code != 0 || !strings.Contains(r.stderr, "until then it is still a member") {
		t.Errorf("leave: exit %d, %s", r.code, r.stderr)
	}
	if r := inDir(t, m.dirs[0], "fleet", "leave"); r.code != exitUsage || !strings.Contains(r.stderr, "leaves that fleet when it is restarted") {
		t.Errorf("left twice: exit %d, %s", r.code, r.stderr)
	}
}

// A path that cannot come to the fleet is not served either.
func TestAPathThatTheFleetDoesNotGetIsNotServed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, src, secret := t.TempDir(), filepath.Join(t.TempDir(), "film.bin"), filepath.Join(t.TempDir(), "secret")
	rig.WriteRandom(t, src, 1000, 5)
	must(t, os.WriteFile(secret, []byte("the secret of a fleet\n"), 0o600))
	n := startNode(t, dir, "--listen", "none")
	with := []string{"--fleet", "sqlite:" + filepath.Join(t.TempDir(), "kv"), "--fleet-secret", secret}
	for says, flags := range map[string][]string{"fleet join TOKEN": nil, "the node listens nowhere": with} {
		if r := inDir(t, dir, append([]string{"fleet", "add", src}, flags...)...); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: exit %d: %s", flags, r.code, r.stderr)
		}
		if all, err := n.client.Entries(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("%q: %+v, %v", flags, all, err)
		}
	}
	must(t, os.WriteFile(src, []byte("edited"), 0o600))
	if r := inDir(t, dir, "add", src); r.code != 0 || strings.Count(r.stderr, "served") != 1 {
		t.Fatal(r.stderr)
	}
	if r := inDir(t, dir, "add", src, dir); r.code != exitHeld || !strings.Contains(r.stderr, src+": the node has that already: it is entry") || !strings.Contains(r.stderr, "after this one were not added") {
		t.Errorf("two paths, one of which is served: exit %d: %s", r.code, r.stderr)
	}
	if r := inDir(t, dir, append([]string{"fleet", "add", src}, with...)...); r.code != exitUsage {
		t.Errorf("what is served already: exit %d: %s", r.code, r.stderr)
	}
	if r := inDir(t, dir, "rm", "film.bin", "2", "film.bin"); r.code != 0 || strings.Count(r.stderr, "is removed") != 1 {
		t.Errorf("one entry, named three times: exit %d: %s", r.code, r.stderr)
	}
	if r := inDir(t, dir, "fleet", "invite", "--fleet", with[1]+"2"); r.code != 0 || !strings.Contains(r.stderr, "restart the node that runs here") {
		t.Errorf("invite beside a node: exit %d: %s", r.code, r.stderr)
	}
}
