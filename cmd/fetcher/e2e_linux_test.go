package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// smallDisk is a folder on a disk of its own, of size bytes. It needs root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("fetcher", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("NOT TESTED: a disk of its own needs root and mount:", err)
	}
	t.Cleanup(func() {
		// Detached, as another test may be starting a process that has a file there open until it is another program.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error("unmount:", err)
		}
	})
	return dir
}

func TestADiskThatIsTooSmallIsNamedBeforeTheFirstByte(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 16<<20, 7)
	s := startShare(t, src)
	dir := smallDisk(t, "4m")
	r := command(t, "fetch", s.ticket, "-o", dir, "--listen", "none")
	if r.code != 9 || !strings.Contains(r.stderr, " MB more; 16.8 MB is needed") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if r.summary().Verified != 0 {
		t.Errorf("%d bytes were fetched", r.summary().Verified)
	}
}

func TestADiskThatFillsUpIsWaitedForAndThenNamed(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 16<<20, 7)
	s := startShare(t, src, "--limit-up", "2M")
	dir := smallDisk(t, "20m")
	filled := false
	fill := func(l line) {
		if l.Type == "progress" && l.Verified > 4<<20 && !filled {
			filled = true
			os.WriteFile(filepath.Join(dir, "other"), make([]byte, 20<<20), 0o600) // uses up the free space
		}
	}
	cmd, asked := fetchCommand(t, s.ticket, dir, "--stall", "10s"), false
	r := finish(t, cmd, func(l line) {
		fill(l)
		if l.Type == "stall" && !asked {
			asked = true
			must(t, cmd.Process.Signal(syscall.SIGUSR1))
		}
	})
	if r.code != 9 || !strings.Contains(r.stderr, keptText) {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	said := false
	for _, l := range r.lines {
		said = said || l.Type == "stall" && strings.Contains(l.Reason, "disk full")
	}
	if !said {
		t.Error("the wait was not explained")
	}
	why := regexp.MustCompile(`(?s)disk full: free [0-9.]+ [kM]B more; [0-9.]+ [kM]B is needed and [0-9.]+ k?B is free; no byte for \d+ s: the fetch gives up in \d+ s unless one comes
source \w+: active for \d+ s, .* MB in \d+ pieces
big.bin, pieces? [0-9-]+: (wanted|leased); .*goes on when that is over`)
	if !why.MatchString(r.stderr) {
		t.Errorf("SIGUSR1 said\n%s", r.stderr)
	}
	must(t, os.Remove(filepath.Join(dir, "other")))
	r = finish(t, fetchCommand(t, s.ticket, dir), nil)
	if r.code != 0 || r.summary().Resumed == 0 {
		t.Errorf("exit %d after room was made, %d bytes resumed: %s", r.code, r.summary().Resumed, r.stderr)
	}
}

// A process that may have only a few files open still shares and fetches.
func TestFewOpenFilesAreEnough(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	for i := range 200 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprintf("d%d/e/f", i%50), fmt.Sprint(i)), 1000, uint64(i))
	}
	for i := range 20 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprintf("big%d", i)), 1500000, uint64(i))
	}
	few := func(cmd *exec.Cmd) *exec.Cmd {
		return exec.Command("sh", append([]string{"-c", `ulimit -n 64; exec "$@"`, "sh"}, cmd.Args...)...)
	}
	s := startShare(t, src)
	dir := t.TempDir()
	if r := finish(t, few(fetchCommand(t, s.ticket, dir)), nil); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "tree")) != rig.Fingerprint(t, src) {
		t.Error("the copy differs")
	}
	ls := exec.Command(built(t), "ls", src, "--json", "--dir", t.TempDir())
	if r := finish(t, few(ls), nil); r.code != 0 || r.summary().Share != s.id {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}
