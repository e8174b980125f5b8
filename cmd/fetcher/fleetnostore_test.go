package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Commands that look at what a fleet has, or take something off, make no new store where there is none: a path that was mistyped is said to
// be one, and no fleet that has nothing.
func TestLookingAtAFleetMakesNoStore(t *testing.T) {
	t.Parallel()
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("the secret of a fleet"), 0o600))
	for _, args := range [][]string{{"status"}, {"remove", "photos"}, {"forget", "nas-7"}} {
		at := filepath.Join(t.TempDir(), "mistyped")
		r := inDir(t, dir, append(append([]string{"fleet"}, args...), "--fleet", "sqlite:"+at, "--fleet-secret", secret)...)
		if _, err := os.Stat(at); !os.IsNotExist(err) {
			t.Errorf("fleet %s made a store: exit %d, %s", args[0], r.code, r.stderr)
		}
	}
}
