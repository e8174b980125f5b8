package bubble

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// NodeConfig describes a node. Only the name is required.
type NodeConfig struct {
	Name string
	Site *Site // nil: on its own in the world
	// Line is its line; default 100 Mbit/s each way, 10 ms away.
	Line simnet.Line
	NAT  bool // it gets packets only from addresses to which it has sent
	// Router is the one that it is behind; nil: it has a public address.
	Router *Router
	Acts   simnet.Behaviour // default honest
	// Disk is a disk in memory that the node has in place of a folder of this
	// machine, to give it faults. Names in FetchOptions and Share are then names
	// on it. With one, a killed node writes nothing any more.
	Disk *storetest.Disk
	// Config is for everything else: limits, fleets, a clock. Its fields for the network, the
	// disk and the node's identity are overwritten.
	Config fetcher.Config
}

// Node is a place in the network for one fetcher node at a time, which keeps its
// identity, its address and its disk when one replaces another. Its methods are safe
// for concurrent use.
type Node struct {
	net *Net
	cfg NodeConfig
	key ed25519.PrivateKey
	dir string
	at  *place

	mu     sync.Mutex
	node   *fetcher.Node // made by Open; nil: none
	life   *life         // the last; nil: none yet
	blocks p2p.Blocks    // what it serves
	acts   simnet.Behaviour
	sent   int64 // by former lives
	got    int64

	chanceMu sync.Mutex
	chance   *rand.Rand // of behaviours
}

// life is one fetcher node from its Config to its end.
type life struct {
	over   chan struct{} // closed when it ends: nothing need be kept waiting
	killed atomic.Bool   // what it says now is ignored
	once   sync.Once
}

func (l *life) end() {
	if l != nil {
		l.once.Do(func() { close(l.over) })
	}
}

// Name is the node's name.
func (x *Node) Name() string { return x.cfg.Name }

// Folder is the node's folder on this machine, if it has no Disk: it holds its state,
// and whatever a test wants to share or fetch.
func (x *Node) Folder() string { return x.dir }

// ID is the peer ID of every node here.
func (x *Node) ID() peers.ID {
	id, err := peer.IDFromPrivateKey(must(crypto.UnmarshalEd25519PrivateKey(x.key)))
	return peers.ID(must(id, err).String())
}

func must[T any](v T, err error) T {
	if err != nil { // of a key that was made from a seed
		panic(err)
	}
	return v
}

// Config is a configuration for one fetcher.Open that puts a node here: its network,
// identity, state directory and, if it has one, its disk. Open applies it itself.
func (x *Node) Config() fetcher.Config {
	x.net.story.add(x.Name(), "starts")
	c := x.cfg.Config
	c.Listen = []string{fmt.Sprintf("/ip4/%s/udp/4001/quic-v1", x.at.ip)}
	c.FreshIdentity, c.P2P.Key, c.P2P.Packets = false, x.key, x.at
	c.Dir = filepath.Join(x.dir, "state")
	if x.cfg.Disk != nil {
		c.Dir, c.Simulation.FS = "state", x.cfg.Disk.FS()
	}
	life := &life{over: make(chan struct{})}
	x.mu.Lock()
	x.life = life
	x.mu.Unlock()
	c.Simulation.Serve = func(b p2p.Blocks) func(peers.ID) p2p.Blocks {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.blocks = b
		return func(to peers.ID) p2p.Blocks { return liar{b, x, life, to} }
	}
	c.Simulation.Send = x.bend
	c.Logger = slog.New(&records{x: x, life: life})
	return c
}

// Open starts a node here, unless one that Open made is running.
func (x *Node) Open() (*fetcher.Node, error) {
	if f := x.Fetcher(); f != nil {
		return f, nil
	}
	f, err := fetcher.Open(context.Background(), x.Config())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.Name(), err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.node = f
	return f, nil
}

// Serve writes a file into the node's folder, or onto its Disk, starts a node
// here unless one is running, and shares the file from it. A test uses it to
// have something to fetch; an app under test shares with fetcher's own Share.
func (x *Node) Serve(name string, content []byte) (ticket string, err error) {
	f, err := x.Open()
	if err != nil {
		return "", err
	}
	path := name
	if x.cfg.Disk != nil {
		err = write(x.cfg.Disk.FS(), name, content)
	} else {
		path = filepath.Join(x.dir, name)
		err = os.WriteFile(path, content, 0o666)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", x.Name(), err)
	}
	s, err := f.Share(context.Background(), path, fetcher.ShareOptions{})
	if err != nil {
		return "", fmt.Errorf("%s: %w", x.Name(), err)
	}
	return s.Ticket(), nil
}

func write(d vfs.FS, name string, content []byte) error {
	f, err := d.Create(name, false)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Close())
}

// Fetcher is the node that Open made, while it runs; nil if there is none.
func (x *Node) Fetcher() *fetcher.Node {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.node
}

// Close closes the node that Open made, in good order, if one is running.
func (x *Node) Close() error {
	f, life := x.take()
	life.end()
	if f == nil {
		return nil
	}
	x.net.story.add(x.Name(), "stops")
	if err := f.Close(); err != nil {
		return fmt.Errorf("%s: close: %w", x.Name(), err)
	}
	x.count(f)
	return nil
}

// take returns the running node, which no longer counts as running.
func (x *Node) take() (*fetcher.Node, *life) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := x.node
	x.node = nil
	return f, x.life
}

// count adds what a node that has ended has sent.
func (x *Node) count(f *fetcher.Node) {
	in, out := f.Traffic()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.got += in
	x.sent += out
}

// Kill takes the node off the network and off its Disk at once and without notice,
// as kill -9 does, whether Open or the app under test made it.
// A node that Open made then ends on its own, cut off; Open may be called at
// once if it has a Disk. Without one, its last writes still reach the folder.
func (x *Node) Kill() {
	x.net.story.add(x.Name(), "is killed")
	x.at.die()
	if x.cfg.Disk != nil {
		x.cfg.Disk.Kill()
	}
	x.abandon()
}

// abandon lets a node end that is cut off from everything.
func (x *Node) abandon() {
	f, life := x.take()
	if life != nil {
		life.killed.Store(true)
		life.end()
	}
	if f == nil {
		return
	}
	x.count(f)
	x.net.leaving.Go(func() {
		f.Close() // an error is to be expected of a dead disk and network
	})
}

// Freeze lets no packet in or out, until Thaw. The node itself keeps running: to stop
// it between two steps takes simnet's own worlds, or SIGSTOP.
func (x *Node) Freeze() {
	x.net.story.add(x.Name(), "freezes")
	x.at.freeze(true)
}

// Thaw ends Freeze.
func (x *Node) Thaw() {
	x.net.story.add(x.Name(), "thaws")
	x.at.freeze(false)
}

// SetLine changes the node's line.
func (x *Node) SetLine(l simnet.Line) {
	x.net.story.add(x.Name(), "now has a line of %v", l)
	x.at.setLine(l)
}

// Become changes how the node treats others.
func (x *Node) Become(b simnet.Behaviour) {
	x.net.story.add(x.Name(), "from now on %v", b)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.acts = b
}

// Addrs returns the addresses of a node here, as a ticket has them.
func (x *Node) Addrs() []string {
	return []string{fmt.Sprintf("/ip4/%s/udp/4001/quic-v1/p2p/%s", x.at.ip, x.ID())}
}

// Traffic is the bytes of all streams of nodes that Open made here.
func (x *Node) Traffic() (in, out int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in, out = x.got, x.sent
	if x.node != nil {
		i, o := x.node.Traffic()
		in, out = in+i, out+o
	}
	return in, out
}

// records takes what a node logs.
type records struct {
	x    *Node
	life *life
	with []slog.Attr
}

func (h *records) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *records) Handle(_ context.Context, r slog.Record) error {
	if h.life.killed.Load() {
		return nil
	}
	r = r.Clone()
	r.AddAttrs(h.with...)
	h.x.net.log(h.x, r)
	return nil
}

func (h *records) WithAttrs(as []slog.Attr) slog.Handler {
	return &records{h.x, h.life, append(append([]slog.Attr(nil), h.with...), as...)}
}

func (h *records) WithGroup(string) slog.Handler { return h }
