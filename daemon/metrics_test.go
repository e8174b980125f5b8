package daemon

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func scraped(t *testing.T, d *Daemon) string {
	t.Helper()
	w := httptest.NewRecorder()
	d.metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	return w.Body.String()
}

// What is fetched and waits is told by what it waits for.
func TestWhatFetchesWaitForIsTold(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	d := begun(t, t.TempDir())
	gone := added(t, d, api.Add{Ticket: share.IDOf([]byte("x")).String(), Peers: []string{"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"}})
	until(t, d, gone.ID, "fetching", in(api.Fetching))
	for end := time.Now().Add(30 * time.Second); !strings.Contains(scraped(t, d), `fetcher_fetching_entries{wait="connection"} 1`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(scraped(t, d))
		}
	}
	now := time.Now()
	d.tally.moved(fetcher.Progress{}, fetcher.Progress{At: now, Sources: []fetcher.Source{{Peer: "p", BadBlocks: 2}}})
	d.tally.moved(fetcher.Progress{Sources: []fetcher.Source{{Peer: "p", BadBlocks: 2}}}, fetcher.Progress{At: now, Sources: []fetcher.Source{{Peer: "p", BadBlocks: 5}}})
	if text := scraped(t, d); !strings.Contains(text, "fetcher_bad_blocks_total 5") || !strings.Contains(text, `fetcher_fetching_entries{wait="room"} 0`) {
		t.Error(text)
	}
}

func TestFiguresTellWhatHappened(t *testing.T) {
	t.Parallel()
	content := large(3)
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, content, t.TempDir(), "zebra")}})
	got := added(t, b, api.Add{Ticket: served.Ticket})
	until(t, b, got.ID, "here", in(api.Served))
	text := scraped(t, b)
	for _, pattern := range []string{`fetcher_stream_bytes_total\{class="machine",direction="in"\} 3\.1\d+e\+06`, `fetcher_stream_bytes_total\{class="anywhere",direction="in"\} 0`, `fetcher_stream_bytes_total\{class="relay",direction="out"\} 0`, `fetcher_sync_seconds_count [1-9]`,
		`fetcher_sync_seconds_bucket\{le="10"\} [1-9]`} {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("no line %s in\n%s", pattern, text)
		}
	}
	if text := scraped(t, a); !regexp.MustCompile(`fetcher_upload_requests_total\{answer="served"\} [1-9]`).MatchString(text) || !strings.Contains(text, `fetcher_upload_requests_total{answer="refused"} 0`) || !strings.Contains(text, `fetcher_upload_requests{state="waiting"} 0`) {
		t.Errorf("requests of the other node:\n%s", text)
	}
	for _, line := range []string{"fetcher_verified_bytes_total 3.145733e+06", `fetcher_entries{state="served"} 1`, `fetcher_entries{state="failed"} 0`,
		`fetcher_piece_leases_total{event="finished"} 4`, "fetcher_missing_bytes 0", "fetcher_source_rate_bytes_per_second_count 0", "fetcher_source_score_count 0", "fetcher_passes_missing 0", "go_goroutines "} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	history, err := b.History(t.Context(), string(a.node.ID()))
	if err != nil || len(history) != 1 || history[0].Score <= 0 {
		t.Errorf("a source that gave what it should: %+v, %v", history, err)
	}
	for _, secret := range []string{string(a.node.ID()), string(b.node.ID()), served.Share, served.Name} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is a label: a series for each of such would have no bound", secret)
		}
	}
}

// The rate of the node is that of what is being fetched now, and not what it was when a fetch ended.
func TestWhatIsHereHasNoRate(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{file(t, "x", t.TempDir(), "zebra")}})
	k, err := d.keeper(e.ID)
	must(t, err)
	k.mu.Lock()
	k.progress.Rate = 1e6
	k.mu.Unlock()
	if s, err := d.Status(t.Context()); err != nil || s.Rate != 0 || s.Fetching != 0 {
		t.Errorf("a rate of %d, and %d fetched, %v", s.Rate, s.Fetching, err)
	}
}

// Alerts and dashboards use only figures that exist.
func TestWhatIsAskedForIsTold(t *testing.T) {
	t.Parallel()
	text := scraped(t, begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") }))
	for _, at := range []string{"../deploy/prometheus/alerts.yml", "../deploy/grafana/node.json"} {
		b, err := os.ReadFile(at)
		must(t, err)
		names := regexp.MustCompile(`fetcher_[a-z_]+`).FindAllString(string(b), -1)
		if len(names) == 0 {
			t.Errorf("%s asks for nothing", at)
		}
		for _, name := range names {
			if !strings.Contains(text, "# HELP "+strings.TrimSuffix(name, "_bucket")+" ") && name != "fetcher_sources" {
				t.Errorf("%s: nobody tells %s", at, name)
			}
		}
	}
}

// A depot's figures say what it keeps, and name only so many accounts, and no stranger.
func TestADepotTellsItsFigures(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	const peer = "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	_, err := d.AddAccount(t.Context(), api.AddAccount{Name: "zebra", Key: peer, Quota: 1_000_000})
	must(t, err)
	id, err := d.lender.db.Named(t.Context(), "zebra")
	must(t, err)
	now := time.Now()
	_, err = d.lender.db.Hold(t.Context(), now, depot.Ask{Account: id, Request: "r", Share: share.IDOf([]byte("x")), Bytes: 800_000, Until: now.Add(time.Hour), Space: depot.Space{Free: 1 << 30}})
	must(t, err)
	for i := range maxNamed + 5 {
		_, err := d.lender.db.AddAccount(t.Context(), now, fmt.Sprint("idle", i), depot.Terms{MaxLease: time.Hour})
		must(t, err)
	}
	stranger, err := d.lender.db.Admit(t.Context(), now, "12D3stranger", depot.Terms{Quota: 1e6, MaxLease: time.Hour}, 1)
	must(t, err)
	_, err = d.lender.db.Hold(t.Context(), now, depot.Ask{Account: stranger, Request: "r", Share: share.IDOf([]byte("x")), Bytes: 800_000, Until: now.Add(time.Hour), Space: depot.Space{Free: 1 << 30}})
	must(t, err)
	text := scraped(t, d)
	if n := strings.Count(text, "fetcher_depot_account_bytes{"); n != maxNamed+1 {
		t.Errorf("%d accounts have a series", n)
	}
	for _, line := range []string{`fetcher_depot_leases{state="coming"} 2`, `fetcher_depot_leases{state="stable"} 0`, "fetcher_depot_removable_bytes 0", `fetcher_depot_account_bytes{account="zebra"} 800000`,
		`fetcher_depot_account_bytes{account="others"} 800000`, `fetcher_depot_is{how="taking"} 1`, `fetcher_depot_shares{state="coming"} 1`, `fetcher_depot_bytes{state="coming"} 800000`, `fetcher_depot_shares{state="stable"} 0`, "fetcher_depot_leased_bytes 1.6e+06",
		"fetcher_depot_quota_bytes 2e+06", `fetcher_depot_account_quota_used_bucket{le="0.75"} 0`, `fetcher_depot_account_quota_used_bucket{le="0.9"} 2`, `fetcher_depot_is{how="away"} 0`,
		`fetcher_depot_is{how="collecting"} 0`, "fetcher_depot_share_age_weeks_bucket"} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, `="stranger`) || strings.Contains(text, peer) {
		t.Error("a peer is a label")
	}
}

func TestTheHistoryOfPeersIsBounded(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	y, now := newTally(), time.Unix(1e9, 0)
	for i := range maxStandings + 10 {
		y.child(fetcher.Child{Share: share.IDOf(nil), Peer: peers.ID(rune(i)), Bytes: 5, Since: now, At: now.Add(time.Duration(i) * time.Second), State: fetcher.ChildTakes})
	}
	if len(y.history) != maxStandings || y.moments(peers.ID(rune(0)), now) != nil || y.moments(peers.ID(rune(20)), now) == nil {
		t.Errorf("%d peers are remembered", len(y.history))
	}
	last := peers.ID(rune(maxStandings + 9))
	for i := range 2 * maxMoments {
		now = now.Add(momentEvery)
		y.child(fetcher.Child{Share: share.IDOf(nil), Peer: last, Bytes: int64(10 + i), Since: time.Unix(1e9, 0), At: now})
		of := func(n int) fetcher.Progress {
			return fetcher.Progress{At: now, Sources: []fetcher.Source{{Peer: "another"}, {Peer: last, Bytes: int64(7 * n), Rate: 50, BadBlocks: 2 * n,
				Failures: fetcher.Failures{Bad: n, Late: 2 * n, None: 3 * n, Lost: 4 * n}}}}
		}
		y.moved(of(i), of(i+1))
		y.moment(now, map[peers.ID]float64{last: 2.5})
	}
	m := y.moments(last, now)
	if len(m) != maxMoments+1 || m[5].OutBytes != 1 || m[5].InBytes != 7 || m[5].Rate != 50 || m[5].Score != 2.5 || m[5].BadBlocks != 2 || m[5].Failures != (fetcher.Failures{Bad: 1, Late: 2, None: 3, Lost: 4}) || now.Sub(m[0].At) >= 24*time.Hour {
		t.Errorf("%d moments, one of which is %+v", len(m), m[5])
	}
	if m := y.moments("another", now); m[5].Score != 1 {
		t.Errorf("a peer that nobody rated has the score %v", m[5].Score)
	}
	if m[5].Set != "" || m[5].Child != 0 {
		t.Errorf("a child that is in no set: %+v", m[5])
	}
	y.child(fetcher.Child{Share: share.IDOf(nil), Peer: last, At: now, Standing: peers.Standing{ID: last, Set: peers.Passive, Score: 0.25}})
	y.moment(now, nil)
	if m := y.moments(last, now); m[maxMoments-1].Set != "passive" || m[maxMoments-1].Child != 0.25 || m[maxMoments].Set != "" {
		t.Errorf("a passive child: %+v", m[maxMoments-1:])
	}
	if len(y.history) != 2 { // with the other source
		t.Errorf("%d peers that nobody has seen for 24 hours are remembered", len(y.history)-2)
	}
}

// An entry shows how many others take it, and changes of that are published.
func TestAnEntryHasItsChildren(t *testing.T) {
	t.Parallel()
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, large(3), t.TempDir(), "zebra")}})
	cursor := a.Feed().From("")
	got := added(t, b, api.Add{Ticket: served.Ticket, LimitDown: 64 << 10})
	until(t, b, got.ID, "taken from the other node", func(api.Entry) bool {
		counted(a)
		e, err := a.Entry(t.Context(), served.ID)
		must(t, err)
		return e.Children == 1
	})
	for {
		e, ok, _, _ := cursor.Next()
		if !ok {
			t.Fatal("nothing tells that somebody takes it")
		}
		if e.Entry.Children == 1 {
			break
		}
	}
}

func TestWhatChildrenTookIsCountedOnce(t *testing.T) {
	t.Parallel()
	y, now := newTally(), time.Unix(1e9, 0)
	c := fetcher.Child{Share: share.IDOf(nil), Peer: "p", Since: now, At: now, State: fetcher.ChildTakes}
	say := func(bytes int64, s fetcher.ChildState) {
		c.Bytes, c.State = bytes, s
		y.child(c)
	}
	y.child(fetcher.Child{Share: c.Share, Peer: "another", Since: now, At: now, State: fetcher.ChildTakes})
	say(5, fetcher.ChildTakes)
	if n := y.taking(c.Share); n != 2 {
		t.Errorf("two take it, and %d are counted", n)
	}
	say(9, fetcher.ChildTakes)
	say(12, fetcher.ChildDone)
	say(9, fetcher.ChildTakes) // a list that was requested before
	gone := y.gone()
	say(12, fetcher.ChildTakes)
	say(12, fetcher.ChildDone)
	y.forget(gone)
	if got := y.take()[c.Share]; got != 12 || y.totals().sent != 12 || len(y.children) != 1 || y.taking(c.Share) != 1 {
		t.Errorf("12 bytes were sent, and %d counted; %d children are remembered, %d take it", got, len(y.children), y.taking(c.Share))
	}
	c.Since = now.Add(time.Second) // it comes again
	say(3, fetcher.ChildLeft)
	if n := y.taking(c.Share); n != 1 {
		t.Errorf("one takes it, and %d are counted", n)
	}
	if got := y.take()[c.Share]; got != 3 {
		t.Errorf("3 more were sent, and %d counted", got)
	}
}

// A depot that has less room than it is to leave is full, not one of which nothing is known.
func TestUsableSpaceOfADepot(t *testing.T) {
	for want, d := range map[int64]api.Depot{-1: {Free: -1, Reserve: 5}, 0: {Free: 3, Reserve: 5}, 4: {Free: 9, Reserve: 5}} {
		if got := usable(d); got != want {
			t.Errorf("%+v: %d, want %d", d, got, want)
		}
	}
}
