package daemon

import (
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/passes/issuer"
	"github.com/piecelease/fetcher/store/storetest"
)

// The owner of a depot reads why passes do not count there, until they do again.
func TestADepotSaysThatItsBookCannotBeWritten(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	d := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	disk := storetest.New(1 << 24)
	book, err := issuer.Open(disk.FS(), rand.Reader)
	must(t, err)
	must(t, d.lender.issuer.Close())
	d.lender.issuer = book
	shows := func(want bool) {
		t.Helper()
		v, err := d.Depot(t.Context())
		must(t, err)
		said := strings.Contains(strings.Join(d.troubles(t.Context()), ""), "no space left")
		if got := strings.Contains(v.PassesTrouble, "no space left"); got != want || said != want {
			t.Errorf("its status says %q, and so does the node's: %v", v.PassesTrouble, said)
		}
		metric := `fetcher_depot_is{how="taking"} 1`
		if got := strings.Contains(scraped(t, d), metric); got == want {
			t.Errorf("%s: %v", metric, got)
		}
	}
	shows(false)
	full := errors.New("no space left")
	disk.Fault = func(op storetest.Op) error {
		if op.Changes() {
			return full
		}
		return nil
	}
	now := time.Now()
	if _, err := book.Sell(1, now); !errors.Is(err, full) {
		t.Error(err)
	}
	shows(true)
	disk.Fault = nil
	_, err = book.Sell(1, now.Add(time.Minute))
	must(t, err)
	shows(false)
}
