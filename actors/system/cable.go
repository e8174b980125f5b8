package system

import (
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// receiver is where frames and losses arrive.
type receiver struct {
	frame func(from peers.ID, frame []byte)
	lost  func(peers.ID)
}

// cable joins two nodes of a world, as a connection of two ordered streams.
//
//	up --Cut--> cut --Heal in time--> up, with all that was under way
//	up, cut --Patience, Drop, a node leaves--> broken --both told--> up, afresh
//	                                                `- while cut --> no connection
type cable struct {
	w      *World
	ends   [2]peers.ID
	dirs   [2]direction // of what ends[0], ends[1] send
	used   bool         // frames have passed since it was last up afresh
	cut    bool
	broken bool              // gone, but nobody knows yet
	life   int               // grows when the connection ends: frames on the way are lost
	left   map[peers.ID]bool // ends that left while it was up: they need no telling
}

// direction is what is under way from one end. There is one arrival per frame, but
// an arrival delivers the oldest frame, not a certain one, so that none overtakes
// another.
type direction struct {
	frames Queue[[]byte]
	latest time.Duration // the last arrival
	missed int           // arrivals that delivered nothing because of a cut
}

// Outbox joins the node self to all others of the world.
func (w *World) Outbox(self peers.ID) Outbox { return end{w, self} }

type end struct {
	w    *World
	self peers.ID
}

func (e end) Send(to peers.ID, frame []byte) bool { return e.w.send(e.self, to, frame) }

// OnMessages sets where a node's frames and the losses of its peers arrive. Without
// it they arrive at its system. Call it after the system is made.
func (w *World) OnMessages(self peers.ID, frame func(from peers.ID, frame []byte), lost func(peers.ID)) {
	w.recv[self] = receiver{frame, lost}
}

func (w *World) join(s *System) {
	w.nodes[s.self] = s
	w.recv[s.self] = receiver{s.Deliver, s.Lost}
}

// leave takes a node out of the world. What it has sent still arrives; then its
// peers learn that it left.
func (w *World) leave(s *System) {
	for _, c := range w.unplug(s) {
		dir := slices.Index(c.ends[:], s.self)
		c.breaks(max(c.dirs[dir].latest-w.now, w.Latency(s.self, c.ends[1-dir], w.links)), s.self)
	}
}

// crash takes a node out of the world with all it had under way. Its peers notice
// after Patience.
func (w *World) crash(s *System) {
	for _, c := range w.unplug(s) {
		c.life++
		c.breaks(w.Patience, s.self)
	}
}

// unplug removes a node and returns its connections.
func (w *World) unplug(s *System) []*cable {
	if w.nodes[s.self] != s {
		return nil
	}
	delete(w.nodes, s.self)
	delete(w.recv, s.self)
	return slices.DeleteFunc(w.cables(s.self), func(c *cable) bool { return !c.used })
}

// cables are those of one node, in order.
func (w *World) cables(id peers.ID) (of []*cable) {
	for ends, c := range w.wires {
		if ends[0] == id || ends[1] == id {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b *cable) int {
		return strings.Compare(string(a.ends[0]+a.ends[1]), string(b.ends[0]+b.ends[1]))
	})
	return of
}

// cable is the one between two nodes, and the direction from a.
func (w *World) cable(a, b peers.ID) (c *cable, dir int) {
	ends := [2]peers.ID{a, b}
	if b < a {
		ends, dir = [2]peers.ID{b, a}, 1
	}
	if c = w.wires[ends]; c == nil {
		c = &cable{w: w, ends: ends, left: map[peers.ID]bool{}}
		w.wires[ends] = c
	}
	return c, dir
}

func (w *World) send(from, to peers.ID, frame []byte) bool {
	c, dir := w.cable(from, to)
	switch {
	case from == to:
		return false
	case c.broken:
		return !c.left[from] // those who were connected send into the void
	case c.cut && !c.used || w.nodes[to] == nil || w.nodes[from] == nil:
		return false
	}
	c.used = true
	if w.Drop(from, to, w.links) {
		c.life++
		c.breaks(w.Patience, "")
		return true
	}
	c.dirs[dir].frames.Push(frame)
	c.arrive(dir)
	return true
}

// arrive has a frame arrive when it is time.
func (c *cable) arrive(dir int) {
	from, to := c.ends[dir], c.ends[1-dir]
	d := &c.dirs[dir]
	d.latest = max(d.latest, c.w.now+c.w.Latency(from, to, c.w.links))
	life := c.life
	c.w.schedule(nil, d.latest-c.w.now, func() {
		switch {
		case life != c.life:
		case c.cut:
			d.missed++
		default:
			frame, _ := d.frames.Pop()
			if r, ok := c.w.recv[to]; ok {
				r.frame(from, frame)
			}
		}
	})
}

// breaks ends the connection; after d both ends know. gone, if not empty, is the
// end that left and needs no telling.
func (c *cable) breaks(d time.Duration, gone peers.ID) {
	if gone != "" {
		c.left[gone] = true
	}
	if c.broken {
		return
	}
	c.broken = true
	c.w.schedule(nil, d, func() {
		left := c.left
		c.life++
		c.broken, c.used, c.dirs, c.left = false, false, [2]direction{}, map[peers.ID]bool{}
		for i, id := range c.ends {
			if r, ok := c.w.recv[id]; ok && !left[id] {
				r.lost(c.ends[1-i])
			}
		}
	})
}

// Cut stops all traffic between two nodes. After Patience both notice.
func (w *World) Cut(a, b peers.ID) {
	c, _ := w.cable(a, b)
	if c.cut {
		return
	}
	c.cut = true
	life := c.life
	w.schedule(nil, w.Patience, func() {
		if c.cut && c.used && life == c.life {
			c.life++
			c.breaks(0, "")
		}
	})
}

// Heal undoes Cut. What was under way goes on.
func (w *World) Heal(a, b peers.ID) {
	c, _ := w.cable(a, b)
	if !c.cut {
		return
	}
	c.cut = false
	for dir := range c.dirs {
		missed := c.dirs[dir].missed
		c.dirs[dir].missed = 0
		for range missed {
			c.arrive(dir)
		}
	}
}
