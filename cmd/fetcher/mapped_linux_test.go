package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// forwards puts miniupnpd on the router of a home: it forwards ports for whoever asks by UPnP,
// NAT-PMP or PCP. Its chains are made by hand, as it expects.
func (w *town) forwards(i int) {
	w.t.Helper()
	path, err := exec.LookPath("miniupnpd")
	if err != nil {
		w.t.Skip("SKIPPED: a router that forwards ports needs miniupnpd:", err)
	}
	dir := w.t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		must(w.t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	rig.Sh(w.t, "ip netns exec %s nft -f %s", w.router(i), file("rules", `
flush ruleset
table inet upnp {
	chain asked {}
	chain to {}
	chain back {}
	chain through {
		type filter hook forward priority filter
		iifname "out" ct state established,related accept
		jump asked
		iifname "out" drop
	}
	chain in {
		type nat hook prerouting priority dstnat
		jump to
	}
	chain out {
		type nat hook postrouting priority srcnat
		jump back
		oifname "out" masquerade
	}
}`))
	cmd := exec.Command("ip", "netns", "exec", w.router(i), path, "-d", "-P", filepath.Join(dir, "pid"), "-f", file("conf", fmt.Sprintf(`
ext_ifname=out
listening_ip=in
enable_natpmp=yes
enable_upnp=yes
upnp_table_name=upnp
upnp_nat_table_name=upnp
upnp_forward_chain=asked
upnp_nat_chain=to
upnp_nat_postrouting_chain=back
uuid=00000000-0000-0000-0000-000000000001
secure_mode=yes
allow 1024-65535 10.79.%d.0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
`, i)))
	must(w.t, cmd.Start())
	w.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out, _ := exec.Command("ip", "netns", "exec", w.router(i), "ss", "-Hlun", "sport = :5351").Output()
		if strings.Contains(string(out), ":5351") {
			return
		}
		if time.Now().After(end) {
			w.t.Fatal("miniupnpd does not listen")
		}
	}
}

// A router is asked to forward a port, and the ticket names its address: others reach the node
// behind it directly, without a relay.
func TestARouterForwardsAPort(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 3<<20, 7)
	w := newTown(t, "", "masquerade", "masquerade")
	w.forwards(0)
	s := startSharing(t, w.in(w.home(0), "share", src, "--map-port"))
	if s.reach != "anywhere" || !strings.Contains(strings.Join(s.addrs, " "), "/ip4/11.0.1.1/tcp/") {
		t.Fatalf("the ticket works in %q, at %v", s.reach, s.addrs)
	}
	for name, from := range map[string]string{"a public address": w.world, "behind a router": w.home(1)} {
		dir := t.TempDir()
		way := ""
		r := finish(t, w.in(from, "fetch", s.ticket, "-o", dir), func(l line) {
			if l.Type == "source" && l.Way != "" {
				way = l.Way
			}
		})
		if r.code != 0 || way != "direct" || rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
			t.Errorf("from %s: exit %d, %s: %s", name, r.code, way, r.stderr)
		}
	}
}

// A relay dials the nodes that keep a place at it, so that doctor can say whether a firewall
// lets others in.
func TestARelaySaysWhetherANodeCanBeReached(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	w := newTown(t, "", "masquerade") // the router itself has a public address
	rig.Sh(t, "ip netns exec %s nft insert rule ip filter in ct state established,related accept", w.router(0))
	for name, from := range map[string]string{"others can reach the node from anywhere: a relay has reached it at /ip4/11.0.0.1/tcp/4002": w.world,
		"a relay could not reach the node directly at /ip4/11.0.1.1/tcp/4002": w.router(0)} {
		dir := t.TempDir()
		node := exec.Command("ip", "netns", "exec", from, built(t), "node", "run", "--dir", dir, "--listen", "/ip4/0.0.0.0/tcp/4002", "--lan=false", "--via", w.via)
		said, err := os.Create(filepath.Join(dir, "said"))
		must(t, err)
		defer said.Close()
		node.Stderr = said
		must(t, node.Start())
		t.Cleanup(func() { node.Process.Signal(os.Interrupt); node.Wait() })
		until := func(what string, f func() []byte) {
			for end := time.Now().Add(90 * time.Second); !bytes.Contains(f(), []byte(what)); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("not %q but\n%s", what, f())
				}
			}
		}
		until("the node is running", func() []byte {
			b, _ := os.ReadFile(said.Name())
			return b
		})
		until(name, func() []byte {
			b, _ := exec.Command("ip", "netns", "exec", from, built(t), "doctor", "--dir", dir).Output()
			return b
		})
	}
}
