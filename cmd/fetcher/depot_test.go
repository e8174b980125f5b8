package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// on runs a command of a node to its end.
func (n *daemonProcess) on(args ...string) result {
	n.t.Helper()
	stdout, stderr, code := inside(append(args, "--json", "--dir", n.dir)...)
	return result{code, linesOf(n.t, stdout), stderr}
}

// sure is on, which must succeed.
func (n *daemonProcess) sure(args ...string) result {
	n.t.Helper()
	r := n.on(args...)
	if r.code != 0 {
		n.t.Fatalf("fetcher %s: exit %d: %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

func (n *daemonProcess) status() api.Status {
	n.t.Helper()
	s, err := n.client.Status(n.t.Context())
	must(n.t, err)
	return s
}

// again kills a node and starts it.
func (n *daemonProcess) again() {
	n.end(os.Kill)
	n.start()
}

// until asks the depot until its answer is as wanted.
func (n *daemonProcess) until(what string, f func() (bool, error)) {
	n.t.Helper()
	for late := time.Now().Add(2 * time.Minute); ; {
		ok, err := f()
		if ok && err == nil {
			return
		}
		if time.Now().After(late) {
			n.t.Fatalf("%s: not in 2 minutes (%v)", what, err)
		}
		rest := time.NewTimer(100 * time.Millisecond)
		<-rest.C
	}
}

// A client holds a folder on a depot; both are killed at random, the client's machine disappears,
// and another fetches the folder from the depot alone. When it is released the
// disk is empty, and the rehearsal before it said exactly that.
func TestADepotKeepsWhatItPromised(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src, folder := filepath.Join(t.TempDir(), "photos"), filepath.Join(t.TempDir(), "kept")
	for i := range 8 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprint(i)), 3_000_000, uint64(i))
	}
	must(t, os.Mkdir(folder, 0o700))
	keeper := startNode(t, t.TempDir(), "--depot", folder, "--depot-reserve", "1M", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	owner := startNode(t, t.TempDir(), "--limit-up", "8M")
	at := keeper.status().Addrs[0]

	if r := owner.on("hold", src, "--on", at); r.code != exitNotAllowed || !strings.Contains(r.stderr, "fetcher depot account add") {
		t.Errorf("a stranger's hold: exit %d, %s", r.code, r.stderr)
	}
	if s := owner.status(); s.Entries != 0 {
		t.Errorf("a hold that is refused leaves %d entries", s.Entries)
	}
	keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")
	keeper.sure("depot", "gc", "on")
	owner.sure("hold", src, "--on", at)
	for range rig.Most(10, 5) { // and killed at random
		wait := time.NewTimer(time.Duration(rand.IntN(400)) * time.Millisecond)
		<-wait.C
		if rand.IntN(2) == 0 {
			keeper.again()
		} else {
			owner.again()
			owner.until("the folder is served again", func() (bool, error) {
				e, err := owner.client.Entry(t.Context(), 1)
				return e.State == api.Served, err
			})
		}
	}
	r := owner.sure("hold", src, "--on", at, "--wait")
	if all, err := owner.client.Holds(t.Context()); err != nil || len(all) != 1 || all[0].State != "stable" {
		t.Errorf("after the wait: %+v, %v", all, err)
	}
	if !namesBoth(t, r, owner.status().Peer, keeper.status().Peer) {
		t.Errorf("the ticket does not name both: %+v", r.lines)
	}
	if r := owner.on("hold", src, "--on", at, "--copies", "2"); r.code != exitUsage || !strings.Contains(r.stderr, "2 copies need 2 depots; named so far: 1. Name 1 more") {
		t.Errorf("two copies at one depot: exit %d, %s", r.code, r.stderr)
	}
	leases, err := keeper.client.Leases(t.Context(), "owner")
	must(t, err)
	if len(leases) != 1 || leases[0].State != "stable" {
		t.Fatalf("%+v", leases)
	}
	entry, err := owner.client.Entry(t.Context(), 1)
	must(t, err)
	usage := keeper.sure("depot", "usage")
	if u := usage.lines[2]; u.Type != "account" {
		t.Errorf("%+v", u)
	}
	held := owner.sure("holdings", "--on", at)
	if len(held.lines) != 3 {
		t.Errorf("holdings: %+v", held.lines)
	}

	owner.end(os.Kill)
	to := t.TempDir()
	got := finish(t, fetchCommand(t, entry.Share, to, "--peer", at), nil)
	if got.code != 0 || rig.Fingerprint(t, filepath.Join(to, "photos")) != rig.Fingerprint(t, src) {
		t.Fatalf("fetched from the depot alone: exit %d, %s", got.code, got.stderr)
	}

	owner.start()
	if r, err := keeper.client.Rehearse(t.Context()); err != nil || r.Examined != 1 || r.Removable != 0 || r.Bytes != leases[0].Bytes {
		t.Errorf("%+v, %v", r, err)
	}
	keeper.until("the first cycle is done", func() (bool, error) { d, err := keeper.client.Depot(t.Context()); return d.Complete, err })
	keeper.sure("depot", "gc", "off")
	owner.sure("release", "photos", "--on", at)
	if r, err := keeper.client.Rehearse(t.Context()); err != nil || r.Removable != 1 || r.RemovableB != leases[0].Bytes || r.Expired != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "shares")); err != nil {
		t.Error("removed with gc off:", err)
	}
	keeper.sure("depot", "gc", "on")
	keeper.sure("depot", "gc", "run")
	keeper.until("the share is removed", func() (bool, error) {
		r, err := keeper.client.Rehearse(t.Context())
		return r.Examined == 0, err
	})
	if size := filesBelow(t, folder); size > 10_000 {
		t.Errorf("%d bytes are left", size)
	}
	accounts, err := keeper.client.Accounts(t.Context())
	must(t, err)
	for _, a := range accounts {
		if a.Used != 0 {
			t.Errorf("%+v", a)
		}
	}
	keeper.sure("depot", "account", "rm", "owner")
}

// A client whose machine disappears renews nothing: a folder that it held is removed after its last
// lease and the grace, and no earlier, although both were killed ten times at random. The rehearsal
// says exactly what will be removed, and then the disk is empty and no account uses anything.
func TestWhatNobodyRenewsGoes(t *testing.T) {
	t.Parallel()
	if !rig.Long() {
		t.Skip("it waits for the end of a lease: LONG")
	}
	src, folder, to := filepath.Join(t.TempDir(), "photos"), t.TempDir(), t.TempDir()
	for i := range 4 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprint(i)), 1_500_000, uint64(i))
	}
	keeper := startNode(t, t.TempDir(), "--depot", folder, "--depot-grace", "3s", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	owner := startNode(t, t.TempDir(), "--limit-up", "8M")
	at := keeper.status().Addrs[0]
	keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")
	owner.sure("hold", src, "--on", at, "--for", "20s")
	for range 10 {
		wait := time.NewTimer(time.Duration(rand.IntN(400)) * time.Millisecond)
		<-wait.C
		[]*daemonProcess{keeper, owner}[rand.IntN(2)].again()
	}
	owner.sure("hold", src, "--on", at, "--for", "20s", "--wait")
	lease := keeper.leases("owner")[0]
	owner.end(os.Kill)
	got := finish(t, fetchCommand(t, lease.Share, to, "--peer", at), nil)
	if got.code != 0 || rig.Fingerprint(t, filepath.Join(to, "photos")) != rig.Fingerprint(t, src) {
		t.Fatalf("fetched from the depot alone: exit %d, %s", got.code, got.stderr)
	}

	keeper.until("the first cycle is done", func() (bool, error) { d, err := keeper.client.Depot(t.Context()); return d.Complete, err })
	ended := lease.Expires
	keeper.until("the lease ends", func() (bool, error) {
		all := keeper.leases("owner")
		for _, l := range all {
			ended = l.Expires
		}
		return len(all) == 0, nil
	})
	keeper.until("the grace is over", func() (bool, error) {
		r, err := keeper.client.Rehearse(t.Context())
		return r.Removable > 0, err
	})
	if kept := time.Since(ended); kept < 3*time.Second {
		t.Errorf("it may go %v after its lease, within the grace", kept)
	}
	if size := filesBelow(t, folder); size < 6_000_000 {
		t.Errorf("with gc off %d bytes are left", size)
	}
	var would api.Crawl
	for line := range bytes.Lines(keeper.output("depot", "crawl", "--dry-run")) {
		if bytes.Contains(line, []byte(`"type":"crawl"`)) {
			must(t, json.Unmarshal(line, &would))
		}
	}
	if would.RemovableB != lease.Bytes || !slices.Equal(would.RemovableShares, []api.Removable{{Share: lease.Share, Bytes: lease.Bytes}}) {
		t.Errorf("the rehearsal says %+v of %+v", would, lease)
	}
	keeper.sure("depot", "gc", "on")
	keeper.sure("depot", "gc", "run")
	keeper.until("nothing is left", func() (bool, error) {
		r, err := keeper.client.Rehearse(t.Context())
		return r.Examined == 0, err
	})
	if size := filesBelow(t, folder); size > 1000 { // its identity, and a lock
		t.Errorf("%d bytes are left", size)
	}
	if out := string(keeper.output("depot", "usage")); strings.Count(out, `"used":0,`) != 2 || strings.Contains(out, lease.Share) {
		t.Errorf("fetcher depot usage: %s", out)
	}
}

// output is the output of a command, which must succeed.
func (n *daemonProcess) output(args ...string) []byte {
	n.t.Helper()
	stdout, stderr, code := inside(append(args, "--json", "--dir", n.dir)...)
	if code != 0 {
		n.t.Fatalf("%s: exit %d: %s", args, code, stderr)
	}
	return []byte(stdout)
}

// leases are those of an account.
func (n *daemonProcess) leases(account string) []api.Lease {
	n.t.Helper()
	all, err := n.client.Leases(n.t.Context(), account)
	must(n.t, err)
	return all
}

// namesBoth says whether the ticket that a hold ends with names two peers.
func namesBoth(t *testing.T, r result, peers ...string) bool {
	t.Helper()
	for _, l := range r.lines {
		if l.Type != "hold" {
			continue
		}
		ticket, err := share.Parse(l.Ticket)
		must(t, err)
		at := fmt.Sprint(ticket.Peers)
		return strings.Contains(at, peers[0]) && strings.Contains(at, peers[1])
	}
	return false
}

// filesBelow is the bytes of all files below a folder.
func filesBelow(t testing.TB, dir string) (n int64) {
	t.Helper()
	must(t, filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return err
	}))
	return n
}

func TestCommandsOfADepot(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	n := startNode(t, t.TempDir())
	if r := n.on("depot", "status"); r.code != exitUsage || !strings.Contains(r.stderr, "depot in node.toml") {
		t.Errorf("a node that is no depot: exit %d, %s", r.code, r.stderr)
	}
	n.end(os.Kill)
	k := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-open", "1M")
	peer := k.status().Peer
	if r := k.sure("depot", "account", "add", peer, "--name", "a", "--quota", "5M", "--max-lease", "48h"); !strings.Contains(r.stderr, "the account a is added") {
		t.Errorf("account add says %s", r.stderr)
	}
	for says, args := range map[string][]string{
		`no account can be called "."`:     {"add", peer, "--name", "."},
		`no account can be called "a\nb"`:  {"add", peer, "--name", "a\nb"},
		`no account can be called "a\xff"`: {"add", peer, "--name", "a\xff"},
		"has at most 256 bytes":            {"add", peer, "--name", strings.Repeat("x", 257)},
		`no account can be called ".."`:    {"set", "..", "--quota", "1G"},
		"depot account rm needs a NAME":    {"rm", ""},
	} {
		if r := k.on(append([]string{"depot", "account"}, args...)...); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: exit %d, %s", args, r.code, r.stderr)
		}
	}
	accounts, err := k.client.Accounts(t.Context())
	must(t, err)
	if len(accounts) != 2 || accounts[1].Quota != 5_000_000 || accounts[1].MaxLease != 48*3600 || accounts[1].Keys[0] != peer {
		t.Errorf("%+v", accounts)
	}
	for _, bad := range [][]string{{"account", "add", peer}, {"account", "add", "nobody"}, {"account", "add", peer, "--quota", "much"}, {"account", "set", "b"},
		{"account", "rm", "b"}, {"leases", "b"}, {"nothing"}, {"account", "set", "a", "--remove-key", "nobody"}} {
		if r := k.on(append([]string{"depot"}, bad...)...); r.code == 0 {
			t.Errorf("depot %v succeeds", bad)
		}
	}
	k.sure("depot", "account", "set", "a", "--quota", "7M", "--max-lease", "1h")
	k.sure("depot", "account", "set", "a", "--remove-key", peer)
	k.sure("depot", "account", "set", "a", "--add-key", peer)
	for _, typed := range []string{"account set", "account rm", "leases"} {
		if out, _, _ := inside(slices.Concat([]string{"__complete", "--dir", k.dir, "depot"}, strings.Fields(typed), []string{"a"})...); !strings.HasPrefix(out, "a\n:") && !strings.Contains(out, "\na\n") {
			t.Errorf("depot %s offers %q", typed, out)
		}
	}
	for _, good := range [][]string{{"status"}, {"usage"}, {"leases"}, {"crawl"}, {"crawl", "--dry-run"}, {"gc", "on"}, {"gc", "off"}, {"gc", "run"}, {"scrub"},
		{"clock", "ok"}, {"account", "list"}} {
		k.sure(append([]string{"depot"}, good...)...)
	}
	if r := k.on("depot", "gc", "run"); !strings.Contains(r.stderr, "gc is off") {
		t.Errorf("gc run while it is off says %q", r.stderr)
	}
	for _, bad := range [][]string{{"hold", "x"}, {"holdings"}, {"release", "x", "--on", "nonsense"}, {"holdings", "--on", "nonsense"},
		{"hold", "x", "--on", k.status().Addrs[0], "--for", "1s"}, {"hold", "x", "--on", k.status().Addrs[0], "--for", "367d"}} {
		if r := k.on(bad...); r.code != exitUsage || !strings.Contains(r.stderr, "--on") && !strings.Contains(r.stderr, "from 10 s to 366 d") {
			t.Errorf("%v: exit %d, %s", bad, r.code, r.stderr)
		}
	}
	self := t.TempDir()
	for _, itself := range [][]string{{"hold", self}, {"holdings"}} {
		if r := k.on(append(itself, "--on", k.status().Addrs[0])...); r.code != exitUsage || !strings.Contains(r.stderr, "this node") {
			t.Errorf("%v at this node itself: exit %d, %s", itself, r.code, r.stderr)
		}
	}
	for what, args := range map[string][]string{"needs an ENTRY or PATH": {"hold", "", "--on", k.status().Addrs[0]}, "is not a file": {"depot", "import", self}, `nowhere" is not a file`: {"depot", "import", filepath.Join(self, "nowhere")}} {
		if r := k.on(args...); r.code != exitUsage || !strings.Contains(r.stderr, what) {
			t.Errorf("%q: exit %d, %s", args, r.code, r.stderr)
		}
	}
	if r := k.on("release", "x"); r.code != exitUsage || !strings.Contains(r.stderr, " holds") {
		t.Errorf("release of nothing: exit %d, %s", r.code, r.stderr)
	}
	if accounts, err = k.client.Accounts(t.Context()); err != nil || accounts[1].Quota != 7_000_000 || accounts[1].MaxLease != 3600 || len(accounts[1].Keys) != 1 {
		t.Errorf("%+v, %v", accounts, err)
	}
	stranger := startNode(t, t.TempDir())
	src := filepath.Join(t.TempDir(), "x")
	rig.WriteRandom(t, src, 2_000_000, 1)
	if r := stranger.on("hold", src, "--on", k.status().Addrs[0]); r.code == 0 || !strings.Contains(r.stderr, "quota") {
		t.Errorf("a stranger's hold over the small quota: exit %d, %s", r.code, r.stderr)
	}
	if s := stranger.status(); s.Entries != 0 {
		t.Errorf("a hold over the quota leaves %d entries", s.Entries)
	}
	if r := k.on("depot", "account", "set", peer[len(peer)-8:], "--quota", "8M"); r.code != exitOK {
		t.Errorf("an account by the end of its key: exit %d, %s", r.code, r.stderr)
	}
	if r := k.on("depot", "account", "set", "starter", "--quota", "8M"); r.code != exitUsage || !strings.Contains(r.stderr, "finds on its disk") {
		t.Errorf("terms for the starter: exit %d, %s", r.code, r.stderr)
	}
	if r := k.on("depot", "account", "rm", "starter"); r.code != exitUsage || !strings.Contains(r.stderr, "it cannot be removed") {
		t.Errorf("the starter account: exit %d: %s", r.code, r.stderr)
	}
	if r := k.on("depot", "leases", "nobody"); r.code != exitUsage || strings.Contains(r.stderr, "leases.db") || !strings.Contains(r.stderr, "there is no account") {
		t.Errorf("leases of nobody: exit %d, %s", r.code, r.stderr)
	}
}

// Whoever asks for copies at more depots than keep it is told so, also of depots that were named before; a script that waits, by the exit code.
func TestTooFewCopiesAreNotSilent(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, src, 1000, 1)
	k, owner := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-open", "1M"), startNode(t, t.TempDir())
	at, away := k.status().Addrs[0], fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/12D3KooWMoMcABCBb2XGPeqif4B5js5S5jJvPGsg6zme8Ui5o6Ap", rig.FreePort(t))
	for i, c := range []struct {
		code, few int
		args      []string
	}{
		{exitOK, 0, []string{"--on", away, "--on", at, "--copies", "1", "--wait"}},
		{exitOK, 1, []string{"--on", at, "--copies", "2"}},
		{exitStalled, 1, []string{"--on", at, "--copies", "2", "--wait"}},
		{exitStalled, 1, []string{"--on", at, "--on", away, "--wait"}},
		{exitOK, 0, []string{"--on", at, "--wait"}},
		{exitOK, 0, []string{"--on", at, "--on", strings.Replace(at, "/ip4/127.0.0.1/", "/dns4/localhost/", 1), "--wait"}}, // of the same
	} {
		if r := owner.on(append([]string{"hold", src}, c.args...)...); r.code != c.code || strings.Count(r.stderr, "only 1 of 2 depots keeps the share so far") != c.few {
			t.Errorf("%d: exit %d, %s", i, r.code, r.stderr)
		}
	}
}

// What is released while its depot is away, and whose entry is removed, is still called what it was.
func TestWhatIsToBeReleasedKeepsItsName(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, src, 1000, 1)
	k, owner := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-open", "1M"), startNode(t, t.TempDir())
	owner.sure("hold", src, "--on", k.status().Addrs[0])
	k.end(os.Kill)
	owner.sure("release", "film")
	owner.sure("rm", "film")
	for _, args := range [][]string{{"holds"}, {"release", "film"}} {
		stdout, stderr, code := inside(append(args, "--dir", owner.dir)...)
		if code != 0 || !strings.Contains(stdout, " film\n") || strings.Contains(stderr, "released:") {
			t.Errorf("%v: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
}

// A depot whose folder is gone promises nothing, reports nothing that it has not seen, and every command says what is wrong.
func TestADepotWhoseFolderIsGoneSaysSo(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	folder := t.TempDir()
	k := startNode(t, t.TempDir(), "--depot", folder)
	k.sure("depot", "account", "add", k.status().Peer, "--name", "a", "--quota", "5M")
	text := func(args ...string) (string, int) {
		stdout, stderr, code := inside(append(args, "--dir", k.dir)...)
		return stdout + stderr, code
	}
	if s, _ := text("doctor"); !strings.Contains(s, "depot    it keeps shares in "+folder) {
		t.Errorf("doctor: %s", s)
	}
	for _, x := range []struct {
		why   string
		spoil func() error
	}{
		{"no depot's identity is in it", func() error { return os.Remove(filepath.Join(folder, "depot")) }},
		{"there is no file or folder " + folder, func() error { return os.RemoveAll(folder) }},
		{folder + " is not a folder", func() error { return os.WriteFile(folder, nil, 0o600) }},
	}[:rig.Most(3, 1)] {
		k.end(os.Interrupt)
		must(t, x.spoil())
		k.start()
		k.until("it waits", func() (bool, error) {
			d, err := k.client.Depot(t.Context())
			return d.Trouble != "", err
		})
		for _, args := range [][]string{{"scrub"}, {"crawl"}, {"crawl", "--dry-run"}, {"gc", "run"}, {"export", filepath.Join(t.TempDir(), "x")}} {
			if s, code := text(append([]string{"depot"}, args...)...); code != exitOther || !strings.Contains(s, "the folder cannot be used: "+x.why) || strings.Contains(s, "beginning now") {
				t.Errorf("%s: depot %v: exit %d, %s", x.why, args, code, s)
			}
		}
		for says, args := range map[string][]string{": waits\n": {"depot", "status"}, "the depot waits: the folder cannot be used: " + x.why: {"depot", "status"}, "the depot waits: the folder cannot be used: " + x.why: {"node", "status"},
			"WRONG  depot    it waits: the folder cannot be used: " + x.why: {"doctor"}, "the depot removes what nobody holds, as soon as it can": {"depot", "gc", "on"}} {
			if s, _ := text(args...); !strings.Contains(s, says) {
				t.Errorf("%s: %v: %s", x.why, args, s)
			}
		}
	}
}

// A folder in which no depot can start is reported at once, and not only in the log.
func TestADepotThatCannotBeginEndsTheNode(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	used, taken := t.TempDir(), t.TempDir()
	rig.WriteRandom(t, filepath.Join(used, "x"), 10, 1)
	startNode(t, t.TempDir(), "--depot", taken)
	for _, x := range []struct {
		dir  string
		code int
		says string
	}{{used, exitUsage, "give the depot an empty folder"}, {taken, exitHeld, "another process"}} {
		r := finish(t, exec.Command(built(t), "node", "run", "--dir", t.TempDir(), "--listen", "none", "--depot", x.dir), nil)
		if r.code != x.code || !strings.Contains(r.stderr, x.says) || strings.Count(r.stderr, "cannot start") != 1 || strings.Contains(r.stderr, "waits") || strings.Contains(r.stderr, "the node runs") {
			t.Errorf("%s: exit %d, %s", x.says, r.code, r.stderr)
		}
	}
}

func TestWhatARemovedAccountHadPaidIsSaid(t *testing.T) {
	const month = 31 * 24 * 3600
	for credit, want := range map[int64]string{0: "", month - 1: "", month: " 1 pass, ", 12*month + 1: " 12 passes, "} {
		if got := creditGone(api.Account{Credit: credit}); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d MiB-seconds: %q", credit, got)
		}
	}
}

// What is turned on and cannot begin yet is not said to begin.
func TestWhatADepotCannotDoYetDoesNotBegin(t *testing.T) {
	for want, ds := range map[string][]api.Depot{
		"beginning now":     {{Complete: true}},
		"as soon as it can": {{}, {Complete: true, Frozen: true}, {Complete: true, Trouble: "the folder is away"}},
	} {
		for _, d := range ds {
			if got := begunText("gc-on", d); !strings.Contains(got, want) {
				t.Errorf("%+v: %q, want %q", d, got, want)
			}
		}
	}
}
