package simnet

import (
	"context"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

// NodeConfig is how a node is made. Only the name is needed.
type NodeConfig struct {
	Name string
	Site *Site // nil: on its own in the world
	// Line is its line; default 100 Mbit/s each way, 10 ms away.
	Line Line
	NAT  bool // nobody can dial it
	// Disk is the size of its disk in bytes; default 1 TiB.
	Disk int64
	Acts Behaviour // default honest
	// Deps may change what its program is made of, each time it starts.
	Deps func(*actors.Deps)
}

// Node is one node: the real program on the real store, with a modelled disk and
// network. Its methods are for the world around it, not for its program.
type Node struct {
	net   *Net
	id    peers.ID
	cfg   NodeConfig
	acts  Behaviour
	up    *uplink
	down  *pipe
	disk  *storetest.Disk
	state nodeState
	dark  bool // without power
	life  int

	program *actors.Program // nil: not running
	offers  *store.Offers
	dials   map[peers.ID][]func(*conn, error)
	onThaw  []func()
	wall    time.Duration // what its wall clock is ahead

	uploadRate int64 // bytes per second

	seeds   []*Content
	fetches []*Fetch
	ranking []peers.Record

	in, out   map[peers.ID]int64
	waste     int64
	closing   bool // Stop was called in this life
	drains    func()
	disturbed time.Duration // since when nothing was done to it
}

type nodeState uint8

const (
	stopped nodeState = iota
	running
	frozen
	leaving // finishes what it serves
)

// Add makes a node and starts it.
func (n *Net) Add(cfg NodeConfig) *Node {
	if cfg.Line == (Line{}) {
		cfg.Line = Line{Up: 100 * Mbit, Down: 100 * Mbit, Latency: 10 * time.Millisecond}
	}
	if cfg.Disk == 0 {
		cfg.Disk = 1 << 40
	}
	x := &Node{net: n, id: peers.ID(cfg.Name), cfg: cfg, acts: cfg.Acts,
		up: &uplink{w: n.World, rate: cfg.Line.Up}, down: &pipe{w: n.World, rate: cfg.Line.Down},
		disk: storetest.New(cfg.Disk), in: map[peers.ID]int64{}, out: map[peers.ID]int64{}}
	x.acts.rng = n.Rand("behaviour " + cfg.Name)
	if n.byID[x.id] != nil {
		panic(fmt.Sprintf("simnet: two nodes %q", cfg.Name))
	}
	n.nodes = append(n.nodes, x)
	n.byID[x.id] = x
	x.start()
	return x
}

// Name is the node's name, and its peer ID.
func (x *Node) Name() string { return string(x.id) }

// Disk is the node's disk: give it faults, or another size.
func (x *Node) Disk() *storetest.Disk { return x.disk }

// Self implements actors.Network.
func (x *Node) Self() peers.ID { return x.id }

// Addrs implements actors.Network.
func (x *Node) Addrs() []string {
	if x.cfg.NAT {
		return nil
	}
	return []string{"/sim"}
}

// Running says whether its program runs, and is not frozen.
func (x *Node) Running() bool { return x.state == running }

// start begins a life.
func (x *Node) start() {
	n := x.net
	x.life++
	x.state, x.dark = running, false
	x.disturbed = n.Elapsed()
	x.dials = map[peers.ID][]func(*conn, error){}
	x.offers = store.NewOffers()
	rt := n.Runtime(fmt.Sprint(x.id, " ", x.life))
	rt.SetWall(func() time.Time { return n.Now().Add(x.wall) })
	d := actors.Deps{Runtime: rt, Network: x, Remembered: x.ranking, Remember: func(r []peers.Record) { x.ranking = r }}
	if x.cfg.Deps != nil {
		x.cfg.Deps(&d)
	}
	x.program = actors.Start(d)
	if x.uploadRate > 0 {
		x.program.SetUploadRate(x.uploadRate)
	}
	x.flood()
	for _, c := range x.seeds {
		x.offer(c)
	}
}

func (x *Node) blocks() dishonest { return dishonest{x} }

// Seed lets the node have content whole, and serve it.
func (x *Node) Seed(c *Content) *Node {
	x.seeds = append(x.seeds, c)
	x.offer(c)
	return x
}

func (x *Node) offer(c *Content) {
	if x.acts.Claims {
		x.offers.Add(claimed{borrowed{c.tree}})
	} else {
		x.offers.Add(borrowed{c.tree})
	}
	x.program.Offer(c.ID(), c.Manifest.Layout().Pieces())
}

// Part lets the node have the pieces that has says of content, and serve them.
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

// claimed is a share of which nothing is there.
type claimed struct{ store.Source }

func (claimed) Proof(share.Piece) ([]share.Hash, error) { return nil, store.ErrNotYet }
func (claimed) ReadRun(share.Piece, share.Block, int, []byte) (int, error) {
	return 0, store.ErrNotYet
}

// Withdraw ends the offer of content, for a reason or, with none, in the ordinary way.
func (x *Node) Withdraw(c *Content, why string) {
	x.net.log.add(x.id, "withdraws %s", c.Manifest.Name)
	x.offers.Remove(c.ID())
	x.program.Withdraw(context.Background(), c.ID(), why)
}

// ---- what befalls a node ----

// Stop ends the node's program in the ordinary way: what it fetches is kept,
// children are told, and replies under way are finished.
func (x *Node) Stop() {
	if x.program == nil || x.closing {
		return
	}
	x.net.log.add(x.id, "stops")
	if x.state == frozen {
		x.Thaw()
	}
	x.closing = true
	life := x.life
	for _, f := range x.fetches {
		if f.life == life && f.ended == nil {
			f.Stop()
		}
	}
	closed := false
	leave := func() {
		if x.life == life && !closed {
			closed = true
			x.leave()
		}
	}
	x.net.When(func() bool { return x.life != life || !x.fetching() }, leave)
	x.net.After(10*time.Second, leave)
}

// fetching says whether something is being fetched.
func (x *Node) fetching() bool {
	for _, f := range x.fetches {
		if f.life == x.life && f.ended == nil {
			return true
		}
	}
	return false
}

// leave ends the program, and the life when nothing is being served any more.
func (x *Node) leave() {
	x.state = leaving
	x.close()
	life, over := x.life, false
	end := func() {
		if x.life != life || over {
			return
		}
		over = true
		x.vanish(func(c *conn) { c.hangUp(x) })
	}
	x.drains = end
	x.net.After(5*time.Second, end)
	x.net.After(0, x.drained)
}

// close ends the program, and notes what is wrong with it then.
func (x *Node) close() {
	if err := x.program.Close(context.Background()); err != nil {
		x.net.ref.broken(x.id, "close", "%v", err)
	}
	x.net.ref.closed(x)
}

// drained goes on with a Stop once nothing is being served.
func (x *Node) drained() {
	if x.state != leaving || x.drains == nil {
		return
	}
	for _, c := range x.net.conns {
		if !c.believes(x) {
			continue
		}
		for _, u := range c.users[c.side(x)] {
			if s, ok := u.(*stream); ok && s.now != nil {
				return
			}
		}
	}
	x.drains()
}

// vanish ends a life. tell has the other ends of its connections know, or not.
func (x *Node) vanish(tell func(*conn)) {
	x.life++
	x.state, x.program, x.drains, x.closing = stopped, nil, nil, false
	x.offers.Close()
	for _, f := range x.fetches {
		f.ends()
	}
	for _, y := range x.net.nodes {
		if c := x.net.conns[pair(x.id, y.id)]; c != nil {
			tell(c)
		}
	}
}

// Kill ends the node's process at once, without a word: kill -9. Its disk keeps
// what was written; the machine resets its connections.
func (x *Node) Kill() {
	if x.program == nil {
		return
	}
	x.net.log.add(x.id, "is killed")
	x.program.Crash()
	x.disk.Kill()
	x.vanish(func(c *conn) { c.hangUp(x) })
}

// PowerOff ends the node's machine at once. Its disk keeps what was synced, and of
// the rest what luck would have; nobody is told.
func (x *Node) PowerOff() {
	if x.dark {
		return
	}
	x.net.log.add(x.id, "loses power")
	if x.program != nil {
		x.program.Crash()
	}
	x.disk.CutPower()
	x.dark = true
	x.vanish(func(c *conn) { c.doubt() })
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
	if x.program != nil {
		return
	}
	x.net.log.add(x.id, "starts")
	if x.dark {
		x.disk.Restart(x.net.chance.Uint64())
	} else {
		x.disk.Kill() // for what the last life left open
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
	x.net.log.add(x.id, "freezes")
	x.state = frozen
	x.program.Freeze()
	for _, y := range x.net.nodes {
		if c := x.net.conns[pair(x.id, y.id)]; c != nil {
			c.doubt()
		}
	}
}

// Thaw ends Freeze.
func (x *Node) Thaw() {
	if x.state != frozen {
		return
	}
	x.net.log.add(x.id, "thaws")
	x.state = running
	x.disturbed = x.net.Elapsed()
	x.program.Thaw()
	missed := x.onThaw
	x.onThaw = nil
	for _, f := range missed {
		f()
	}
	for _, y := range x.net.nodes {
		if c := x.net.conns[pair(x.id, y.id)]; c != nil {
			c.resume()
		}
	}
}

// Become changes how the node treats others.
func (x *Node) Become(b Behaviour) {
	x.net.log.add(x.id, "from now on %s", b.Name)
	b.rng = x.acts.rng
	x.acts = b
}

// SetLine changes the node's line; connections that stand keep the losses and delays
// they began with, but not the rates.
func (x *Node) SetLine(l Line) {
	x.net.log.add(x.id, "its line is now %.0f up, %.0f down", l.Up, l.Down)
	x.cfg.Line = l
	x.up.rate, x.down.rate = l.Up, l.Down
}

// SetClock makes the node's wall clock differ from the world's.
func (x *Node) SetClock(ahead time.Duration) {
	x.net.log.add(x.id, "its clock is %v ahead", ahead)
	x.wall = ahead
}

// SetUploadRate bounds what the node sends, in bytes per second; 0 is no bound.
func (x *Node) SetUploadRate(rate int64) {
	x.uploadRate = rate
	if x.program != nil {
		x.program.SetUploadRate(rate)
	}
}

// served is the bytes it has sent to anybody.
func (x *Node) served() (n int64) {
	for _, b := range x.out {
		n += b
	}
	return n
}

// Sent is the bytes that the node has sent to all others, framing included.
func (x *Node) Sent() int64 { return x.served() }

// Received is the bytes that the node has got from all others.
func (x *Node) Received() (n int64) {
	for _, b := range x.in {
		n += b
	}
	return n
}

// ---- fetching ----

// FetchOptions are how a node fetches. The zero value works.
type FetchOptions struct {
	Config actors.TransferConfig // default 2 verifiers
	// Leave stops the node when the fetch has succeeded, as the command does;
	// default: it goes on serving.
	Leave bool
	// Want is how the fetch must end, as errors.Is sees it; default nil, whole.
	Want error
	// MayFail is any other end that is no fault of the program.
	MayFail bool
	// Manifest spares asking for it.
	Manifest bool
}

// Fetch is one share that a node fetches, over all its lives.
type Fetch struct {
	x       *Node
	c       *Content
	from    []peers.Addr
	opt     FetchOptions
	life    int // of the node, when it was begun last
	partial *store.Partial
	started time.Duration
	ended   *actors.Ended // of the last life
	endedAt time.Duration
	last    actors.Progress
	resumed int64 // bytes, in all lives

	moved    time.Duration // when a byte was last verified, or it began
	bytes    int64         // verified, in all lives
	twice    int64         // of duplicates, in all lives
	stalled  time.Duration // when it last said why nothing moves
	why      actors.Stalled
	needless bool
}

// Fetch starts fetching content from nodes that it knows of.
func (x *Node) Fetch(c *Content, from ...*Node) *Fetch {
	return x.FetchWith(c, FetchOptions{}, from...)
}

// FetchWith is Fetch with options.
func (x *Node) FetchWith(c *Content, opt FetchOptions, from ...*Node) *Fetch {
	f := &Fetch{x: x, c: c, opt: opt}
	if f.opt.Config.Verifiers == 0 {
		f.opt.Config.Verifiers = 2
	}
	for _, y := range from {
		f.from = append(f.from, peers.Addr{ID: y.id, Addrs: []string{"/sim"}})
	}
	x.fetches = append(x.fetches, f)
	f.begin()
	return f
}

// begin starts the fetch, now or when its node starts.
func (f *Fetch) begin() {
	x := f.x
	if x.state != running && x.state != frozen || x.closing {
		return
	}
	x.net.log.add(x.id, "fetches %s", f.c.Manifest.Name)
	now := x.net.Elapsed()
	f.life, f.ended, f.partial = x.life, nil, nil
	f.started, f.moved, f.stalled = now, now, now
	life := x.life
	m := actors.FetchShare{Share: f.c.ID(), Sources: f.from, Disk: opener{f}, Config: f.opt.Config, Notify: func(e actors.Event) {
		if x.life == life {
			f.notify(e)
		}
	}}
	if f.opt.Manifest {
		m.Manifest = f.c.Manifest
	}
	x.program.Begin(m)
}

// resume goes on in the node's next life.
func (f *Fetch) resume() {
	switch {
	case f.ended == nil || f.ended.Err != nil:
		f.begin()
	case !f.opt.Leave: // whole: recognise it, and serve it
		f.begin()
	}
}

// ends is told that the node's life is over.
func (f *Fetch) ends() {
	f.twice += f.last.Duplicate
	f.last.Duplicate = 0
}

// opener opens the fetch's place on the node's disk.
type opener struct{ f *Fetch }

func (o opener) Open(ctx context.Context, m *share.Manifest, wanted []bool) (actors.Target, error) {
	x := o.f.x
	p, err := store.OpenPartialIn(ctx, x.disk.FS(), m, store.PartialOptions{Workers: 1, Wanted: wanted})
	if err != nil {
		return nil, err
	}
	o.f.partial = p
	x.offers.Add(p)
	return target{p}, nil
}

// target is a Partial as the actors see it.
type target struct{ *store.Partial }

func (t target) Sync() error {
	_, err := t.Partial.Sync()
	return err
}

func (t target) Space() (need, free int64) { return t.Need() }

func (f *Fetch) notify(e actors.Event) {
	n := f.x.net
	switch e := e.(type) {
	case actors.Progress:
		f.last = e
	case actors.Planned:
		f.resumed += e.Resumed
		n.log.add(f.x.id, "plan: %d pieces to fetch, %d bytes resumed", e.Pieces, e.Resumed)
	case actors.SourceChanged:
		n.log.add(f.x.id, "source %s: %v: %s", e.Source.Peer.Short(), e.Source.State, e.Source.Why)
	case actors.Stalled:
		f.stalled, f.why = n.Elapsed(), e
		n.log.add(f.x.id, "stalled for %v: %s", e.For, e.Reason)
		n.ref.stalled(f, e)
	case actors.Ended:
		f.last, f.ended, f.endedAt = e.Last, &e, n.Elapsed()
		n.log.add(f.x.id, "ended: %v", orWhole(e.Err))
		n.ref.ended(f)
		if e.Err != nil {
			f.x.offers.Remove(f.c.ID())
		}
		if e.Err == nil && f.opt.Leave {
			life := f.x.life
			n.After(0, func() {
				if f.x.life == life {
					f.x.Stop()
				}
			})
		}
	}
}

func orWhole(err error) string {
	if err == nil {
		return "whole"
	}
	return err.Error()
}

// Stop ends the fetch; what is verified is kept.
func (f *Fetch) Stop() { f.x.program.StopTransfer(f.c.ID()) }

// Done says whether the fetch has ended, and how.
func (f *Fetch) Done() (done bool, err error) {
	if f.ended == nil {
		return false, nil
	}
	return true, f.ended.Err
}

// Part is how much of the share is verified, from 0 to 1.
func (f *Fetch) Part() float64 { return float64(f.last.Verified) / float64(f.c.bytes) }

// Took is how long the last run of the fetch took.
func (f *Fetch) Took() time.Duration { return f.endedAt - f.started }

// Progress is what the fetch said last of itself.
func (f *Fetch) Progress() actors.Progress { return f.last }

// Node is where the fetch happens.
func (f *Fetch) Node() *Node { return f.x }

// has says whether the node has a piece of the fetch's content to serve.
func (x *Node) has(c *Content, p share.Piece) bool {
	if x.program == nil || x.acts.Claims {
		return false
	}
	bytes, r := x.offers.Check(c.ID(), p, 0, 1)
	return bytes > 0 && r.Status == wire.OK
}
