package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// The owner of a depot whose database is gone is told what follows from that, as if it had been damaged: its accounts have no keys.
func TestALostDatabaseOfLeasesIsSaid(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	lender := func(c *Config) { c.Depot = folder }
	d := begun(t, dir, lender)
	_, err := d.AddAccount(t.Context(), api.AddAccount{Name: "photos", Key: string(begun(t, t.TempDir()).node.ID()), Quota: 1 << 30})
	must(t, err)
	must(t, d.Close())
	for _, part := range []string{"", "-wal", "-shm"} {
		os.Remove(filepath.Join(dir, leasesName+part))
	}
	s, err := begun(t, dir, lender).Status(t.Context())
	must(t, err)
	if !strings.Contains(strings.Join(s.Warnings, "\n"), "accounts have no keys") {
		t.Errorf("the accounts of the depot are gone, and the warnings are %q", s.Warnings)
	}
}
