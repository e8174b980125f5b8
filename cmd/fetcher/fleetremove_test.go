package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// Whoever takes a share off the list of a fleet hears what depots do with it.
func TestFleetRemoveSaysWhatDepotsKeep(t *testing.T) {
	t.Parallel()
	url, secret := "sqlite:"+filepath.Join(t.TempDir(), "kv"), filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("the secret of a fleet\n"), 0o600))
	kv, err := kvurl.Open(t.Context(), url)
	must(t, err)
	defer kv.Close()
	s := fetcher.FleetStore{KV: kv, Secret: "the secret of a fleet"}
	const depot = "/ip4/192.0.2.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	for _, kept := range []*fetcher.ListedHold{nil, {Depots: []string{depot}}} {
		source, err := multiaddr.NewMultiaddr(depot)
		must(t, err)
		id, err := s.Add(t.Context(), share.Ticket{ID: share.IDOf(nil), Peers: []multiaddr.Multiaddr{source}}.String())
		must(t, err)
		_, err = s.Keep(t.Context(), id, func(*fetcher.ListedHold) *fetcher.ListedHold { return kept })
		must(t, err)
		r := inDir(t, t.TempDir(), "fleet", "remove", id.String(), "--fleet", url, "--fleet-secret", secret)
		says := strings.Contains(r.stderr, "1 depot keeps it until the lease ends, and no member renews that any more") && strings.Contains(r.stderr, " release "+id.String())
		if r.code != 0 || !strings.Contains(r.stderr, "no file is removed") || says != (kept != nil) {
			t.Errorf("kept: %v; exit %d: %s", kept != nil, r.code, r.stderr)
		}
	}
}
