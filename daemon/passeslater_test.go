package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/renewal"
)

// Whoever enters a code for what a depot could not be paid has it paid at once, also if the node was restarted since.
func TestACodePaysForWhatHasWaitedSinceBeforeARestart(t *testing.T) {
	t.Parallel()
	free := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	paid := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	dir := t.TempDir()
	d := begun(t, dir)
	for depot, price := range map[*Daemon]string{free: priceFree, paid: pricePasses} {
		_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e9, Price: price})
		must(t, err)
	}
	film := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	d.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: []string{free.node.Addrs()[0], paid.node.Addrs()[0]}}) // one refuses
	must(t, d.Close())
	d = begun(t, dir)
	v, err := paid.Voucher(t.Context(), api.NewVoucher{Passes: 60})
	must(t, err)
	_, err = d.RedeemPasses(t.Context(), api.RedeemPasses{Code: v.Code})
	must(t, err)
	all, err := d.StandingHolds(t.Context())
	must(t, err)
	for _, h := range all {
		if in := time.Until(h.Next); h.State != renewal.Stable.String() && in > time.Minute {
			t.Errorf("passes are there, and the depot for which they are is visited in %v: %s", in, h.Why)
		}
	}
}
