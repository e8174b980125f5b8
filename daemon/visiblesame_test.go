package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
)

// announcedAs is where a daemon's node announces a share, or would.
func announcedAs(d *Daemon, id string) (most fetcher.Visibility) {
	for _, e := range d.node.Entries() {
		if e.Share.String() == id && (e.State == fetcher.EntryServed || e.State == fetcher.EntryFetching) {
			most = max(most, e.Serving.Visible, e.Fetching.Visible)
		}
	}
	return most
}

// What another entry with the same content is asked to be seen by says nothing of this one: it is announced as its owner wants, and as it is said to be.
func TestEachOfTwoEntriesWithTheSameContentIsAnnouncedAsItsOwnerWants(t *testing.T) {
	t.Parallel()
	public, private := "public", "private"
	two := func(t *testing.T, visible string) (d *Daemon, one, other api.Entry) {
		d = begun(t, t.TempDir())
		d.inTable = true
		add := func() api.Entry {
			return added(t, d, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}, Visible: visible})
		}
		return d, add(), add()
	}
	is := func(t *testing.T, d *Daemon, id int64, want fetcher.Visibility) {
		t.Helper()
		e := until(t, d, id, "served", in(api.Served))
		for end := time.Now().Add(30 * time.Second); announcedAs(d, e.Share) != want; time.Sleep(10 * time.Millisecond) { // the other's keeper may still be at work
			if time.Now().After(end) {
				t.Fatalf("entry %d is said to be %s, and is announced as %s, not %s", id, e.Visible, announcedAs(d, e.Share), want)
			}
		}
	}
	t.Run("the other was public, and is removed", func(t *testing.T) {
		d, one, other := two(t, private)
		set(t, d, other.ID, api.Set{Visible: &public})
		_, err := d.Remove(t.Context(), other.ID, false)
		must(t, err)
		is(t, d, one.ID, fetcher.Private)
	})
	t.Run("the other was public, and is paused", func(t *testing.T) {
		d, one, other := two(t, private)
		set(t, d, other.ID, api.Set{Visible: &public})
		set(t, d, other.ID, paused(true))
		is(t, d, one.ID, fetcher.Private)
	})
	t.Run("the other is made private", func(t *testing.T) {
		d, one, other := two(t, public)
		set(t, d, other.ID, api.Set{Visible: &private})
		is(t, d, one.ID, fetcher.Public)
	})
}
