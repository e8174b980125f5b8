package fetcher

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// keptCatalog is a Catalog that keeps JSON, and fails when it is told to.
type keptCatalog struct {
	mu    sync.Mutex
	rows  map[EntryID][]byte
	last  EntryID
	fails error
}

func (k *keptCatalog) Load() (out []Entry, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(k.rows)) {
		var e Entry
		if err := json.Unmarshal(k.rows[id], &e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, k.fails
}

func (k *keptCatalog) Put(e Entry) (EntryID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fails != nil {
		return 0, k.fails
	}
	if e.ID == 0 {
		k.last++
		e.ID = k.last
	}
	b, err := json.Marshal(e)
	if k.rows == nil {
		k.rows = map[EntryID][]byte{}
	}
	k.rows[e.ID] = b
	return e.ID, err
}

func (k *keptCatalog) Delete(id EntryID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fails == nil {
		delete(k.rows, id)
	}
	return k.fails
}

func (k *keptCatalog) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails = err
}

// states returns the states of a node's entries, by ID.
func states(n *Node) (out []EntryState) {
	for _, e := range n.Entries() {
		out = append(out, e.State)
	}
	return out
}

// What was asked of a node is still known after a restart, and continues when it is resumed.
func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	dir, k := t.TempDir(), &keptCatalog{}
	mine, theirs := filepath.Join(dir, "mine"), filepath.Join(dir, "theirs")
	writeRandom(t, mine, 2<<20, 1)
	writeRandom(t, theirs, 2<<20, 2)
	other := shareOf(t, theirs)
	open := func() *Node {
		n, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "state"), Listen: loopback, Catalog: k})
		must(t, err)
		return n
	}
	n := open()
	s, err := n.Share(t.Context(), mine, ShareOptions{Exclude: []string{"*.tmp"}})
	must(t, err)
	x, err := fetchInto(t, n, other.Ticket(), filepath.Join(dir, "got"), FetchOptions{Keep: true})
	must(t, err)
	if got := states(n); !slices.Equal(got, []EntryState{EntryServed, EntryServed}) {
		t.Error(got)
	}
	paused, err := n.Add(Entry{Path: dir, State: EntryPaused})
	must(t, err)
	before := n.Entries()
	must(t, n.Close())

	n = open()
	defer n.Close()
	if got := states(n); !slices.Equal(got, []EntryState{EntryOpening, EntryOpening, EntryPaused}) {
		t.Error(got)
	}
	for i, e := range n.Entries() {
		e.State = before[i].State
		if !e.Added.Equal(before[i].Added) {
			t.Errorf("added %v, was %v", e.Added, before[i].Added)
		}
		e.Added = before[i].Added
		if !reflect.DeepEqual(e, before[i]) {
			t.Errorf("%+v\nwas %+v", e, before[i])
		}
	}
	if _, err := fetchInto(t, openNode(t), s.ID().String(), t.TempDir(), FetchOptions{Peers: n.Addrs()}); !errors.Is(err, share.ErrNotFound) {
		t.Error("before it was resumed:", err)
	}
	for _, e := range n.Entries() {
		if e.ID != paused {
			must(t, n.Resume(t.Context(), e.ID))
		}
	}
	for _, x := range n.Transfers() {
		must(t, x.Wait(t.Context()))
	}
	must(t, other.Stop(t.Context()))
	for _, id := range []share.ID{s.ID(), x.ID()} {
		_, err := fetchInto(t, openNode(t), id.String(), t.TempDir(), FetchOptions{Peers: n.Addrs()})
		must(t, err)
	}
	if got := states(n); !slices.Equal(got, []EntryState{EntryServed, EntryServed, EntryPaused}) {
		t.Error(got)
	}
}

// A path that has vanished is a state of its entry, and one that has changed is a new version of it.
func TestAnEntryFollowsItsPath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	var heard []EntryState
	n := openNode(t, func(c *Config) { c.OnEntry = func(e Entry) { heard = append(heard, e.State) } })
	first, err := n.Share(t.Context(), file, ShareOptions{})
	must(t, err)
	must(t, os.Rename(file, file+".away"))
	if err := n.Resume(t.Context(), first.Entry()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if e, _ := n.Entry(first.Entry()); e.State != EntryMissing || e.Why == "" {
		t.Errorf("%+v", e)
	}
	<-first.Done()
	writeRandom(t, file, 1<<20, 2)
	must(t, n.Resume(t.Context(), first.Entry()))
	e, _ := n.Entry(first.Entry())
	if e.State != EntryServed || e.Share == first.ID() || e.Why != "" || len(n.Entries()) != 1 {
		t.Errorf("%+v", n.Entries())
	}
	second := n.Shares()[0]
	if len(n.Shares()) != 1 || second.ID() != e.Share || second.Entry() != e.ID {
		t.Errorf("%v", n.Shares())
	}
	writeRandom(t, file, 1<<20, 3)
	must(t, n.Resume(t.Context(), e.ID)) // while the second is served
	<-second.Done()
	if _, err := fetchInto(t, openNode(t), second.ID().String(), t.TempDir(), FetchOptions{Peers: n.Addrs()}); err == nil {
		t.Error("the old version is still served")
	}
	_, err = fetchInto(t, openNode(t), n.Shares()[0].Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
	if !slices.Equal(heard, []EntryState{EntryServed, EntryMissing, EntryServed, EntryServed}) {
		t.Error(heard)
	}
}

// However a share goes, and however often its owner stops it, the catalog holds nothing of it.
func TestNothingIsHeldOfAShareThatHasGone(t *testing.T) {
	t.Parallel()
	file, n := filepath.Join(t.TempDir(), "file"), openNode(t)
	for what, end := range map[string]func(*Share) error{
		"stopped": func(s *Share) error { return s.Stop(t.Context()) },
		"removed": func(s *Share) error { return n.Remove(t.Context(), s.Entry()) },
		"changed": func(s *Share) error { n.gone(s.ID(), "it was edited"); return n.Remove(t.Context(), s.Entry()) },
	} {
		writeRandom(t, file, 1000, 1)
		s, err := n.Share(t.Context(), file, ShareOptions{})
		must(t, err)
		must(t, end(s))
		must(t, s.Stop(t.Context()))
		c := n.catalog
		c.mu.Lock()
		if held := len(c.entries) + len(c.transfers) + len(c.shares) + len(c.stoodFor) + len(c.asking); held > 0 {
			t.Errorf("%s: %d entries, %d transfers, %d shares, %d stood for, %d ask", what, len(c.entries), len(c.transfers), len(c.shares), len(c.stoodFor), len(c.asking))
		}
		c.mu.Unlock()
	}
}

// Two paths with the same content are two entries, one of which stands for both; when it
// ends, the other has to be opened again, and is not before.
func TestEqualContentUnderTwoPathsIsTwoEntries(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, k := t.TempDir(), &keptCatalog{}
	for _, p := range []string{"1", "2", "3"} {
		must(t, os.Mkdir(filepath.Join(dir, p), 0o700))
		writeRandom(t, filepath.Join(dir, p, "file"), 1<<20, 1)
	}
	open := func() *Node {
		n, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "state"), Listen: loopback, Catalog: k})
		must(t, err)
		t.Cleanup(func() { n.Close() })
		return n
	}
	n := open()
	var shares [3]*Share
	for i, p := range []string{"1", "2", "3"} {
		var err error
		shares[i], err = n.Share(t.Context(), filepath.Join(dir, p, "file"), ShareOptions{})
		must(t, err)
	}
	all := n.Entries()
	if len(all) != 3 || all[0].Path == all[1].Path || all[0].Share != all[1].Share {
		t.Fatalf("%+v", all)
	}
	same, err := n.Share(t.Context(), all[2].Path, ShareOptions{}) // the same path again is the same entry
	must(t, err)
	if len(n.Entries()) != 3 || same.Entry() != shares[2].Entry() {
		t.Errorf("%+v", n.Entries())
	}
	must(t, shares[0].Stop(t.Context())) // nothing of it is served, and it goes
	if got := n.Entries(); len(got) != 2 || got[0].ID != shares[1].Entry() {
		t.Errorf("%+v", got)
	}
	for what, end := range map[string]func() error{
		"stopped": func() error { return same.Stop(t.Context()) },
		"paused":  func() error { return n.Pause(t.Context(), same.Entry()) },
	} {
		if got, _ := n.Entry(shares[1].Entry()); got.State != EntryServed {
			t.Errorf("before the other was %s: %+v", what, got)
		}
		must(t, end())
		if got, _ := n.Entry(shares[1].Entry()); got.State != EntryOpening {
			t.Errorf("the other was %s: %+v", what, got)
		}
		must(t, n.Resume(t.Context(), shares[1].Entry()))
		again, err := fetchInto(t, openNode(t), n.Shares()[0].Ticket(), t.TempDir(), FetchOptions{})
		must(t, err)
		if again.ID() != all[0].Share {
			t.Errorf("%s: %v is served", what, again.ID())
		}
		same, err = n.Share(t.Context(), all[2].Path, ShareOptions{})
		must(t, err)
	}
	before := n.Entries()
	must(t, n.Close())
	n = open()
	if got := n.Entries(); len(got) != len(before) || got[0].Path != before[0].Path || got[1].Path != before[1].Path {
		t.Errorf("after a restart: %+v, before %+v", got, before)
	}
}

// A file that changes while it is served makes its entry missing.
func TestAChangedFileIsAMissingEntry(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	n := openNode(t)
	s, err := n.Share(t.Context(), file, ShareOptions{})
	must(t, err)
	writeRandom(t, file, 1<<20, 2)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	defer x.Stop(t.Context())
	<-s.Done()
	if e, _ := n.Entry(s.Entry()); e.State != EntryMissing || e.Why != s.Err().Error() {
		t.Errorf("%+v", e)
	}
}

func TestPauseEndsWhatRunsAndKeepsTheEntry(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeRandom(t, file, 4<<20, 1)
	source := shareOf(t, file, func(c *Config) { c.UploadRate = 1 << 20 })
	n := openNode(t)
	x, err := n.Fetch(t.Context(), source.Ticket(), FetchOptions{Dir: filepath.Join(dir, "got"), Keep: true})
	must(t, err)
	must(t, n.Resume(t.Context(), x.Entry())) // it runs
	must(t, n.Pause(t.Context(), x.Entry()))
	if err := x.Wait(t.Context()); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	if e, _ := n.Entry(x.Entry()); e.State != EntryPaused || e.Name != "file" && e.Name != "" {
		t.Errorf("%+v", e)
	}
	source.node.SetUploadRate(0)
	must(t, n.Resume(t.Context(), x.Entry()))
	must(t, n.Transfers()[0].Wait(t.Context()))
	peer := FetchOptions{Peers: n.Addrs()}
	served := func() error {
		_, err := fetchInto(t, openNode(t), x.ID().String(), t.TempDir(), peer)
		return err
	}
	must(t, served())
	must(t, n.Pause(t.Context(), x.Entry())) // what was fetched is served no longer
	if err := served(); !errors.Is(err, share.ErrNotFound) {
		t.Error(err)
	}
	must(t, n.Resume(t.Context(), x.Entry()))
	for _, x := range n.Transfers() {
		must(t, x.Wait(t.Context()))
	}
	must(t, served())
	must(t, n.Remove(t.Context(), x.Entry()))
	if err := served(); !errors.Is(err, share.ErrNotFound) || len(n.Entries()) > 0 {
		t.Error(err, n.Entries())
	}
	for _, err := range []error{n.Resume(t.Context(), x.Entry()), n.Pause(t.Context(), x.Entry()), n.Remove(t.Context(), x.Entry())} {
		if !errors.Is(err, ErrNoEntry) {
			t.Error(err)
		}
	}
}

// Whoever pauses an entry while it is resumed has the last word.
func TestAPauseStandsThatComesWhileAnEntryIsResumed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	source := shareOf(t, file)
	for name, e := range map[string]Entry{
		"a path":   {Path: "old"},
		"a ticket": {Ticket: source.Ticket(), Fetching: FetchOptions{Dir: "old", Keep: true}},
	} {
		t.Run(name, func(t *testing.T) {
			at := t.TempDir()
			must(t, os.Mkdir(filepath.Join(at, "old"), 0o700))
			writeRandom(t, filepath.Join(at, "old", "file"), 1<<20, 1)
			disk, err := vfs.Dir(at)
			must(t, err)
			t.Cleanup(func() { disk.Close() })
			g := gate{disk, make(chan struct{}, 99), make(chan struct{})}
			n := openNode(t, func(c *Config) { c.Dir, c.Simulation.FS = "state", g })
			e.State = EntryPaused
			id, err := n.Add(e)
			must(t, err)
			resumed := make(chan error, 1)
			go func() { resumed <- n.Resume(t.Context(), id) }()
			<-g.came
			if got := states(n); got[0] != EntryOpening {
				t.Error("while it is resumed:", got)
			}
			must(t, n.Pause(t.Context(), id))
			close(g.open)
			if err := <-resumed; !errors.Is(err, ErrStopped) {
				t.Error(err)
			}
			if got := states(n); got[0] != EntryPaused || len(n.Shares())+len(n.Transfers()) > 0 {
				t.Error(got, n.Shares(), n.Transfers())
			}
			must(t, n.Resume(t.Context(), id))
			for _, x := range n.Transfers() {
				x.Wait(t.Context()) // what lies there may be in its way
			}
			if got := states(n); got[0] == EntryPaused || got[0] == EntryOpening {
				t.Error("resumed again:", got)
			}
		})
	}
}

// What cannot be resumed is as paused as before.
func TestWhatCannotBeResumedStaysPaused(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	id, err := n.Add(Entry{Ticket: someID(t), State: EntryPaused, Fetching: FetchOptions{Dir: t.TempDir(), Keep: true}})
	must(t, err)
	if err := n.Resume(t.Context(), id); !errors.Is(err, ErrNoSource) {
		t.Error(err)
	}
	if got := states(n); got[0] != EntryPaused {
		t.Error(got)
	}
}

// A transfer that is stopped before it has begun ends all the same.
func TestAPauseStandsThatComesBetweenAnEntryAndItsFetch(t *testing.T) {
	t.Parallel()
	paused := make(chan error, 1)
	k := &peeking{}
	n := openNode(t, func(c *Config) { c.Catalog = k })
	var once sync.Once
	k.put = func(e Entry) (EntryID, error) {
		if e.State == EntryFetching {
			once.Do(func() { go func() { paused <- n.Pause(t.Context(), e.ID) }() })
		}
		return k.keptCatalog.Put(e)
	}
	id, err := n.Add(Entry{Ticket: someID(t), Fetching: FetchOptions{Dir: t.TempDir(), Keep: true, Peers: []string{silentPeer(t)}}})
	must(t, err)
	if err := n.Resume(t.Context(), id); err != nil && !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	must(t, <-paused)
	if got := states(n); got[0] != EntryPaused || len(n.Transfers()) > 0 {
		t.Error(got, n.Transfers())
	}
}

// A fetch that became whole when its entry was paused is not served, and neither is a path that was imported.
func TestWhatIsPausedIsNotServedAtTheEnd(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	n := openNode(t)
	x, err := fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	pause := func(n *Node, id EntryID) {
		must(t, n.catalog.change(id, func(e *Entry) { e.State = EntryPaused }))
	}
	pause(n, x.Entry())
	n.settle(x, nil, func() {})
	n.leaving.Wait()
	if _, err := fetchInto(t, openNode(t), x.ID().String(), t.TempDir(), FetchOptions{Peers: n.Addrs()}); !errors.Is(err, share.ErrNotFound) || states(n)[0] != EntryPaused {
		t.Error(err, states(n))
	}
	pause(s.node, s.Entry())
	if _, err := s.node.offer(s); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	s.node.unshared(t.Context(), s.Entry(), errors.New("a test"))
	if got := states(s.node); got[0] != EntryPaused {
		t.Error(got)
	}
}

// The end of a fetch is in the catalog before anybody is told of it.
func TestAFetchThatEndedIsNoEntryOrAFailedOne(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	for _, kept := range []Catalog{nil, &keptCatalog{}} {
		n := openNode(t, func(c *Config) { c.Catalog = kept })
		_, err := fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{})
		must(t, err)
		if e := n.Entries(); len(e) > 0 {
			t.Errorf("%+v", e)
		}
		dir := t.TempDir()
		writeRandom(t, filepath.Join(dir, "file"), 1000, 1)
		_, err = fetchInto(t, n, s.Ticket(), dir, FetchOptions{Keep: true})
		if e := n.Entries(); err == nil || len(e) != 1 || e[0].State != EntryFailed || e[0].Why != err.Error() {
			t.Errorf("%v: %+v", err, e)
		}
		must(t, os.Remove(filepath.Join(dir, "file")))
		_, err = fetchInto(t, n, s.Ticket(), dir, FetchOptions{Keep: true}) // takes the entry up
		if e := n.Entries(); err != nil || len(e) != 1 || e[0].State != EntryServed || e[0].Why != "" {
			t.Errorf("%v: %+v", err, e)
		}
		_, err = n.StopSharing(t.Context(), s.ID())
		must(t, err)
		if e := n.Entries(); len(e) > 0 {
			t.Errorf("%+v", e)
		}
	}
}

// What cannot be stored in the catalog is not begun.
func TestACatalogThatFails(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	full := errors.New("disk full")
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	k := &keptCatalog{}
	n := openNode(t, func(c *Config) { c.Catalog = k })
	id, err := n.Add(Entry{Path: file})
	must(t, err)
	k.fail(full)
	_, err = n.Share(t.Context(), file, ShareOptions{})
	_, err2 := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	_, err3 := n.Add(Entry{Ticket: s.Ticket()})
	for _, err := range []error{err, err2, err3, n.Pause(t.Context(), id), n.Remove(t.Context(), id)} {
		if !errors.Is(err, full) {
			t.Error(err)
		}
	}
	if len(n.Shares())+len(n.Transfers()) > 0 || len(n.Entries()) != 1 {
		t.Error(n.Shares(), n.Transfers(), n.Entries())
	}
	if _, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: loopback, Catalog: k}); !errors.Is(err, full) || !errors.Is(err, ErrStateDir) {
		t.Error(err)
	}
	k.fail(nil)
	_, err = fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
	must(t, n.Close())
	if _, err := n.Share(t.Context(), file, ShareOptions{}); err == nil {
		t.Error("a closed node shares")
	}
}

func TestAnEntryIsAPathOrATicket(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	for _, e := range []Entry{{}, {Path: "a", Ticket: "b"}, {Ticket: "b"}} {
		if _, err := n.Add(e); err == nil {
			t.Errorf("%+v was taken", e)
		}
	}
	id, err := n.Add(Entry{Path: "a", ID: 77, Added: time.Unix(1, 0)})
	must(t, err)
	if e, _ := n.Entry(id); !filepath.IsAbs(e.Path) || time.Since(e.Added) > time.Hour || id != 1 {
		t.Errorf("%+v", e)
	}
	for s := range EntryFailed + 1 {
		var back EntryState
		b, _ := s.MarshalText()
		if err := back.UnmarshalText(b); err != nil || back != s {
			t.Errorf("%v: %v %v", s, back, err)
		}
	}
	if err := new(EntryState).UnmarshalText([]byte("lost")); err == nil || EntryState(99).String() != "EntryState(99)" {
		t.Error(err)
	}
}
