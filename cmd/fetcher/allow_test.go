package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// A share for named peers is for nobody else, and a peer that is refused is told what to do.
func TestAShareForNamedPeers(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "f"), t.TempDir()
	rig.WriteRandom(t, src, 100_000, 7)
	id := inDir(t, dir, "id").lines
	own := id[slices.IndexFunc(id, func(l line) bool { return l.Type == "id" })].Peer
	r := runShare(t, nil, src, "--allow", own)
	ticket := r.next(t, "share").Ticket
	for _, c := range [][]string{{"ls", ticket}, {"fetch", ticket, "-o", t.TempDir(), "--listen", "none"}} {
		advice := "allow the ID that fetcher --dir " + dir + " id prints, and run the same command again (fetch, cat and ls then need --identity: "
		if got := inDir(t, dir, c...); got.code != exitNotAllowed || !strings.Contains(got.stderr, advice) {
			t.Errorf("%s: exit %d: %s", c[0], got.code, got.stderr)
		}
		if got := inDir(t, dir, append(c, "--identity")...); got.code != exitOK {
			t.Errorf("%s as a peer that is allowed: exit %d: %s", c[0], got.code, got.stderr)
		}
	}
}
