package simnet

import (
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Grab makes a node ask another for content over this many links, many requests on
// each, again and again and without regard to leases, budgets or what it is told,
// until stop is called. In another [Tier] it does nothing.
func (x *Node) Grab(c *Content, from *Node, links int) (stop func()) {
	if x.net.tier != nil {
		return func() {}
	}
	var all []*grabber
	x.net.log.add(MarkNone, x.id, "grabs from %s over %d links", from.cfg.Name, links)
	for range links {
		g := &grabber{x: x, c: c, life: x.life}
		g.link = x.link(peers.Addr{ID: from.id}, c.ID(), c.Manifest.Layout(), g, (*link).open)
		all = append(all, g)
	}
	return func() {
		for _, g := range all {
			g.life = -1
			g.link.Close()
		}
	}
}

// grabbed is how many requests a grabber keeps in flight on a link.
const grabbed = 16

// grabber is the Sink of one such link.
type grabber struct {
	x    *Node
	c    *Content
	life int
	link actors.Link
	asks uint64
}

func (g *grabber) ask() {
	if g.x.life != g.life || g.x.program == nil {
		return
	}
	g.asks++
	layout := g.c.Manifest.Layout()
	p := share.Piece(g.asks % uint64(layout.Pieces()))
	g.link.Request(wire.PieceRequest{ID: g.asks, Piece: p, Count: min(layout.Blocks(p), 4)})
}

// Up implements actors.Sink, as do the others.
func (g *grabber) Up(time.Duration) {
	for range grabbed {
		g.ask()
	}
}

func (g *grabber) Waits(string)                                          {}
func (g *grabber) Proof(uint64, []share.Hash)                            {}
func (g *grabber) Blocks(_ uint64, _ share.Block, _ []byte, free func()) { free() }
func (g *grabber) Progress(uint64, int)                                  {}
func (g *grabber) Finished(uint64)                                       { g.ask() }
func (g *grabber) Status(uint64, wire.Reply)                             { g.ask() }
func (g *grabber) Down(error)                                            { g.life = -1 }
