package main

import (
	"testing"

	"github.com/piecelease/fetcher"
)

// A ticket works no farther than its relay can be reached from.
func TestARelayLeadsNoFartherThanItIs(t *testing.T) {
	held := []fetcher.Place{{Held: true}}
	for relay, want := range map[string]string{"/ip4/127.0.0.1": "machine", "/ip4/192.168.1.2": "network", "/ip4/1.2.3.4": "anywhere"} {
		addrs := []string{"/ip4/127.0.0.1/tcp/4001", relay + "/tcp/4001/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS/p2p-circuit"}
		if got := where(addrs, held); got != want {
			t.Errorf("a relay at %s: %s, want %s", relay, got, want)
		}
		if got := where(addrs, nil); got != "machine" {
			t.Errorf("without a place at it: %s", got)
		}
	}
}
