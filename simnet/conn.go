package simnet

import (
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet/model"
	"github.com/piecelease/fetcher/wire"
)

const (
	dialTimeout = 10 * time.Second // as p2p.Timeouts.Dial
	dialTrips   = 2                // round trips: TCP, and TLS together with its choice
	dialAgain   = time.Second      // a SYN that is not answered is sent again, each time after twice as long
	unacked     = 256 << 10        // bytes sent into silence before a stream stalls

	// When both ends of a connection know that the other is gone: yamux pings
	// every 30 s and waits 10 s.
	patienceMin = 10 * time.Second
	patienceMax = 40 * time.Second

	// As in p2p: how much waits for one peer, and how fast its messages are read.
	queueFrames = 1024
	queueBytes  = 4 << 20
	messageRate = 8 << 20
	minMessage  = 1 << 10
)

// conn is a connection of two nodes: what TCP and TLS make of a path. It is
// reliable and in order, each way, until it ends.
//
//	up --cut, for long--> both ends find out, each in its time
//	up --an end is killed--> the other is told, if anything gets through
//	up --an end dials anew--> the old one ends at the other end as well
type conn struct {
	n      *Net
	ends   [2]*Node // in order of IDs
	lives  [2]int   // of the nodes
	ways   [2]*way  // from each end
	knows  [2]bool  // the end knows that the connection is over
	users  [2][]user
	doubt_ func() // cancels the timer of doubt
}

// user is told when its end of the connection is over.
type user interface{ broken(err error) }

// way is one direction of a connection.
type way struct {
	c        *conn
	from, to *Node
	path     model.Path
	tcp      model.Pipe // what losses leave of the rate
	reads    model.Pipe // how fast the receiver takes messages
	last     time.Duration
	held     []travel
	silent   int // bytes sent since nothing has come back
	frames   int // sent and not yet taken by the receiver
	bytes    int // ... their bytes
}

// travel is a parcel under way.
type travel struct {
	size   int
	urgent bool
	arrive func()
}

// step is how many bytes of bulk travel as one.
func (w *way) step(pace float64) int {
	if pace == 0 || w.tcp.Rate > 0 && w.tcp.Rate < pace {
		pace = w.tcp.Rate
	}
	return w.path.Step(w.from.cfg.Line.Up, pace)
}

func (c *conn) side(x *Node) int {
	if c.ends[0] == x {
		return 0
	}
	return 1
}

// believes says whether a node considers the connection good.
func (c *conn) believes(x *Node) bool {
	i := c.side(x)
	return !c.knows[i] && c.lives[i] == x.life && x.program != nil
}

func (n *Net) newConn(a, b *Node) *conn {
	if b.id < a.id {
		a, b = b, a
	}
	c := &conn{n: n, ends: [2]*Node{a, b}, lives: [2]int{a.life, b.life}}
	rtt := n.rtt(a, b)
	for i, from := range c.ends {
		p := n.path(from, c.ends[1-i])
		c.ways[i] = &way{c: c, from: from, to: c.ends[1-i], path: p,
			tcp:   model.Pipe{World: n.World, Rate: p.Limit(rtt)},
			reads: model.Pipe{World: n.World, Rate: messageRate, Burst: time.Second}}
	}
	return c
}

// connect calls then with the connection to a peer, dialling if necessary. It does
// so later, never from inside, and not at all once the caller's life is over.
func (x *Node) connect(to peers.ID, then func(*conn, error)) {
	n, life := x.net, x.life
	mine := func(c *conn, err error) {
		if x.life == life {
			then(c, err)
		}
	}
	if c := n.conns[pair(x.id, to)]; c != nil && c.believes(x) {
		n.After(0, func() {
			if !c.believes(x) {
				mine(nil, fmt.Errorf("open a stream: %w", peers.ErrUnreachable))
				return
			}
			mine(c, nil)
		})
		return
	}
	x.dials[to] = append(x.dials[to], mine)
	if len(x.dials[to]) == 1 {
		n.dial(x, to)
	}
}

// connectAt is connect at an address where there may be nobody.
func (x *Node) connectAt(to peers.Addr, then func(*conn, error)) {
	n, life := x.net, x.life
	if c := n.conns[pair(x.id, to.ID)]; !slices.Contains(to.Addrs, nowhere) || c != nil && c.believes(x) {
		x.connect(to.ID, then)
		return
	}
	n.After(dialTimeout, func() {
		if x.life == life {
			then(nil, fmt.Errorf("no answer from %s: %w", nowhere, peers.ErrUnreachable))
		}
	})
}

func (n *Net) dial(x *Node, to peers.ID) {
	d := &dialing{n: n, x: x, to: to, y: n.byID[to], life: x.life, left: dialTimeout, again: dialAgain}
	if d.y == nil || d.y == x {
		d.fail(time.Millisecond, "no route")
		return
	}
	d.try()
}

// dialing is one attempt to connect, which ends in dialTimeout.
type dialing struct {
	n     *Net
	x     *Node
	to    peers.ID
	y     *Node
	life  int           // of x
	left  time.Duration // until it gives up
	again time.Duration // after which the next SYN is sent
}

// try sends a SYN, and another later when nothing gets through.
func (d *dialing) try() {
	x, y, n := d.x, d.y, d.n
	switch cut := n.blocked(x, y) || n.blocked(y, x); {
	case x.life != d.life:
	case cut && d.again < d.left:
		wait := d.again
		d.left -= wait
		d.again *= 2
		n.After(wait, d.try)
	case cut || y.cfg.NAT:
		d.fail(d.left, "no answer")
	case y.program == nil || y.state == leaving:
		d.fail(n.rtt(x, y), "refused")
	default:
		p := n.path(x, y)
		n.After(dialTrips*n.rtt(x, y)+p.Delay(model.Packet, n.rtt(x, y), n.chance)-p.Latency, func() {
			if y.program == nil || y.state == leaving || n.blocked(x, y) || n.blocked(y, x) {
				d.fail(0, "reset")
			} else if x.life == d.life {
				d.end(n.establish(x, y), nil)
			}
		})
	}
}

func (d *dialing) fail(after time.Duration, why string) {
	err := fmt.Errorf("dial %s: %s: %w", d.to.Short(), why, peers.ErrUnreachable)
	d.n.After(after, func() { d.end(nil, err) })
}

// end tells those that wait for the connection.
func (d *dialing) end(c *conn, err error) {
	if d.x.life != d.life {
		return
	}
	waiting := d.x.dials[d.to]
	delete(d.x.dials, d.to)
	for _, then := range waiting {
		then(c, err)
	}
}

// establish makes the connection of two nodes. If there is one already, it returns
// that one; if only one end believes in it, that end is told.
func (n *Net) establish(x, y *Node) *conn {
	key := pair(x.id, y.id)
	if c := n.conns[key]; c != nil {
		if c.believes(x) && c.believes(y) {
			return c
		}
		c.end(x, peers.ErrLost)
		c.end(y, peers.ErrLost)
	}
	c := n.newConn(x, y)
	n.conns[key] = c
	return c
}

// end ends one end of a connection: its users first, then the messages.
func (c *conn) end(x *Node, err error) {
	i := c.side(x)
	if c.knows[i] {
		return
	}
	alive := c.believes(x)
	c.knows[i] = true
	if c.doubt_ != nil && c.knows[1-i] {
		c.doubt_()
		c.doubt_ = nil
	}
	users := c.users[i]
	c.users[i] = nil
	c.ways[i].held = nil
	if !alive {
		return
	}
	for _, u := range users {
		u.broken(err)
	}
	x.program.Lost(c.ends[1-i].id)
}

// hangUp tells the other end that x is gone.
func (c *conn) hangUp(x *Node) {
	y := c.ends[1-c.side(x)]
	if c.n.blocked(x, y) {
		c.doubt()
		return
	}
	w := c.ways[c.side(x)]
	c.n.After(max(w.path.Delay(model.Packet, 0, c.n.chance), w.last-c.n.Elapsed()), func() {
		c.end(y, fmt.Errorf("closed by the other end: %w", peers.ErrLost))
	})
}

// doubt makes both ends find out that nothing passes, unless that changes first.
func (c *conn) doubt() {
	if c.doubt_ != nil || c.knows[0] && c.knows[1] {
		return
	}
	d := patienceMin + time.Duration(c.n.chance.Int64N(int64(patienceMax-patienceMin)))
	c.doubt_ = c.n.After(d, func() {
		c.doubt_ = nil
		a, b := c.ends[0], c.ends[1]
		dead := !c.believes(a) || !c.believes(b)
		if !dead && !c.n.blocked(a, b) && !c.n.blocked(b, a) {
			return
		}
		for _, x := range c.ends {
			if x.state == frozen { // time does not pass for it; it finds out when it is thawed
				x.onThaw = append(x.onThaw, func() { c.end(x, fmt.Errorf("no answer: %w", peers.ErrLost)) })
				continue
			}
			c.end(x, fmt.Errorf("no answer: %w", peers.ErrLost))
		}
	})
}

// resume sends what was held, if it may pass now.
func (c *conn) resume() {
	for _, w := range c.ways {
		w.resume()
	}
}

func (w *way) resume() {
	if w.stuck() || len(w.held) == 0 {
		return
	}
	w.silent = 0
	held := w.held
	w.held = nil
	wait := time.Duration(w.c.n.chance.Int64N(int64(2 * time.Second))) // the next attempt of the sender
	w.last = max(w.last, w.c.n.Elapsed()+wait)
	for _, t := range held {
		w.launch(t)
	}
}

// stuck says whether what is sent now is held back.
func (w *way) stuck() bool {
	n := w.c.n
	if n.blocked(w.from, w.to) {
		return true
	}
	return n.blocked(w.to, w.from) && w.silent >= unacked
}

// launch sends a parcel that has left its node on its way.
func (w *way) launch(t travel) {
	n := w.c.n
	if !w.c.believes(w.from) {
		return
	}
	if n.blocked(w.to, w.from) {
		w.silent += t.size
	}
	if w.stuck() || len(w.held) > 0 {
		w.held = append(w.held, t)
		return
	}
	w.tcp.Pass(t.size, t.urgent, func() {
		rtt := n.rtt(w.from, w.to)
		at := max(n.Elapsed()+w.path.Delay(t.size, rtt, n.chance), w.last)
		w.last = at
		n.After(at-n.Elapsed(), func() { w.hop(0, t) })
	})
}

func (w *way) hop(i int, t travel) {
	if i < len(w.path.Pipes) {
		w.path.Pipes[i].Pass(t.size, t.urgent, func() { w.hop(i+1, t) })
		return
	}
	switch {
	case w.c.believes(w.to):
		t.arrive()
	case w.to.dark:
		w.c.doubt()
	default:
		w.c.hangUp(w.to) // nobody there: reset
	}
}

// message sends one frame. It returns false if too much is waiting already.
func (w *way) message(size int, arrive func()) bool {
	if w.frames >= queueFrames || w.bytes+size > queueBytes || !w.c.believes(w.from) {
		return false
	}
	w.frames++
	w.bytes += size
	w.from.up.Message(size, func() {
		w.launch(travel{size, true, func() {
			w.reads.Pass(max(size, minMessage), true, func() {
				w.frames--
				w.bytes -= size
				if w.c.believes(w.to) {
					arrive()
				}
			})
		}})
	})
	return true
}

// control sends a few bytes of the data protocols, ahead of bulk.
func (w *way) control(arrive func()) {
	w.from.up.Message(minParcel, func() { w.launch(travel{minParcel, true, arrive}) })
}

// ---- the messages of a node ----

// Send implements actors.Network.
func (x *Node) Send(to peers.ID, frame []byte) bool {
	c := x.net.conns[pair(x.id, to)]
	if c == nil || !c.believes(x) {
		return false
	}
	for _, f := range x.acts.frames(to, frame) {
		if !x.sendFrame(c, to, f) {
			return false
		}
	}
	return true
}

func (x *Node) sendFrame(c *conn, to peers.ID, frame []byte) bool {
	y := x.net.byID[to]
	size := len(frame) + 3
	return c.ways[c.side(x)].message(size, func() {
		x.count(y, size)
		if len(frame) > wire.MaxMessage { // p2p resets the streams of messages
			y.program.Lost(x.id)
			c.ways[c.side(y)].control(func() { x.program.Lost(y.id) })
			return
		}
		x.net.passed(frame)
		y.program.Deliver(x.id, frame)
	})
}

// passed enters the bytes that were delivered in the trace.
func (n *Net) passed(b []byte) { n.Mark(uint64(len(b)), uint64(crc32.ChecksumIEEE(b))) }

func (x *Node) count(to *Node, bytes int) {
	x.out[to] += int64(bytes)
	to.in[x] += int64(bytes)
}

// Traffic implements actors.Network.
func (x *Node) Traffic(id peers.ID) (in, out int64) {
	y := x.net.byID[id]
	return x.in[y], x.out[y]
}
