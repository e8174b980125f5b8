package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

func TestDoctorKnowsAFullDisk(t *testing.T) {
	dir := smallDisk(t, "1M")
	if f := checkDisk("there", freeAt(dir)); f.ok || !strings.Contains(f.advice, "Make room") {
		t.Errorf("a small disk: %+v", f)
	}
	full, err := os.Create(filepath.Join(dir, "full"))
	must(t, err)
	for err == nil {
		_, err = full.Write(make([]byte, 64<<10))
	}
	full.Close()
	if f := checkState(dir); f.ok || !strings.Contains(f.advice, "The disk is full") {
		t.Errorf("a full disk: %+v", f)
	}
}

// A node says in its status and in its log that little room is left for what it fetches.
func TestANodeSaysThatItsDiskIsNearlyFull(t *testing.T) {
	rig.Slow(t)
	n := startNode(t, t.TempDir(), "--into", smallDisk(t, "8M"))
	s, err := n.client.Status(t.Context())
	if must(t, err); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "only 8.39 MB is free") || !strings.Contains(s.Warnings[0], "make room") {
		t.Errorf("it warns %q", s.Warnings)
	}
	n.end(syscall.SIGTERM)
	if said := n.stderr.String(); strings.Count(said, "the disk is nearly full") != 1 {
		t.Error(said)
	}
}

func TestDoctorKnowsAMachineWithoutANetwork(t *testing.T) {
	cmd := exec.Command(built(t), "doctor", "--dir", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.Output()
	said := string(out)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("NOT TESTED: a machine without a network needs root")
	}
	if cmd.ProcessState.ExitCode() != exitOther {
		t.Errorf("all is well without a network: %v\n%s", err, said)
	}
	finds(t, said, "WRONG", "network", "no address but loopback and link-local ones")
	if !strings.Contains(said, "Connect this machine") {
		t.Errorf("nothing is advised:\n%s", said)
	}
}

// A disk that is mounted read-only refuses even root, who may write anywhere else.
func TestDoctorKnowsADiskThatIsReadOnly(t *testing.T) {
	rig.Slow(t)
	dir := smallDisk(t, "8M")
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	cmd := exec.Command(built(t), "doctor", "--dir", dir)
	said, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != exitOther {
		t.Errorf("all is well on a disk that is read-only: %v", err)
	}
	finds(t, string(said), "WRONG", "state", dir+" cannot be written to")
	if !strings.Contains(string(said), "mount its disk for writing") {
		t.Errorf("nothing is advised:\n%s", said)
	}
	if out, err := exec.Command(built(t), "node", "run", "--dir", dir, "--listen", "none").CombinedOutput(); err == nil || !strings.Contains(string(out), "read-only") {
		t.Errorf("a node runs there: %v\n%s", err, out)
	}
}
