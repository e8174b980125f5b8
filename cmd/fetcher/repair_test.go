package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// damaged is a share that was fetched, and then damaged.
func damaged(t *testing.T) (s *sharing, src, dir string) {
	t.Helper()
	src = filepath.Join(t.TempDir(), "tree")
	rig.WriteRandom(t, filepath.Join(src, "a", "big"), 5<<20+7, 1)
	rig.WriteRandom(t, filepath.Join(src, "a", "small"), 1000, 2)
	rig.WriteRandom(t, filepath.Join(src, "gone"), 2<<20, 3)
	rig.WriteRandom(t, filepath.Join(src, "right"), 3<<20, 4)
	s, dir = startShare(t, src), t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "tree"), os.DirFS(src)))
	at := func(name string) string { return filepath.Join(dir, "tree", filepath.FromSlash(name)) }
	f, err := os.OpenFile(at("a/big"), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("edited"), 3<<20)
	must(t, err)
	must(t, f.Close())
	must(t, os.Remove(at("gone")))
	rig.WriteRandom(t, at("mine"), 10, 5)
	return s, src, dir
}

func TestFetchRepairs(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	s, src, dir := damaged(t)
	before := rig.Fingerprint(t, filepath.Join(dir, "tree"))
	r := command(t, "fetch", s.ticket, "-o", dir, "--listen", "none")
	if r.code != 13 || !strings.Contains(r.stderr, "With --repair, what is missing or wrong is") || rig.Fingerprint(t, filepath.Join(dir, "tree")) != before {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	for range 2 { // what was killed, or interrupted, is found again
		cmd := fetchCommand(t, s.ticket, dir, "--repair", "--limit-down", "1M")
		r = finish(t, cmd, func(l line) {
			if l.Type == "plan" {
				cmd.Process.Kill()
			}
		})
		if r.code != -1 || rig.Fingerprint(t, filepath.Join(dir, "tree")) != before {
			t.Errorf("exit %d: %s", r.code, r.stderr)
		}
	}
	r = command(t, "fetch", s.ticket, "-o", dir, "--listen", "none", "--repair")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	plan := r.lines[slices.IndexFunc(r.lines, func(l line) bool { return l.Type == "plan" })]
	if !slices.Equal(plan.Replaces, []string{"a/big"}) || !strings.Contains(r.stderr, "1 file differs, and will be replaced when the right bytes are here:\n    a/big\n") {
		t.Errorf("it was to replace %q: %s", plan.Replaces, r.stderr)
	}
	if sum := r.summary(); sum.Verified-sum.Resumed > 3<<20 { // one piece of big, and gone
		t.Errorf("%d bytes were fetched", sum.Verified-sum.Resumed)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree", "mine")); err != nil {
		t.Error("a file that is not of the share is gone")
	}
	must(t, os.Remove(filepath.Join(dir, "tree", "mine")))
	if got, want := rig.Fingerprint(t, filepath.Join(dir, "tree")), rig.Fingerprint(t, src); got != want {
		t.Errorf("repaired it is\n%swant\n%s", got, want)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left over: %v", list)
	}
}

func TestRepairGoesWithAChoice(t *testing.T) {
	t.Parallel()
	s, _, dir := damaged(t)
	r := command(t, "fetch", s.ticket, "-o", dir, "--listen", "none", "--repair", "--only", "tree/a")
	if r.code != 0 || !strings.Contains(r.stderr, "a/big") {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree", "gone")); err == nil {
		t.Error("what was not chosen was fetched")
	}
	if r = command(t, "fetch", s.ticket, "-o", dir, "--listen", "none", "--repair", "--skip", "a"); r.code != 0 || strings.Contains(r.stderr, "differ") {
		t.Fatalf("then exit %d: %s", r.code, r.stderr)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "tree.partial")))
	if r = command(t, "fetch", s.ticket, "-o", dir, "--listen", "none", "--only", "a"); r.code != 0 || strings.Contains(r.stderr, ".partial stays") {
		t.Errorf("then exit %d: %s", r.code, r.stderr) // there is none
	}
}

func TestFetchTakesWhatAnOlderVersionHas(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	s, src, dir := damaged(t)
	to := t.TempDir()
	r := command(t, "fetch", s.ticket, "-o", to, "--listen", "none", "--like", filepath.Join(dir, "tree", "right"), "--like", dir)
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if sum := r.summary(); sum.Verified-sum.Resumed != 3<<20 {
		t.Errorf("%d bytes were fetched", sum.Verified-sum.Resumed)
	}
	if got, want := rig.Fingerprint(t, filepath.Join(to, "tree")), rig.Fingerprint(t, src); got != want {
		t.Errorf("fetched\n%swant\n%s", got, want)
	}
	if r = command(t, "fetch", s.ticket, "-o", to, "--like", filepath.Join(dir, "nowhere")); r.code != exitUsage || !strings.Contains(r.stderr, "nowhere") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// What is said to be repaired is what was fetched, and not the owner's files.
func TestWhatTheNodeHasAlreadyIsRepairedIfItWasFetched(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "photos")
	rig.WriteRandom(t, filepath.Join(src, "a"), 1000, 1)
	s, n := startShare(t, src), startNode(t, t.TempDir())
	n.sure("add", src, "--secret")
	all, err := n.client.Entries(t.Context())
	must(t, err)
	other := filepath.Join(t.TempDir(), "other")
	rig.WriteRandom(t, filepath.Join(other, "a"), 1000, 2)
	fetched, into := startShare(t, other), t.TempDir()
	n.sure("add", fetched.ticket, "-o", into)
	for _, x := range []struct {
		args    []string
		repairs bool
	}{
		{[]string{all[0].Ticket}, false},
		{[]string{fetched.ticket, "-o", into}, true},
		{[]string{fetched.ticket, "-o", t.TempDir()}, true},
		{[]string{src, s.ticket}, false}, // of the path
	} {
		r := inDir(t, n.dir, append([]string{"add", "--repair"}, x.args...)...)
		if r.code != exitHeld || strings.Contains(r.stderr, "; to repair that entry: fetcher") != x.repairs || strings.Contains(r.stderr, "--repair") != x.repairs {
			t.Errorf("%q: exit %d: %s", x.args, r.code, r.stderr)
		}
	}
}
