package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/rig"
)

// A machine is to be put out, and the URL of the store is mistyped: nothing is changed, rather than that the fleet goes on in another
// store, and the machine that was lost in the fleet's.
func TestASecretIsNotChangedInAnotherStore(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, kvs := t.TempDir(), "sqlite:"+t.TempDir()
	token, _, _ := strings.Cut(output(t, built(t), "fleet", "invite", "--fleet", kvs+"/ours", "--dir", dir), "\n")
	lost := t.TempDir()
	if r := inDir(t, lost, "fleet", "join", token); r.code != 0 {
		t.Fatal(r.stderr)
	}
	was, _, err := daemon.Joined(dir)
	must(t, err)
	if r := inDir(t, dir, "fleet", "invite", "--new-secret", "--fleet", kvs+"/oursx"); r.code == 0 {
		t.Errorf("the secret was changed in %s: %s", filepath.Base(kvs+"/oursx"), r.stderr)
	}
	if is, _, err := daemon.Joined(dir); err != nil || is.URL != was.URL || is.Secret != was.Secret {
		t.Errorf("its fleet is now at %s, and was at %s; %v", is.URL, was.URL, err)
	}
	if r := inDir(t, lost, "fleet", "status"); r.code != 0 {
		t.Errorf("the other machine: exit %d: %s", r.code, r.stderr)
	}
}
