package simnet

import (
	"context"
	"fmt"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
)

// Fleet is nodes of one owner that fetch a share together, and the node that
// coordinates them. In each of its lives that node coordinates anew, as a new run.
type Fleet struct {
	seat    *Node
	c       *Content
	allow   []peers.ID
	runs    uint64     // of the coordinator
	members []peers.ID // whom the last run remembered
}

// Coordinate has the node lease the pieces of content to members, from now on.
// Only the worlds of simnet itself have fleets.
func (x *Node) Coordinate(c *Content, members ...*Node) *Fleet {
	if x.net.tier != nil {
		panic("simnet: no fleets in this tier")
	}
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
	x, life := f.seat, f.seat.life
	x.net.log.add(x.id, "coordinates %s, run %d", f.c.Manifest.Name, f.runs)
	x.program.BeginCoordinating(actors.CoordinateShare{
		Share: f.c.ID(), Layout: f.c.Manifest.Layout(), Epoch: f.runs, Allow: f.allow, Members: f.members,
		Remember: func(ids []peers.ID) { f.members = ids },
		Notify: func(e actors.FleetEvent) {
			if x.life != life {
				return
			}
			x.net.log.add(x.id, "fleet: %s %v", x.net.called(e.Peer), e.Change)
			if e.Change == actors.CoordinatorFailed {
				x.net.ref.broken(x.id, "error", "the coordinator has failed")
			}
		},
	})
}

// Join has a member fetch the share; sources are outside the fleet.
func (f *Fleet) Join(x *Node, opt FetchOptions, sources ...*Node) *Fetch {
	opt.Config.Fleet.Coordinator = peers.Addr{ID: f.seat.id, Addrs: []string{"/sim"}}
	opt.Config.Fleet.Stay = !opt.Leave
	return x.FetchWith(f.c, opt, sources...)
}

// Status is how the fleet stands. It is for the end of a run: it lets the world go
// on until the coordinator has answered.
func (f *Fleet) Status() (actors.FleetStatus, error) {
	if f.seat.program == nil {
		return actors.FleetStatus{}, fmt.Errorf("%s does not run", f.seat.id)
	}
	return f.seat.program.Fleet(context.Background(), f.c.ID(), 10)
}

// whole expects that the fleet has everything, that nothing is leased any more, and
// that from the source came no more than so many copies.
func (f *Fleet) whole(r *Run, source *Node, copies float64) {
	r.Finally(func() {
		sent := float64(source.Sent()) / float64(f.c.bytes)
		r.log.Note("%.3f copies entered the fleet", sent)
		r.Expect(sent <= copies, "%.3f copies entered the fleet, %.2f are allowed", sent, copies)
		st, err := f.Status()
		r.Expect(err == nil && st.Wanted == 0 && st.Leased == 0 && st.Waiting == "", "in the end of the fleet %d pieces are wanted and %d leased (%v, %q)",
			st.Wanted, st.Leased, err, st.Waiting)
	})
}
