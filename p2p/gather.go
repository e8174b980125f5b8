package p2p

import "time"

// Replies to requests for small files are gathered while more requests wait, so that many
// leave in one message of the multiplexer and one write to the socket. None is kept back for
// longer than gatherFor, whatever the next one waits for.
const (
	gatherReply = 8 << 10           // the longest reply that is gathered, in bytes, with its header
	gatherMost  = muxerMessage - 64 // bytes gathered: with its header, a message
	gatherFor   = 2 * time.Millisecond
)

// gathered are replies that are not sent yet. They count as served already: what is kept of
// them is the buffer, which is taken from what may be held for this child and for all.
type gathered struct {
	buf   *buffer
	n     int
	since time.Time
	timer *time.Timer   // when they leave by themselves; nil: not before the reply that comes now
	left  chan struct{} // closed when they have left by themselves
}

// stop says whether g does not leave by itself, from now on.
func (g *gathered) stop() bool {
	if g.timer != nil && !g.timer.Stop() {
		return false
	}
	g.timer = nil
	return true
}

// gather takes the frame of a reply, and n bytes of buf behind it, if it is to leave with
// others. If it is not, those before it have left.
func (c *child) gather(buf *buffer, n int) (yes bool, err error) {
	size := len(c.frame) + n
	if g := c.gathered; g == nil || g.n+size > gatherMost || size > gatherReply || !g.stop() {
		if err := c.flush(n); err != nil || size > gatherReply || !c.more() || !c.startGathering() {
			return false, err
		}
	}
	g := c.gathered
	at := g.buf.payload(g.n + size)[g.n:]
	if copy(at, c.frame); buf != nil {
		copy(at[len(c.frame):], buf.payload(n))
	}
	g.n += size
	wait := gatherFor - time.Since(g.since)
	if wait <= 0 || !c.more() {
		return true, c.flush(n)
	}
	g.timer = time.AfterFunc(wait, func() { c.leave(g) })
	return true, nil
}

// leave sends g when its time has come. If the child reads nothing, the stream is parked meanwhile.
func (c *child) leave(g *gathered) {
	defer close(g.left)
	parked := false
	err := c.send(g, func(int) {
		if !parked {
			parked = true
			c.h.kids.park(c)
		}
	})
	if parked {
		c.h.kids.moved(c)
	}
	if err != nil {
		c.cut()
	}
}

// startGathering takes a buffer for replies, and says whether there was one.
func (c *child) startGathering() bool {
	if !c.kid.memory.TryAcquire(gatherMost) {
		return false
	}
	buf := c.h.buffers.tryGet(c.h.serving, gatherMost)
	if buf == nil {
		c.kid.memory.Release(gatherMost)
		return false
	}
	c.gathered = &gathered{buf: buf, since: time.Now(), left: make(chan struct{})}
	return true
}

// flush sends what was gathered, or waits until it has left by itself. n bytes are those of
// the reply whose turn it is, which is parked like any other if the child reads nothing.
func (c *child) flush(n int) error {
	g := c.gathered
	if g == nil {
		return nil
	}
	c.gathered = nil
	if g.stop() {
		return c.send(g, func(int) { c.silent(n) })
	}
	patience := time.NewTimer(c.h.cfg.Timeouts.Park)
	defer patience.Stop()
	select {
	case <-g.left:
	case <-patience.C:
		c.silent(n)
		<-g.left // within Timeouts.Stall
	}
	return nil
}

// send sends g, and gives its memory back.
func (c *child) send(g *gathered, silent func(left int)) error {
	defer c.kid.memory.Release(gatherMost)
	defer g.buf.release()
	t := c.h.cfg.Timeouts
	return writePatiently(c.s, g.buf.payload(g.n), t.Stall, t.Park, silent)
}

// more says whether another request waits.
func (c *child) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0
}
