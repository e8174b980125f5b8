package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// Real processes: the source of a ticket has gone, or has another address, and a node that
// fetched it still serves it. A beacon that the ticket names leads to the nodes that have the share.
func TestAnOldTicketLeadsThroughItsBeacon(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, file, 300_000, 1)
	want := rig.Fingerprint(t, file)
	b := startNode(t, t.TempDir(), "--beacon")
	st, err := b.client.Status(t.Context())
	must(t, err)
	home := t.TempDir()
	serve := func() *sharing {
		return startSharing(t, exec.Command(built(t), "share", file, "--json", "--dir", home, "--listen", "/ip4/127.0.0.1/tcp/0", "--beacon-at", st.Addrs[0]))
	}
	knows := func(what string, peers int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			st, err := b.client.Status(t.Context())
			must(t, err)
			if st.Beacon != nil && st.Beacon.Peers == peers {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: the beacon knows %+v, want %d peers", what, st.Beacon, peers)
			}
		}
	}
	old := serve()
	knows("the source", 1)
	old.stop(t)

	moved := serve()
	if slices.Equal(moved.addrs, old.addrs) {
		t.Fatal("it has not moved")
	}
	fetch := func(what string) {
		t.Helper()
		out, via := t.TempDir(), ""
		r := finish(t, fetchCommand(t, old.ticket, out), func(l line) {
			if l.Type == "source" && l.State == "active" {
				via = l.Via
			}
		})
		if r.code != 0 || via == "" {
			t.Fatalf("%s: exit %d, via %q\n%s", what, r.code, via, r.stderr)
		}
		if got := rig.Fingerprint(t, filepath.Join(out, "film")); got != want {
			t.Errorf("%s: another content", what)
		}
	}
	fetch("moved")

	keeper := startNode(t, t.TempDir())
	out, err := exec.Command(built(t), "add", old.ticket, "-o", t.TempDir(), "--wait", "--seed-until", "never", "--dir", keeper.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	knows("the keeper", 2)
	moved.stop(t)
	fetch("gone")
	if text, err := exec.Command(built(t), "node", "status", "--dir", b.dir).Output(); err != nil || !strings.Contains(string(text), "beacon ") {
		t.Errorf("node status: %v\n%s", err, text)
	}
}
