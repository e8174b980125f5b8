package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// Two machines on one network, each a namespace: a node that knows the ID of a share that is
// announced there needs no address, nor does one that has a ticket with an old address.
func TestTwoOnOneNetworkFindEachOther(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	rig.Need(t)
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 1<<20, 7)
	want := rig.Fingerprint(t, src)
	r := rig.New(t, rig.Path{Mbit: 100, Delay: 2 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500})
	here, there := office{r, 0}, office{r, 1}
	found := func(t *testing.T, what string, args ...string) {
		t.Helper()
		began, via := time.Now(), ""
		there.fetch(t, want, what, func(l line) {
			if l.Type == "source" && l.State == "active" && via == "" {
				via = l.Via
				t.Logf("%s after %v", via, time.Since(began))
			}
		}, append(args, "--lan")...)
	}
	t.Run("announced", func(t *testing.T) {
		s := here.share(t, src, "4001", "--lan", "--visible", "lan")
		found(t, s.id)
	})
	t.Run("announced while it is looked for", func(t *testing.T) {
		s := here.share(t, src, "4002")
		s.stop(t)
		shared := false
		there.fetch(t, want, s.id, func(l line) {
			if !shared {
				shared = true
				here.share(t, src, "4002", "--lan", "--visible", "lan")
			}
		}, "--lan")
	})
	t.Run("old address", func(t *testing.T) {
		s := here.share(t, src, "4003", "--lan")
		found(t, s.id, "--peer", strings.Replace(s.addrs[0], "/4003/", "/4999/", 1))
	})
	t.Run("nearby", func(t *testing.T) {
		s := here.share(t, src, "4005", "--lan", "--visible", "lan")
		began, heard := time.Now(), ""
		r := finish(t, there.command(t, "ls", "--nearby", "--lan"), func(l line) {
			if l.Type == "neighbour" && strings.HasSuffix(s.addrs[0], l.Peer) {
				heard = fmt.Sprintf("%s after %v", l.Addrs, time.Since(began))
			}
		})
		if r.code != 0 || !strings.Contains(heard, here.r.Addr(0)) {
			t.Errorf("exit %d, heard %q: %s", r.code, heard, r.stderr)
		}
		t.Log(heard)
	})
	t.Run("private", func(t *testing.T) {
		s := here.share(t, src, "4004", "--lan")
		got := finish(t, there.command(t, "fetch", s.id, "-o", t.TempDir(), "--lan", "--stall", "4s"), nil)
		if got.code != exitUsage {
			t.Errorf("exit %d: %s", got.code, got.stderr)
		}
	})
}

// Two machines that have only IPv6, or have both but reach each other only over IPv6.
func TestIPv6AloneIsEnough(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	rig.Need(t)
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 1<<20, 7)
	for i, both := range []bool{true, false}[:rig.Most(2, 1)] {
		w := &town{t: t, world: fmt.Sprintf("six%d-%d", os.Getpid(), i)}
		there := w.home(0)
		w.space(w.world)
		w.space(there)
		rig.Sh(t, "ip -n %s link add name six type veth peer name six netns %s", w.world, there)
		for end, space := range []string{w.world, there} {
			rig.Sh(t, "ip -n %s addr add 2a00:1:2:3::%d/64 dev six nodad", space, end+1)
			if both {
				rig.Sh(t, "ip -n %s addr add 10.80.%d.1/32 dev six", space, end) // with no way between the two
			}
			rig.Sh(t, "ip -n %s link set six up", space)
		}
		s := startSharing(t, w.in(w.world, "share", src, "--lan=false"))
		if s.reach != "anywhere" {
			t.Errorf("both: %v: the ticket works in %q", both, s.reach)
		}
		dir := t.TempDir()
		if r := finish(t, w.in(there, "fetch", s.ticket, "-o", dir, "--lan=false"), nil); r.code != 0 {
			t.Errorf("both: %v: exit %d: %s", both, r.code, r.stderr)
		} else if rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
			t.Errorf("both: %v: other bytes", both)
		}
	}
}
