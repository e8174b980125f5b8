package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
)

// The tests run this program as others would: the test binary runs as the program when told to.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestADownloadIsWhatWasShared(t *testing.T) {
	want := make([]byte, 5<<20+3)
	rand.Read(want)
	file := filepath.Join(t.TempDir(), "video.bin")
	if err := os.WriteFile(file, want, 0o666); err != nil {
		t.Fatal(err)
	}
	node, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	s, err := node.Share(t.Context(), file, fetcher.ShareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for range 2 { // the second finds that everything is here
		var bar bytes.Buffer
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-state", filepath.Join(dir, "state"), s.Ticket(), dir)
		cmd.Env, cmd.Stderr = append(os.Environ(), "RUN_MAIN=1"), &bar
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, bar.String())
		}
		got, err := os.ReadFile(strings.TrimSpace(string(out)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what was shared: %v", out, err)
		}
		if !strings.Contains(bar.String(), "] 100 %") {
			t.Errorf("no bar that is full:\n%s", bar.String())
		}
	}
}
