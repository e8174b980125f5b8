package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/daemon"
)

// A user with no node of their own gets that of the machine, whose state directory is another.
func TestCommandsNameTheStateDirectoryOfTheNodeOfTheMachine(t *testing.T) {
	own, machine := filepath.Join(t.TempDir(), "own"), t.TempDir()
	t.Setenv("XDG_DATA_HOME", own)
	t.Setenv("HOME", own)
	t.Setenv("FETCHER_DIR", "")
	startNode(t, machine, "--into", filepath.Join(t.TempDir(), "shares"))
	defer func(was string) { systemDir = was }(systemDir)
	systemDir = machine
	store := "sqlite:" + filepath.Join(t.TempDir(), "fleet.db")
	token := daemon.Membership{URL: store, Secret: strings.Repeat("s", 52)}.Token()
	for _, args := range []string{"fleet invite --fleet " + store, "fleet invite --new-secret", "fleet join " + token, "fleet leave", "node open --print"} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(args), nil, &out, &errs, t.Context())
		if code != exitUsage || !strings.Contains(errs.String(), " node of") || !strings.Contains(errs.String(), machine) {
			t.Errorf("%s: exit code %d\n%s", args, code, &errs)
		}
	}
	var out, errs bytes.Buffer
	run([]string{"doctor"}, nil, &out, &errs, t.Context())
	finds(t, out.String(), "ok", "state", "the node of this machine keeps its state in "+machine)
	finds(t, out.String(), "ok", "disk", "where the node puts shares")
	if _, err := os.Stat(own); err == nil || strings.Contains(out.String(), own) {
		t.Errorf("the user's own state directory is made, or spoken of:\n%s", &out)
	}
}
