package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// A client that may only look does not change where this node looks for its depots, nor does anybody who names an address at which
// the depot was not reached: there the leases would not be renewed.
func TestWhoMayOnlyLookMovesNoDepot(t *testing.T) {
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

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- api.NewServer(a, a.log, nil, nil).Serve(ctx, l, api.Access{Token: "all", Read: "look"})
	}()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for i := range 8 { // as many as are remembered
		at := fmt.Sprintf("/ip4/192.0.2.%d/tcp/4001/p2p/%s", i+1, depot.node.ID())
		req, err := http.NewRequest("GET", fmt.Sprintf("http://%s/v1/holdings?depot=%s", l.Addr(), url.QueryEscape(at)), nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer look")
		res, err := (&http.Client{Transport: tr}).Do(req)
		must(t, err)
		must(t, res.Body.Close())
	}
	if now := addrs(); !slices.Equal(now, before) {
		t.Errorf("the depot was at %q, and is looked for at %q", before, now)
	}
}
