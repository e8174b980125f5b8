package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
)

// An entry is removed while the peers that take it are counted. Nothing is told of it after that: who follows the events would believe that
// it is there.
func TestNothingIsToldOfAnEntryThatIsRemoved(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	cursor := d.Feed().From("")
	counting := d.all() // as counted does
	d.tally.child(fetcher.Child{Share: counting[0].entry().Share, Peer: "somebody", Since: time.Now(), At: time.Now(), State: fetcher.ChildTakes})
	_, err := d.Remove(t.Context(), e.ID, false)
	must(t, err)
	for _, k := range counting {
		k.recount()
	}
	last := ""
	for ev, ok, _, _ := cursor.Next(); ok; ev, ok, _, _ = cursor.Next() {
		if ev.Entry != nil && ev.Entry.ID == e.ID {
			last = ev.Type
		}
	}
	if last != "removed" {
		t.Errorf("the last that is told of the entry is %q", last)
	}
}
