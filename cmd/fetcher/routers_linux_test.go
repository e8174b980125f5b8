package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// town is a few networks, each behind a router of its own, and a relay that all can reach.
// Public addresses are of 11.0.0.0/16, as machines would otherwise treat them as private.
type town struct {
	t     *testing.T
	world string // namespace
	via   string // the address of the relay, over TCP
	quic  string // ... over QUIC
}

var towns atomic.Int32

// newTown makes a relay, and a network behind each router; a router is what its nftables do to
// what leaves it.
func newTown(t *testing.T, carries string, routers ...string) *town {
	t.Helper()
	rig.Need(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("SKIPPED: routers need nft:", err)
	}
	if out, err := exec.Command("nft", "list", "tables").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: routers need a kernel with nftables: %v: %s", err, out)
	}
	w := &town{t: t, world: fmt.Sprintf("town%d-%d", os.Getpid(), towns.Add(1))}
	w.space(w.world)
	rig.Sh(t, "ip -n %s link add name bridge0 type bridge", w.world)
	rig.Sh(t, "ip -n %s link set bridge0 up", w.world)
	rig.Sh(t, "ip -n %s addr add 11.0.0.1/16 dev bridge0", w.world)
	for i, nat := range routers {
		router, home := w.router(i), w.home(i)
		w.space(router)
		w.space(home)
		rig.Sh(t, "ip -n %s link add name w%d type veth peer name out netns %s", w.world, i, router)
		rig.Sh(t, "ip -n %s link set w%d master bridge0 up", w.world, i)
		rig.Sh(t, "ip -n %s addr add 11.0.1.%d/16 dev out", router, i+1)
		rig.Sh(t, "ip -n %s link set out up", router)
		rig.Sh(t, "ip -n %s link add name in type veth peer name eth netns %s", router, home)
		rig.Sh(t, "ip -n %s addr add 10.79.%d.1/24 dev in", router, i)
		rig.Sh(t, "ip -n %s link set in up", router)
		rig.Sh(t, "ip -n %s addr add 10.79.%d.2/24 dev eth", home, i)
		rig.Sh(t, "ip -n %s link set eth up", home)
		rig.Sh(t, "ip -n %s route add default via 10.79.%d.1", home, i)
		rig.Sh(t, "ip netns exec %s sysctl -q net.ipv4.ip_forward=1", router)
		rules := filepath.Join(t.TempDir(), "rules")
		must(t, os.WriteFile(rules, fmt.Appendf(nil, `
table ip nat {
	chain out {
		type nat hook postrouting priority srcnat
		oifname "out" %s
	}
}
table ip filter {
	chain in {
		type filter hook input priority filter
		iifname "out" drop
	}
	chain through {
		type filter hook forward priority filter
		iifname "out" ct state new drop
	}
}`, nat), 0o600))
		rig.Sh(t, "ip netns exec %s nft -f %s", router, rules)
	}
	w.relay(carries)
	return w
}

func (w *town) router(i int) string { return fmt.Sprint(w.world, "r", i) }
func (w *town) home(i int) string   { return fmt.Sprint(w.world, "h", i) }

func (w *town) space(name string) {
	rig.Sh(w.t, "ip netns add %s", name)
	w.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	rig.Sh(w.t, "ip -n %s link set lo up", name)
}

// in is a fetcher command in a namespace.
func (w *town) in(space string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", space, built(w.t)}, append(args, "--json", "--dir", w.t.TempDir())...)...)
}

func (w *town) relay(carries string) {
	args := []string{"node", "run", "--relay", "--beacon", "--listen", "4001"}
	if carries != "" {
		args = append(args, "--relay-carries", carries)
	}
	cmd := w.in(w.world, args...)
	out, err := cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	w.t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	lines := json.NewDecoder(bufio.NewReader(out))
	for w.via == "" {
		var l line
		must(w.t, lines.Decode(&l))
		for _, a := range l.Addrs {
			if strings.HasPrefix(a, "/ip4/11.0.0.1/tcp/") {
				w.via = a
			} else if strings.HasPrefix(a, "/ip4/11.0.0.1/udp/") {
				w.quic = a
			}
		}
	}
	go func() { // ends with the process
		for lines.Decode(new(line)) == nil {
		}
	}()
}

// Over TCP, two homes whose routers keep a port fetch directly once a relay has introduced them;
// one whose router gives each destination another port fetches through the relay, if that
// carries content, and otherwise is told why it cannot.
func TestHomesBehindRoutersReachEachOther(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 3<<20, 7)
	const keeps, another = "masquerade", "masquerade random,fully-random"
	for _, c := range []struct {
		name, source, fetcher, carries, transport, way string
	}{
		{"TCP", keeps, keeps, "", "tcp/4001", "punched"},
		{"QUIC", keeps, keeps, "", "udp/4001/quic-v1", "punched"},
		{"relayed", keeps, another, "64M", "tcp/4001", "relayed"},
		{"impossible", another, keeps, "", "tcp/4001", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "TCP" {
				rig.OnlyLong(t)
			}
			t.Parallel()
			w := newTown(t, c.carries, c.source, c.fetcher)
			listen := "/ip4/0.0.0.0/" + c.transport
			via := w.via
			if c.name == "QUIC" {
				via = w.quic // a router opens what the relay was reached over
			}
			s := startSharing(t, w.in(w.home(0), "share", src, "--listen", listen, "--via", via))
			if s.reach != "anywhere" {
				t.Errorf("the ticket works in %q", s.reach)
			}
			dir := t.TempDir()
			ways := map[string]bool{}
			stall := "1m"
			if c.way == "" {
				stall = "30s" // an attempt takes 14 s
			}
			r := finish(t, w.in(w.home(1), "fetch", s.ticket, "-o", dir, "--listen", listen, "--stall", stall), func(l line) {
				if l.Type == "source" {
					ways[l.Way] = true
				}
			})
			if c.way == "" {
				if r.code != 6 || !strings.Contains(r.stderr, "the relay carries no content") {
					t.Errorf("exit %d: %s", r.code, r.stderr)
				}
				return
			}
			if r.code != 0 {
				t.Fatalf("exit %d: %s", r.code, r.stderr)
			}
			if rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
				t.Error("other bytes")
			}
			if !ways[c.way] || ways["direct"] {
				t.Errorf("%v, want %s", ways, c.way)
			}
		})
	}
}

// All are at home. The source of a private share has gone; the relay, which is a beacon too, leads whoever has
// its ticket to another home, which has fetched it and serves it on.
func TestAnOldTicketLeadsFromHomeToHome(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 1<<20, 7)
	const keeps = "masquerade"
	w := newTown(t, "", keeps, keeps, keeps)
	listen := []string{"--listen", "/ip4/0.0.0.0/tcp/4001", "--lan=false"}
	s := startSharing(t, w.in(w.home(0), append([]string{"share", src, "--via", w.via, "--beacon-at", w.via}, listen...)...))
	startSharing(t, w.in(w.home(1), append([]string{"fetch", s.ticket, "-o", t.TempDir(), "--seed", "--via", w.via}, listen...)...))
	s.stop(t)
	dir, via := t.TempDir(), ""
	r := finish(t, w.in(w.home(2), append([]string{"fetch", s.ticket, "-o", dir}, listen...)...), func(l line) {
		if l.Type == "source" && l.State == "active" {
			via = l.Via + " " + l.Way
		}
	})
	if r.code != 0 || rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if via != "beacon punched" {
		t.Errorf("it was found %s", via)
	}
}

// Only the fetching machine can be reached: the source, behind a router that lets nothing in and without
// a relay, connects to it by its ticket.
func TestASourceBehindARouterConnectsToWhoeverFetches(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "big.bin"), t.TempDir()
	rig.WriteRandom(t, src, 3<<20, 7)
	w := newTown(t, "", "masquerade random,fully-random")
	first := startSharing(t, w.in(w.home(0), "share", src))
	if r := finish(t, w.in(w.world, "fetch", first.ticket, "-o", t.TempDir(), "--stall", "10s"), nil); r.code == 0 {
		t.Fatal("the source can be reached")
	}
	var ways []string
	r := finish(t, w.in(w.world, "fetch", first.ticket, "--listen-for-source", "-o", dir), func(l line) {
		switch {
		case l.Type == "await":
			startSharing(t, w.in(w.home(0), "share", src, "--to", l.Ticket))
		case l.Type == "source" && l.Way != "":
			ways = append(ways, l.Way)
		}
	})
	if r.code != 0 || rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if len(ways) == 0 || ways[0] != "direct" {
		t.Errorf("it was fetched %v", ways)
	}
}
