package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// What others are sent is counted for an entry that is served, not for one with the same content that is paused: how long the one is served
// depends on it.
func TestWhatIsSentIsCountedForAnEntryThatIsServed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	served := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}})
	d := begun(t, t.TempDir())
	idle := added(t, d, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}})
	set(t, d, idle.ID, paused(true))
	e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, SeedRatio: 1}).ID, "here", in(api.Served))
	c := begun(t, t.TempDir())
	until(t, c, added(t, c, api.Add{Ticket: e.Ticket}).ID, "here", in(api.Served))
	for end := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) { // the end of a child is reported once it is known
		all, err := d.Entries(t.Context())
		must(t, err)
		if all[1].Sent >= all[1].Bytes {
			break
		}
		if all[0].Sent > 0 || time.Now().After(end) {
			t.Fatalf("%d bytes were sent of the entry that is %s, and %d of the one that is %s", all[0].Sent, all[0].State, all[1].Sent, all[1].State)
		}
	}
	d.keepers[2].poke()
	until(t, d, e.ID, "ended", in(api.Ended))
}
