package bubble

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
)

// A standing is the network situation of a node.
type standing struct {
	name string
	add  func(net *Net, cfg NodeConfig) *Node
	// what a router does, to predict what is possible
	oneForEach, fromAll, fromAddress bool
	open                             bool // reached by any node that knows the address
}

func behind(routers ...RouterConfig) func(*Net, NodeConfig) *Node {
	return func(net *Net, cfg NodeConfig) *Node {
		for _, c := range routers {
			c.Behind = cfg.Router
			cfg.Router = net.Router(c)
		}
		if c := routers[len(routers)-1]; c.Forward {
			cfg.Config.Announce = []string{fmt.Sprintf("/ip4/%s/udp/4001/quic-v1", cfg.Router.Outer())}
		}
		return net.Add(cfg)
	}
}

var standings = []standing{
	{name: "public", add: (*Net).Add, open: true},
	{name: "port-mapped", add: behind(RouterConfig{Forward: true}), open: true},
	{name: "full cone", add: behind(RouterConfig{Filter: FromAll}), fromAll: true},
	{name: "restricted cone", add: behind(RouterConfig{Filter: FromAddress}), fromAddress: true},
	{name: "port-restricted cone", add: behind(RouterConfig{})},
	{name: "symmetric", add: behind(RouterConfig{Mapping: OneForEach}), oneForEach: true},
	{name: "CGNAT", add: behind(RouterConfig{}, RouterConfig{})},
	{name: "symmetric CGNAT", add: behind(RouterConfig{Mapping: OneForEach}, RouterConfig{}), oneForEach: true},
	{name: "firewall", add: func(net *Net, cfg NodeConfig) *Node { cfg.NAT = true; return net.Add(cfg) }},
}

// best returns the best way from a fetcher to a source that theory allows.
func best(source, fetch standing) fetcher.Way {
	lets := func(x, y standing) bool { // whether x lets in packets from a port of y to which it has not sent
		return x.open || x.fromAll || x.fromAddress
	}
	switch {
	case source.open:
		return fetcher.Direct
	case fetch.open, !source.oneForEach && !fetch.oneForEach:
		return fetcher.Punched
	case source.oneForEach && fetch.oneForEach:
		return fetcher.Relayed
	case source.oneForEach && lets(fetch, source), fetch.oneForEach && lets(source, fetch):
		return fetcher.Punched
	}
	return fetcher.Relayed
}

// trial is one fetch that takes a quarter of a minute, with a relay that carries content:
// how the two are connected in the end, and when the first block came.
func trial(t *testing.T, source, fetching standing, seedOf uint64) (way fetcher.Way, first time.Duration) {
	Test(t, seedOf, func(t *testing.T, net *Net) {
		line := simnet.Line{Up: 20 * simnet.Mbit, Down: 100 * simnet.Mbit, Latency: 20 * time.Millisecond}
		relay := net.Add(NodeConfig{Name: "relay", Line: line, Config: fetcher.Config{Reach: fetcher.Reach{Relay: true, RelayBytes: 64 << 20}}})
		_, err := relay.Open()
		ok(t, err)
		reach := fetcher.Reach{Traverse: true}
		thin := line
		thin.Down = simnet.Mbit
		b := fetching.add(net, NodeConfig{Name: "b", Line: thin, Config: fetcher.Config{Reach: reach}})
		reach.Relays = relay.Addrs()
		a := source.add(net, NodeConfig{Name: "a", Line: line, Config: fetcher.Config{Reach: reach}})
		ticket, want := seed(t, a, 2<<20)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if p := a.Fetcher().Places(ctx); len(p) != 1 || !p[0].Held || p[0].Carries != 64<<20 {
			t.Fatal("the place at the relay:", p)
		}
		if parsed, err := share.Parse(ticket); err != nil || len(parsed.Relays) != 1 || len(ticket) > 270 {
			t.Fatal(len(ticket), "characters,", parsed.Relays, err)
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		tr := fetch(t, b, ticket)
		for tr.Progress().Verified == 0 && time.Since(start) < time.Minute {
			time.Sleep(20 * time.Millisecond)
		}
		first = time.Since(start)
		whole(t, tr, want)
		way = b.Fetcher().Way(a.ID())
	})
	return way, first
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestReach fetches between all kinds of standing. It prints the table of docs/reach.md:
//
//	REACH_SEEDS=20  this many seeds of each; default one, of some pairs
func TestReach(t *testing.T) {
	seeds := rig.Number("REACH_SEEDS", 0)
	type cell struct {
		ways map[fetcher.Way]int
		took []time.Duration
	}
	var mu sync.Mutex
	table := make([][]cell, len(standings))
	for i := range standings {
		table[i] = make([]cell, len(standings))
	}
	t.Run("pairs", func(t *testing.T) {
		for i, source := range standings {
			for j, fetch := range standings {
				if every := rig.Most(3, 13) + 4*truth(rig.Raced); seeds == 0 && (9*i+2*j)%every != 0 {
					continue
				}
				t.Run(source.name+" from "+fetch.name, func(t *testing.T) {
					rig.Beside(t)
					for s := range max(1, seeds) {
						way, took := trial(t, source, fetch, uint64(s+1))
						if want := best(source, fetch); way != want {
							t.Errorf("seed %d: %s after %v, want %s", s+1, way, took, want)
						}
						mu.Lock()
						c := &table[i][j]
						if c.ways == nil {
							c.ways = map[fetcher.Way]int{}
						}
						c.ways[way]++
						c.took = append(c.took, took)
						mu.Unlock()
					}
				})
			}
		}
	})
	if os.Getenv("REACH_SEEDS") == "" {
		return
	}
	var b strings.Builder
	b.WriteString("\n| source \\ fetcher |")
	for _, s := range standings {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(standings)+1) + "\n")
	for i, s := range standings {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, c := range table[i] {
			text, worst := "", time.Duration(0)
			for _, w := range []fetcher.Way{fetcher.Direct, fetcher.Punched, fetcher.Relayed} {
				if n := c.ways[w]; n == len(c.took) {
					text = string(w)
				} else if n > 0 {
					text += fmt.Sprintf("%s %d× ", w, n)
				}
			}
			for _, d := range c.took {
				worst = max(worst, d)
			}
			fmt.Fprintf(&b, " %s, %.1f s |", strings.TrimSpace(text), worst.Seconds())
		}
		b.WriteString("\n")
	}
	t.Log(b.String())
}

// strangers are two nodes between which no hole can be punched, and a relay at which one
// has a place.
func strangers(t *testing.T, net *Net, carries int64) (relay, a, b *Node) {
	t.Helper()
	relay = net.Add(NodeConfig{Name: "relay", Config: fetcher.Config{Reach: fetcher.Reach{Relay: true, RelayBytes: carries}}})
	_, err := relay.Open()
	ok(t, err)
	symmetric := behind(RouterConfig{Mapping: OneForEach})
	reach := fetcher.Reach{Traverse: true}
	b = symmetric(net, NodeConfig{Name: "b", Config: fetcher.Config{Reach: reach}})
	reach.Relays = relay.Addrs()
	a = symmetric(net, NodeConfig{Name: "a", Config: fetcher.Config{Reach: reach}})
	return relay, a, b
}

// held waits until a node has its place at the relay, or has none.
func held(t *testing.T, x *Node, want bool) {
	t.Helper()
	for range 600 {
		if p := x.Fetcher().Places(t.Context()); p[0].Held == want {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the place at the relay:", x.Fetcher().Places(t.Context()))
}

func TestARelayCarriesNoContentUnlessItsOwnerAllows(t *testing.T) {
	Test(t, 1, func(t *testing.T, net *Net) {
		relay, a, b := strangers(t, net, 0)
		ticket, _ := seed(t, a, 1<<20)
		tr := fetch(t, b, ticket)
		time.Sleep(2 * time.Minute)
		why := strings.Join(tr.Why("gives up"), "\n")
		if p := tr.Progress(); p.Verified > 0 || !strings.Contains(why, "the relay carries no content") {
			t.Error(p.Verified, "bytes;", why)
		}
		if in, out := relay.Traffic(); in+out > 1<<10 {
			t.Error("streams of the relay's own had", in, out)
		}
	})
}

func TestARelayThatCarriesContentHasACap(t *testing.T) {
	rig.Slow(t)
	Test(t, 1, func(t *testing.T, net *Net) {
		relay, a, b := strangers(t, net, 1<<20)
		ticket, want := seed(t, a, 5<<20)
		start := time.Now()
		tr, why := fetch(t, b, ticket), ""
		for !strings.Contains(why, "carries only so much") && time.Since(start) < time.Minute {
			time.Sleep(50 * time.Millisecond)
			why = strings.Join(tr.Why("gives up"), "\n")
		}
		if !strings.Contains(why, "reached through a relay") {
			t.Error("at the cap:", why)
		}
		whole(t, tr, want)
		if way := b.Fetcher().Way(a.ID()); way != fetcher.Relayed && way != fetcher.Unconnected {
			t.Error(way)
		}
		if n := relay.Fetcher().Carried(); n < 5<<20 || n > 6<<20 {
			t.Error("the relay has carried", n)
		}
		if took := time.Since(start); took < 15*time.Second {
			t.Error("5 MiB came in", took, "over connections of 1 MiB, of which each takes seconds to open")
		}
	})
}

func TestAPlaceAtARelayIsTakenAgain(t *testing.T) {
	Test(t, 1, func(t *testing.T, net *Net) {
		relay, a, b := strangers(t, net, 1<<20)
		ticket, want := seed(t, a, 64<<10)
		held(t, a, true)
		ok(t, relay.Close())
		held(t, a, false)
		if p := a.Fetcher().Places(t.Context()); p[0].Why == "" {
			t.Error("nobody knows why:", p)
		}
		_, err := relay.Open()
		ok(t, err)
		held(t, a, true)
		whole(t, fetch(t, b, ticket), want)
	})
}
