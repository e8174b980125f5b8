//go:build unix

package main

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// A slow source, and one that freezes with its connection up, cost no duplicate bytes
// worth mentioning, and no wrong ones. How much time they cost is measured in bench.
func TestSlowAndFrozenSourcesCostFewBytesTwice(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	const size = 32 << 20
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, size, 7)
	quick, frozen, slow := startShare(t, src, "--limit-up", "10M"), startSharing(t, shareCommand(t, src, "--limit-up", "5M")), startShare(t, src, "--limit-up", "200K")
	stopped := false
	dir := t.TempDir()
	began := time.Now()
	r := finish(t, fetchCommand(t, quick.ticket, dir, "--peer", frozen.addrs[0], "--peer", slow.addrs[0]), func(l line) {
		if l.Type == "progress" && l.Verified > size/3 && !stopped {
			stopped = true
			must(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
		}
	})
	must(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
	if r.code != 0 || !stopped {
		t.Fatalf("exit %d, stopped: %v: %s", r.code, stopped, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
		t.Error("other bytes")
	}
	if dup := r.summary().Dup; dup > size/100 {
		t.Errorf("%d bytes of %d came twice", dup, size)
	}
	t.Logf("%v, %d bytes came twice", time.Since(began), r.summary().Dup)
}
