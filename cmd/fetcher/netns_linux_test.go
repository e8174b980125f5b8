package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// Real processes in two network namespaces, with a line between them that is not
// loopback. Skipped without root or TUN.

// office is one end of a rig: every process there has its own state.
type office struct {
	r   *rig.Rig
	end int
}

// command is a fetcher command there. It ends with the test.
func (o office) command(t *testing.T, args ...string) *exec.Cmd {
	return o.r.Command(o.end, built(t), append(args, "--json", "--dir", t.TempDir())...)
}

// share serves path from there.
func (o office) share(t *testing.T, path, port string, args ...string) *sharing {
	t.Helper()
	return startSharing(t, o.command(t, append([]string{"share", path, "--listen", "/ip4/" + o.r.Addr(o.end) + "/tcp/" + port}, args...)...))
}

// fetch fetches into a folder there, and compares.
func (o office) fetch(t *testing.T, want, ticket string, see func(line), args ...string) result {
	t.Helper()
	dir := t.TempDir()
	r := finish(t, o.command(t, append([]string{"fetch", ticket, "-o", dir, "--listen", "none"}, args...)...), see)
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != want {
		t.Error("other bytes")
	}
	if sum := r.summary(); sum.Dup > sum.Bytes/20 {
		t.Errorf("%d bytes of %d came twice", sum.Dup, sum.Bytes)
	}
	return r
}

func TestTwoOfficesAndALineBetweenThem(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	rig.Need(t)
	src := filepath.Join(t.TempDir(), "big.bin")
	const size = 12 << 20
	rig.WriteRandom(t, src, size, 7)
	want := rig.Fingerprint(t, src)
	line100 := rig.Path{Mbit: 100, Delay: 20 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500}

	t.Run("cut and healed", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, line100)
		s := office{r, 0}.share(t, src, "4001", "--limit-up", "3M") // so that much is to come when it is cut
		cut, stalled := false, false
		office{r, 1}.fetch(t, want, s.ticket, func(l line) {
			if l.Type == "progress" && l.Verified > size/4 && !cut {
				cut = true
				r.Cut(true)
				time.AfterFunc(4*time.Second, func() { r.Cut(false) })
			}
			stalled = stalled || l.Type == "stall"
		})
		if !cut || !stalled {
			t.Errorf("cut: %v, and the wait was explained: %v", cut, stalled)
		}
	})
	t.Run("a source freezes", func(t *testing.T) {
		rig.OnlyLong(t)
		t.Parallel()
		r := rig.New(t, line100)
		here := office{r, 0}
		a, b := here.share(t, src, "4001", "--limit-up", "4M"), here.share(t, src, "4002", "--limit-up", "4M")
		frozen := false
		office{r, 1}.fetch(t, want, a.ticket, func(l line) {
			if l.Type == "progress" && l.Verified > size/3 && !frozen {
				frozen = true
				must(t, b.cmd.Process.Signal(syscall.SIGSTOP))
			}
		}, "--peer", b.addrs[0])
		must(t, b.cmd.Process.Signal(syscall.SIGCONT))
		if !frozen {
			t.Error("nothing froze")
		}
	})
	t.Run("100 ms and 5 % loss", func(t *testing.T) {
		rig.OnlyLong(t)
		t.Parallel()
		r := rig.New(t, rig.Path{Mbit: 100, Delay: 50 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500, Loss: 0.05})
		small := filepath.Join(t.TempDir(), "big.bin")
		rig.WriteRandom(t, small, 1<<20, 8)
		s := office{r, 0}.share(t, small, "4001")
		office{r, 1}.fetch(t, rig.Fingerprint(t, small), s.ticket, nil)
	})
}

// On a machine without a network, or with nothing but its loopback, share says who can fetch.
func TestShareSaysWhoCanReachIt(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 1000, 7)
	for script, want := range map[string]string{
		`exec "$@"`:                    "nobody can fetch from this node",
		`ip link set lo up; exec "$@"`: "works on this machine only",
	} {
		cmd := exec.Command("sh", "-c", script, "sh", built(t), "share", src, "--json", "--dir", t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := cmd.StdoutPipe()
		must(t, err)
		if err := cmd.Start(); err != nil {
			t.Skip("NOT TESTED: a network namespace needs root:", err)
		}
		lines := json.NewDecoder(out)
		var l line
		for l.Type != "share" {
			if err := lines.Decode(&l); err != nil {
				t.Fatalf("%s: %v", script, err)
			}
		}
		if !strings.Contains(strings.Join(l.Warnings, "\n"), want) {
			t.Errorf("%s: warnings %q, want %q", script, l.Warnings, want)
		}
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		must(t, cmd.Wait())
	}
}
