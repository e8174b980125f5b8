package simnet

import (
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
)

// Fleet is nodes of one owner that fetch a share together, and the node that
// coordinates them. In each of its lives that node coordinates anew, as a new run.
type Fleet struct {
	seat    *Node
	c       *Content
	allow   []peers.ID
	runs    uint64     // of the coordinator
	members []peers.ID // the members that the last run remembered
}

// Coordinate makes the node lease the pieces of content to members, from now on.
func (x *Node) Coordinate(c *Content, members ...*Node) *Fleet {
	f := &Fleet{seat: x, c: c}
	for _, y := range members {
		f.allow = append(f.allow, y.id)
	}
	x.fleets = append(x.fleets, f)
	if x.state == running {
		f.begin()
	}
	return f
}

// begin starts a run of the coordinator in the node's present life.
func (f *Fleet) begin() {
	f.runs++
	f.seat.net.log.add(MarkNone, f.seat.id, "coordinates %s, run %d", f.c.Manifest.Name, f.runs)
	f.seat.host.Coordinate(f)
}

// Notify is for a Host: something has happened in the fleet.
func (f *Fleet) Notify(e fleet.Event) {
	x := f.seat
	who := x.net.called(e.Peer)
	if e.Change == fleet.CoordinatorFailed {
		who = "the coordinator"
	}
	x.net.log.add(MarkNone, x.id, "fleet: %s %v", who, e.Change)
	if e.Change == fleet.CoordinatorFailed {
		x.net.ref.broken(x.id, "error", "the coordinator has failed")
	}
}

// Content is what the fleet fetches, and Allowed which nodes may lease.
func (f *Fleet) Content() *Content   { return f.c }
func (f *Fleet) Allowed() []peers.ID { return f.allow }

// Join has a member fetch the share; sources are outside the fleet.
func (f *Fleet) Join(x *Node, opt FetchOptions, sources ...*Node) *Fetch {
	opt.Config.Fleet.Coordinator = peers.Addr{ID: f.seat.id, Addrs: []string{"/sim"}}
	return x.FetchWith(f.c, opt, sources...)
}

// Status is the state of the fleet. It is for the end of a run: it lets the world go
// on until the coordinator has answered.
func (f *Fleet) Status() (fleet.Status, error) { return f.seat.host.FleetStatus(f) }
