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
// same list; and a transfer that starts meanwhile continues when the list is there.
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

// Whoever names a source does not wait for a question that names none, and answers it.
func TestATicketIsUsedBesideAQuestionByIDAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	for name, ask := range map[string]func(n *Node) error{
		"question": func(n *Node) error { _, err := n.Manifest(t.Context(), s.Ticket(), nil); return err },
		"fetch": func(n *Node) error {
			x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
			if err == nil {
				err = x.Wait(t.Context())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, _, answer := looking(t, s.ID())
			began := time.Now()
			if err := errors.Join(ask(n), <-answer); err != nil || time.Since(began) > 20*time.Second {
				t.Error(time.Since(began), err)
			}
		})
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

// gate is a disk that holds up whoever looks at the folder old.
type gate struct {
	vfs.FS
	came, open chan struct{}
}

func (g gate) Lstat(name string) (vfs.Info, error) {
	if name == "old" {
		g.came <- struct{}{}
		<-g.open
	}
	return g.FS.Lstat(name)
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

// A fetch waits until the question that gives way has ended. Until then it can be cancelled, and is not to be seen.
func TestAFetchIsCancelledWhileAQuestionGivesWay(t *testing.T) {
	t.Parallel()
	n, id := openNode(t), share.IDOf([]byte("x"))
	l, _ := n.catalog.list(id, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := n.Fetch(ctx, id.String(), FetchOptions{Dir: t.TempDir(), Peers: []string{silentPeer(t)}, Keep: true})
		ended <- err
	}()
	<-l.taken
	if len(n.Transfers()) > 0 {
		t.Error("a transfer that cannot be stopped yet")
	}
	cancel()
	n.catalog.endListing(id, l)
	if err := <-ended; !errors.Is(err, context.Canceled) || len(n.Entries()) > 0 {
		t.Error(err, n.Entries())
	}
	if mine, _ := n.catalog.list(id, false); mine == nil {
		t.Error("it has left its place taken")
	}
}

// A question that has no time left when the one that gives way has ended says so as others do.
func TestAQuestionIsLateWhenAnotherHasGivenWay(t *testing.T) {
	t.Parallel()
	n, id := openNode(t), share.IDOf([]byte("x"))
	l, _ := n.catalog.list(id, false)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := n.Manifest(ctx, id.String(), []string{silentPeer(t)})
		ended <- err
	}()
	<-l.taken
	<-ctx.Done()
	n.catalog.endListing(id, l)
	if err := <-ended; !errors.Is(err, share.ErrStalled) {
		t.Error(err)
	}
}

// peeking is a catalog that keeps nothing, and calls seen when it is to.
type peeking struct {
	keptCatalog
	seen func()
}

func (p *peeking) Put(Entry) (EntryID, error) {
	p.seen()
	return 0, errors.New("a test")
}

// Whoever waits for a fetch that could not begin does not hear that the share is here.
func TestAFetchThatDoesNotBeginIsNoSuccess(t *testing.T) {
	t.Parallel()
	var seen []*Transfer
	p := &peeking{}
	n := openNode(t, func(c *Config) { c.Catalog = p })
	p.seen = func() { seen = n.Transfers() }
	if _, err := n.Fetch(t.Context(), someID(t), FetchOptions{Dir: t.TempDir(), Peers: []string{silentPeer(t)}}); err == nil {
		t.Error("it has begun")
	}
	if len(seen) != 1 || seen[0].Wait(t.Context()) == nil {
		t.Errorf("%d transfers, and no error", len(seen))
	}
}
