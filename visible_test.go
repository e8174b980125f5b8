package fetcher

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// announcer is a Discovery that finds nobody.
type announcer struct {
	mu      sync.Mutex
	shares  func() []share.ID
	changes int
	wanted  []share.ID
	looked  chan struct{} // gets one when something is looked for, if it is not nil
	ended   int           // of what was wanted
	closed  bool
}

func (a *announcer) Start(n Local) {
	a.shares = func() []share.ID { return n.Shares(VisibleLAN) }
}

func (a *announcer) Changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
}

func (a *announcer) Find(id share.ID, _ []peers.ID, _ func(peers.Via, peers.Addr)) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = append(a.wanted, id)
	if a.looked != nil {
		a.looked <- struct{}{}
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended++
	}
}

func (a *announcer) Close() error {
	a.closed = true
	return nil
}

// changed says whether it heard of a change since the last time.
func (a *announcer) changed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.changes
	a.changes = 0
	return n > 0
}

func TestOnlyWhatIsVisibleIsAnnounced(t *testing.T) {
	var a announcer
	n := openNode(t, func(c *Config) { c.Discovery = &a })
	dir := t.TempDir()
	shared := func(seed uint64, opt ShareOptions) *Share {
		path := filepath.Join(dir, fmt.Sprint(seed))
		writeRandom(t, path, 1000, seed)
		s, err := n.Share(t.Context(), path, opt)
		must(t, err)
		return s
	}
	private, lan := shared(1, ShareOptions{}), shared(2, ShareOptions{Visible: VisibleLAN})
	is := func(want ...share.ID) {
		t.Helper()
		if got := a.shares(); !slices.Equal(got, want) {
			t.Errorf("%v is announced, want %v", got, want)
		}
		if !a.changed() {
			t.Error("it was not told of the change")
		}
	}
	is(lan.ID())
	must(t, n.SetVisible(private.ID(), VisibleLAN))
	is(private.ID(), lan.ID())
	must(t, lan.Stop(t.Context()))
	is(private.ID())
	must(t, n.SetVisible(private.ID(), Private))
	is()
	if err := n.Close(); err != nil || !a.closed {
		t.Errorf("closed: %v, %v", a.closed, err)
	}
}

func TestAShareIDAloneIsLookedForWhereSomethingFindsPeers(t *testing.T) {
	a := announcer{looked: make(chan struct{}, 1)}
	n := openNode(t, func(c *Config) { c.Discovery = &a })
	id := share.IDOf([]byte("x"))
	f, err := n.Fetch(t.Context(), id.String(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	<-a.looked
	must(t, f.Stop(t.Context()))
	if err := n.Close(); err != nil || !slices.Equal(a.wanted, []share.ID{id}) || a.ended != 1 {
		t.Errorf("looked for %v, and %d of them no longer: %v", a.wanted, a.ended, err)
	}
}
