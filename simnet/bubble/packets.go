package bubble

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

const (
	mtu       = 1500                   // bytes; longer packets are lost
	queueTime = 100 * time.Millisecond // what a line's queue holds at its rate
	queueMin  = 32 * mtu               // ... and at least, in bytes
	inbox     = 1024                   // packets that wait to be read on one socket
	natMemory = 2 * time.Minute        // how long a NAT keeps the return path open
)

// packets carries packets between sockets. It has no goroutine: one timer, a heap
// of what is under way, and a lock that is never held while anything waits. A socket
// that does not read loses packets; no other does.
type packets struct {
	mu      sync.Mutex
	chance  *rand.Rand
	sockets map[netip.AddrPort]*socket
	routers map[netip.Addr]*Router // by their outer addresses
	way     wayHeap
	seq     uint64
	timer   *time.Timer
	free    [][]byte // buffers of packets
	carried int64    // packets
	dropped int64
}

// place is where a node is: its address and its line. The fields are guarded by
// packets.mu.
type place struct {
	n        *packets
	ip       netip.Addr
	up, down *pipe
	line     simnet.Line
	site     *Site
	router   *Router // nil: none
	nat      bool
	dark     bool // frozen: nothing gets in or out
	cut      map[*place]int
	opened   map[netip.AddrPort]time.Time // the addresses to which a node behind NAT has sent
	ports    uint16
}

// Site is a place whose nodes share a line to the rest of the world. Between
// nodes of one site only their own lines count.
type Site struct {
	name     string
	line     simnet.Line
	up, down *pipe
}

// pipe passes packets on at a rate, first in, first out, with a bounded
// queue.
type pipe struct {
	rate float64   // bytes per second; 0 is no limit
	free time.Time // when all that is in it will be out
}

// pass returns when n bytes are through; not ok: the queue is full.
func (p *pipe) pass(now time.Time, n int) (at time.Time, ok bool) {
	if p.rate == 0 {
		return now, true
	}
	room := max(queueTime, seconds(queueMin/p.rate))
	if p.free.Before(now) {
		p.free = now
	}
	if p.free.Sub(now) > room {
		return now, false
	}
	p.free = p.free.Add(seconds(float64(n) / p.rate))
	return p.free, true
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// travel is a packet under way to the next pipe.
type travel struct {
	at       time.Time
	seq      uint64
	from, to *socket
	src, dst netip.AddrPort // as they are on the packet, in the network within in
	in       *Router
	pipes    [4]*pipe
	count    int
	next     int // pipe
	latency  time.Duration
	b        []byte
}

type wayHeap []*travel

func (h wayHeap) Len() int { return len(h) }
func (h wayHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].seq < h[j].seq
}
func (h wayHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *wayHeap) Push(x any)   { *h = append(*h, x.(*travel)) }
func (h *wayHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

func newPackets(chance *rand.Rand) *packets {
	return &packets{chance: chance, sockets: map[netip.AddrPort]*socket{}, routers: map[netip.Addr]*Router{}}
}

// send sends one packet on its way.
func (n *packets) send(from *socket, to netip.AddrPort, b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if from.at.nat {
		from.at.opened[to] = now
	}
	src, in, ok := n.leave(from, to, now)
	var dst *socket
	if ok {
		dst = n.enter(src, to, in, now, false)
	}
	if dst == nil || len(b) > mtu || from.dead || from.at.dark || from.at.cut[dst.at] > 0 || n.lost(from.at, dst.at) {
		n.dropped++
		return
	}
	t := &travel{at: now, from: from, to: dst, src: src, dst: to, in: in, b: append(n.buffer(), b...)}
	t.route(n)
	n.step(t)
	n.arm(now)
}

// lost draws whether a packet is lost.
func (n *packets) lost(a, b *place) bool {
	stays := (1 - a.line.Loss) * (1 - b.line.Loss)
	if a.site != b.site {
		for _, s := range []*Site{a.site, b.site} {
			if s != nil {
				stays *= 1 - s.line.Loss
			}
		}
	}
	return stays < 1 && n.chance.Float64() >= stays
}

// route finds the pipes on a packet's way, and how long it takes between them.
func (t *travel) route(n *packets) {
	a, b := t.from.at, t.to.at
	through := func(p *pipe) {
		t.pipes[t.count] = p
		t.count++
	}
	jitter := a.line.Jitter + b.line.Jitter
	t.latency = a.line.Latency + b.line.Latency
	through(a.up)
	if a.site != b.site {
		for i, s := range []*Site{a.site, b.site} {
			if s == nil {
				continue
			}
			through([]*pipe{s.up, s.down}[i])
			t.latency += s.line.Latency
			jitter += s.line.Jitter
		}
	}
	through(b.down)
	if jitter > 0 {
		t.latency += time.Duration(n.chance.Int64N(int64(jitter)))
	}
}

// step takes a packet through its next pipe, and through any that let it pass at
// once. The delay of the distance comes before the last pipe.
func (n *packets) step(t *travel) {
	for {
		if t.next == t.count {
			n.arrive(t)
			return
		}
		at, ok := t.pipes[t.next].pass(t.at, len(t.b))
		if !ok {
			n.drop(t)
			return
		}
		if t.next++; t.next == t.count-1 {
			at = at.Add(t.latency)
			if last := t.from.last[t.to.at]; last.After(at) { // jitter does not reorder packets
				at = last
			}
			t.from.last[t.to.at] = at
		}
		if at.After(t.at) {
			t.at = at
			n.seq++
			t.seq = n.seq
			heap.Push(&n.way, t)
			return
		}
	}
}

// arrive hands a packet to its socket.
func (n *packets) arrive(t *travel) {
	a, b := t.from.at, t.to.at
	if a.cut[b] > 0 || a.dark || b.dark || t.to.shut || t.to.dead || len(t.to.in) == inbox || !b.lets(t.src, t.at) || n.enter(t.src, t.dst, t.in, t.at, true) != t.to {
		n.drop(t)
		return
	}
	n.carried++
	t.to.in = append(t.to.in, t)
	signal(t.to.ready)
}

// lets says whether a NAT lets a packet from there in.
func (p *place) lets(from netip.AddrPort, now time.Time) bool {
	if !p.nat {
		return true
	}
	sent, ok := p.opened[from]
	return ok && now.Sub(sent) < natMemory
}

func (n *packets) drop(t *travel) {
	n.dropped++
	n.release(t.b)
}

// fire is called by the timer: packets that are due move on.
func (n *packets) fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for len(n.way) > 0 && !n.way[0].at.After(now) {
		n.step(heap.Pop(&n.way).(*travel))
	}
	n.arm(now)
}

// arm sets the timer to the earliest that is due.
func (n *packets) arm(now time.Time) {
	switch {
	case len(n.way) == 0:
	case n.timer == nil:
		n.timer = time.AfterFunc(n.way[0].at.Sub(now), n.fire)
	default:
		n.timer.Reset(n.way[0].at.Sub(now))
	}
}

func (n *packets) buffer() []byte {
	last := len(n.free) - 1
	if last < 0 {
		return make([]byte, 0, mtu)
	}
	b := n.free[last]
	n.free = n.free[:last]
	return b[:0]
}

func (n *packets) release(b []byte) { n.free = append(n.free, b) }

// ---- places ----

// ListenUDP implements p2p.Packets.
func (p *place) ListenUDP(a *net.UDPAddr) (net.PacketConn, error) {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	ip, ok := netip.AddrFromSlice(a.IP)
	if !ok {
		ip = p.ip
	}
	if ip = ip.Unmap(); ip.IsUnspecified() {
		ip = p.ip
	}
	port := uint16(a.Port)
	for port == 0 {
		p.ports++
		if at := 49152 + p.ports; n.sockets[netip.AddrPortFrom(ip, at)] == nil {
			port = at
		}
	}
	addr := netip.AddrPortFrom(ip, port)
	switch {
	case ip != p.ip:
		return nil, fmt.Errorf("listen on %v: this node is at %v: %w", a, p.ip, os.ErrInvalid)
	case n.sockets[addr] != nil:
		return nil, fmt.Errorf("listen on %v: %w", a, os.ErrExist)
	}
	s := &socket{at: p, addr: addr, last: map[*place]time.Time{}, ready: make(chan struct{}, 1), closed: make(chan struct{}), moved: make(chan struct{}, 1)}
	n.sockets[addr] = s
	return s, nil
}

// SourceIP implements p2p.Packets.
func (p *place) SourceIP(*net.UDPAddr) (net.IP, error) { return p.ip.AsSlice(), nil }

// die takes the sockets there off the network, as the end of its process would:
// no peer is told, and the addresses are free. A frozen place may die too.
func (p *place) die() {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	clear(p.opened)
	p.dark = false
	for addr, s := range p.n.sockets {
		if s.at == p {
			s.dead = true
			delete(p.n.sockets, addr)
		}
	}
}

// freeze lets nothing in or out, or ends that.
func (p *place) freeze(frozen bool) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.dark = frozen
}

// setLine changes the line.
func (p *place) setLine(l simnet.Line) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.line, p.up.rate, p.down.rate = l, l.Up, l.Down
}

// block cuts the way from one place to another, or ends one cut.
func (n *packets) block(from, to *place, blocked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case blocked:
		from.cut[to]++
	case from.cut[to] > 0:
		from.cut[to]--
	}
}

// ---- sockets ----

// socket is a net.PacketConn.
type socket struct {
	at   *place
	addr netip.AddrPort

	ready  chan struct{} // in has something
	moved  chan struct{} // the deadline moved
	closed chan struct{}

	// the fields below are guarded by packets.mu
	in       []*travel
	last     map[*place]time.Time // when the last packet to that place arrives
	deadline time.Time
	shut     bool
	dead     bool // its process has ended
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case <-s.closed:
		return 0, net.ErrClosed
	default:
	}
	a, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("send to %v: %w", to, os.ErrInvalid)
	}
	there := a.AddrPort()
	s.at.n.send(s, netip.AddrPortFrom(there.Addr().Unmap(), there.Port()), b)
	return len(b), nil
}

func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		k, from, deadline := s.take(b)
		if from != nil {
			return k, from, nil
		}
		if err := s.wait(deadline); err != nil {
			return 0, nil, err
		}
	}
}

// take returns the first packet that has come, if there is one.
func (s *socket) take(b []byte) (int, net.Addr, time.Time) {
	n := s.at.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(s.in) == 0 {
		return 0, nil, s.deadline
	}
	t := s.in[0]
	s.in[0] = nil
	if s.in = s.in[1:]; len(s.in) == 0 {
		s.in = nil
	}
	k := copy(b, t.b)
	n.release(t.b)
	return k, net.UDPAddrFromAddrPort(t.src), s.deadline
}

// wait waits until there may be a packet, or an error.
func (s *socket) wait(deadline time.Time) error {
	select {
	case <-s.closed:
		return net.ErrClosed
	default:
	}
	var late <-chan time.Time
	if !deadline.IsZero() {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		t := time.NewTimer(left)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-s.ready:
	case <-s.moved:
	case <-late:
	case <-s.closed:
		return net.ErrClosed
	}
	return nil
}

func (s *socket) Close() error {
	n := s.at.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.shut {
		return net.ErrClosed
	}
	s.shut = true
	close(s.closed)
	if n.sockets[s.addr] == s {
		delete(n.sockets, s.addr)
	}
	for _, t := range s.in {
		n.release(t.b)
	}
	s.in = nil
	return nil
}

func (s *socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.addr) }

func (s *socket) SetReadDeadline(t time.Time) error {
	s.at.n.mu.Lock()
	s.deadline = t
	s.at.n.mu.Unlock()
	signal(s.moved)
	return nil
}

func (s *socket) SetDeadline(t time.Time) error    { return s.SetReadDeadline(t) }
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// SetReadBuffer and SetWriteBuffer are for quic-go, which would otherwise warn.
func (s *socket) SetReadBuffer(int) error  { return nil }
func (s *socket) SetWriteBuffer(int) error { return nil }
