package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

// Whoever runs the store of a fleet, and does not know its secret, does not get the ledger of its depot: who keeps
// what there.
func TestTheStoreOfAFleetDoesNotOpenTheLedgerOfItsDepot(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	of := newDepotFleet(t)
	_, err := of.snapshot(t, "annas-secret-photos", rounds.Target{Term: 1_000, Seq: 1})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	kv, err := kvurl.Open(ctx, of.URL) // without the secret: the keys alone
	must(t, err)
	defer kv.Close()
	var ids []string
	seen, end := context.WithTimeout(ctx, 2*time.Second)
	_ = kv.Watch(seen, "share.v1.", func(all []rounds.Entry) {
		for _, e := range all {
			if len(e.Value) > 0 {
				ids = append(ids, strings.TrimPrefix(e.Key, "share.v1."))
			}
		}
	})
	end()
	n, err := fetcher.Open(ctx, fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	must(t, err)
	defer n.Close()
	for _, id := range ids {
		dir := t.TempDir()
		short, stop := context.WithTimeout(ctx, 5*time.Second)
		f, err := n.Fetch(short, id, fetcher.FetchOptions{Dir: dir, Peers: of.keeper.node.Addrs(), Stall: 3 * time.Second})
		if err == nil {
			err = f.Wait(short)
		}
		stop()
		if err != nil {
			t.Log(err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, leasesName))
		must(t, err)
		if strings.Contains(string(b), "annas-secret-photos") {
			t.Errorf("a stranger who reads the keys of the store has the ledger, %d bytes, with the names of accounts", len(b))
		}
	}
}
