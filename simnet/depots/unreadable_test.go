package depots

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store/storetest"
)

// A share with a file that the disk cannot open, as its inode is lost, does not keep the crawler from finding what rots in others.
func TestAFileThatCannotBeOpenedHidesNoDamageOfOthers(t *testing.T) {
	s := &simnet.Scenario{Name: "unreadable", Limit: Limit, Set: func(r *simnet.Run) {
		Tell(r, func(s *Story) {
			d, a := New(s.Net, Config{Name: "depot"}), s.Add(simnet.NodeConfig{Name: "anna"})
			d.Account("anna", 1<<30, a)
			d.Excuse()
			var all []*simnet.Content
			for _, name := range []string{"one", "two", "three"} {
				c := s.File(name, 100_000)
				a.Seed(c)
				all = append(all, c)
				s.Hold(a, d, c, 20*24*time.Hour)
			}
			s.Kept(d, all...)
			s.Pass(5 * time.Minute) // the first cycles are done
			slices.SortFunc(all, func(x, y *simnet.Content) int { return x.ID().Compare(y.ID()) })
			at := path.Join(disk.Folder(all[0].ID()), "data")
			was := d.Disk().Fault
			d.Disk().Fault = func(op storetest.Op) error {
				if op.Kind == "open" && strings.HasPrefix(op.Name, at+"/") {
					return errors.New("structure needs cleaning")
				}
				if was != nil {
					return was(op)
				}
				return nil
			}
			d.Rot(all[1], s.Rand("rot"))
			s.Pass(8 * 24 * time.Hour) // more than a cycle
			for range 4 {
				s.Do(d, actors.ScrubNow{})
				s.Pass(61 * time.Minute)
			}
			st, _ := s.Do(d, actors.DepotQuery{})
			s.Expect(d.Here(all[1]) == nil && slices.Contains(d.Told(all[1]), depot.Corrupt), "what rotted was not found: %v; scrubbed: %+v", d.Here(all[1]), st.Scrub)
		})
	}}
	if r := s.Run(1, 0); !r.OK() {
		t.Error(r.Report())
	}
}
