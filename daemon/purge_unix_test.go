//go:build unix

package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// A purge removes what the node knew, and nothing that it fetched or keeps for others, wherever in
// the package's state directory its owner put that.
func TestAPurgeLeavesWhatWasFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("..", "deploy", "packages", "postremove"))
	must(t, err)
	dir := t.TempDir()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	b := begun(t, dir, func(c *Config) { c.Into, c.Depot = filepath.Join(dir, "media"), filepath.Join(dir, "depot") })
	got := added(t, b, api.Add{Ticket: served.Ticket})
	got = until(t, b, got.ID, "here", in(api.Served))
	kept := file(t, "of others", dir, "depot", "share")
	must(t, b.Close())
	purge := exec.Command("sh", "-c", strings.NewReplacer("/var/lib/fetcher", dir, "/run/systemd", dir+"/none").Replace(string(script)), "postremove", "purge")
	if out, err := purge.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	same(t, got.Path, "content")
	same(t, kept, "of others")
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 2 {
		t.Errorf("beside them it leaves %v", left)
	}
}
