package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// A repair is done once: what its owner changes after it stays, also if the catalog could not be written when the repair was done, as on a disk that
// was full for a moment.
func TestWhatIsChangedAfterARepairStaysAlsoIfItsEndWasNotWritten(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		for _, n := range []string{"1", "2", "3"} {
			file(t, "content of "+n, dir, "tree", n)
		}
		at, home, into := net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "b"), filepath.Join(dir, "into")
		a := simulated(t, at, filepath.Join(dir, "a"), Settings{})
		ticket := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}}).Ticket
		must(t, a.Close())
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), home, Settings{})
		defer func() { must(t, b.Close()) }()
		mine := file(t, "its owner's", into, "tree", "1")
		e := added(t, b, api.Add{Ticket: ticket, Dir: into, Only: []string{"1", "2"}, Repair: true})
		execCatalog(t, home, `CREATE TRIGGER full BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
		a = simulated(t, at, filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		until(t, b, e.ID, "repaired", in(api.Served))
		same(t, mine, "content of 1")
		execCatalog(t, home, `DROP TRIGGER full`)
		time.Sleep(time.Minute) // what was not written is by now
		file(t, "edited since", mine)
		set(t, b, e.ID, api.Set{Only: &[]string{"1", "2", "3"}})
		time.Sleep(time.Hour)
		same(t, mine, "edited since")
	})
}
