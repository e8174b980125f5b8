package fetcher

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/wire"
)

// clumsy fails its first requests, and is a good source after that.
type clumsy struct {
	p2p.Blocks
	fails  int64
	asked  atomic.Int64
	failed atomic.Int64 // when it last failed, Unix ns
	check  wire.Reply   // how it fails, unless that is OK
}

// trips reports whether this request fails.
func (c *clumsy) trips() bool {
	if c.asked.Add(1) > c.fails {
		return false
	}
	c.failed.Store(time.Now().UnixNano())
	return true
}

func (c *clumsy) Check(id share.ID, p share.Piece, first share.Block, n int) (int, wire.Reply) {
	if c.check.Status != wire.OK && c.trips() {
		return 0, c.check
	}
	return c.Blocks.Check(id, p, first, n)
}

func (c *clumsy) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	if c.check.Status == wire.OK && c.trips() {
		panic("the disk of the source has gone") // which resets the stream
	}
	return c.Blocks.ReadRun(id, p, first, n, dst)
}

// The times are those of fetchpool's documentation, with a margin for a busy machine.
// More of this is tested in package actors, in virtual time.
func TestASourceThatFailsFirstIsUsedAgainSoon(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 8<<20, 1)
	for name, c := range map[string]struct {
		*clumsy
		within time.Duration
	}{
		"busy":             {&clumsy{fails: 1, check: wire.Reply{Status: wire.Busy}}, 1250 * time.Millisecond},
		"busy for a while": {&clumsy{fails: 1, check: wire.Reply{Status: wire.Busy, Retry: 300 * time.Millisecond}}, 300 * time.Millisecond},
		"reset":            {&clumsy{fails: 1}, 1250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shareOf(t, src, func(cfg *Config) {
				cfg.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks { c.Blocks = b; return c.clumsy })
			})
			x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), Stall: 45 * time.Second})
			must(t, err)
			var again time.Time
			for e := range x.Events(t.Context()) {
				if p, ok := e.(Progress); ok && p.Verified > 0 && again.IsZero() && c.asked.Load() > c.fails {
					again = time.Now()
				}
			}
			must(t, x.Wait(t.Context()))
			if c.asked.Load() <= c.fails {
				t.Fatal("it did not fail")
			}
			after := again.Sub(time.Unix(0, c.failed.Load()))
			t.Log("used again after", after)
			if after > c.within+10*time.Second { // a busy machine takes some of it
				t.Errorf("used again after %v, want %v", after, c.within)
			}
			if s := x.Progress().Sources[0]; s.Banned {
				t.Errorf("banned: %s", s.Why)
			}
		})
	}
}

// A restarted node that has to read its files first is waited for: peers that
// fetch from it are not told that it lacks what it will have in a moment.
func TestASourceThatReadsItsFilesAgainIsWaitedFor(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, state := filepath.Join(t.TempDir(), "f.bin"), t.TempDir()
	writeRandom(t, src, 1<<20, 1)
	before, err := Open(t.Context(), Config{Dir: state, Listen: loopback})
	must(t, err)
	s, err := before.Share(t.Context(), src, ShareOptions{})
	must(t, err)
	must(t, before.Close())
	n := openNode(t, func(cfg *Config) { cfg.Dir = state })
	reading, waited, shared := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		var first sync.Once
		_, err := n.Share(t.Context(), src, ShareOptions{Progress: func(store.ImportProgress) {
			first.Do(func() { close(reading) })
			<-waited
		}})
		shared <- err
	}()
	<-reading
	x, err := openNode(t).Fetch(t.Context(), n.Ticket(s.ID()), FetchOptions{Dir: t.TempDir(), Stall: 45 * time.Second})
	must(t, err)
	for e := range x.Events(t.Context()) {
		p, ok := e.(Progress)
		if ok && waited != nil && slices.ContainsFunc(p.Sources, func(s Source) bool { return strings.Contains(s.Why, "still reading") }) {
			close(waited)
			waited = nil
		}
		if end, ok := e.(Ended); ok {
			must(t, end.Err)
		}
	}
	if waited != nil {
		close(waited)
	}
	must(t, <-shared)
}

// A node that imports again what it serves says at once what it does not have.
func TestALookAtWhatIsServedKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1000, 1)
	n := openNode(t)
	s, err := n.Share(t.Context(), file, ShareOptions{})
	must(t, err)
	for entry, want := range map[EntryID]wire.Status{s.Entry(): wire.NotFound, 0: wire.Busy} {
		asked := false
		_, err = n.Share(t.Context(), file, ShareOptions{Entry: entry, Progress: func(store.ImportProgress) {
			asked = true
			if _, r := n.catalog.offers.Offered(share.IDOf(nil), ""); r.Status != want {
				t.Errorf("entry %d: %v", entry, r)
			}
		}})
		must(t, err)
		if !asked {
			t.Errorf("entry %d: it was not read", entry)
		}
	}
}

// moving moves a folder once, when it exists.
type moving struct {
	p2p.Blocks
	from, to string
	moved    atomic.Bool
}

func (m *moving) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	if !m.moved.Load() {
		if b, _ := os.ReadFile(filepath.Join(m.from, "first")); len(b) == 1000 && os.Rename(m.from, m.to) == nil {
			m.moved.Store(true)
		}
	}
	return m.Blocks.ReadRun(id, p, first, n, dst)
}

// If somebody renames a folder of NAME.partial during the fetch, what was in it is fetched
// again, and the renamed folder stays.
func TestAFolderThatIsMovedWhileItIsFetchedIsFetchedAgain(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, out := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	writeRandom(t, filepath.Join(src, "a", "first"), 1000, 1)
	writeRandom(t, filepath.Join(src, "z"), 6<<20, 2)
	data := filepath.Join(out, "stuff.partial", "data")
	m := &moving{from: filepath.Join(data, "a"), to: filepath.Join(data, "b")}
	s := shareOf(t, src, func(cfg *Config) {
		cfg.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks { m.Blocks = b; return m })
	})
	_, err := fetchInto(t, openNode(t, func(cfg *Config) { cfg.DownloadRate = 4 << 20 }), s.Ticket(), out, FetchOptions{Select: func(e share.Entry) Priority {
		if e.Path == "z" {
			return PriorityNormal
		}
		return PriorityHigh
	}})
	must(t, err)
	if !m.moved.Load() {
		t.Fatal("nothing was moved")
	}
	for _, name := range []string{"a/first", "b/first", "z"} {
		got, err := os.ReadFile(filepath.Join(out, "stuff", name))
		want, _ := os.ReadFile(filepath.Join(src, strings.Replace(name, "b/", "a/", 1)))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s has %d bytes: %v", name, len(got), err)
		}
	}
}

// A liar is not asked again: not for another share, not after a reconnection, not
// by the next process of this node.
func TestALiarIsRememberedOverARestart(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, other := filepath.Join(t.TempDir(), "f.bin"), filepath.Join(t.TempDir(), "other.bin")
	writeRandom(t, src, 8<<20, 1)
	writeRandom(t, other, 2<<20, 2)
	l := &liar{proof: func(_ share.Piece, v []share.Hash) { v[0][0] ^= 1 }}
	bad := shareOf(t, src, func(c *Config) {
		c.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks { l.Blocks = b; return l })
	})
	alsoBad, err := bad.node.Share(t.Context(), other, ShareOptions{})
	must(t, err)
	honest := shareOf(t, src, func(c *Config) { c.UploadRate = 8e6 })
	honestOther, err := honest.node.Share(t.Context(), other, ShareOptions{})
	must(t, err)

	dir := t.TempDir()
	open := func() *Node {
		n, err := Open(t.Context(), Config{Dir: dir, Listen: loopback})
		must(t, err)
		return n
	}
	liarOf := func(x *Transfer) Source {
		for _, s := range x.Progress().Sources {
			if s.Peer == bad.node.ID() {
				return s
			}
		}
		t.Fatal("the liar is no source")
		return Source{}
	}
	n := open()
	x, err := fetchInto(t, n, honest.Ticket(), t.TempDir(), FetchOptions{Peers: bad.node.Addrs()})
	must(t, err)
	if s := liarOf(x); !s.Banned {
		t.Fatalf("not banned: %+v", s)
	}
	before := l.runs.Load()
	for life := range 3 {
		x, err = fetchInto(t, n, honestOther.Ticket(), t.TempDir(), FetchOptions{Peers: bad.node.Addrs()})
		must(t, err)
		if s := liarOf(x); !s.Banned || s.Bytes > 0 {
			t.Errorf("life %d: %+v", life, s)
		}
		_, err := fetchInto(t, n, alsoBad.Ticket(), t.TempDir(), FetchOptions{})
		if !errors.Is(err, share.ErrLied) && !errors.Is(err, share.ErrStalled) {
			t.Errorf("life %d: from the liar alone: %v", life, err)
		}
		t.Logf("life %d: %v", life, err)
		must(t, n.Close())
		n = open()
	}
	must(t, n.Close())
	if after := l.runs.Load(); after != before {
		t.Errorf("the liar was asked %d times after it had been banned", after-before)
	}
}

// What was fetched and kept is shared from another path, too, and that share ends. Its entry is to be opened again then, and can be resumed.
func TestWhatWasFetchedIsOpenedAgainAfterAShareOfTheSameHasEnded(t *testing.T) {
	t.Parallel()
	file, twin := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1000, 1)
	writeRandom(t, twin, 1000, 1)
	s := shareOf(t, file)
	for what, end := range map[string]func(*Node, *Share) error{
		"stopped": func(_ *Node, s *Share) error { return s.Stop(t.Context()) },
		"removed": func(n *Node, s *Share) error { return n.Remove(t.Context(), s.Entry()) },
		"changed": func(n *Node, s *Share) error { n.gone(s.ID(), "it was edited"); return nil },
	} {
		heard := make(chan Entry, 100)
		n := openNode(t, func(c *Config) { c.OnEntry = func(e Entry) { heard <- e } })
		x, err := fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
		must(t, err)
		again, err := n.Share(t.Context(), twin, ShareOptions{})
		must(t, err)
		if e, _ := n.Entry(x.Entry()); e.State != EntryServed {
			t.Errorf("before it was %s: %v", what, e.State)
		}
		must(t, end(n, again))
		<-x.Unserved()
		if e, _ := n.Entry(x.Entry()); e.State != EntryOpening || x.UnservedErr() != nil {
			t.Errorf("when it was %s: %v, %v", what, e.State, x.UnservedErr())
		}
		for len(heard) > 0 {
			<-heard
		}
		must(t, n.Resume(t.Context(), x.Entry()))
		for e := range heard {
			if e.ID == x.Entry() && e.State == EntryServed {
				break
			}
		}
		if _, err := fetchInto(t, openNode(t), n.Ticket(s.ID()), t.TempDir(), FetchOptions{}); err != nil {
			t.Errorf("when it was %s, and the entry resumed: %v", what, err)
		}
	}
}

// What is being fetched is shared from another path, too, and that share is stopped before the rest has come. Then the fetch serves what it
// has, and at its end all of it: unless that is stopped, too.
func TestWhatIsFetchedIsServedAfterAShareOfTheSameHasEnded(t *testing.T) {
	t.Parallel()
	file, twin := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 8<<20, 1)
	writeRandom(t, twin, 8<<20, 1)
	s := shareOf(t, file)
	for _, stopped := range []bool{false, true} {
		n := openNode(t)
		x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), Keep: true, OnDemand: true})
		must(t, err)
		r, err := x.Open(t.Context(), "file")
		must(t, err)
		defer r.Close()
		_, err = r.Read(make([]byte, 1)) // its place is open
		must(t, err)
		again, err := n.Share(t.Context(), twin, ShareOptions{})
		must(t, err)
		must(t, again.Stop(t.Context()))
		if stopped {
			_, err = n.StopSharing(t.Context(), s.ID())
			must(t, err)
		}
		_, err = io.Copy(io.Discard, r)
		must(t, err)
		must(t, x.Wait(t.Context()))
		if e, _ := n.Entry(x.Entry()); stopped {
			<-x.Unserved()
			if e.State != EntryOpening {
				t.Errorf("it is not served, and its entry is %v", e.State)
			}
		} else if _, err := fetchInto(t, openNode(t), n.Ticket(s.ID()), t.TempDir(), FetchOptions{}); err != nil || e.State != EntryServed {
			t.Errorf("its entry is %v, and whoever fetches it hears: %v", e.State, err)
		}
	}
}
