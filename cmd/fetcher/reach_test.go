package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/rig"
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

// With a proxy that is not there, all commands that dial say so, and none goes past it.
func TestPeersAreDialledThroughTheProxy(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 1000, 7)
	s := startShare(t, src)
	for _, args := range [][]string{{"fetch", s.ticket, "-o", t.TempDir(), "--stall", "1s"}, {"ls", s.ticket}} {
		r := command(t, append(args, "--lan=false", "--proxy", "socks5://127.0.0.1:1")...)
		if r.code == 0 || !strings.Contains(r.stderr, "the proxy 127.0.0.1:1 cannot be reached") {
			t.Errorf("%s: exit %d: %s", args[0], r.code, r.stderr)
		}
	}
	for _, args := range [][]string{{"fetch", s.ticket, "-o", t.TempDir()}, {"cat", s.ticket}, {"ls", s.ticket}, {"share", src}, {"node", "run"}} {
		bad := map[string]string{"--proxy=127.0.0.1:1": "--proxy: a proxy is written socks5://HOST:PORT"}
		if args[0] == "share" || args[0] == "node" {
			bad["--beacon-at=zz"] = `--beacon-at: beacon "zz" is not a multiaddr`
		}
		for flag, want := range bad {
			if r := finish(t, exec.Command(built(t), append(args, flag, "--dir", t.TempDir())...), nil); r.code != exitUsage || !strings.Contains(r.stderr, want) {
				t.Errorf("%s %s: exit %d: %s", args[0], flag, r.code, r.stderr)
			}
		}
	}
	if got := (reachFlags{proxy: "socks5://h:1"}).config().Proxy; got != "socks5://h:1" {
		t.Errorf("share and node run dial through %q", got)
	}
}

// A node that others use in several ways has one warning that they may not reach it.
func TestANodeWithoutAPublicAddressIsWarnedOnce(t *testing.T) {
	told := func(s daemon.Settings, addr string) string {
		var b strings.Builder
		asker{&app{stderr: newTerminal(&b)}}.tellUses(s, []string{addr})
		return b.String()
	}
	const private = "/ip4/192.168.0.2/tcp/4001"
	got := told(daemon.Settings{Relay: true, Beacon: true}, private)
	if strings.Count(got, "this node has no public address") != 1 || strings.Count(got, private+"\n") != 2 {
		t.Errorf("%s", got)
	}
	if got := told(daemon.Settings{Relay: true, Beacon: true}, ""); strings.Count(got, "it listens nowhere; name an address or a port with --listen") != 1 || strings.Contains(got, "router") {
		t.Errorf("a node that listens nowhere: %s", got)
	}
	if got := told(daemon.Settings{}, private); got != "" {
		t.Errorf("a node that nobody uses: %s", got)
	}
	if got := told(daemon.Settings{Relay: true}, "/ip4/1.2.3.4/tcp/4001"); strings.Contains(got, "warning") {
		t.Errorf("a node with a public address: %s", got)
	}
}

// A relay that carries nothing does not lead to a node that listens nowhere.
func TestARelayThatCarriesNothingDoesNotLeadToANodeThatListensNowhere(t *testing.T) {
	addrs := []string{"/ip4/1.2.3.4/tcp/4001/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS/p2p-circuit"}
	for carries, want := range map[int64]struct {
		where, text, warned string
	}{
		0:       {"nowhere", "", "nobody can fetch from this node: it listens nowhere, and its relay carries no content"},
		1 << 20: {"anywhere", "through the relay, up to 1.05 MB on each connection", ""},

		fetcher.Unbounded: {"anywhere", "through the relay", ""},
	} {
		held := []fetcher.Place{{Held: true, Carries: carries}}
		text, warned := reachText(addrs, held), strings.Join(reachWarnings(addrs, held, false, false), "\n")
		if at := where(addrs, held); at != want.where || !strings.Contains(text, want.text) || (text == "") != (want.text == "") || !strings.HasPrefix(warned, want.warned) || (warned == "") != (want.warned == "") {
			t.Errorf("a relay that carries %d: %s, %q, warned of %q", carries, at, text, warned)
		}
		if f := checkReach("the node", addrs, held, nil); f.ok != (carries > 0) {
			t.Errorf("doctor, with a relay that carries %d: %+v", carries, f)
		}
	}
}

// A relay that does not serve has one warning, with what follows from it.
func TestADeadRelayIsWarnedOfOnce(t *testing.T) {
	held := fetcher.Place{Held: true}
	dead := fetcher.Place{Relay: "12D3KooWRelay001", Why: "it is full"}
	const private, loopback, public = "/ip4/192.168.0.2/tcp/4001", "/ip4/127.0.0.1/tcp/4001", "/ip4/1.2.3.4/tcp/4001"
	const said = "the relay Relay001 does not serve this node: it is full; it will be asked again"
	for name, x := range map[string]struct {
		addr   string
		places []fetcher.Place
		logged bool
		want   []string
	}{
		"private":         {private, []fetcher.Place{dead}, false, []string{said + "; until it serves this node, a ticket of this node works on this network only"}},
		"loopback":        {loopback, []fetcher.Place{dead}, false, []string{said + "; until it serves this node, a ticket of this node works on this machine only"}},
		"two":             {private, []fetcher.Place{dead, dead}, false, []string{said, said + "; until one of the relays serves this node, a ticket of this node works on this network only"}},
		"public":          {public, []fetcher.Place{dead}, false, []string{said}},
		"another serves":  {private, []fetcher.Place{dead, held}, false, []string{said}},
		"logged":          {private, []fetcher.Place{dead}, true, []string{"until a relay serves this node, a ticket of this node works on this network only"}},
		"no answer yet":   {private, []fetcher.Place{{Relay: dead.Relay}}, true, []string{strings.Replace(said, "it is full", "it has not answered yet", 1) + "; until it serves this node, a ticket of this node works on this network only"}},
		"logged, public":  {public, []fetcher.Place{dead}, true, nil},
		"logged, but one": {private, []fetcher.Place{dead, held}, true, nil},
	} {
		if got := reachWarnings([]string{x.addr}, x.places, x.logged, false); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, places := range [][]fetcher.Place{nil, {held}} {
		if got := reachWarnings(nil, places, false, true); len(got) != 1 || !strings.HasPrefix(got[0], "only whoever made the ticket of --to can fetch from this node: it listens nowhere, ") || strings.Contains(got[0], "--listen") {
			t.Errorf("with --to, at %v: %q", places, got)
		}
	}
	if got := reachWarnings([]string{private}, nil, false, false); len(got) != 1 || !strings.HasSuffix(got[0], "until the router forwards a port to this node (--map-port) or a relay serves the node (--via)") {
		t.Errorf("without a relay: %q", got)
	}
}
