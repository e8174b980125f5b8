//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// A closed terminal ends a server in good order, and under nohup not at all; and a signal
// that is sent twice at once counts once.
func TestASignalEndsNothingWithoutAWord(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 16<<20, 7)
	r := runShare(t, nil, src)
	r.next(t, "share")
	must(t, r.cmd.Process.Signal(syscall.SIGHUP))
	r.cmd.Process.Signal(syscall.SIGHUP) // terminal and shell may both send one
	sum := r.next(t, "summary")
	if code := r.end(); code != 0 || sum.Signal != "SIGHUP" || !strings.Contains(r.stderr.String(), "ended by SIGHUP, as when a terminal is closed") {
		t.Errorf("exit %d, summary %+v: %s", code, sum, &r.stderr)
	}

	nohup := exec.Command("sh", "-c", `trap "" HUP; exec "$@"`, "sh", built(t), "share", src, "--json", "--dir", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--limit-up", "3M")
	s := startSharing(t, nohup)
	must(t, nohup.Process.Signal(syscall.SIGHUP))
	cmd, hung := fetchCommand(t, s.ticket, t.TempDir()), false
	f := finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 1<<20 && !hung {
			hung = true
			must(t, cmd.Process.Signal(syscall.SIGHUP))
		}
	})
	if f.code != exitInterrupted || f.summary().Signal != "SIGHUP" || !strings.Contains(f.stderr, "To resume:") || !strings.Contains(f.stderr, "ended by SIGHUP") {
		t.Errorf("exit %d: %s", f.code, f.stderr)
	}
	// What timeout does: to the process, and to its group.
	cmd, hung = fetchCommand(t, s.ticket, t.TempDir()), false
	f = finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 1<<20 && !hung {
			hung = true
			must(t, cmd.Process.Signal(os.Interrupt))
			cmd.Process.Signal(os.Interrupt)
		}
	})
	if f.code != exitInterrupted || !strings.Contains(f.stderr, "each whole piece that is verified is kept. To resume:") {
		t.Errorf("interrupted twice at once: exit %d: %s", f.code, f.stderr)
	}
	s.stop(t)
}
