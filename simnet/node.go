package simnet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// NodeConfig describes a node. Only the name is required.
type NodeConfig struct {
	Name string
	Site *Site // nil: on its own in the world
	// Line is its line; default 100 Mbit/s each way, 10 ms away.
	Line Line
	NAT  bool // nobody can dial it
	// Disk is the size of its disk in bytes; default 1 TiB.
	Disk int64
	Acts Behaviour // default honest
	// InFlight and Buffers are as in fetcher.Config.
	InFlight int64
	Buffers  int
	// Store is the one by which it elects coordinators with others; nil: it elects none.
	Store *Store
	// Deps may change the dependencies of its program, each time it starts; Closed is called
	// when the program has ended in good order. Either may be nil.
	Deps   func(*actors.Deps)
	Closed func()
}

// Node is one node: the real program on the real store, with a modelled disk and
// network. Its methods are for the world around it, not for its program.
type Node struct {
	net   *Net
	id    peers.ID
	cfg   NodeConfig
	acts  Behaviour
	host  Host
	disk  *storetest.Disk
	state nodeState
	dark  bool // without power
	life  int

	wall time.Duration // how far its wall clock is ahead

	seeds   []*Content
	seeded  []*Content // all that it ever had from the start, withdrawn or not
	fetches []*Fetch
	fleets  []*Fleet // that it coordinates

	closing   bool          // Stop was called in this life
	complains bool          // errors that it logs are not faults
	disturbed time.Duration // when something was last done to it

	parts
}

type nodeState uint8

const (
	stopped nodeState = iota
	running
	frozen
	leaving // finishes what it serves
)

// Add makes a node and starts it. It panics if the name is empty or taken.
func (n *Net) Add(cfg NodeConfig) *Node {
	if cfg.Name == "" { // which stands for the world
		panic("simnet: a node without a name")
	}
	if cfg.Line == (Line{}) {
		cfg.Line = Line{Up: 100 * Mbit, Down: 100 * Mbit, Latency: 10 * time.Millisecond}
	}
	if cfg.Disk == 0 {
		cfg.Disk = 1 << 40
	}
	x := &Node{net: n, id: peers.ID(cfg.Name), cfg: cfg, acts: cfg.Acts, disk: storetest.New(cfg.Disk)}
	x.acts.rng = n.Rand("behaviour " + cfg.Name)
	if n.tier != nil {
		x.host, x.id = n.tier.Add(x)
	} else {
		x.host = newModelled(x)
	}
	if n.byID[x.id] != nil {
		panic(fmt.Sprintf("simnet: two nodes %q", cfg.Name))
	}
	for _, c := range n.contents {
		x.disk.Share(c.pages)
	}
	n.nodes = append(n.nodes, x)
	n.byID[x.id] = x
	x.start()
	return x
}

// Name is the node's name. In the worlds of simnet itself it is its peer ID too.
func (x *Node) Name() string { return x.cfg.Name }

// ID is the node's peer ID.
func (x *Node) ID() peers.ID { return x.id }

// Config is the configuration of the node, with its line as it is now.
func (x *Node) Config() NodeConfig { return x.cfg }

// Acts is how the node treats others.
func (x *Node) Acts() Behaviour { return x.acts }

// Ahead is how far the node's wall clock is ahead of the world's.
func (x *Node) Ahead() time.Duration { return x.wall }

// Disk is the node's disk: give it faults, or another size.
func (x *Node) Disk() *storetest.Disk { return x.disk }

// Program is what runs on it; nil: nothing does, or a [Tier] runs it.
func (x *Node) Program() *actors.Program { return x.program }

// ChildSet is the set in which another node is, as a child of this one; Outside if it is
// none, or if a [Tier] runs the nodes.
func (x *Node) ChildSet(child *Node) peers.Set {
	if s, ok := x.children[child.id]; ok {
		return s
	}
	return peers.Outside
}

// MayComplain says whether errors that the node logs are not faults from now on, because
// something is done to it.
func (x *Node) MayComplain(yes bool) { x.complains = yes }

// Running says whether its program runs, and is not frozen.
func (x *Node) Running() bool { return x.state == running }

// Alive says whether it has a program that runs, or is frozen, or finishes what it serves.
func (x *Node) Alive() bool { return x.state != stopped }

// start begins a life.
func (x *Node) start() {
	x.life++
	x.state, x.dark = running, false
	x.disturbed = x.net.Elapsed()
	x.host.Start()
	for _, f := range x.fleets {
		f.begin()
	}
	for _, c := range x.seeds {
		x.host.Offer(c)
	}
}

// Seed gives the node all of content, to serve as long as it runs.
func (x *Node) Seed(c *Content) *Node {
	x.seeds, x.seeded = append(x.seeds, c), append(x.seeded, c)
	if x.Alive() {
		x.host.Offer(c)
	}
	return x
}

// Part gives the node the pieces of content for which has returns true, to serve.
func (x *Node) Part(c *Content, has func(p share.Piece) bool) *Node {
	p, err := store.OpenPartialIn(context.Background(), x.disk.FS(), c.Manifest, store.PartialOptions{Workers: 1})
	must(err)
	for piece := range share.FullSet(c.Manifest.Layout().Pieces()).All() {
		if !has(piece) {
			continue
		}
		blocks := c.Manifest.Layout().Blocks(piece)
		data := make([]byte, c.Manifest.Layout().PieceLen(piece))
		_, err := c.tree.ReadRun(piece, 0, blocks, data)
		must(err)
		must(p.Write(piece, 0, data))
		values, err := c.tree.Proof(piece)
		must(err)
		p.Complete(piece, values)
	}
	_, err = p.Sync()
	must(err)
	must(p.Close())
	return x
}

// Withdraw ends the offer of content for good, as when a file of it changes.
func (x *Node) Withdraw(c *Content) {
	x.net.log.add(MarkTurn, x.id, "withdraws %s", c.Manifest.Name)
	x.seeds = slices.DeleteFunc(x.seeds, func(o *Content) bool { return o == c })
	if x.Alive() {
		x.host.Withdraw(c)
	}
}

// ---- what befalls a node ----

// Stop ends the node's program in the ordinary way: what it fetches is kept,
// children are told, and replies under way are finished.
func (x *Node) Stop() {
	if x.state == stopped || x.closing {
		return
	}
	x.net.log.add(MarkDown, x.id, "stops")
	if x.state == frozen {
		x.Thaw()
	}
	x.closing = true
	x.host.Stop()
}

// Ended is for a Host: the node's life is over, in good order. Nothing may be left
// of it.
func (x *Node) Ended() {
	x.Gone()
	x.net.ref.left(x)
}

// Gone is for a Host: the node's life is over.
func (x *Node) Gone() {
	x.life++
	x.state, x.closing = stopped, false
	for _, f := range x.fetches {
		f.ends()
	}
}

// Kill ends the node's process at once, without notice: kill -9. Its disk keeps
// what was written; the machine resets its connections.
func (x *Node) Kill() {
	if x.state == stopped {
		return
	}
	x.net.log.add(MarkDown, x.id, "is killed")
	x.host.Kill()
}

// PowerOff ends the node's machine at once. Its disk keeps what was synced, and a
// random part of the rest; nobody is told.
func (x *Node) PowerOff() {
	if x.dark {
		return
	}
	x.net.log.add(MarkDown, x.id, "loses power")
	x.dark = true
	x.host.PowerOff()
}

// Start starts a node again that was stopped, killed or without power. It offers
// what it has, and goes on with what it was fetching.
func (x *Node) Start() {
	if x.closing && x.state != leaving {
		life := x.life
		x.net.When(func() bool { return x.life != life || x.state == leaving }, x.Start)
		return
	}
	if x.state == leaving {
		x.drains()
	}
	if x.state != stopped {
		return
	}
	x.net.log.add(MarkUp, x.id, "starts")
	if x.dark {
		x.disk.Restart(x.net.chance.Uint64())
	} else {
		x.disk.Kill() // closes what the last life left open
	}
	x.start()
	for _, f := range x.fetches {
		f.resume()
	}
}

// Freeze stops the node's program between two steps, as SIGSTOP does.
func (x *Node) Freeze() {
	if x.state != running {
		return
	}
	x.net.log.add(MarkDown, x.id, "freezes")
	x.freeze()
}

func (x *Node) freeze() {
	x.state = frozen
	x.host.Freeze()
}

// Thaw ends Freeze.
func (x *Node) Thaw() {
	if x.state != frozen {
		return
	}
	x.net.log.add(MarkUp, x.id, "thaws")
	x.thaw()
}

func (x *Node) thaw() {
	x.state = running
	x.disturbed = x.net.Elapsed()
	x.host.Thaw()
}

// Sleep suspends the node's machine for this long, in no time of the world: its clock is ahead of the world's afterwards.
func (x *Node) Sleep(d time.Duration) {
	x.net.log.add(MarkTurn, x.id, "sleeps for %s, while no virtual time passes", words.Duration(d))
	awake := x.state == running
	if awake {
		x.freeze()
	}
	x.wall += d
	x.host.Changed()
	if awake {
		x.thaw()
	}
}

// Become changes how the node treats others.
func (x *Node) Become(b Behaviour) {
	x.net.log.add(MarkTurn, x.id, "from now on %v", b)
	b.rng = x.acts.rng
	x.acts = b
	x.host.Changed()
}

// SetLine changes the node's line; existing connections keep the losses and delays
// they began with, but not the rates.
func (x *Node) SetLine(l Line) {
	x.net.log.add(MarkTurn, x.id, "now has a line of %v", l)
	x.cfg.Line = l
	x.host.Changed()
}

// SetClock makes the node's wall clock differ from the world's.
func (x *Node) SetClock(ahead time.Duration) {
	how := "to virtual time again"
	switch {
	case ahead > 0:
		how = words.Duration(ahead) + " ahead of virtual time"
	case ahead < 0:
		how = words.Duration(-ahead) + " behind virtual time"
	}
	x.net.log.add(MarkTurn, x.id, "sets its clock %s", how)
	x.wall = ahead
	x.host.Changed()
}

// DriftClock makes the node's wall clock gain this much in every second from now on, or
// lose it.
func (x *Node) DriftClock(gain time.Duration) {
	x.net.log.add(MarkTurn, x.id, "has a clock that %s %v in every second", map[bool]string{true: "loses", false: "gains"}[gain < 0], gain.Abs())
	x.net.Every(time.Second, func() bool {
		x.wall += gain
		x.host.Changed()
		return true
	})
}

// SetUploadRate bounds what the node sends, in bytes per second; 0 is no bound.
func (x *Node) SetUploadRate(rate int64) {
	x.host.SetUploadRate(rate)
}

// SetDownloadRate bounds what the node asks others for, in bytes per second; 0 is no
// bound.
func (x *Node) SetDownloadRate(rate int64) { x.host.SetDownloadRate(rate) }

// InFlight is what its program has asked for and not yet verified.
func (x *Node) InFlight() (bytes int64, blocks int) { return x.host.InFlight() }

// Sent is the bytes that the node has sent to all others, framing included.
func (x *Node) Sent() int64 { return x.host.Sent() }

// Received is the bytes that the node has got from all others.
func (x *Node) Received() int64 { return x.host.Received() }
