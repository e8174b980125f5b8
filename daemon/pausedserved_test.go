package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What is said to be paused is not served any more: whoever paused it may want to unmount its disk.
func TestWhatIsSaidToBePausedIsNotServed(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	for round := range 50 {
		until(t, d, e.ID, "served", func(e api.Entry) bool { return e.State == api.Served && len(d.node.Shares()) == 1 })
		if e := set(t, d, e.ID, paused(true)); e.State == api.Paused && len(d.node.Shares()) > 0 {
			t.Fatalf("round %d: it is %s, and served", round, e.State)
		}
		set(t, d, e.ID, api.Set{Paused: new(bool), Rescan: true})
	}
}
