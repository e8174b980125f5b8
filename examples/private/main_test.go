package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The tests run this program as others would: the test binary runs as the program when told to.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(t *testing.T, state string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-state", state}, args...)...)
	cmd.Env = append(os.Environ(), "RUN_MAIN=1")
	return cmd
}

// Two friends get it, and a stranger reads that it is not allowed.
func TestAPrivateShareIsForTwoPeers(t *testing.T) {
	want := make([]byte, 3<<20+1)
	rand.Read(want)
	file := filepath.Join(t.TempDir(), "letters.bin")
	if err := os.WriteFile(file, want, 0o666); err != nil {
		t.Fatal(err)
	}
	var states, ids []string
	for range 3 {
		state := t.TempDir()
		out, err := command(t, state, "id").Output()
		if err != nil {
			t.Fatal(err)
		}
		states, ids = append(states, state), append(ids, strings.TrimSpace(string(out)))
	}
	ticket := serving(t, file, ids[0], ids[1])
	for i, state := range states {
		var said bytes.Buffer
		cmd := command(t, state, "fetch", ticket, t.TempDir())
		cmd.Stderr = &said
		out, err := cmd.Output()
		if i == 2 {
			if cmd.ProcessState.ExitCode() != 7 || !strings.Contains(said.String(), ids[2]) {
				t.Errorf("the stranger got %v: %s", err, said.String())
			}
			continue
		}
		got, _ := os.ReadFile(strings.TrimSpace(string(out)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("friend %d got %d bytes, %v: %s", i, len(got), err, said.String())
		}
	}
}

// serving shares a file with two peers until the test ends, and returns its ticket.
func serving(t *testing.T, file, a, b string) (ticket string) {
	cmd := command(t, t.TempDir(), "share", file, a, b)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
