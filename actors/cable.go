package actors

import (
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// receiver is what frames and losses arrive at.
type receiver struct {
	frame func(from peers.ID, frame []byte)
	lost  func(peers.ID)
}

// cable joins two nodes of a world, as a connection of two ordered streams.
//
//	up --Cut--> cut --Heal in time--> up, with what was held
//	up, cut --Patience, Drop, a node leaves--> broken --both told--> up, afresh
//	                                                `- while cut --> no connection
type cable struct {
	w     *World
	ends  [2]peers.ID
	used  bool // frames have passed since it was last up afresh
	cut   bool
	state cableState
	life  int               // grows when the connection ends: what is on the way dies
	last  [2]time.Duration  // when the latest frame of each direction arrives
	held  []heldFrame       // while cut
	left  map[peers.ID]bool // ends that left while it was up, and do not know it
}

type cableState uint8

const (
	connected cableState = iota
	broken               // gone, and nobody knows yet
)

type heldFrame struct {
	dir   int
	frame []byte
}

// Outbox joins the node self to all others of the world.
func (w *World) Outbox(self peers.ID) Outbox { return end{w, self} }

type end struct {
	w    *World
	self peers.ID
}

func (e end) Send(to peers.ID, frame []byte) bool { return e.w.send(e.self, to, frame) }

// OnMessages sets where frames for a node arrive, and the losses of its peers.
// Without it they arrive at its system. Call it once the system is made.
func (w *World) OnMessages(self peers.ID, frame func(from peers.ID, frame []byte), lost func(peers.ID)) {
	w.recv[self] = receiver{frame, lost}
}

func (w *World) join(s *System) {
	w.nodes[s.self] = s
	w.recv[s.self] = receiver{s.Deliver, s.Lost}
}

// leave takes a node out of the world. What it has sent still arrives, and then
// its peers know.
func (w *World) leave(s *System) {
	for _, c := range w.unplug(s) {
		dir := slices.Index(c.ends[:], s.self)
		c.breaks(max(c.last[dir]-w.now, w.Latency(s.self, c.ends[1-dir], w.links)), s.self)
	}
}

// crash takes a node out of the world with all it had under way. Its peers find
// out in their time.
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
	case c.state == broken:
		return !c.left[from] // into the void, for those who were there
	case c.cut && !c.used || w.nodes[to] == nil || w.nodes[from] == nil:
		return false
	}
	c.used = true
	switch {
	case c.cut:
		c.held = append(c.held, heldFrame{dir, frame})
	case w.Drop(from, to, w.links):
		c.life++
		c.breaks(w.Patience, "")
	default:
		c.carry(dir, frame)
	}
	return true
}

// carry brings a frame to the other end, behind those before it.
func (c *cable) carry(dir int, frame []byte) {
	from, to := c.ends[dir], c.ends[1-dir]
	at := max(c.w.now+c.w.Latency(from, to, c.w.links), c.last[dir])
	c.last[dir] = at
	life := c.life
	c.w.schedule(nil, at-c.w.now, func() {
		switch {
		case life != c.life:
		case c.cut:
			c.held = append(c.held, heldFrame{dir, frame})
		default:
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
	if c.state == broken {
		return
	}
	c.state = broken
	c.held = nil
	c.w.schedule(nil, d, func() {
		left := c.left
		c.life++
		c.state, c.used, c.last, c.left = connected, false, [2]time.Duration{}, map[peers.ID]bool{}
		for i, id := range c.ends {
			if r, ok := c.w.recv[id]; ok && !left[id] {
				r.lost(c.ends[1-i])
			}
		}
	})
}

// Cut stops all that is between two nodes. After Patience both know.
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

// Heal undoes Cut. What was held goes on its way.
func (w *World) Heal(a, b peers.ID) {
	c, _ := w.cable(a, b)
	if !c.cut {
		return
	}
	c.cut = false
	held := c.held
	c.held = nil
	for _, h := range held {
		c.carry(h.dir, h.frame)
	}
}
