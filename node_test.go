package fetcher

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// closing is a context that closes a node when its state is first asked for.
type closing struct {
	context.Context
	once sync.Once
	node *Node
	err  chan error
}

func (c *closing) Err() error {
	c.once.Do(func() {
		go func() { c.err <- c.node.Close() }()
		<-c.node.closing
	})
	return c.Context.Err()
}

// A Fetch that begins while its node is being closed does not make the node wait in vain.
func TestAFetchThatBeginsWhileItsNodeClosesEnds(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	c := &closing{Context: t.Context(), node: n, err: make(chan error, 1)}
	x, err := n.Fetch(c, someID(t), FetchOptions{Dir: t.TempDir(), Peers: []string{silentPeer(t)}})
	if err := <-c.err; err != nil {
		t.Error("close:", err)
	}
	if err == nil {
		<-x.Done()
	}
}

// One that the catalog refuses by then ends as well.
func TestAFetchThatIsRefusedWhileItsNodeClosesEnds(t *testing.T) {
	t.Parallel()
	var n *Node
	closed := make(chan error, 1)
	wall := func() time.Time { // asked for between the two steps in which a Fetch is entered
		if n != nil {
			go func() { closed <- n.Close() }()
			for !n.catalog.isClosed() {
				runtime.Gosched()
			}
		}
		return time.Now()
	}
	node, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: loopback, Wall: wall})
	if err != nil {
		t.Fatal(err)
	}
	n = node
	if _, err := n.Fetch(t.Context(), someID(t), FetchOptions{Dir: t.TempDir(), Peers: []string{silentPeer(t)}}); !errors.Is(err, ErrClosed) {
		t.Error("fetch:", err)
	}
	if err := <-closed; err != nil {
		t.Error("close:", err)
	}
}

// What is shared again under the same ID is one share: the end of the first is reported, and
// ends nothing.
func TestTheSameContentSharedTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeRandom(t, filepath.Join(dir, "a", "file"), 1000, 1)
	writeRandom(t, filepath.Join(dir, "b", "file"), 1000, 1)
	n := openNode(t)
	a, err := n.Share(t.Context(), filepath.Join(dir, "a", "file"), ShareOptions{})
	must(t, err)
	b, err := n.Share(t.Context(), filepath.Join(dir, "b", "file"), ShareOptions{})
	must(t, err)
	if a.ID() != b.ID() {
		t.Fatal("the same content has two IDs")
	}
	<-a.Done()
	must(t, a.Stop(t.Context()))
	_, err = fetchInto(t, openNode(t), b.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
}

// StopSharing ends a Share as its own Stop does, and it can be shared again.
func TestStopSharingEndsAShare(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1000, 1)
	n := openNode(t)
	for range 2 {
		s, err := n.Share(t.Context(), file, ShareOptions{})
		must(t, err)
		_, err = n.StopSharing(t.Context(), s.ID())
		must(t, err)
		select {
		case <-s.Done():
		default:
			t.Error("the share has not ended")
		}
		must(t, s.Err())
		must(t, s.Stop(t.Context()))
	}
	s, err := n.Share(t.Context(), file, ShareOptions{})
	must(t, err)
	_, err = fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
}

// What was learnt of peers in the last minute is kept too.
func TestTheRankingIsKeptWhenANodeCloses(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 4<<20, 1)
	s := shareOf(t, file)
	dir := t.TempDir()
	n, err := Open(t.Context(), Config{Dir: dir, Listen: loopback})
	must(t, err)
	_, err = fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
	must(t, n.Close())
	again := openNode(t, func(c *Config) { c.Dir = dir })
	known := false
	for _, r := range rememberedBy(again) {
		known = known || r.ID == peers.ID(s.node.ID())
	}
	if !known {
		t.Error("the source was forgotten")
	}
}

// A second Close returns when the first has closed the node.
func TestClosingTwiceAtOnceIsClosingOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := Open(t.Context(), Config{Dir: dir, Listen: loopback})
	must(t, err)
	first := make(chan error, 1)
	go func() { first <- n.Close() }()
	<-n.closing
	must(t, n.Close())
	again := openNode(t, func(c *Config) { c.Dir = dir })
	if again.ID() != n.ID() {
		t.Error("the node came back from Close with its key in use")
	}
	must(t, <-first)
}

// What is asked of a closed node is refused with one error, and a sentence for people.
func TestAClosedNodeSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1000, 1)
	n := openNode(t)
	s, err := n.Share(t.Context(), file, ShareOptions{})
	must(t, err)
	d, err := n.Depot(openNode(t).Addrs()...)
	must(t, err)
	ticket := s.Ticket()
	must(t, n.Close())
	ctx := t.Context()
	for what, ask := range map[string]func() error{
		"share":     func() error { _, err := n.Share(ctx, file, ShareOptions{}); return err },
		"fetch":     func() error { _, err := n.Fetch(ctx, ticket, FetchOptions{Dir: t.TempDir()}); return err },
		"add":       func() error { _, err := n.Add(Entry{Path: file}); return err },
		"resume":    func() error { return n.Resume(ctx, s.Entry()) },
		"pause":     func() error { return n.Pause(ctx, s.Entry()) },
		"children":  func() error { _, err := n.Children(ctx); return err },
		"uploads":   func() error { _, err := n.Uploads(ctx); return err },
		"scores":    func() error { _, err := n.Scores(ctx, []peers.ID{n.ID()}); return err },
		"beacon":    func() error { _, err := n.Beacon(ctx); return err },
		"holds":     func() error { _, err := n.Holds(ctx); return err },
		"depot":     func() error { _, err := n.DepotDo(ctx, nil); return err },
		"usage":     func() error { _, err := d.Usage(ctx); return err },
		"manifest":  func() error { _, err := n.Manifest(ctx, someID(t), []string{silentPeer(t)}); return err },
		"withdrawn": func() error { _, err := n.StopSharing(ctx, s.ID()); return err },
	} {
		if err := ask(); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "the node is closed") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A second fetch of a share is refused, and the first goes on.
func TestAShareIsFetchedOnceAtATime(t *testing.T) {
	t.Parallel()
	n, id, opt := openNode(t), someID(t), FetchOptions{Dir: t.TempDir(), Peers: []string{silentPeer(t)}}
	first, err := n.Fetch(t.Context(), id, opt)
	must(t, err)
	opt.Dir = t.TempDir()
	if _, err := n.Fetch(t.Context(), id, opt); !errors.Is(err, share.ErrHeld) || strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
	if all := n.Transfers(); len(all) != 1 || all[0] != first {
		t.Errorf("%d transfers", len(all))
	}
	must(t, first.Stop(t.Context()))
}

// Options that make no sense are refused, and none of them shares more, or with more, than was meant.
func TestOptionsOfAShareAreChecked(t *testing.T) {
	t.Parallel()
	n, dir := openNode(t), t.TempDir()
	writeRandom(t, filepath.Join(dir, "file"), 1000, 1)
	for name, x := range map[string]struct {
		path string
		opt  ShareOptions
		want error
	}{
		"no path":          {"", ShareOptions{}, fs.ErrInvalid},
		"no further path":  {dir, ShareOptions{Name: "x", Also: []string{""}}, fs.ErrInvalid},
		"no ticket":        {dir, ShareOptions{Ticket: "sharex", Secret: true}, share.ErrTicket},
		"an empty pattern": {dir, ShareOptions{Exclude: []string{""}}, path.ErrBadPattern},
		"more than public": {dir, ShareOptions{Visible: Public + 1}, nil},
		"unknown links":    {dir, ShareOptions{Links: store.LinksRefuse + 1}, nil},
	} {
		if s, err := n.Share(t.Context(), x.path, x.opt); err == nil || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := n.ShareFS(t.Context(), os.DirFS(dir), ShareOptions{Name: "x", Ticket: "sharex"}); !errors.Is(err, share.ErrTicket) {
		t.Error(err)
	}
	s, err := n.Share(t.Context(), dir, ShareOptions{Ticket: someID(t)}) // it was fetched by its ID
	must(t, err)
	if err := n.SetVisible(s.ID(), Public+1); err == nil {
		t.Error("a share is more than public")
	}
	if _, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Visible: Public + 1}); err == nil {
		t.Error("a fetch is more than public")
	}
	if _, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Like: []string{""}}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if text := n.Ticket(share.ID{}); text != "" {
		t.Error("no share has the ticket", text)
	}
}

// A node may fetch what it shares to another place on its disk, and continues to share it.
func TestFetchingWhatIsSharedEndsNoShare(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 3<<20, 1)
	other := shareOf(t, file)
	n := openNode(t)
	s, err := n.Share(t.Context(), file, ShareOptions{})
	must(t, err)
	_, err = fetchInto(t, n, other.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
	n.leaving.Wait()
	_, err = fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
}

// Addresses are sent without the peer ID, which is sent beside them.
func TestWhatANodeTellsOthersOfItsAddressesIsWithoutItsID(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	told := network{n.host}.Addrs()
	if len(told) == 0 || len(told) != len(n.Addrs()) {
		t.Fatalf("%q, of %q", told, n.Addrs())
	}
	for i, a := range told {
		if strings.Contains(a, "/p2p/") || !strings.HasPrefix(n.Addrs()[i], a+"/p2p/") {
			t.Errorf("%s, of %s", a, n.Addrs()[i])
		}
	}
}

// deadly is a logger that breaks whatever logs a message.
type deadly struct {
	slog.Handler
	message string
}

func (d deadly) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == d.message {
		panic("a test")
	}
	return d.Handler.Handle(ctx, r)
}

// A bug that ends the actors ends every wait, with the reason.
func TestABugThatEndsTheActorsEndsEveryWait(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "file"), filepath.Join(dir, "mine")
	writeRandom(t, file, 2<<20, 1)
	writeRandom(t, mine, 1000, 2)
	honest := shareOf(t, file, func(c *Config) { c.UploadRate = 1 << 10 })
	liar := shareOf(t, file, func(c *Config) {
		c.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks {
			return &liar{Blocks: b, proof: func(_ share.Piece, v []share.Hash) { v[0][0] ^= 1 }}
		})
	})
	state := filepath.Join(dir, "state")
	n := openNode(t, func(c *Config) {
		c.Dir = state
		c.Logger = slog.New(deadly{slog.NewTextHandler(io.Discard, nil), "the ranking of peers was not saved"})
	})
	s, err := n.Share(t.Context(), mine, ShareOptions{})
	must(t, err)
	must(t, os.RemoveAll(state))
	x, err := n.Fetch(t.Context(), honest.Ticket(), FetchOptions{Dir: filepath.Join(dir, "to"), Peers: liar.node.Addrs()})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := x.Wait(ctx); err == nil || !strings.Contains(err.Error(), "a test") {
		t.Errorf("the fetch ended with %v", err)
	}
	select {
	case <-s.Done():
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "a test") {
			t.Errorf("the share ended with %v", err)
		}
	case <-ctx.Done():
		t.Error("the share has not ended")
	}
}
