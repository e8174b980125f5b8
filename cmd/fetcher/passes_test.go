package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// passesOf is what a node has left for one depot.
func passesOf(n *daemonProcess) api.Passes {
	n.t.Helper()
	all, err := n.client.Passes(n.t.Context())
	must(n.t, err)
	if len(all) != 1 {
		n.t.Fatalf("passes of %d depots", len(all))
	}
	return all[0]
}

// A depot sells a voucher; a client redeems it, and its hold is paid with the passes.
func TestAHoldIsPaidWithPasses(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, folder := filepath.Join(t.TempDir(), "photos"), filepath.Join(t.TempDir(), "kept")
	rig.WriteRandom(t, filepath.Join(src, "a"), 3_000_000, 1) // 3 MiB with what belongs to it
	must(t, os.Mkdir(folder, 0o700))
	keeper := startNode(t, t.TempDir(), "--depot", folder, "--depot-price", "passes", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	owner := startNode(t, t.TempDir())
	at := keeper.status().Addrs[0]
	keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")

	if r := owner.on("hold", src, "--on", at); r.code != exitNotAllowed || !strings.Contains(r.stderr, "3 passes are missing") || !strings.Contains(r.stderr, " passes redeem") {
		t.Errorf("a hold without passes: exit %d, %s", r.code, r.stderr)
	}
	if r := keeper.on("depot", "voucher"); r.code != exitUsage {
		t.Errorf("a voucher for nothing: exit %d", r.code)
	}
	if r := keeper.on("depot", "voucher", "--passes", "5", "--for", "nobody"); r.code == 0 {
		t.Error("a voucher for nobody")
	}
	code := strings.TrimSpace(output(t, built(t), "depot", "voucher", "--passes", "64", "--for", "owner", "--dir", keeper.dir))
	if r := owner.on("passes", "redeem", code[1:]); r.code != exitUsage {
		t.Errorf("a code that is cut off: exit %d, %s", r.code, r.stderr)
	}
	if r := keeper.on("passes", "redeem", code); r.code != exitUsage || !strings.Contains(r.stderr, "for this node's own depot; redeem it on a node whose shares this depot keeps") {
		t.Errorf("at the depot itself: exit %d: %s", r.code, r.stderr)
	}
	owner.sure("passes", "redeem", "> "+code[:20]+"\r\n> "+code[20:]) // as mail quotes it
	if r := owner.on("passes", "redeem", code); r.code != exitNotAllowed || !strings.Contains(r.stderr, "redeemed before") {
		t.Errorf("a code entered twice: exit %d, %s", r.code, r.stderr)
	}
	if r := owner.on("hold", src, "--on", at, "--budget", "2"); r.code != exitNotAllowed || !strings.Contains(r.stderr, "the lease costs 3 passes, and of this depot's budget of 2 passes in 31 days") {
		t.Errorf("a hold beyond the budget: exit %d, %s", r.code, r.stderr)
	}
	if r := owner.on("hold", src, "--on", at, "--copies", "5", "--budget", "1"); r.code != exitUsage || passesOf(owner).Budget != 0 {
		t.Errorf("a hold that is refused: exit %d, %s, and a budget of %d", r.code, r.stderr, passesOf(owner).Budget)
	}
	// One pass of 64 is exchanged, and three of 1 are paid.
	if r := owner.sure("hold", src, "--on", at, "--budget", "3"); !strings.Contains(r.stderr, "does not pay for the next renewal, of 2 passes, so the lease there lapses on ") {
		t.Errorf("a budget that is used up: %s", r.stderr)
	}
	if p := passesOf(owner); p.Passes != 61 || p.Reserved != 0 || p.Bad != 0 {
		t.Errorf("%+v", p)
	}
	if out, _, _ := inside("__complete", "--dir", owner.dir, "release", ""); out != "3\tphotos\n:4\n" {
		t.Errorf("release completes to %q", out)
	}
	owner.again()
	owner.sure("hold", src, "--on", at) // it lasts for 31 days: nothing is paid again
	if p := passesOf(owner); p.Passes != 61 {
		t.Errorf("%+v", p)
	}
	h, err := owner.client.Holds(t.Context())
	if err != nil || len(h) != 1 || h[0].Cost != 3 {
		t.Errorf("%+v, %v", h, err)
	}
	if p := passesOf(owner); p.Budget != 3 || p.Left != 0 {
		t.Errorf("the budget is used up: %+v", p)
	}
	if out := output(t, built(t), "passes", "list", "--dir", owner.dir); !strings.Contains(out, "0 of 3 left") {
		t.Errorf("%s", out)
	}
	owner.sure("hold", src, "--on", at, "--budget", "1") // the renewal in three weeks costs more
	if w := strings.Join(owner.status().Warnings, "\n"); !strings.Contains(w, "the budget of 1 pass in 31 days for the depot") || !strings.Contains(w, "these lapse: photos on "+h[0].Expires.Local().Format("2006-01-02")) {
		t.Errorf("the node warns: %s", w)
	}
	twin := filepath.Join(t.TempDir(), "photos")
	must(t, os.CopyFS(twin, os.DirFS(src)))
	owner.sure("add", twin)
	all, err := owner.client.Entries(t.Context())
	if n := len(all); err != nil || n < 2 || all[n-1].Share != h[0].Share {
		t.Fatalf("%+v, %v", all, err)
	}
	if r := owner.sure("rm", fmt.Sprint(all[len(all)-1].ID)); strings.Contains(r.stderr, "depots still keep") {
		t.Errorf("rm of one of two entries of a share: %s", r.stderr)
	}
	for range 2 { // the second time by another entry
		if r := owner.sure("rm", "photos"); !strings.Contains(r.stderr, "depots still keep photos") {
			t.Errorf("rm of what is held: %s", r.stderr)
		}
		if out := owner.text("holds"); !strings.Contains(out, "photos (entry removed)") {
			t.Errorf("fetcher holds: %s", out)
		}
		for _, command := range []string{"holds", "release"} {
			if out, _, _ := inside("__complete", "--dir", owner.dir, command, ""); out != shortly(h[0].Share)+"\tphotos (entry removed)\n:4\n" {
				t.Errorf("%s completes to %q", command, out)
			}
		}
		owner.sure("add", src)
	}
	owner.sure("rm", "photos")
	owner.sure("release", "photos")
	if h := owner.held(); len(h) != 0 {
		t.Errorf("%+v", h)
	}
}

// An edit for which passes are missing leaves the version before at the depot, and is paid as soon as they are here.
func TestAnEditThatLacksPassesIsPaidWhenTheyCome(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src, folder := filepath.Join(t.TempDir(), "photos"), filepath.Join(t.TempDir(), "kept")
	rig.WriteRandom(t, filepath.Join(src, "a"), 3_000_000, 1)
	must(t, os.Mkdir(folder, 0o700))
	keeper := startNode(t, t.TempDir(), "--depot", folder, "--depot-price", "passes", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	owner := startNode(t, t.TempDir())
	keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M")
	redeem := func(n int) {
		made, err := exec.Command(built(t), "depot", "voucher", "--passes", fmt.Sprint(n), "--dir", keeper.dir).Output()
		must(t, err)
		owner.sure("passes", "redeem", strings.TrimSpace(string(made)))
	}
	redeem(4)
	owner.sure("hold", src, "--on", keeper.status().Addrs[0], "--wait")
	rig.WriteRandom(t, filepath.Join(src, "b"), 2_000_000, 2)
	lacks := func(h api.StandingHold) bool { return strings.Contains(h.Why, "missing") }
	owner.until("passes are missing for the edit", func() (bool, error) { return slices.ContainsFunc(owner.held(), lacks), nil })
	if w := strings.Join(owner.status().Warnings, "\n"); !strings.Contains(w, "keeps only the earlier version of photos") || strings.Contains(w, "any more") {
		t.Errorf("the node warns: %s", w)
	}
	redeem(8)
	owner.until("the edit is paid", func() (bool, error) { return !slices.ContainsFunc(owner.held(), lacks), nil })
}
