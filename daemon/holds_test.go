package daemon

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// A refusal is shown with the room that is left, as long as it is the last answer.
func TestAStandingHoldSaysTheRoomThatIsLeft(t *testing.T) {
	t.Parallel()
	r := &fetcher.HoldRefused{Reason: fetcher.HoldOverQuota, Room: 17_000_000}
	h := fetcher.HoldStanding{Hold: renewal.Hold{Key: renewal.Key{Depot: "d"}}, Why: r.Error()}
	l := fetcher.HoldList{Errs: map[renewal.Key]error{h.Key: r}}
	if got := standingWhy(l, h); !strings.Contains(got, "more of the quota than the 17.0 MB that is left") {
		t.Error(got)
	}
	if h.Why = "it does not answer"; standingWhy(l, h) != h.Why {
		t.Error(standingWhy(l, h))
	}
}

// The passes missing for the first unpaid lease are shown, and for each later one what it needs
// besides.
func TestWhatPassesAreMissingForIsSaid(t *testing.T) {
	t.Parallel()
	due := func(depot string, units int64) renewal.Due {
		return renewal.Due{Key: renewal.Key{Depot: peers.ID(depot)}, Units: units}
	}
	stock := []purse.Stock{{Depot: "a", Units: 3, Reserved: 1, Ordered: 1, Bad: 100}}
	got := lacking([]renewal.Due{due("a", 4), due("a", 4), due("b", 2), due("a", 5)}, stock)
	if want := []renewal.Due{due("a", 3), due("b", 2), due("a", 5)}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := lacking([]renewal.Due{due("a", 5)}, stock); got != nil {
		t.Errorf("%+v", got)
	}
}

// What is released is each version that a depot has, and not one that never was there.
func TestAReleaseIsOfTheVersionThatIsThere(t *testing.T) {
	t.Parallel()
	old, next, other := share.IDOf([]byte("old")), share.IDOf([]byte("next")), share.IDOf([]byte("other"))
	hold := func(depot string, x share.ID, want int64, granted bool) fetcher.HoldStanding {
		h := fetcher.HoldStanding{Hold: renewal.Hold{Key: renewal.Key{Depot: peers.ID(depot), Share: x}, Want: want}}
		if granted {
			h.Expires = time.Unix(1e9, 0)
		}
		return h
	}
	also := hold("b", old, 2, true)
	also.Also = []int64{1}
	l := fetcher.HoldList{Wants: []fetcher.Hold{{ID: 1, Share: next}, {ID: 2, Share: other}},
		Holds: []fetcher.HoldStanding{hold("a", next, 1, false), hold("a", old, 1, true), also, hold("a", other, 2, true)}}
	if got := toRelease(l, next, nil); len(got) != 2 || got[0].Key != l.Holds[1].Key || got[1].Key != also.Key {
		t.Errorf("%+v", got)
	}
	l.Holds = l.Holds[:1]
	if got := toRelease(l, next, nil); len(got) != 1 {
		t.Errorf("what never was there cannot be released: %+v", got)
	}
	l = fetcher.HoldList{Wants: []fetcher.Hold{{ID: 1, Share: next, Fleet: true}}, Holds: []fetcher.HoldStanding{hold("a", next, 1, true), hold("b", next, 1, false)}}
	if got := toRelease(l, next, nil); len(got) != 2 {
		t.Errorf("other members may have it there: %+v", got)
	}
}

// What a depot refuses to release stands, and is asked about each time.
func TestWhatADepotRefusesToReleaseIsNotReleased(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	a := begun(t, t.TempDir())
	peer := string(a.node.ID())
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: peer, Quota: 1e9})
	must(t, err)
	e := added(t, a, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "film")}})
	at := depot.node.Addrs()[0]
	if held, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{at, at}}); err != nil || len(held) != 1 {
		t.Fatalf("at a depot that was named twice: %+v, %v", held, err)
	}
	_, err = depot.SetAccount(t.Context(), "me", api.SetAccount{RemoveKey: peer})
	must(t, err)
	if got, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: depot.node.Addrs()[:1]}); !errors.Is(err, share.ErrNotAllowed) || !strings.Contains(err.Error(), "The lease of film there lasts 31 d more") {
		t.Errorf("asked again, it says %+v, %v", got, err)
	}
	for range 2 { // as the first time, it is asked
		got, err := a.Release(t.Context(), api.Release{Share: e.Share})
		if !errors.Is(err, share.ErrNotAllowed) || !strings.Contains(err.Error(), "refuses: it does not know this node") || !strings.Contains(err.Error(), "nothing was released") ||
			!strings.Contains(err.Error(), `with "fetcher depot account set"`) { // a new account would not have the lease
			t.Errorf("released %+v, %v", got, err)
		}
		all, err := a.StandingHolds(t.Context())
		if err != nil || len(all) != 1 || !all[0].Ending || all[0].State == "missing" || all[0].Left < 24*3600 || !strings.Contains(all[0].Why, "does not know this node") {
			t.Errorf("%+v, %v", all, err)
		}
	}
	if got, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: depot.node.Addrs()[:1]}); !errors.Is(err, share.ErrNotAllowed) {
		t.Errorf("asked again, it says %+v, %v", got, err)
	}
	if all, err := a.StandingHolds(t.Context()); err != nil || len(all) != 1 || !all[0].Ending {
		t.Errorf("a hold that was refused takes back a release: %+v, %v", all, err)
	}
	if _, err := a.Holdings(t.Context(), depot.node.Addrs()[0]); err == nil || !strings.Contains(err.Error(), `"fetcher depot account set"`) {
		t.Errorf("%v", err)
	}
	if _, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "starter", Key: peer, Quota: 1e9}); err == nil || !strings.Contains(err.Error(), "finds on its disk: choose another name") {
		t.Errorf("an account of the name of the depot's own: %v", err)
	}
	for lease, want := range map[string]string{"1ms": "at least 1 s", "40000d": "at most 36600d", "soon": "give a time such as"} {
		if _, err := depot.AddAccount(t.Context(), api.AddAccount{Key: peer, MaxLease: lease}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("leases of %s: %v", lease, err)
		}
	}
	if _, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: peer, Quota: 1e9}); err == nil || !strings.Contains(err.Error(), "fetcher depot account set adds a key") {
		t.Errorf("%v", err)
	}
	_, err = depot.SetAccount(t.Context(), "me", api.SetAccount{AddKey: peer})
	must(t, err)
	got, err := a.Release(t.Context(), api.Release{Share: e.Share})
	if err != nil || len(got) != 1 || got[0].State != "none" || got[0].Name != "film" {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := depot.Leases(t.Context(), "me", "", 9); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Each depot that was asked says what it refuses, also one in whose place another was asked; the kind is the first in the order of the exit codes.
func TestEachDepotSaysWhatItRefuses(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	small, strange := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") }), begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	a := begun(t, t.TempDir())
	_, err := small.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(a.node.ID()), Quota: 1e4})
	must(t, err)
	e := added(t, a, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "film")}})
	for copies := range 2 {
		_, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{strange.node.Addrs()[0], small.node.Addrs()[0]}, Copies: copies})
		if !errors.Is(err, share.ErrDiskFull) || api.ProblemOf(err).Code != "disk_full" || !strings.Contains(err.Error(), "more of the quota") || !strings.Contains(err.Error(), "\nthe depot "+small.node.ID().Short()) || !strings.Contains(err.Error(), "it does not know this node") {
			t.Errorf("%d copies: %v", copies, err)
		}
	}
}

// A depot that is at another address is asked there by whatever names that.
func TestADepotIsAskedWhereItIsNamed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "depot")
	start := func() *Daemon {
		return begun(t, dir, func(c *Config) {
			c.Depot, c.Listen = kept, []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t))}
		})
	}
	depot, a := start(), begun(t, t.TempDir())
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(a.node.ID()), Quota: 1e9})
	must(t, err)
	e := added(t, a, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "film")}})
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: depot.node.Addrs()[:1]})
	must(t, err)
	for name, ask := range map[string]func(at string) error{
		"hold": func(at string) error {
			_, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{at}})
			return err
		},
		"holdings": func(at string) error { _, err := a.Holdings(t.Context(), at); return err },
	} {
		must(t, depot.Close())
		depot = start()
		at := depot.node.Addrs()[0]
		if err := ask(at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := a.StandingHolds(t.Context()); err != nil || len(all) != 1 || all[0].Addr != at {
			t.Errorf("%s at %s: %+v, %v", name, at, all, err)
		}
	}
	must(t, depot.Close())
	depot = start()
	if got, err := a.Release(t.Context(), api.Release{Share: e.Share, Depot: depot.node.Addrs()[0]}); err != nil || len(got) != 1 || got[0].State != "none" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Where a depot keeps the version before one that it lacks, the warning says so.
func TestAWarningSaysThatTheVersionBeforeIsKept(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	old := fetcher.HoldStanding{Hold: renewal.Hold{Key: renewal.Key{Depot: "d", Share: share.IDOf([]byte("old"))}, Want: 1}, Left: 31 * day, Kept: true}
	late := fetcher.HoldStanding{Hold: renewal.Hold{Key: renewal.Key{Depot: "d", Share: share.IDOf([]byte("new"))}, Want: 1, Since: time.Unix(1e9, 0)}, Why: "5 passes are missing"}
	others := false
	text := func() string {
		return lateText(late, earlierOf(fetcher.HoldList{Holds: []fetcher.HoldStanding{old, late}}, late), "photos", others)
	}
	said := func(want string) {
		t.Helper()
		if got := text(); got != want {
			t.Errorf("%q", got)
		}
	}
	said("the depot d keeps only the earlier version of photos, for 31 d more, and lacks the present one: 5 passes are missing")
	old.Want = 2 // of something else
	said("the depot d does not keep photos yet: 5 passes are missing")
	others = true
	said("it is not known here whether the depot d keeps photos: 5 passes are missing")
	others = false
	late.Expires = late.Since
	said("the lease of photos at the depot d, which may remove the share, ended on " + late.Since.Local().Format("2006-01-02 15:04") + ", and was not renewed: 5 passes are missing")
	late.State = renewal.Missing
	said("the depot d does not keep photos any more, and the lease was not renewed: 5 passes are missing")
	late.Left = time.Hour
	said("the lease of photos at the depot d ends in 60 min, and was not renewed: 5 passes are missing")
	late.Why = "the depot d refuses: its disk has only 5 MB left"
	said("the lease of photos at the depot d ends in 60 min, and was not renewed: the depot refuses: its disk has only 5 MB left")
	late.Why = "it does not answer: it closed the connection"
	said("the lease of photos at the depot d ends in 60 min, and was not renewed: the depot does not answer: it closed the connection")
}

// Nobody knows what a depot has whose lease ended while it was away; what it was never asked for has no lease that ends.
func TestALeaseThatHasEndedIsLapsed(t *testing.T) {
	t.Parallel()
	ended := time.Unix(1e9, 0)
	for i, c := range []struct {
		renewal.Hold
		left time.Duration
		want string
	}{
		{renewal.Hold{State: renewal.Stable, Expires: ended}, 0, "lapsed"},
		{renewal.Hold{State: renewal.Coming, Expires: ended}, 0, "lapsed"},
		{renewal.Hold{State: renewal.Stable, Expires: ended}, time.Millisecond, "stable"},
		{renewal.Hold{State: renewal.Missing, Expires: ended}, 0, "missing"},
		{renewal.Hold{State: renewal.Unknown, Expires: ended}, 0, "unknown"},
		{renewal.Hold{State: renewal.Coming}, 0, "coming"},
	} {
		if got := stateOf(fetcher.HoldStanding{Hold: c.Hold, Left: c.left}); got != c.want {
			t.Errorf("%d: %s, not %s", i, got, c.want)
		}
		counted := map[string]float64{}
		holdMetrics(func(d *prometheus.Desc, v float64, labels ...string) { counted[strings.Join(labels, "")] += v }, fetcher.HoldList{Holds: []fetcher.HoldStanding{{Hold: c.Hold, Left: c.left, Kept: true}}})
		if _, told := counted["lapsed"]; counted[c.want] != 1 || !told {
			t.Errorf("%d: the metrics have %v", i, counted)
		}
	}
}

// What was never at a depot, and a lease that has ended, are not among those that are renewed.
func TestOnlyLeasesThatLastAreCounted(t *testing.T) {
	t.Parallel()
	ended, ends := time.Unix(1e9, 0), time.Unix(2e9, 0)
	l := fetcher.HoldList{Holds: []fetcher.HoldStanding{{Kept: true}, {Hold: renewal.Hold{Expires: ended}, Kept: true}, {Hold: renewal.Hold{Expires: ends}, Kept: true, Left: time.Hour}, {Hold: renewal.Hold{Expires: ends}, Left: time.Hour}}}
	var s api.Status
	if countHolds(l, &s); s.Holds != 1 || s.Unheld != 2 || s.HoldEnds != ends {
		t.Errorf("%+v", s)
	}
	seen := map[string]float64{}
	holdMetrics(func(d *prometheus.Desc, v float64, _ ...string) { seen[d.String()] = v }, fetcher.HoldList{Holds: []fetcher.HoldStanding{l.Holds[0], l.Holds[2]}})
	if got := seen[descHoldEnds.String()]; got != 3600 {
		t.Errorf("the first lease ends in %v", got)
	}
}

// Waiting is no advice where a month's budget never suffices.
func TestWhoeverIsOverTheBudgetIsToldWhatHelps(t *testing.T) {
	t.Parallel()
	for units, helps := range map[int64]bool{3: true, 9: false} {
		err := heldError("depot", &renewal.BudgetError{Budget: 5, Left: 1, Units: units, Until: time.Now()})
		if !errors.Is(err, share.ErrNotAllowed) || !strings.Contains(err.Error(), "the lease costs ") || !strings.Contains(err.Error(), "raise the budget") || strings.Contains(err.Error(), "or wait") != helps {
			t.Errorf("%d passes: %v", units, err)
		}
	}
	if err := heldError("depot", fetcher.ErrNoDepot); !errors.Is(err, share.ErrNetwork) || !strings.Contains(err.Error(), "Name a node") {
		t.Errorf("not a depot: %v", err)
	}
}

// A depot keeps what is a fleet's under one account: an account for each member would not have it.
func TestAMemberIsLetInWithTheAccountOfItsFleet(t *testing.T) {
	t.Parallel()
	for advice, l := range map[string]fetcher.HoldList{
		`"fetcher depot account add"`:                {Wants: []fetcher.Hold{{Fleet: true, Depots: []peers.ID{"another"}}, {Depots: []peers.ID{"depot"}}}},
		`to the keys of that account with "fetcher `: {Wants: []fetcher.Hold{{Fleet: true, Depots: []peers.ID{"depot"}}}},
	} {
		err := lenderError(l, "depot", &fetcher.HoldRefused{Reason: fetcher.HoldUnknownAccount})
		if !errors.Is(err, share.ErrNotAllowed) || !strings.Contains(err.Error(), advice) {
			t.Errorf("no %q in %v", advice, err)
		}
	}
}

// While a depot is waited for that does not answer, other entries are added, served and removed.
func TestAHoldThatWaitsHoldsUpNoEntry(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	end := heldUp(t, d, e.ID)
	song := added(t, d, api.Add{Paths: []string{file(t, "song", t.TempDir(), "song")}})
	until(t, d, song.ID, "served", in(api.Served))
	_, err := d.Remove(t.Context(), song.ID, false)
	must(t, err)
	end()
}

// A hold that cannot be written is refused, at once, and is not there once others can be written.
func TestAHoldThatCannotBeWrittenIsSaid(t *testing.T) {
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	dir := t.TempDir()
	d := begun(t, dir)
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e9})
	must(t, err)
	film := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	song := added(t, d, api.Add{Paths: []string{file(t, "song", t.TempDir(), "song")}})
	execCatalog(t, dir, `CREATE TRIGGER full BEFORE INSERT ON hold_wants BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	if _, err = d.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: depot.node.Addrs()[:1]}); err == nil || !strings.Contains(err.Error(), "could not be written: ") {
		t.Error(err)
	}
	execCatalog(t, dir, `DROP TRIGGER full`)
	_, err = d.Hold(t.Context(), api.Hold{Entry: song.ID, Depots: depot.node.Addrs()[:1]})
	must(t, err)
	stands(t, d, "the song alone", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].Share == song.Share })
}

// execCatalog runs SQL on the catalog of a state directory beside the node.
func execCatalog(t *testing.T, dir, query string) {
	t.Helper()
	c, err := sqlite.OpenConn(filepath.Join(dir, "catalog.db"), sqlite.OpenReadWrite)
	must(t, err)
	defer c.Close()
	must(t, sqlitex.ExecuteScript(c, query, nil))
}

// What two requests have a depot keep is released as one: no kill leaves half of it, which would be renewed and paid.
func TestAShareIsReleasedAsOne(t *testing.T) {
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	dir := t.TempDir()
	d := begun(t, dir)
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e9})
	must(t, err)
	film := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	for _, pin := range []bool{false, true} {
		_, err := d.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: depot.node.Addrs()[:1], Pin: pin})
		must(t, err)
	}
	execCatalog(t, dir, `CREATE TRIGGER half BEFORE INSERT ON hold_depots WHEN (SELECT count(*) FROM hold_wants) = 1 BEGIN SELECT RAISE(ABORT, 'half of it'); END`)
	got, err := d.Release(t.Context(), api.Release{Share: film.Share})
	if err != nil || len(got) != 1 || got[0].State != "none" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A request that is refused, and cannot be taken back on the disk, says so: it would be there after a kill.
func TestAHoldThatCannotBeTakenBackIsSaid(t *testing.T) {
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	dir := t.TempDir()
	d := begun(t, dir) // which has no account there
	film := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	execCatalog(t, dir, `CREATE TRIGGER full BEFORE DELETE ON hold_wants BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	_, err := d.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: depot.node.Addrs()[:1]})
	if err == nil || !strings.Contains(err.Error(), "the request is in force again after the restart") {
		t.Error(err)
	}
}
