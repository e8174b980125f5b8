package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// A file is in the way of the folder: a mistake in the call, as if there were no folder.
func TestHRAFolderBehindAFile(t *testing.T) {
	at := filepath.Join(t.TempDir(), "f")
	rig.WriteRandom(t, at, 10, 1)
	for _, name := range []string{filepath.Join(at, "y"), filepath.Join(at, "x", "y"), filepath.Join(at+"no", "y")} {
		if err := inFolder(name); !errors.As(err, new(usageError)) {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
}

// A time that is too long is not called none.
func TestHRSeedIsTooLong(t *testing.T) {
	for _, s := range []string{"36601d", "99999999999999999999d"} {
		_, _, err := fetchFlags{seed: s}.check()
		if err == nil || !strings.Contains(err.Error(), "36600d") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// What is released is said once for each depot, not for each version that it kept.
func TestHRReleasedIsSaidOnceForEachDepot(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "photos")
	rig.WriteRandom(t, filepath.Join(src, "a"), 50_000, 1)
	owner := startNode(t, t.TempDir())
	args := []string{"hold", src, "--keep", "2"}
	for range 2 {
		keeper := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-reserve", "1M", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
		keeper.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")
		args = append(args, "--on", keeper.status().Addrs[0])
	}
	owner.sure(append(args, "--wait")...)
	for i := range 2 {
		rig.WriteRandom(t, filepath.Join(src, "edited"), 50_000, uint64(2+i))
		owner.sure("set", "1", "--rescan")
		owner.until("both depots have each version", func() (bool, error) {
			h := owner.held()
			return len(h) == 2*(i+2) && !slices.ContainsFunc(h, func(x api.StandingHold) bool { return x.State != "stable" }), nil
		})
	}
	r := owner.on("release", "1")
	if n := strings.Count(r.stderr, "released: "); r.code != 0 || n != 2 {
		t.Errorf("exit %d, said %d times, of 2 depots:\n%s", r.code, n, r.stderr)
	}
}

// What a ticket without peers names besides does not make it an ID, nor the other way round.
func TestHRLoneTickets(t *testing.T) {
	id := share.IDOf([]byte("x"))
	at := ma.StringCast("/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWM2Bc2JbtVe4kBEd7PiXajJt9hi8nnn4zdanLmB71Z6Wu")
	for what, want := range map[string][2]bool{
		id.String():                   {true, true},
		share.Ticket{ID: id}.String(): {true, false},
		strings.ToUpper(share.Ticket{ID: id}.String()):                               {true, false},
		share.Ticket{ID: id, Secret: &share.Secret{}}.String():                       {true, false},
		share.Ticket{ID: id, Relays: []ma.Multiaddr{at}}.String():                    {true, false},
		share.Ticket{ID: id}.AtBeacons(&share.Secret{}, []ma.Multiaddr{at}).String(): {false, false},
		share.Ticket{ID: id, Peers: []ma.Multiaddr{at}}.String():                     {false, false},
		id.String()[:20] + "\n" + id.String()[20:]:                                   {true, true},
	} {
		got := fetchFlags{}.alone(&cobra.Command{}, what)
		if got.is != want[0] || got.bare != want[1] {
			t.Errorf("%q: %+v, want %v", what, got, want)
		}
	}
}
