package fetcher

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Callers that ask for the same list of files at the same time, or during a transfer, get the
// same list.
func TestAListOfFilesIsAskedForOnce(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	n := openNode(t)
	id := s.ID()
	done := s.node.catalog.offers.Opening(id)
	defer done()
	s.node.catalog.offers.Leave(id, nil)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if m, err := n.Manifest(t.Context(), s.Ticket(), nil); err != nil || m.ID() != id {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
		if err == nil {
			err = x.Wait(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() { // from here on the source has it again
		if _, err := s.node.Share(t.Context(), file, ShareOptions{}); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openNode(t).Manifest(ctx, s.Ticket(), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	late, end := context.WithTimeout(t.Context(), 0)
	defer end()
	if err := unsent(late); err.Error() != "stalled: nobody has sent the list of files in time" || !errors.Is(err, share.ErrStalled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Whoever ends a question does not hear that a time was over.
func TestAQuestionThatIsCancelledIsNotLate(t *testing.T) {
	a := announcer{looked: make(chan struct{}, 9)}
	n := openNode(t, func(c *Config) { c.Discovery = &a })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-a.looked; cancel() }()
	if _, err := n.Manifest(ctx, share.IDOf([]byte("x")).String(), nil); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "in time") {
		t.Error(err)
	}
}

// looking is a node that finds nobody, and a question of it for the list of a share, by the ID alone.
func looking(t *testing.T, id share.ID) (n *Node, a *announcer, answer chan error) {
	a = &announcer{looked: make(chan struct{}, 9)}
	n, answer = openNode(t, func(c *Config) { c.Discovery = a }), make(chan error, 1)
	go func() {
		m, err := n.Manifest(t.Context(), id.String(), nil)
		if err == nil && m.ID() != id {
			err = errors.New("another list")
		}
		answer <- err
	}()
	<-a.looked
	return n, a, answer
}

// Whoever names a source that has the list does not wait for a question or a fetch that finds nobody, or that
// names somebody who says nothing; and a question is answered by whoever has the list first.
func TestATicketIsUsedBesideWhoeverAsksInVain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	question := func(n *Node, what string, more []string) error {
		_, err := n.Manifest(t.Context(), what, more)
		return err
	}
	fetch := func(n *Node, what string, more []string) error {
		x, err := n.Fetch(t.Context(), what, FetchOptions{Dir: t.TempDir(), Peers: more})
		if err == nil {
			err = x.Wait(t.Context())
		}
		return err
	}
	for _, c := range []struct {
		name        string
		first, then func(n *Node, what string, more []string) error
		answered    bool // the first, too
	}{
		{"a question beside a question", question, question, true},
		{"a fetch beside a question", question, fetch, true},
		{"a question beside a fetch", fetch, question, false},
	} {
		for who, more := range map[string][]string{"nobody": nil, "a silent peer": {silentPeer(t)}} {
			t.Run(c.name+" of "+who, func(t *testing.T) {
				t.Parallel()
				a := &announcer{looked: make(chan struct{}, 9)}
				n, first := openNode(t, func(c *Config) { c.Discovery = a }), make(chan error, 1)
				go func() { first <- c.first(n, s.ID().String(), more) }()
				<-a.looked
				began := time.Now()
				err := c.then(n, s.Ticket(), nil)
				if c.answered {
					err = errors.Join(err, <-first)
				}
				if err != nil || time.Since(began) > 20*time.Second {
					t.Error(time.Since(began), err)
				}
				for _, x := range n.Transfers() {
					must(t, x.Stop(t.Context()))
				}
				if !c.answered {
					<-first
				}
			})
		}
	}
}

// A question that names nobody goes on when whoever took its place has failed, and names of a failed
// asker are not used for it.
func TestAQuestionOutlastsWhoeverTookItsPlace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	n, a, answer := looking(t, s.ID())
	nobody := openNode(t).Addrs()
	if _, err := n.Manifest(t.Context(), s.ID().String(), nobody); err == nil {
		t.Error("a node without the share has sent its list")
	}
	<-a.looked // of the one that failed
	x, err := n.Fetch(t.Context(), s.ID().String(), FetchOptions{Dir: t.TempDir(), Peers: nobody, Stall: time.Second})
	if err == nil {
		err = x.Wait(t.Context())
	}
	if err == nil {
		t.Error("it was fetched of nobody")
	}
	select {
	case err := <-answer:
		t.Fatal("the question ended with the fetch:", err)
	default:
	}
	if _, err := n.Manifest(t.Context(), s.Ticket(), nil); err != nil {
		t.Error(err)
	}
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// gate is a disk that holds up whoever looks at the folder old, or makes it.
type gate struct {
	vfs.FS
	came, open chan struct{}
}

func (g gate) Lstat(name string) (vfs.Info, error) {
	g.hold(name)
	return g.FS.Lstat(name)
}

func (g gate) Mkdir(name string) error {
	g.hold(name)
	return g.FS.Mkdir(name)
}

func (g gate) hold(name string) {
	if name == "old" {
		g.came <- struct{}{}
		<-g.open
	}
}

// A fetch reads for hours, when it has the list of files, before it has a place on the disk. Whoever
// waits for the list has it before that.
func TestAListIsAnsweredBeforeTheFetchHasItsPlace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	a := &announcer{looked: make(chan struct{}, 9)}
	disk, err := vfs.Dir(t.TempDir())
	must(t, err)
	t.Cleanup(func() { disk.Close() })
	must(t, disk.Mkdir("old"))
	g := gate{disk, make(chan struct{}, 9), make(chan struct{})}
	n := openNode(t, func(c *Config) { c.Dir, c.Discovery, c.Simulation.FS = "state", a, g })
	answer := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := n.Manifest(ctx, s.ID().String(), nil)
		answer <- err
	}()
	<-a.looked
	x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: "got", Like: []string{"old"}})
	must(t, err)
	<-g.came
	if err := <-answer; err != nil {
		t.Error(err)
	}
	close(g.open)
	must(t, x.Wait(t.Context()))
}

// A question waits for another only if it would hear no more than that, and no longer than that one asks.
func TestAQuestionWaitsForOneThatHearsAsMuch(t *testing.T) {
	t.Parallel()
	c, id := openNode(t).catalog, share.IDOf([]byte("x"))
	a, _ := c.ask(id, "a")
	b, _ := c.ask(id, "b")
	over := func(a *asking) bool {
		select {
		case <-a.over:
			return true
		default:
			return false
		}
	}
	_, same := c.ask(id, "b")
	_, bare := c.ask(id, "")
	if a == nil || b == nil || same != b || bare != a {
		t.Error(a, b, same, bare)
	}
	c.unask(id, a)
	c.unask(id, a)
	if _, bare = c.ask(id, ""); !over(a) || over(b) || bare != b {
		t.Error(over(a), over(b), bare)
	}
	d, _ := c.ask(id, "d")
	if c.unask(id, nil); !over(b) || !over(d) || len(c.asking) > 0 {
		t.Error(over(b), over(d), c.asking)
	}
}

// peeking is a catalog whose Put is put.
type peeking struct {
	keptCatalog
	put func(Entry) (EntryID, error)
}

func (p *peeking) Put(e Entry) (EntryID, error) { return p.put(e) }

// Whoever waits for a fetch that could not begin does not hear that the share is here.
func TestAFetchThatDoesNotBeginIsNoSuccess(t *testing.T) {
	t.Parallel()
	var seen []*Transfer
	p := &peeking{}
	n := openNode(t, func(c *Config) { c.Catalog = p })
	p.put = func(Entry) (EntryID, error) {
		seen = n.Transfers()
		return 0, errors.New("a test")
	}
	if _, err := n.Fetch(t.Context(), someID(t), FetchOptions{Dir: t.TempDir(), Peers: []string{silentPeer(t)}}); err == nil {
		t.Error("it has begun")
	}
	if len(seen) != 1 || seen[0].Wait(t.Context()) == nil {
		t.Errorf("%d transfers, and no error", len(seen))
	}
}
