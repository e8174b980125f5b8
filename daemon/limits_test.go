package daemon

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// Of several entries with one share the lowest limit counts, whichever came last.
func TestTheLowestLimitOfAShareCounts(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		d := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), t.TempDir(), Settings{})
		defer func() { must(t, d.Close()) }()
		for i, up := range []int64{300_000, 100_000, 400_000, 200_000, 500_000} {
			added(t, d, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}, LimitUp: up})
			d.mu.Lock()
			bounds := maps.Clone(d.bounded)
			d.mu.Unlock()
			if want := []int64{300_000, 100_000}[min(i, 1)]; len(bounds) != 1 || !slices.Contains(slices.Collect(maps.Values(bounds)), want) {
				t.Errorf("after a limit of %d: %v, want %d", up, bounds, want)
			}
		}
	})
}

// An entry has limits of its own, for uploads and downloads. They change while it is fetched, and
// survive a restart.
func TestAnEntryHasLimitsOfItsOwn(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		place := net.Add(bubble.NodeConfig{Name: "a"})
		a, b := simulated(t, place, filepath.Join(dir, "a"), Settings{}), simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		content := large(1) + large(2)
		served := added(t, a, api.Add{Paths: []string{file(t, content, dir, "f")}, LimitUp: 100_000})
		other := added(t, a, api.Add{Paths: []string{file(t, large(3), dir, "g")}})
		rate := func(id int64, d time.Duration) float64 {
			before, err := b.Entry(t.Context(), id)
			must(t, err)
			time.Sleep(d)
			now, err := b.Entry(t.Context(), id)
			must(t, err)
			return float64(now.Verified-before.Verified) / d.Seconds()
		}
		got := added(t, b, api.Add{Ticket: served.Ticket})
		time.Sleep(5 * time.Second)
		if r := rate(got.ID, 10*time.Second); r < 80_000 || r > 120_000 {
			t.Errorf("with a limit up of 100 kB/s %.0f came a second", r)
		}
		until(t, b, added(t, b, api.Add{Ticket: other.Ticket}).ID, "here", in(api.Served)) // without one
		must(t, a.Close())
		a = simulated(t, place, filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		set(t, b, got.ID, api.Set{Rescan: true})
		time.Sleep(10 * time.Second)
		if r := rate(got.ID, 10*time.Second); r < 80_000 || r > 120_000 {
			t.Errorf("with a limit up of 100 kB/s, after a restart, %.0f came a second", r)
		}
		none, down := int64(0), int64(20_000)
		set(t, b, got.ID, api.Set{LimitDown: &down})
		set(t, a, served.ID, api.Set{LimitUp: &none})
		time.Sleep(5 * time.Second)
		if r := rate(got.ID, 30*time.Second); r < 14_000 || r > 26_000 {
			t.Errorf("with a limit down of 20 kB/s %.0f came a second", r)
		}
		set(t, b, got.ID, api.Set{LimitDown: &none})
		until(t, b, got.ID, "here", in(api.Served))
		if _, err := a.Set(t.Context(), served.ID, api.Set{LimitDown: &down}); err == nil {
			t.Error("what is served has a limit down")
		}
	})
}

// If two entries have the same content, uploads keep to the lower of their limits; when that entry is
// removed, to the other.
func TestTheLimitsOfTwoEntriesWithTheSameContent(t *testing.T) {
	rig.Slow(t)
	d := begun(t, t.TempDir())
	one := added(t, d, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}, LimitUp: 5000})
	two := added(t, d, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}, LimitUp: 2000})
	if one.Share != two.Share || two.LimitUp != 2000 {
		t.Fatalf("%+v\n%+v", one, two)
	}
	for _, want := range []int64{2000, 5000} {
		d.mu.Lock()
		if at := d.bounded[d.keepers[1].entry().Share]; at != want {
			t.Errorf("the limit is %d, not %d", at, want)
		}
		d.mu.Unlock()
		_, err := d.Remove(t.Context(), two.ID, false)
		must(t, err)
		two = one
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.bounded) != 0 {
		t.Error("the limit of a share that is gone is kept")
	}
}

// A child of an entry is listed with its rank, and only for that entry.
func TestAChildIsToldWithHowItStands(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		a, b := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), Settings{}), simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, a.Close()) }()
		defer func() { must(t, b.Close()) }()
		one := added(t, a, api.Add{Paths: []string{file(t, large(1), dir, "f")}, LimitUp: 100_000})
		other := added(t, a, api.Add{Paths: []string{file(t, large(3), dir, "g")}})
		began := time.Now()
		added(t, b, api.Add{Ticket: one.Ticket})
		time.Sleep(5 * time.Second)
		all, err := a.Children(t.Context(), one.ID)
		must(t, err)
		if len(all) != 1 {
			t.Fatalf("children %+v", all)
		}
		c := all[0]
		if c.Peer != string(b.node.ID()) || c.Bytes == 0 || c.Since.Before(began) || c.Set != "active" || c.Why != "refilled" || c.Location == "" || c.Score == 0.3 || c.Score <= 0 || c.Score > 1 || c.Moved.Before(began) {
			t.Errorf("the child is %+v", c)
		}
		if all, err := a.Children(t.Context(), other.ID); err != nil || len(all) > 0 {
			t.Errorf("of an entry that nobody fetches: %+v, %v", all, err)
		}
		if _, err := a.Children(t.Context(), 77); !errors.Is(err, api.ErrNoEntry) {
			t.Errorf("of no entry: %v", err)
		}
	})
}

// The files that an owner wants first come before the rest, whichever those are by then.
func TestWhatIsWantedFirstComesFirst(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		a, b := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), Settings{}), simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()); must(t, a.Close()) }()
		for i, name := range []string{"1", "2", "3"} {
			file(t, large(byte(i)), dir, "tree", name)
		}
		served := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}, LimitUp: 400_000})
		got := added(t, b, api.Add{Ticket: served.Ticket, First: []string{"3"}})
		// here returns how much of each third of the pieces is here, of 1, once some of the share is.
		// since says that all of it came since the transfer began.
		here := func(verified int64, since bool) (of [3]float64) {
			until(t, b, got.ID, "some of it", func(e api.Entry) bool { return e.Verified >= verified })
			p, err := b.Pieces(t.Context(), got.ID)
			must(t, err)
			for i := range p.Pieces {
				if since && p.By[i] != p.Map[i/8]>>(i%8)&1 {
					t.Errorf("piece %d is here: %b, and was brought by source %d", i, p.Map[i/8], p.By[i])
				}
				of[i*3/p.Pieces] += float64(p.Map[i/8]>>(i%8)&1) * 3 / float64(p.Pieces)
			}
			return of
		}
		if is := here(5<<19, true); is[0]+is[1] > 0 || is[2] == 0 {
			t.Errorf("of each third of the share %.2f is here, and the last was to come first", is)
		}
		set(t, b, got.ID, api.Set{First: &[]string{"2"}})
		if is := here(9<<19, false); is[0] > 0 || is[1] == 0 {
			t.Errorf("of each third of the share %.2f is here, and the second was to come then", is)
		}
		files, err := b.Files(t.Context(), got.ID)
		if must(t, err); files[0].Priority != "normal" || files[1].Priority != "high" || files[2].Priority != "normal" {
			t.Errorf("%+v", files)
		}
		if e := set(t, b, got.ID, api.Set{First: new([]string)}); len(e.First) > 0 {
			t.Errorf("%+v", e)
		}
		until(t, b, got.ID, "here", func(e api.Entry) bool { return e.State == api.Served && e.Files == 3 })
		if _, err := a.Set(t.Context(), served.ID, api.Set{First: &[]string{"2"}}); err == nil {
			t.Error("of what is served something comes first")
		}
	})
}
