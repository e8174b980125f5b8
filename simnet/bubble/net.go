package bubble

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// Net is a network of whole nodes in a bubble. Its methods are safe for
// concurrent use.
type Net struct {
	seed    uint64
	dir     string // of the nodes that have no Disk
	packets *packets
	// log receives what nodes log at level Info and above.
	log func(x *Node, r slog.Record)
	// story is printed when a test fails.
	story timeline

	mu    sync.Mutex
	nodes []*Node

	leaving sync.WaitGroup // nodes that were killed and still end
}

// Test runs f as a subtest in a bubble, with a network made from the
// seed. When f returns, all nodes are closed; whatever does not end then fails the
// test. Errors that a node logs fail it too. A test that fails prints its seed and its
// timeline: what happened to each node, and what it logged.
func Test(t *testing.T, seed uint64, f func(t *testing.T, net *Net)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(seed, dir)
		n.log = func(x *Node, r slog.Record) {
			n.story.add(x.Name(), "%v: %s", r.Level, text(r))
			if r.Level >= slog.LevelError {
				t.Errorf("%s: %s", x.Name(), text(r))
			}
		}
		defer func() {
			if err := n.close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("seed %d, timeline:\n%s", seed, &n.story)
			}
		}()
		f(t, n)
	})
}

func newNet(seed uint64, dir string) *Net {
	return &Net{seed: seed, dir: dir, story: timeline{began: time.Now()}, packets: newPackets(rand.New(rand.NewPCG(seed, 1)))}
}

// text is a log record on one line.
func text(r slog.Record) string {
	s := r.Message
	r.Attrs(func(a slog.Attr) bool {
		s += " " + a.String()
		return true
	})
	return s
}

// close closes all nodes and waits until nothing runs any more.
func (n *Net) close() error {
	n.mu.Lock()
	nodes := n.nodes
	n.mu.Unlock()
	var ending sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, x := range nodes {
		ending.Go(func() { errs[i] = x.Close() })
	}
	ending.Wait()
	n.leaving.Wait()
	time.Sleep(time.Minute) // what libraries start, and nobody can wait for, ends
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Site makes a place whose nodes share a line to the rest of the world. Two offices
// and a WAN are
//
//	oslo := net.Site("oslo", simnet.Line{Up: 10 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: 15 * time.Millisecond})
//	rome := net.Site("rome", simnet.Line{Up: 20 * simnet.Mbit, Down: 20 * simnet.Mbit, Latency: 25 * time.Millisecond})
//	a, b := net.Add(bubble.NodeConfig{Name: "a", Site: oslo}), net.Add(bubble.NodeConfig{Name: "b", Site: rome})
func (n *Net) Site(name string, line simnet.Line) *Site {
	return &Site{name: name, line: line, up: &pipe{rate: line.Up}, down: &pipe{rate: line.Down}}
}

// Name is the site's name.
func (s *Site) Name() string { return s.name }

// Cut stops everything between each of a and each of b, until the returned
// function is called. A node with a connection through the cut finds out in time.
func (n *Net) Cut(a, b []*Node) (heal func()) {
	n.story.add("", "cut: %s | %s", names(a), names(b))
	one, other := n.block(a, b), n.block(b, a)
	return sync.OnceFunc(func() {
		n.story.add("", "heal: %s | %s", names(a), names(b))
		one()
		other()
	})
}

// CutOneWay stops what is sent by each of from to each of to.
func (n *Net) CutOneWay(from, to []*Node) (heal func()) {
	n.story.add("", "cut one way: %s > %s", names(from), names(to))
	undo := n.block(from, to)
	return sync.OnceFunc(func() {
		n.story.add("", "heal one way: %s > %s", names(from), names(to))
		undo()
	})
}

// block stops what is sent by each of from to each of to.
func (n *Net) block(from, to []*Node) (undo func()) {
	each := func(blocked bool) {
		for _, x := range from {
			for _, y := range to {
				n.packets.block(x.at, y.at, blocked)
			}
		}
	}
	each(true)
	return func() { each(false) }
}

// Partition cuts every group of nodes from every other.
func (n *Net) Partition(groups ...[]*Node) (heal func()) {
	var heals []func()
	for i, a := range groups {
		for _, b := range groups[i+1:] {
			heals = append(heals, n.Cut(a, b))
		}
	}
	return func() {
		for _, f := range heals {
			f()
		}
	}
}

// Packets is how many packets have arrived so far, and how many were lost: to a
// line, a full queue, a cut, or because nobody was there.
func (n *Net) Packets() (arrived, lost int64) {
	n.packets.mu.Lock()
	defer n.packets.mu.Unlock()
	return n.packets.carried, n.packets.dropped
}

// Add puts a node into the network. It does not run before Node.Open, or before
// the app under test opens one with Node.Config. It panics if the name is taken.
func (n *Net) Add(cfg NodeConfig) *Node {
	if cfg.Line == (simnet.Line{}) {
		cfg.Line = simnet.Line{Up: 100 * simnet.Mbit, Down: 100 * simnet.Mbit, Latency: 10 * time.Millisecond}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.nodes {
		if x.cfg.Name == cfg.Name {
			panic(fmt.Sprintf("bubble: two nodes %q", cfg.Name))
		}
	}
	i := len(n.nodes) + 1
	ip := netip.AddrFrom4([4]byte{1, byte(i >> 8), byte(i), 1})
	if cfg.Router != nil {
		ip = cfg.Router.within()
	}
	x := &Node{net: n, cfg: cfg, key: n.key(cfg.Name), dir: filepath.Join(n.dir, fmt.Sprint(i)), acts: cfg.Acts,
		chance: rand.New(rand.NewPCG(n.seed, uint64(i)<<8)),
		at: &place{n: n.packets, ip: ip, line: cfg.Line, site: cfg.Site, nat: cfg.NAT, router: cfg.Router,
			up: &pipe{rate: cfg.Line.Up}, down: &pipe{rate: cfg.Line.Down}, cut: map[*place]int{}, opened: map[netip.AddrPort]time.Time{}}}
	n.nodes = append(n.nodes, x)
	return x
}

// key is a node's key, made from its name and the seed.
func (n *Net) key(name string) ed25519.PrivateKey {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(name), n.seed))
	return ed25519.NewKeyFromSeed(sum[:])
}
