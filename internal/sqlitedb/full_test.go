//go:build unix

package sqlitedb

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// A first start on a full disk leaves nothing that looks like a loss once there is room.
func TestAFirstStartOnAFullDiskIsNoLoss(t *testing.T) {
	t.Parallel()
	s := Schema{App: 7, Steps: []string{`CREATE TABLE x(a)`}}
	if at := os.Getenv("FULL_DISK"); at != "" { // the process in which no file can grow
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			t.Skip(err)
		}
		if _, err := Open(t.Context(), at, s); err == nil {
			t.Error("it was opened")
		}
		return
	}
	at := filepath.Join(t.TempDir(), "db")
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "FULL_DISK="+at)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	db, err := Open(t.Context(), at, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(at)); len(left) != 1 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
