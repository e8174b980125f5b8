package daemon

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What was fetched and then changed by its owner is not served, not even until that is noticed.
func TestWhatItsOwnerHasChangedIsNeverServed(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		file(t, "one", dir, "tree", "1")
		a := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		served := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}})
		at, others := net.Add(bubble.NodeConfig{Name: "b"}), atomic.Int64{}
		b, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "b"), Settings: Settings{Into: filepath.Join(dir, "b", "in")}, simulated: func(host *fetcher.Config) {
			there := at.Config()
			host.Listen, host.P2P.Key, host.P2P.Packets = there.Listen, there.P2P.Key, there.P2P.Packets
			host.OnEntry = func(e fetcher.Entry) {
				if e.State == fetcher.EntryServed && e.Share.String() != served.Share {
					others.Add(1)
				}
			}
		}})
		must(t, err)
		defer func() { must(t, b.Close()) }()
		e := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "here", in(api.Served))
		time.Sleep(time.Minute)
		file(t, "its owner's", e.Path, "1")
		set(t, b, e.ID, api.Set{Rescan: true})
		time.Sleep(time.Hour)
		if e, err := b.Entry(t.Context(), e.ID); err != nil || e.State != api.Missing || others.Load() > 0 {
			t.Errorf("it is %s: %s, %v; it was served %d times", e.State, e.Reason, err, others.Load())
		}
	})
}
