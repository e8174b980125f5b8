package daemon

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// held is what a process uses.
type held struct {
	heap                    uint64
	entries                 int
	goroutines, descriptors int
	catalog                 int64 // bytes
}

// churn is a node that its owner and its peers never leave alone.
type churn struct {
	testing.TB
	rng    *rand.Rand
	dir    string
	node   *Daemon
	peers  []*neighbour
	served map[int64]string   // what the node serves: its folder
	got    map[int64][32]byte // what it fetches: the hash of its content
	files  int                // made so far
}

// neighbour is another node, which may be running or not.
type neighbour struct {
	at  *bubble.Node
	dir string
	d   *Daemon // nil: it is away
}

// simulated starts a daemon in a simulated network; close it in its bubble.
func simulated(t testing.TB, at *bubble.Node, dir string, s Settings) *Daemon {
	t.Helper()
	s.Into = filepath.Join(dir, "in")
	d, err := Open(t.Context(), Config{Dir: dir, Settings: s, simulated: func(host *fetcher.Config) {
		there := at.Config()
		host.Listen, host.P2P.Key, host.P2P.Packets = there.Listen, there.P2P.Key, there.P2P.Packets
	}})
	must(t, err)
	return d
}

// serving starts a node "a" that serves the folder dir/tree, with a file 1, 2 and so on of each content, until the bubble ends.
func serving(t testing.TB, net *bubble.Net, dir string, contents ...string) api.Entry {
	t.Helper()
	for i, c := range contents {
		file(t, c, dir, "tree", strconv.Itoa(i+1))
	}
	a := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), Settings{})
	t.Cleanup(func() { must(t, a.Close()) })
	return added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}})
}

func (c *churn) content(bytes int) string {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(c.rng.Uint32())
	}
	return string(b)
}

// step does one thing to the node.
func (c *churn) step() {
	yes, no := true, false
	switch p := c.peers[c.rng.IntN(len(c.peers))]; c.rng.IntN(9) {
	case 0, 1: // a peer comes or goes
		if p.d == nil {
			p.d = simulated(c, p.at, p.dir, Settings{})
		} else {
			must(c, p.d.Close())
			p.d = nil
		}
	case 2, 3: // it serves more, and a peer wants it
		c.files++
		at := file(c, c.content(1+c.rng.IntN(200_000)), c.dir, "mine", fmt.Sprint(c.files), "f")
		e := added(c, c.node, api.Add{Paths: []string{filepath.Dir(at)}})
		c.served[e.ID] = at
		if p.d != nil && e.Ticket != "" {
			added(c, p.d, api.Add{Ticket: e.Ticket, SeedTime: "1h"})
		}
	case 4: // it fetches something
		if p.d == nil {
			return
		}
		c.files++
		content := c.content(1 + c.rng.IntN(200_000))
		e := added(c, p.d, api.Add{Paths: []string{filepath.Dir(file(c, content, p.dir, "mine", fmt.Sprint(c.files), "f"))}})
		got := added(c, c.node, api.Add{Ticket: e.Ticket, Priority: []string{"low", "high"}[c.rng.IntN(2)]})
		c.got[got.ID] = sha256.Sum256([]byte(content))
	case 5: // a file changes
		if id := c.one(); c.served[id] != "" {
			file(c, c.content(1+c.rng.IntN(200_000)), c.served[id])
		}
	case 6:
		if id := c.one(); id != 0 {
			set(c, c.node, id, api.Set{Paused: &yes})
		}
	case 7:
		if id := c.one(); id != 0 {
			set(c, c.node, id, api.Set{Paused: &no, Rescan: true})
		}
	case 8:
		for len(c.served)+len(c.got) > 12 {
			c.remove(c.one())
		}
	}
}

func (c *churn) entries() []int64 {
	return append(slices.Sorted(maps.Keys(c.served)), slices.Sorted(maps.Keys(c.got))...)
}

// one returns some entry; 0 if there is none.
func (c *churn) one() int64 {
	if ids := c.entries(); len(ids) > 0 {
		return ids[c.rng.IntN(len(ids))]
	}
	return 0
}

func (c *churn) remove(id int64) {
	_, err := c.node.Remove(c.Context(), id, c.served[id] == "")
	must(c, err)
	if at := c.served[id]; at != "" {
		must(c, os.RemoveAll(filepath.Dir(at)))
	}
	delete(c.served, id)
	delete(c.got, id)
}

// age adds and removes so many shares that what is remembered of those that have gone is full:
// the paths that were imported, and which shares are here no more.
func (c *churn) age() {
	for i := range 4200 {
		at := file(c, fmt.Sprint("content ", i), c.dir, "mine", fmt.Sprint("old", i), "f")
		e := added(c, c.node, api.Add{Paths: []string{filepath.Dir(at)}})
		c.served[e.ID] = at
		c.remove(e.ID)
	}
}

// rest removes all but a few entries and stops all neighbours, and leaves the node alone until it
// has forgotten them.
func (c *churn) rest(d time.Duration) {
	for len(c.served)+len(c.got) > 6 {
		c.remove(c.one())
	}
	unfinished := map[string]bool{}
	all, err := c.node.Entries(c.Context())
	must(c, err)
	for _, e := range all {
		unfinished[e.Share] = e.Done == nil
	}
	for _, p := range c.peers {
		if p.d == nil {
			p.d = simulated(c, p.at, p.dir, Settings{})
		}
		all, err := p.d.Entries(c.Context())
		must(c, err)
		for _, e := range all {
			if unfinished[e.Share] {
				continue
			}
			_, err := p.d.Remove(c.Context(), e.ID, e.Kind == "fetch")
			must(c, err)
			for _, at := range e.Paths {
				must(c, os.RemoveAll(at))
			}
		}
		must(c, p.d.Close())
		p.d = nil
	}
	time.Sleep(d)
}

// settle starts all neighbours, lets everything go on, and compares.
func (c *churn) settle() {
	for _, p := range c.peers {
		if p.d == nil {
			p.d = simulated(c, p.at, p.dir, Settings{})
		}
		defer func() { must(c, p.d.Close()) }()
	}
	for _, id := range c.entries() {
		set(c, c.node, id, api.Set{Paused: new(bool), Rescan: true})
	}
	time.Sleep(90 * time.Minute) // and not only when files are checked again
	all, err := c.node.Entries(c.Context())
	must(c, err)
	if len(all) != len(c.served)+len(c.got) {
		c.Errorf("%d entries, and %d were asked for", len(all), len(c.served)+len(c.got))
	}
	for _, e := range all {
		if e.State != api.Served || e.Reason != "" {
			c.Errorf("entry %d: %+v", e.ID, e)
		} else if e.Kind == "fetch" {
			if b, err := os.ReadFile(filepath.Join(e.Path, "f")); err != nil || sha256.Sum256(b) != c.got[e.ID] {
				c.Errorf("entry %d has other content: %v", e.ID, err)
			}
		}
	}
}

func (c *churn) held() (h held) {
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.entries, h.heap, h.goroutines = len(c.entries()), m.HeapAlloc, runtime.NumGoroutine()
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.descriptors = len(fds)
	}
	for _, name := range []string{"catalog.db", "catalog.db-wal"} {
		if info, err := os.Stat(filepath.Join(c.node.dir, name)); err == nil {
			h.catalog += info.Size()
		}
	}
	return h
}

// A node that is never left alone, for CHURN_DAYS: entries come and go, are paused and changed,
// are fetched and served while peers come and go, and the limits change with the hour. What it
// uses once it is left alone for a while is the same at the end as after a quarter of the time,
// and every request still stands.
func TestChurn(t *testing.T) {
	days, err := strconv.Atoi(os.Getenv("CHURN_DAYS"))
	steps, long, around := 100, 24*time.Hour, 6
	if err != nil {
		rig.Slow(t)
		days, steps, long, around = 3, 10, time.Hour, 3
	}
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		c := &churn{TB: t, rng: rand.New(rand.NewPCG(1, 1)), dir: t.TempDir(), served: map[int64]string{}, got: map[int64][32]byte{}}
		day := Settings{Schedule: []Slot{{From: 8 * time.Hour, To: 18 * time.Hour, Up: 50_000, Down: 100_000}}}
		c.node = simulated(c, net.Add(bubble.NodeConfig{Name: "node"}), filepath.Join(c.dir, "node"), day)
		defer func() { must(t, c.node.Close()) }()
		for i := range around {
			name := fmt.Sprint("peer", i)
			c.peers = append(c.peers, &neighbour{at: net.Add(bubble.NodeConfig{Name: name}), dir: filepath.Join(c.dir, name)})
		}
		if days >= 30 {
			c.age()
		}
		var early, late held
		for i := range days {
			for range steps {
				c.step()
				time.Sleep(long * 11 / 12 / time.Duration(steps))
			}
			day.Up, day.Into = int64(i%2)*2_000_000, c.node.setting().Into
			_, err := c.node.Reload(day)
			must(t, err)
			c.rest(long / 12)
			late = c.held()
			if i < max(2, days/4) { // until the catalog's cache is full
				early = late
			}
			t.Logf("day %d: %d shares so far; %+v", i+1, c.files, late)
		}
		more := max(0, late.entries-early.entries) // each has a goroutine or two, and an open file
		if late.heap > early.heap+1<<20 || late.goroutines > early.goroutines+5+2*more || late.descriptors > early.descriptors+5+more || late.catalog > early.catalog+5<<20 {
			t.Errorf("it held %+v, and at the end %+v", early, late)
		}
		c.settle()
	})
}

// Files are checked as often as the settings read last say.
func TestFilesAreLookedAtAsOftenAsTheSettingsSay(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		s := Settings{Rescan: 100 * time.Hour}
		d := simulated(t, net.Add(bubble.NodeConfig{Name: "node"}), filepath.Join(dir, "node"), s)
		defer func() { must(t, d.Close()) }()
		at := file(t, "one", dir, "f")
		e := added(t, d, api.Add{Paths: []string{at}})
		s.Rescan, s.Into = time.Minute, d.setting().Into
		_, err := d.Reload(s)
		must(t, err)
		file(t, "two, longer", at)
		time.Sleep(5 * time.Minute)
		if now := until(t, d, e.ID, "served", in(api.Served)); now.Share == e.Share {
			t.Error("after five minutes the old version is served")
		}
	})
}
