package simnet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet/model"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/wire"
)

// parts is what simnet itself runs a node with: the real program and store, over
// a modelled network. In another Tier it is empty.
type parts struct {
	up   *model.Uplink
	down *model.Pipe

	program *actors.Program // nil: not running
	offers  *store.Offers
	dials   map[peers.ID][]func(*conn, error)
	lines   map[peers.ID][]*link // to each peer, the waiting ones last
	onThaw  []func()
	ranking []peers.Record

	children map[peers.ID]peers.Set // of this life
	sets     [peers.Outside]int     // the sizes of their sets

	in, out map[*Node]int64
	waste   int64
	drains  func()

	uploadRate   int64 // bytes per second
	downloadRate int64
}

// modelled is the Host of such a node.
type modelled struct{ *Node }

func newModelled(x *Node) Host {
	w := x.net.World
	x.parts = parts{up: &model.Uplink{World: w, Rate: x.cfg.Line.Up}, down: &model.Pipe{World: w, Rate: x.cfg.Line.Down},
		in: map[*Node]int64{}, out: map[*Node]int64{}}
	return modelled{x}
}

// Self implements actors.Network.
func (x *Node) Self() peers.ID { return x.id }

// Addrs implements actors.Network.
func (x *Node) Addrs() []string {
	if x.cfg.NAT {
		return nil
	}
	return []string{"/sim"}
}

// Endpoints implements actors.Network: here there is one address for all.
func (x *Node) Endpoints(addrs []string) (out []peers.Endpoint) {
	for _, a := range addrs {
		out = append(out, peers.Endpoint{Addr: a, Port: 4001})
	}
	return out
}

// Where implements actors.Network. Nodes are neighbours if they are in the same site.
func (x *Node) Where(id peers.ID) (p peers.Endpoint, ok bool) {
	c, y := x.net.conns[pair(x.id, id)], x.net.byID[id]
	if c == nil || y == nil || !c.believes(x) {
		return p, false
	}
	p = peers.Endpoint{Addr: "/sim", Net: string(id), Port: 4001}
	if y.cfg.Site != nil {
		p.Net = y.cfg.Site.name
	}
	p.Location = p.Net
	return p, true
}

// AddrsFor implements actors.Network.
func (x *Node) AddrsFor(peers.ID) []string { return x.Addrs() }

// RoundTrip implements actors.Network.
func (x *Node) RoundTrip(id peers.ID) time.Duration {
	if _, ok := x.Where(id); !ok {
		return 0
	}
	return x.net.rtt(x, x.net.byID[id])
}

func (m modelled) Start() {
	x, n := m.Node, m.net
	x.children, x.sets = map[peers.ID]peers.Set{}, [peers.Outside]int{}
	x.dials, x.lines = map[peers.ID][]func(*conn, error){}, map[peers.ID][]*link{}
	x.offers = store.NewOffers()
	rt := n.Runtime(fmt.Sprint(x.id, " ", x.life))
	rt.SetWall(func() time.Time { return n.Now().Add(x.wall) })
	d := actors.Deps{Runtime: rt, Network: x, Catalog: x.offers, Remembered: x.ranking, Remember: func(r []peers.Record) { x.ranking = r },
		InFlight: x.cfg.InFlight, Buffers: x.cfg.Buffers, DownloadRate: x.downloadRate, ChildMoved: x.childMoved}
	if x.cfg.Store != nil {
		d.Elections = x.cfg.Store.elections(x)
	}
	if x.cfg.Deps != nil {
		x.cfg.Deps(&d)
	}
	x.program = actors.Start(d)
	if x.uploadRate > 0 {
		x.program.Tell(actors.SetUploadRate{Rate: x.uploadRate})
	}
	x.flood()
}

// childMoved keeps in which set each child is.
func (x *Node) childMoved(m peers.Move) {
	if m.From != peers.Outside {
		x.sets[m.From]--
	}
	if delete(x.children, m.ID); m.To != peers.Outside {
		x.sets[m.To]++
		x.children[m.ID] = m.To
	}
}

func (m modelled) Coordinate(f *Fleet) {
	x, life := f.seat, f.seat.life
	m.program.BeginCoordinating(actors.CoordinateShare{
		Config:   fleet.Config{Share: f.c.ID(), Layout: f.c.Manifest.Layout(), Epoch: f.runs, Allow: f.allow, Members: f.members},
		Remember: func(ids []peers.ID) { f.members = ids },
		Notify: func(e fleet.Event) {
			if x.life == life {
				f.Notify(e)
			}
		},
	})
}

func (m modelled) FleetStatus(f *Fleet) (fleet.Status, error) {
	if m.program == nil {
		return fleet.Status{}, fmt.Errorf("%s is not running", m.id)
	}
	return m.program.Fleet(context.Background(), f.c.ID(), 10)
}

// blocks is what it serves to a peer.
func (x *Node) blocks(to peers.ID) dishonest { return dishonest{x, to} }

func (m modelled) Offer(c *Content) {
	if m.acts.Claims {
		m.offers.Add(claimed{borrowed{c.tree}})
	} else {
		m.offers.Add(borrowed{c.tree})
	}
	m.program.Offer(c.ID())
}

// claimed is a share of which it has nothing.
type claimed struct{ store.Source }

func (claimed) Proof(share.Piece) ([]share.Hash, error) { return nil, store.ErrNotYet }
func (claimed) ReadRun(share.Piece, share.Block, int, []byte) (int, error) {
	return 0, store.ErrNotYet
}

func (m modelled) Withdraw(c *Content) {
	m.offers.Remove(c.ID())
	m.program.Withdraw(context.Background(), c.ID(), wire.CodeFileChanged)
}

// Stop waits for the fetches to end.
func (m modelled) Stop() {
	x := m.Node
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
	x.net.After(10*time.Second, func() {
		if x.life == life && !closed {
			x.net.ref.broken(x.id, "end", "it is still fetching, ten seconds after it was told to stop")
		}
		leave()
	})
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
		if x.cfg.Closed != nil {
			x.cfg.Closed()
		}
		x.net.ref.left(x)
	}
	x.drains = end
	x.net.After(5*time.Second, end)
	x.net.After(0, x.drained)
}

// close ends the program, and then reports what is wrong with it.
func (x *Node) close() {
	err := x.program.Close(context.Background())
	if x.net.Interrupted() { // and what that leaves is no fault
		return
	}
	if err != nil {
		x.net.ref.broken(x.id, "close", "%v", err)
	}
	if what := x.program.Remains(); len(what) > 0 {
		x.net.ref.broken(x.id, "close", "it has ended, and this is left: %s", strings.Join(what, ", "))
	}
	x.net.ref.closed(x)
}

// drained continues a Stop once nothing is being served.
func (x *Node) drained() {
	if x.state != leaving || x.drains == nil {
		return
	}
	serves := func(u user) bool { s, ok := u.(*stream); return ok && s.now != nil }
	busy := false
	x.conned(func(c *conn) { busy = busy || c.believes(x) && slices.ContainsFunc(c.users[c.side(x)], serves) })
	if !busy {
		x.drains()
	}
}

// vanish ends a life. tell says whether the other ends of its connections are told.
func (x *Node) vanish(tell func(*conn)) {
	x.program, x.drains = nil, nil
	x.offers.Close()
	x.Gone()
	x.conned(tell)
}

// conned calls f for each connection of the node.
func (x *Node) conned(f func(*conn)) {
	for _, y := range x.net.nodes {
		if c := x.net.conns[pair(x.id, y.id)]; c != nil {
			f(c)
		}
	}
}

func (m modelled) Kill() {
	m.program.Crash()
	m.disk.Kill()
	m.vanish(func(c *conn) { c.hangUp(m.Node) })
}

func (m modelled) PowerOff() {
	if m.program != nil {
		m.program.Crash()
	}
	m.disk.CutPower()
	m.vanish(func(c *conn) { c.doubt() })
}

func (m modelled) Freeze() {
	m.program.Freeze()
	m.conned(func(c *conn) { c.doubt() })
}

func (m modelled) Thaw() {
	m.program.Thaw()
	missed := m.onThaw
	m.onThaw = nil
	for _, f := range missed {
		f()
	}
	m.conned(func(c *conn) { c.resume() })
}

func (m modelled) Changed() {
	m.up.Rate, m.down.Rate = m.cfg.Line.Up, m.cfg.Line.Down
}

func (m modelled) SetDownloadRate(rate int64) {
	m.downloadRate = rate
	if m.program != nil {
		m.program.SetDownloadRate(rate)
	}
}

func (m modelled) SetUploadRate(rate int64) {
	m.uploadRate = rate
	if m.program != nil {
		m.program.Tell(actors.SetUploadRate{Rate: rate})
	}
}

// served is the bytes that it has sent to any node.
func (x *Node) served() (n int64) {
	for _, b := range x.out {
		n += b
	}
	return n
}

func (m modelled) Sent() int64 { return m.served() }

func (m modelled) Received() (n int64) {
	for _, b := range m.in {
		n += b
	}
	return n
}

func (m modelled) InFlight() (bytes int64, blocks int) {
	if m.program == nil {
		return 0, 0
	}
	return m.program.InFlight()
}

// ---- fetching ----

func (m modelled) Fetch(f *Fetch) {
	var from []peers.Addr
	for _, y := range f.from {
		from = append(from, peers.Addr{ID: y.id, Addrs: []string{"/sim"}})
	}
	f.partial = nil
	x, life := m.Node, m.life
	f.handle = m.program.Handle(f.c.ID())
	opened := x.offers.Opening(f.c.ID()) // others that ask for the share meanwhile are told to come back
	fetch := actors.FetchShare{Handle: f.handle, Sources: from, Disk: opener{f, opened}, Config: f.opt.Config, Notify: func(e actors.Event) {
		if x.life != life {
			return
		}
		if _, over := e.(actors.Ended); over {
			opened()
		}
		f.Notify(e)
	}}
	if f.opt.Manifest {
		fetch.Manifest = f.c.Manifest
	}
	for _, b := range f.opt.Beacons {
		fetch.Beacons = append(fetch.Beacons, actors.Meeting{Beacon: peers.Addr{ID: b.id, Addrs: []string{"/sim"}}, Key: f.c.ID().AtBeacon(nil)})
	}
	if f.opt.Skip != nil {
		fetch.Select = actors.Skipping(f.opt.Skip)
	}
	m.program.Begin(fetch)
}

func (m modelled) StopFetch(f *Fetch) { m.program.StopTransfer(f.handle) }

// opener opens the fetch's place on the node's disk.
type opener struct {
	f      *Fetch
	opened func()
}

func (o opener) Open(ctx context.Context, m *share.Manifest, wanted []bool) (actors.Target, error) {
	x := o.f.x
	p, err := store.OpenPartialIn(ctx, x.disk.FS(), m, store.PartialOptions{Workers: 1, Wanted: wanted})
	if err != nil {
		return nil, err
	}
	o.f.partial = p
	x.offers.Add(p)
	o.opened()
	return p, nil
}

func (m modelled) Verified(f *Fetch) *share.Set {
	if f.partial == nil || m.program == nil {
		return nil
	}
	return f.partial.Verified()
}

func (m modelled) Serves(c *Content, p share.Piece) bool {
	if m.program == nil || m.acts.Claims {
		return false
	}
	bytes, r := m.offers.Check(c.ID(), p, 0, 1)
	return bytes > 0 && r.Status == wire.OK
}

func (m modelled) Why(f *Fetch) (why []string, wanted, leased, verified int) {
	if m.program == nil || m.state != running {
		return nil, 0, 0, 0
	}
	p, err := m.program.Plan(context.Background(), f.handle, math.MaxInt)
	if err != nil {
		return nil, 0, 0, 0
	}
	return p.Why, p.Wanted, p.Leased, p.Verified
}
