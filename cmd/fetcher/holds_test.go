package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// The versions before the latest stay, also over kills, until as many newer ones are there; each can be fetched as fetcher holds says, and
// released alone.
func TestEarlierVersionsAreFetchedFromTheDepot(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "photos")
	rig.WriteRandom(t, filepath.Join(src, "a"), 300_000, 1)
	keeper := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-reserve", "1M", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	owner := startNode(t, t.TempDir())
	at := keeper.status().Addrs[0]
	keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")
	keeper.sure("depot", "gc", "on")
	for _, bad := range [][]string{{"--keep", "-1"}, {"--keep", "101"}, {"--keep", "1", "--pin"}, {"--keep", "1", "--fleet"}} {
		if r := owner.on(append([]string{"hold", src, "--on", at}, bad...)...); r.code != exitUsage {
			t.Errorf("hold %v: exit %d, %s", bad, r.code, r.stderr)
		}
	}
	owner.sure("hold", src, "--on", at, "--keep", "1", "--wait")
	versions := []string{rig.Fingerprint(t, src)}
	whole := func(h api.StandingHold) bool { return h.State == "stable" && !h.Ending }
	edit := func(n int) {
		rig.WriteRandom(t, filepath.Join(src, "a"), 300_000, uint64(1+n))
		versions = append(versions, rig.Fingerprint(t, src))
		owner.until("the edit and the version before are there", func() (bool, error) {
			owner.sure("holdings", "--on", at) // the owner hears when the depot has it
			e, err := owner.client.Entries(t.Context())
			h := owner.held()
			return err == nil && len(h) == 2 && whole(h[0]) && whole(h[1]) && h[0].Earlier != h[1].Earlier && len(e[0].Older) == n &&
				slices.ContainsFunc(h, func(h api.StandingHold) bool { return h.Share == e[0].Share && !h.Earlier }), err
		})
	}
	edit(1)
	owner.again()
	keeper.again()
	edit(2)
	owner.sure("hold", src, "--on", at) // without --keep it stays as it was
	if h := owner.held(); len(h) != 2 || h[0].Keep != 1 {
		t.Fatalf("%+v", h)
	}
	away := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/12D3KooWMoMcABCBb2XGPeqif4B5js5S5jJvPGsg6zme8Ui5o6Ap", rig.FreePort(t))
	if r := owner.on("hold", src, "--on", away, "--keep", "0"); r.code != exitNetwork { // it is undone, and has released nothing
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	owner.sure("holdings", "--on", at)
	if h := owner.held(); len(h) != 2 || h[0].Keep != 1 || h[0].Ending || h[1].Ending {
		t.Fatalf("%+v", h)
	}
	out := owner.text("holds", "photos")
	if !strings.Contains(out, "stable, earlier") {
		t.Errorf("fetcher holds: %s", out)
	}
	var fetched []string
	for _, line := range strings.Split(out, "\n") {
		if args := strings.Fields(line); len(args) > 1 && args[0] == "fetcher" {
			to := filepath.Join(t.TempDir(), "rescued")
			if out, err := exec.Command(built(t), append(args[1:], "-o", to)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v, %s", line, err, out)
			}
			fetched = append(fetched, rig.Fingerprint(t, filepath.Join(to, "photos")))
		}
	}
	slices.Sort(fetched)
	if want := slices.Sorted(slices.Values(versions[1:])); !slices.Equal(fetched, want) {
		t.Errorf("fetched %v, of %v", fetched, versions)
	}
	old := owner.held()[slices.IndexFunc(owner.held(), func(h api.StandingHold) bool { return h.Earlier })].Share
	owner.sure("release", shortly(old))
	if l := keeper.leases("owner"); len(l) != 1 || l[0].Share == old {
		t.Errorf("%+v", l)
	}
	owner.sure("hold", src, "--on", at, "--keep", "0")
	if h := owner.held(); len(h) != 1 || h[0].Keep != 0 {
		t.Errorf("%+v", h)
	}
	owner.sure("release", "photos")
	if l := keeper.leases("owner"); len(l) != 0 {
		t.Errorf("%+v", l)
	}
}

// Which versions are kept after the new one has come, the owner has said.
func TestTheEarlierVersionIsKeptAsAskedFor(t *testing.T) {
	t.Parallel()
	for keep, says := range map[int]string{0: "; it keeps the earlier version until it has the new one", 2: "; it keeps the earlier version too"} {
		anew := api.StandingHold{Depot: "d", Share: "new", Keep: keep, State: "coming"}
		if s := anewText(anew, []api.StandingHold{{Depot: "d", Share: "old", State: "stable", Earlier: true}, anew}); !strings.HasSuffix(s, says) {
			t.Errorf("--keep %d: %s", keep, s)
		}
	}
}
