package daemon

import (
	"strings"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// announced reports whether a daemon's node announces anything, or would.
func announced(d *Daemon) bool {
	for _, e := range d.node.Entries() {
		if e.Serving.Visible != fetcher.Private || e.Fetching.Visible != fetcher.Private {
			return true
		}
	}
	return false
}

// A share that its owner makes private before it is served, or here, is announced nowhere.
func TestWhatIsMadePrivateMeanwhileIsNotAnnounced(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	private := "private"
	t.Run("while its files are read", func(t *testing.T) {
		d := begun(t, t.TempDir())
		d.inTable = true
		for range cap(d.reads) {
			d.reads <- struct{}{} // others are read first
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			added(t, d, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}, Visible: "public"})
		}()
		id := entriesOf(t, d, 1)[0].ID
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // it waits for its turn
			if e, err := d.Entry(t.Context(), id); err != nil || time.Now().After(end) {
				t.Fatal(err)
			} else if e.State == api.Opening {
				break
			}
		}
		set(t, d, id, api.Set{Visible: &private})
		for range cap(d.reads) {
			<-d.reads
		}
		<-done
		until(t, d, id, "served", in(api.Served))
		if announced(d) {
			t.Error("it is announced")
		}
	})
	t.Run("while nobody has sent the list of its files", func(t *testing.T) {
		origin, d := begun(t, t.TempDir()), begun(t, t.TempDir())
		d.inTable = true
		served := added(t, origin, api.Add{Paths: []string{file(t, large(2), t.TempDir(), "g")}})
		must(t, origin.Close())
		e := added(t, d, api.Add{Ticket: served.Ticket, Visible: "public"})
		for end := time.Now().Add(30 * time.Second); !announced(d); time.Sleep(10 * time.Millisecond) { // until it is begun
			if time.Now().After(end) {
				t.Fatal("it is not announced to begin with")
			}
		}
		set(t, d, e.ID, api.Set{Visible: &private})
		if announced(d) {
			t.Error("it is announced")
		}
	})
}

// What nobody could find is not announced: the owner is told why.
func TestWhatNobodyCouldFindIsRefused(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir()) // silent on the local network, and in no table
	e := added(t, d, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}})
	now := d.setting()
	now.NoLAN = false
	_, err := d.Reload(now) // its node.toml has lan = false no more, and it still does not use it
	must(t, err)
	for where, want := range map[string]string{"lan": "the node was started with lan = false", "public": "and start it again"} {
		if _, err := d.Set(t.Context(), e.ID, api.Set{Visible: &where}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", where, err)
		}
		if _, err := d.Add(t.Context(), api.Add{Ticket: e.Share, Visible: where}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// Where a search may find a peer, none need be named.
func TestWhatNamesNoPeerIsTakenWhereOneMayBeFound(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	id := share.IDOf(nil)
	beacon := ma.StringCast("/ip4/192.0.2.1/tcp/4001/p2p/" + string(d.node.ID()))
	ticket := share.Ticket{ID: id}
	for _, c := range []struct {
		source       string
		lan, inTable bool
		want         string
	}{
		{id.String(), false, false, "an ID alone names none; give the ticket"},
		{ticket.String(), false, false, "the ticket names none"},
		{id.String(), true, false, ""},
		{id.String(), false, true, ""},
		{ticket.AtBeacons(&share.Secret{}, []ma.Multiaddr{beacon}).String(), false, false, ""},
	} {
		d.onLAN, d.inTable = c.lan, c.inTable
		err := d.complete(&catalog.Wish{Source: c.source})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, on the local network %t, in a table %t: %v, want %q", c.source, c.lan, c.inTable, err, c.want)
		}
	}
}

// What was added by its ID alone while a peer could be found says what to do once the node looks for none, and is fetched again when it does.
func TestALoneIDOutlivesASetting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := func(c *Config) { c.DHT = []string{"own"} }
	a := begun(t, dir, table)
	e := added(t, a, api.Add{Ticket: share.IDOf([]byte("x")).String()})
	must(t, a.Close())
	b := begun(t, dir)
	if got := until(t, b, e.ID, "failed", in(api.Failed)); !strings.HasSuffix(got.Reason, "an ID alone names none. Start the node with lan or dht again, or remove the entry and add a ticket that names a peer") {
		t.Error(got.Reason)
	}
	must(t, b.Close())
	until(t, begun(t, dir, table), e.ID, "fetched again", in(api.Fetching))
}
