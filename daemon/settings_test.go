package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
)

const everySetting = `
into = "/srv/shares"
listen = ["4001"]
announce = ["/dns4/example.org/tcp/4001"]
via = ["/ip4/1.2.3.4/tcp/1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"]
map-port = true
proxy = "socks5://127.0.0.1:1080"
relay = true
beacon = true
beacon-at = ["/ip4/1.2.3.4/tcp/1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"]
dht = ["own"]
lan = false
relay-carries = "1G"
limit-up = "10M"
limit-down = "500K"
fetches = 7
rescan = "30m"
depot = "/srv/depot"
depot-reserve = "10G"
depot-open = "1G"
depot-grace = "7d"
depot-price = "passes"
fleet = "nats://10.0.0.5/ours"
fleet-secret = "/s"
name = "office"
socket = "/run/fetcher/node.sock"
http = "127.0.0.1:4820"
http-hosts = ["nas.example:4820"]
http-cert = "/c"
http-key = "/k"
http-insecure = true

[[limits]]
days = ["mon", "Fri"]
from = "08:30"
to = "24:00"
up = "1M"
down = "2M"

[[limits]]
from = "22:00"
to = "06:00"
`

func TestEverySettingIsRead(t *testing.T) {
	t.Parallel()
	s, err := parseSettings([]byte(everySetting))
	want := Settings{Into: "/srv/shares", Listen: []string{"4001"}, Announce: []string{"/dns4/example.org/tcp/4001"}, Up: 1e7, Down: 5e5, Fetches: 7,
		Via: []string{"/ip4/1.2.3.4/tcp/1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"}, MapPort: true, Proxy: "socks5://127.0.0.1:1080", Relay: true, Beacon: true, BeaconAt: []string{"/ip4/1.2.3.4/tcp/1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"}, RelayCarries: 1e9, DHT: []string{"own"}, NoLAN: true,
		Depot: "/srv/depot", Reserve: 1e10, DepotOpen: 1e9, DepotPaid: true, DepotGrace: 7 * 24 * time.Hour, Fleet: "nats://10.0.0.5/ours", FleetSecret: "/s", Name: "office", Rescan: 30 * time.Minute, Socket: "/run/fetcher/node.sock", HTTP: "127.0.0.1:4820", Hosts: []string{"nas.example:4820"}, Cert: "/c", Key: "/k", Insecure: true,
		Schedule: []Slot{{Days: []time.Weekday{time.Monday, time.Friday}, From: 8*time.Hour + 30*time.Minute, To: 24 * time.Hour, Up: 1e6, Down: 2e6},
			{From: 22 * time.Hour, To: 6 * time.Hour}}}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v; want\n%+v", s, err, want)
	}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s cannot be set in the file", v.Type().Field(i).Name)
		}
	}
}

func TestSettingsThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"fetches = \"x\"":                                      "line 1",
		"\nfetchs = 1":                                         `line 2: there is no setting "fetchs"`,
		"depot-reserve = \"much\"":                             "depot-reserve: \"much\" is not a size: give bytes as a number with K, M, G or none of them, such as 500K or 10M, and at most 1000000G",
		"depot-price = \"gold\"":                               "depot-price",
		"depot-open = \"much\"":                                "depot-open",
		"depot-grace = \"soon\"":                               "depot-grace",
		"depot-grace = \"10ms\"":                               "depot-grace: give a time from 1 s to 366 d",
		"depot-grace = \"367d\"":                               "depot-grace: give a time from 1 s to 366 d",
		"limit-up = \"fast\"":                                  "limit-up",
		"limit-down = \"1\"":                                   "limit-down: a limit is at least 1024 bytes per second, and \"1\" is 1",
		"limit-up = \"1K\"":                                    "limit-up: a limit is at least 1024 bytes per second, and \"1K\" is 1000",
		"limit-up = \"1T\"":                                    "limit-up: \"1T\" is not a limit: give bytes per second as a number with K, M, G or none of them, such as 500K or 10M, and at most 1000000G",
		"rescan = \"often\"":                                   "rescan: give a time such as 30s, 36h or 7d, not \"often\"",
		"rescan = \"1ms\"":                                     "rescan: give a time from 1 s to 366 d",
		"name = \"a\\tb\"":                                     "name: it must have at most 64 bytes and no control characters, not \"a\\tb\"",
		"limits = 3":                                           "line 1 cannot be read: limits takes tables, each under a line [[limits]]",
		"limit-up = \"5":                                       "line 1 cannot be read: the text lacks the quotation mark at its end",
		"limit-up = '5\n":                                      "line 1 cannot be read: the text lacks the quotation mark at its end",
		"[[limits]]\ndays = [\"monday\"]":                      "limits, number 1: a day is one of",
		"[[limits]]\nup = \"1M\"":                              "limits, number 1: from and to are missing: limits apply from one time of day to another, as in from = \"08:00\"",
		"[[limits]]\nfrom = \"08:00\"":                         "limits, number 1: to is missing",
		"[[limits]]\nto = \"08:00\"":                           "limits, number 1: from is missing",
		"via = [\"x\"]":                                        `via: "x" is not an address of a relay`,
		"announce = [\"x\"]":                                   `announce: "x" is not an address to announce`,
		"listen = [\"x\"]":                                     `listen: "x" is not an address to listen on`,
		"[[limits]]\nfrom = \"8\"\nto = \"09:00\"":             "from: give a time of day such as 08:30",
		"[[limits]]\nfrom=\"08:00\"\nto=\"25:00\"":             "to: give a time of day such as 08:30",
		"[[limits]]\nfrom=\"08:00\"\nto=\"09:00\"\nup=\"x\"":   "up: \"x\" is not a limit",
		"[[limits]]\nfrom=\"08:00\"\nto=\"09:00\"\ndown=\"x\"": "down: \"x\" is not a limit",
		"limit-down = 5":                                       "line 1 cannot be read: limit-down takes text in quotes, as in limit-down = \"...\"",
		"\nlimit-up = nonsense":                                "line 2 cannot be read: limit-up takes text in quotes",
		"listen = [\n4001":                                     "line 2 cannot be read: ",
		"into = \"C:\\srv\"":                                   "line 1 cannot be read: invalid escape",
		"listen = [4001]":                                      "line 1 cannot be read: listen takes a list of texts in quotes",
		"[[limits]]\nfrom = 800":                               "line 2 cannot be read: from takes text in quotes, as in from = ",
		"limit-up = \"1K\"\nlimit-up = \"2K\"":                 "line 2 cannot be read: key limit-up is already defined",
		"fetches = 5\nfetches = 5":                             "line 2 cannot be read: key fetches is already defined",
		"[[limits]]\ndays = mon":                               "line 2 cannot be read: days takes a list of texts in quotes",
		"into = \"rel\"":                                       "into: it must be a path from the root, such as /srv/x, not \"rel\"",
		"depot = \"rel\"":                                      "depot: it must be a path from the root",
		"fetches = -1":                                         "fetches is -1",
		"proxy = \"nonsense\"":                                 "proxy: a proxy is written socks5://",
		"dht = [\"ipfs\"]":                                     `dht: "ipfs" is neither "own" nor "public"`,
		"beacon-at = [\"zz\"]":                                 "beacon-at: beacon \"zz\" is not a multiaddr",
		"[into]\nx = 1":                                        "line 1 cannot be read: into has a value of the wrong kind",
		"relay = true\nrelay = false":                          "line 2 cannot be read: key relay is already defined",
		"fetches = \"x\"\n=":                                   "line 1 cannot be read: fetches takes a whole number, without quotes",
		"=":                                                    "line 1",
	} {
		if _, err := parseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct field") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	large := file(t, strings.Repeat("#", maxFile+1), t.TempDir(), "node.toml")
	if _, err := ReadSettings(large); err == nil {
		t.Error("a file of any size is read")
	}
	if s, err := ReadSettings(large + "x"); err != nil || !reflect.DeepEqual(s, Settings{}) {
		t.Errorf("no file: %+v, %v", s, err)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(everySetting))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSettings(b); err == nil {
			limitsAt(rates{}, s.Schedule, time.Unix(1e9, 0))
		}
	})
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for what, s := range map[string]Settings{
		"up": {Up: 1}, "down": {Down: -1}, "fetches": {Fetches: 1001}, "rescan": {Rescan: time.Millisecond}, "into": {Into: "x"}, "socket": {Socket: "x"}, "machine": {Name: strings.Repeat("x", 65)}, "control": {Name: "a\nb"},
		"http": {HTTP: "4820"}, "name": {HTTP: "example.org:4820"}, "public": {HTTP: "0.0.0.0:4820"}, "half": {HTTP: "127.0.0.1:1", Cert: "c"},
		"no relay": {RelayCarries: 1 << 30}, "carries": {Relay: true, RelayCarries: 1000},
		"hosts without http": {Hosts: []string{"foo"}}, "certificate without http": {Cert: "c", Key: "k"}, "key without http": {Key: "k"}, "insecure without http": {Insecure: true},
	} {
		if _, err := s.withDefaults("/"); err == nil || s.Validate() == nil || strings.Contains(what, "without") && !strings.Contains(err.Error(), "set http too") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, s := range map[string]Settings{
		"loopback": {HTTP: "[::1]:4820"}, "localhost": {HTTP: "localhost:0"}, "insecure": {HTTP: "0.0.0.0:4820", Insecure: true},
		"TLS": {HTTP: "192.0.2.1:4820", Cert: "c", Key: "k"},
	} {
		if _, err := s.withDefaults("/"); err != nil || s.Validate() != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func at(day time.Weekday, clock string) time.Time {
	h, err := parseClock(clock)
	if err != nil {
		panic(err)
	}
	return time.Date(2023, 1, 1+int(day), 0, 0, 0, 0, time.UTC).Add(h) // the 1st was a Sunday
}

func TestLimitsByTheSchedule(t *testing.T) {
	t.Parallel()
	base := rates{9, 9}
	slots := []Slot{{Days: []time.Weekday{time.Monday}, From: 8 * time.Hour, To: 18 * time.Hour, Up: 1, Down: 2},
		{Days: []time.Weekday{time.Friday}, From: 22 * time.Hour, To: 6 * time.Hour, Up: 3, Down: 4}}
	for _, x := range []struct {
		now  time.Time
		want rates
		next time.Time
	}{
		{at(time.Monday, "07:59"), base, at(time.Monday, "08:00")},
		{at(time.Monday, "08:00"), rates{1, 2}, at(time.Monday, "18:00")},
		{at(time.Monday, "18:00"), base, at(time.Monday, "22:00")},
		{at(time.Tuesday, "12:00"), base, at(time.Tuesday, "18:00")},
		{at(time.Friday, "23:00"), rates{3, 4}, at(time.Saturday, "00:00")},
		{at(time.Saturday, "05:59"), rates{3, 4}, at(time.Saturday, "06:00")},
		{at(time.Saturday, "06:00"), base, at(time.Saturday, "08:00")},
		{at(time.Saturday, "23:00"), base, at(time.Sunday, "00:00").AddDate(0, 0, 7)},
	} {
		got, scheduled, next := limitsAt(base, slots, x.now)
		if got != x.want || scheduled != (got != base) || !next.Equal(x.next) {
			t.Errorf("%s: %v, %v until %s; want %v until %s", x.now, got, scheduled, next, x.want, x.next)
		}
	}
	if _, _, next := limitsAt(base, nil, time.Now()); !next.IsZero() {
		t.Errorf("without a schedule, look again at %s", next)
	}
}

func TestTheNextLookIsNeverLate(t *testing.T) {
	t.Parallel()
	slots := []Slot{{From: 2*time.Hour + 30*time.Minute, To: 3*time.Hour + 30*time.Minute, Up: 1}, {Days: []time.Weekday{time.Monday}, From: 23 * time.Hour, To: 7 * time.Hour, Up: 2}}
	now := time.Date(2023, 3, 25, 0, 0, 0, 0, time.UTC)
	for now.Day() != 28 {
		r, _, next := limitsAt(rates{}, slots, now)
		if !next.After(now) {
			t.Fatalf("at %s look again at %s", now, next)
		}
		for m := now; m.Before(next); m = m.Add(time.Minute) {
			if x, _, _ := limitsAt(rates{}, slots, m); x != r {
				t.Fatalf("at %s it is %v, and was looked at at %s last", m, x, now)
			}
		}
		now = next
	}
}

func TestAReloadChangesWhatCanChange(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	s := d.setting()
	s.Up, s.Down, s.Fetches, s.Rescan, s.Listen, s.HTTP, s.NoLAN = 5000, 6000, 1, time.Minute, []string{"none"}, "127.0.0.1:1", false
	later, err := d.Reload(s)
	if err != nil || !slices.Equal(later, []string{"http", "lan", "listen"}) {
		t.Errorf("%v, %v", later, err)
	}
	if _, err := d.Add(t.Context(), api.Add{Paths: []string{t.TempDir()}, Visible: "lan"}); err == nil || !strings.Contains(err.Error(), "does not use the local network") {
		t.Errorf("to be found there before the next start: %v", err)
	}
	s.Rescan = time.Hour
	if later, err := d.Reload(s); err != nil || !slices.Equal(later, []string{"http", "lan", "listen"}) {
		t.Errorf("after another: %v, %v", later, err)
	}
	c := d.Feed().From("")
	for l, _ := d.Limits(t.Context()); l.Up != 5000 || l.Down != 6000; l, _ = d.Limits(t.Context()) {
		if _, ok, more, _ := c.Next(); !ok {
			<-more
		}
	}
	up := int64(7000)
	l, err := d.SetLimits(t.Context(), api.SetLimits{Up: &up})
	if now, _ := d.Limits(t.Context()); err != nil || l.Up != 7000 || l.Down != 6000 || now != l {
		t.Errorf("%+v, then %+v, %v", l, now, err)
	}
	for bad, says := range map[int64]string{1: "at least 1.024 kB/s", -1: "at least 1.024 kB/s", 1 << 51: "at most 1126 TB/s"} {
		if _, err := d.SetLimits(t.Context(), api.SetLimits{Down: &bad}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a limit of %d: %v", bad, err)
		}
	}
	if _, err := d.Reload(Settings{Up: 1}); err == nil || !strings.Contains(err.Error(), "limit-up: it must be from 1024 bytes to 1126 TB a second, or 0 for no limit, not 1") {
		t.Errorf("settings out of range: %v", err)
	}
}

// A limit that was set holds across restarts and reloads, until the setting that it stands in place of is changed.
func TestALimitThatWasSetHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(up int64) *Daemon { return begun(t, dir, func(c *Config) { c.Up = up }) }
	is := func(d *Daemon, when string, up, down int64) {
		t.Helper()
		c := d.Feed().From("0-0")
		for end := time.Now().Add(30 * time.Second); ; {
			l, err := d.Limits(t.Context())
			must(t, err)
			if l.Up == up && l.Down == down {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v, not %d and %d", when, l, up, down)
			}
			if _, ok, more, _ := c.Next(); !ok {
				select {
				case <-more:
				case <-time.After(time.Second):
				}
			}
		}
	}
	d := in(5000)
	rate := int64(7000)
	l, err := d.SetLimits(t.Context(), api.SetLimits{Up: &rate, Down: &rate})
	if err != nil || l.Up != 7000 || l.Down != 7000 {
		t.Fatalf("%+v, %v", l, err)
	}
	must(t, d.Close())
	d = in(5000)
	is(d, "after a restart", 7000, 7000)
	reload := func(d *Daemon, up int64) {
		s := d.setting()
		s.Up = up
		if _, err := d.Reload(s); err != nil {
			t.Fatal(err)
		}
	}
	reload(d, 5000)
	is(d, "read again", 7000, 7000)
	reload(d, 6000)
	is(d, "changed", 6000, 7000)
	reload(d, 5000)
	is(d, "changed back", 5000, 7000)
	none := int64(0)
	_, err = d.SetLimits(t.Context(), api.SetLimits{Up: &none})
	must(t, err)
	must(t, d.Close())
	d = in(5000)
	is(d, "without a limit, after a restart", 0, 7000)
	must(t, d.Close())
	d = in(8000)
	is(d, "changed while it did not run", 8000, 7000)
	must(t, d.Close())
	is(in(5000), "changed back", 5000, 7000)
}

func TestTheQueueLetsInByPriorityAndThenByAge(t *testing.T) {
	t.Parallel()
	q := newQueue(1)
	all := make([]waiting, 6)
	for id, p := range []int{0, 0, -1, 1, 0, -1} {
		all[id].id = catalog.ID(id)
		q.enter(&all[id], p)
	}
	q.enter(&all[5], 1)
	q.enter(&all[1], 0) // which changes nothing
	if n, waits := q.before(2); n != 4 || !waits {
		t.Errorf("%d wait before the last, not 4", n)
	}
	if _, waits := q.before(0); waits {
		t.Error("what has a turn waits")
	}
	for _, id := range []int{0, 3, 5, 1, 4, 2} {
		if !hasTurn(&all[id]) {
			t.Errorf("it is not the turn of %d", id)
		}
		q.leave(&all[id])
		q.leave(&all[id]) // once
	}
	q.enter(&all[0], 0)
	q.setMax(2)
	q.enter(&all[1], 0)
	if !hasTurn(&all[1]) {
		t.Error("a wider queue did not let the next in")
	}
	q.leave(&all[0])
	q.leave(&all[1])
	if q.used != 0 || len(q.waits) != 0 {
		t.Errorf("%d in, %d wait", q.used, len(q.waits))
	}
}

func hasTurn(w *waiting) bool {
	select {
	case <-w.turn:
		return true
	default:
		return false
	}
}

// An entry that no longer waits, because it was paused or removed, takes nobody's turn.
func TestWhoGivesUpWaitingTakesNoTurn(t *testing.T) {
	t.Parallel()
	q := newQueue(1)
	first, second := waiting{id: 1}, waiting{id: 2}
	q.enter(&first, 0)
	q.enter(&second, 1)
	q.leave(&second)
	q.leave(&first)
	if _, waits := q.before(2); waits || q.used != 0 {
		t.Errorf("it waits: %v, %d have a turn", waits, q.used)
	}
}

func TestHowLongAnEntryIsServed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	e := catalog.Entry{Status: catalog.Status{Done: now.Add(-time.Hour), Bytes: 100}}
	for _, x := range []struct {
		ratio  float64
		long   time.Duration
		sent   int64
		enough bool
	}{{0, 0, 1e9, false}, {2, 0, 199, false}, {2, 0, 200, true}, {0, time.Hour, 0, true}, {0, time.Hour + 1, 0, false}, {2, 2 * time.Hour, 300, true}} {
		e.SeedRatio, e.SeedTime = x.ratio, x.long
		if why := enough(e, x.sent, now); (why != "") != x.enough {
			t.Errorf("%+v: %q", x, why)
		}
	}
	e.SeedRatio, e.SeedTime, e.Bytes = 1, 0, 0
	if enough(e, 5, now) != "" {
		t.Error("an empty share was sent often enough")
	}
}

func TestSecretsAreKeptAndPrivate(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "token")
	a, err := secretIn(at)
	must(t, err)
	b, err := secretIn(at)
	must(t, err)
	info, err := os.Stat(at)
	must(t, err)
	if a != b || len(a) < 20 || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%d characters, then %d, mode %v", len(a), len(b), info.Mode())
	}
	must(t, os.WriteFile(at, []byte("short"), 0o600))
	if c, err := secretIn(at); err != nil || c == a || len(c) < 20 {
		t.Errorf("in place of a short one: %q, %v", c, err)
	}
}

func TestWhoMayOpenWhichSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	second := filepath.Join(t.TempDir(), "s")
	d := begun(t, dir, func(c *Config) { c.Socket = second })
	for range 2 { // what a killed daemon left is replaced
		l, err := d.Listen()
		must(t, err)
		for at, want := range map[string]os.FileMode{Socket(dir): 0o600, second: 0o660} {
			info, err := os.Stat(at)
			must(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %v, not %v", at, got, want)
			}
			c, err := api.Dial(t.Context(), at)
			must(t, err)
			c.Close()
		}
		for _, u := range l.unix {
			u.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
		}
		l.close()
	}
	for at, want := range map[string]string{"/" + strings.Repeat("x", maxSocket): "its path is 101 bytes long", file(t, "x", t.TempDir(), "f"): "a file of another kind is there"} {
		d := begun(t, t.TempDir(), func(c *Config) { c.Socket = at })
		if _, err := d.Listen(); !errors.Is(err, ErrSettings) || errors.Is(err, fetcher.ErrStateDir) || !strings.Contains(err.Error(), want) {
			t.Errorf("a path that cannot be one: %v", err)
		}
	}
	dir = t.TempDir()
	must(t, os.Mkdir(Socket(dir), 0o700))
	if _, err := begun(t, dir).Listen(); !errors.Is(err, fetcher.ErrStateDir) {
		t.Errorf("a folder in the place of its own: %v", err)
	}
}

// A peer that gives and takes the same share has one entry with this node.
func TestAPeerThatGivesAndTakesAShareCountsItOnce(t *testing.T) {
	t.Parallel()
	one, two := share.IDOf([]byte("1")), share.IDOf([]byte("2"))
	got := peersOf([]fetcher.Child{{Peer: "a", Share: one, Bytes: 5}, {Peer: "b", Share: one, Bytes: 6}},
		map[share.ID][]fetcher.Source{one: {{Peer: "a", Bytes: 7}}, two: {{Peer: "a", Bytes: 8}}})
	if len(got) != 2 || got[0].Entries != 2 || got[0].InBytes != 15 || got[0].OutBytes != 5 || got[1].Entries != 1 {
		t.Errorf("%+v", got)
	}
}
