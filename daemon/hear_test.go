package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// A depot is looked for where it was reached, and not at addresses that somebody named meanwhile: there its leases would not be renewed.
func TestADepotIsNotWhereItWasNamedAndNotReached(t *testing.T) {
	t.Parallel()
	depot, a := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") }), begun(t, t.TempDir())
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(a.node.ID()), Quota: 1e9})
	must(t, err)
	e := added(t, a, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "film")}})
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: depot.node.Addrs()[:1]})
	must(t, err)
	addrs := func() []string {
		l, err := a.node.Holds(t.Context())
		must(t, err)
		return l.Addrs[depot.node.ID()]
	}
	before := addrs()
	for i := range 8 { // as many as are remembered
		_, err := a.Holdings(t.Context(), fmt.Sprintf("/ip4/192.0.2.%d/tcp/4001/p2p/%s", i+1, depot.node.ID()))
		must(t, err)
	}
	if now := addrs(); !slices.Equal(now, before) {
		t.Errorf("the depot was at %q, and is looked for at %q", before, now)
	}
}
