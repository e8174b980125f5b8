package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// packets is a network of packets in memory, with a delay and cuts, for hosts
// in a bubble.
type packets struct {
	delay time.Duration

	mu   sync.Mutex
	ends map[netip.AddrPort]*packetConn
	cut  map[netip.Addr]bool
	lost map[netip.AddrPort]time.Time // addresses of nobody, and when a packet was first sent there
}

type packet struct {
	from net.Addr
	b    []byte
}

type packetConn struct {
	n      *packets
	addr   *net.UDPAddr
	in     chan packet
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	deadline time.Time
	moved    chan struct{} // closed when the deadline moves
}

func (n *packets) set(ip string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[netip.MustParseAddr(ip)] = cut
}

func at(a net.Addr) netip.AddrPort {
	p := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

func (n *packets) listen(a *net.UDPAddr) *packetConn {
	c := &packetConn{n: n, addr: a, in: make(chan packet, 4096), closed: make(chan struct{}), moved: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[at(a)] = c
	return c
}

func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	n := c.n
	n.mu.Lock()
	dst := n.ends[at(to)]
	if _, before := n.lost[at(to)]; dst == nil && !before {
		n.lost[at(to)] = time.Now()
	}
	lost := dst == nil || n.cut[at(to).Addr()] || n.cut[at(c.addr).Addr()]
	n.mu.Unlock()
	if lost || len(b) > 1500 {
		return len(b), nil
	}
	p := packet{c.addr, append([]byte(nil), b...)}
	time.AfterFunc(n.delay, func() {
		select {
		case dst.in <- p:
		default:
		}
	})
	return len(b), nil
}

func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		c.mu.Lock()
		deadline, moved := c.deadline, c.moved
		c.mu.Unlock()
		var late <-chan time.Time
		if !deadline.IsZero() {
			t := time.NewTimer(time.Until(deadline))
			defer t.Stop()
			late = t.C
		}
		select {
		case p := <-c.in:
			return copy(b, p.b), p.from, nil
		case <-moved:
		case <-late:
			return 0, nil, os.ErrDeadlineExceeded
		case <-c.closed:
			return 0, nil, net.ErrClosed
		}
	}
}

func (c *packetConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	close(c.moved)
	c.moved = make(chan struct{})
	return nil
}

func (c *packetConn) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *packetConn) LocalAddr() net.Addr              { return c.addr }
func (c *packetConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *packetConn) SetWriteDeadline(time.Time) error { return nil }
func (c *packetConn) SetReadBuffer(int) error          { return nil }
func (c *packetConn) SetWriteBuffer(int) error         { return nil }

// place is one address of the network, and implements Packets.
type place struct {
	n  *packets
	ip net.IP
}

func (p place) ListenUDP(a *net.UDPAddr) (net.PacketConn, error) { return p.n.listen(a), nil }
func (p place) SourceIP(*net.UDPAddr) (net.IP, error)            { return p.ip, nil }

// host is a host of the simulated network.
func (n *packets) host(t testing.TB, ip string, cfg Config) *Host {
	return newHost(t, n.config(ip, cfg))
}

func (n *packets) config(ip string, cfg Config) Config {
	cfg.Listen = []string{"/ip4/" + ip + "/udp/4001/quic-v1"}
	cfg.Packets = place{n, net.ParseIP(ip)}
	return cfg
}

// inBubble runs f with a network in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, n *packets)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, &packets{delay: 25 * time.Millisecond, ends: map[netip.AddrPort]*packetConn{}, cut: map[netip.Addr]bool{}, lost: map[netip.AddrPort]time.Time{}})
	})
}

func TestHostsWorkInVirtualTime(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 3<<20, 10)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.host(t, "1.0.0.1", Config{}), n.host(t, "1.0.0.2", Config{})
		src.Serve(toAll(x), everybody{})
		got := make(chan string, 10)
		src.OnMessages(func(from peers.ID, frame []byte) { src.Send(from, frame) }, func(peers.ID) {})
		h.OnMessages(func(_ peers.ID, frame []byte) { got <- string(frame) }, func(peers.ID) {})

		start := time.Now()
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		rtt := recv(t, "the link", c.up)
		if rtt < 50*time.Millisecond || rtt > 60*time.Millisecond {
			t.Error("round trip of", rtt, "want 50 ms")
		}
		if d := time.Since(start); d > 250*time.Millisecond {
			t.Error("up after", d, "want at most five round trips")
		}
		fetchAll(t, x, l, c)

		time.Sleep(20 * time.Minute) // idle streams are closed, and opened again
		fetchAgain(t, x, l, c)
		start = time.Now()
		h.Send(src.ID(), []byte("ping"))
		recv(t, "the answer", got)
		if d := time.Since(start); d > 120*time.Millisecond {
			t.Error("a first message and its answer took", d)
		}
		l.Close()
	})
}

// fetchAgain asks for piece 0 under a new ID.
func fetchAgain(t testing.TB, x *memory, l *Link, c *catcher) {
	t.Helper()
	if !l.Request(whole(x, 1000, 0, true)) {
		t.Fatal("request refused")
	}
	select {
	case <-c.finished:
	case err := <-c.down:
		t.Fatal("down:", err)
	}
}

func TestASourceThatFallsSilentIsLostAfterTheReplyTimeout(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 16<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.host(t, "1.0.0.1", Config{}), n.host(t, "1.0.0.2", Config{Timeouts: Timeouts{Reply: 7 * time.Second}})
		src.Serve(toAll(x), everybody{})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		<-c.up
		for p := range 16 {
			l.Request(whole(x, uint64(p), share.Piece(p), true))
		}
		<-c.finished
		n.set("1.0.0.1", true)
		start := time.Now()
		err := <-c.down
		if !errors.Is(err, peers.ErrLost) || !strings.Contains(err.Error(), "no byte") {
			t.Error("down:", err)
		}
		if d := time.Since(start); d < 6900*time.Millisecond || d > 7100*time.Millisecond {
			t.Error("lost after", d)
		}
		n.set("1.0.0.1", false)
		c = newCatcher()
		l = h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		l.Request(whole(x, 1, 0, true))
		select {
		case <-c.finished:
		case err := <-c.down:
			t.Error("after the cut:", err)
		}
		l.Close()
	})
}

func TestALinkThatOwesNothingEndsWithItsConnection(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		src.Serve(toAll(x), everybody{})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		for round := range 2 { // the second finds that the first one's read deadline has passed
			l.Request(whole(x, uint64(round), 0, true))
			ends(t, c)
			time.Sleep(defaultTimeouts.Reply * 3 / 2)
		}
		n.set("1.0.0.1", true)
		start := time.Now()
		<-c.down
		if d := time.Since(start); d > time.Minute {
			t.Error("down after", d)
		}
	})
}

func TestAdmissionMayTakeNearlyAsLongAsTheReplyTimeout(t *testing.T) {
	x := newMemory(t, 1<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.host(t, "1.0.0.1", Config{}), n.host(t, "1.0.0.2", Config{})
		src.Serve(toAll(x), admitFunc(func(context.Context, peers.ID, share.Piece, int) (func(), wire.Reply) {
			time.Sleep(defaultTimeouts.Reply - time.Second)
			return func() {}, wire.Reply{}
		}))
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		l.Request(whole(x, 1, 0, true))
		select {
		case <-c.finished:
		case err := <-c.down:
			t.Error("down:", err)
		}
	})
}

// two are a source and a host that fetches from it.
func (n *packets) two(t testing.TB, src, h Config) (*Host, *Host) {
	return n.host(t, "1.0.0.1", src), n.host(t, "1.0.0.2", h)
}

// ends waits for a request to finish.
func ends(t testing.TB, c *catcher) {
	t.Helper()
	select {
	case <-c.finished:
	case err := <-c.down:
		t.Fatal("down:", err)
	}
}

func TestASourceThatIsSlowAndSteadyIsNotLost(t *testing.T) {
	x := newMemory(t, 2<<20)
	reply := defaultTimeouts.Reply
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{Streams: 1})
		enact(t, src, func(s network.Stream, f wire.PieceFrame) {
			if f.Cancel {
				return
			}
			header(s, wire.Header{ID: f.ID, Count: 4, Bytes: wire.MaxRun, Last: true}, 100)
			for range 10 {
				time.Sleep(reply - time.Second)
				s.Write(make([]byte, 1))
			}
			s.Write(make([]byte, wire.MaxRun-110))
		})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		for id := range uint64(3) {
			l.Request(wire.PieceRequest{ID: id, Count: 4})
		}
		ends(t, c)
		l.Cancel(1) // its bytes are thrown away, as slowly as they come
		ends(t, c)
		if h.Discarded() != wire.MaxRun {
			t.Error(h.Discarded(), "bytes were discarded")
		}
	})
}

func TestALinkWithoutRequestsHasNoReplyTimeout(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{Timeouts: Timeouts{Idle: time.Hour}}, Config{})
		src.Serve(toAll(x), everybody{})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		for id := range uint64(3) {
			l.Request(whole(x, id, 0, true))
			ends(t, c)
			time.Sleep(2 * defaultTimeouts.Reply)
		}
		if len(c.down) > 0 {
			t.Error("down:", <-c.down)
		}
	})
}

func TestAnIdleStreamIsClosedAndOpenedAgain(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{Streams: 1})
		src.Serve(toAll(x), everybody{})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		open := func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.streams[0].s != nil }
		for round := range uint64(3) {
			l.Request(whole(x, round, 0, true))
			ends(t, c)
			time.Sleep(defaultTimeouts.Idle - time.Second)
			if !open() {
				t.Error("closed before its time")
			}
			time.Sleep(2 * time.Second)
			if open() {
				t.Error("not closed")
			}
		}
		if len(c.down) > 0 {
			t.Error("the link went with the stream:", <-c.down)
		}
	})
}

func TestAStreamThatWaitsForItsReplyIsNotIdle(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1<<20)
	x.read = func(share.Piece, share.Block) wire.Reply { time.Sleep(20 * time.Second); return wire.Reply{} }
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{Timeouts: Timeouts{Idle: 3 * time.Second}}, Config{Streams: 1})
		src.Serve(toAll(x), everybody{})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		l.Request(whole(x, 1, 0, true))
		ends(t, c)
	})
}

func TestAChildThatReadsSlowlyIsNotCut(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		src.Serve(toAll(x), everybody{})
		s := rawStream(t, h, src, wire.PieceProtocol)
		for p := range 2 {
			askFor(s, x, uint64(p), share.Piece(p))
		}
		s.CloseWrite()
		got, start := 0, time.Now()
		buf := make([]byte, 64<<10)
		for {
			m, err := io.ReadFull(s, buf)
			got += m
			if err != nil {
				break
			}
			time.Sleep(10 * time.Second)
		}
		if got < 2<<20 {
			t.Error("cut after", got, "bytes and", time.Since(start))
		}
	})
}

func TestProgressIsToldOfSlowRunsOnly(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{Streams: 1})
		enact(t, src, func(s network.Stream, f wire.PieceFrame) {
			if f.Request.Piece == 1 {
				for b := share.Block(0); b < 16; b += 4 {
					header(s, wire.Header{ID: f.ID, First: b, Count: 4, Bytes: wire.MaxRun, Last: b == 12}, wire.MaxRun)
				}
				return
			}
			header(s, wire.Header{ID: f.ID, Count: 4, Bytes: wire.MaxRun, Last: true}, 1000)
			for range 30 {
				time.Sleep(50 * time.Millisecond)
				s.Write(make([]byte, 1000))
			}
			s.Write(make([]byte, wire.MaxRun-31000))
		})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		l.Request(wire.PieceRequest{ID: 1, Count: 4})
		ends(t, c)
		if k := len(c.progress); k < 5 || k > 6 {
			t.Error("told of progress", k, "times in 1.5 s, want four a second")
		}
		for told := 0; len(c.progress) > 0; {
			p := <-c.progress
			if told += p; p <= 0 || told > 31_000 && len(c.progress) > 0 {
				t.Error("progress of", p, "more:", told, "in all of 31,000")
			}
		}
		l.Request(wire.PieceRequest{ID: 2, Piece: 1, Count: 16})
		ends(t, c)
		if k := len(c.progress); k > 1 { // QUIC begins slowly
			t.Error("told of progress", k, "times in a fast reply")
		}
	})
}

func TestMessagesOfOnePeerAreReadAtARate(t *testing.T) {
	rig.Slow(t)
	inBubble(t, func(t *testing.T, n *packets) {
		a, b := n.two(t, Config{}, Config{MessageRate: 1 << 20})
		got := make(chan int, 1000)
		b.OnMessages(func(_ peers.ID, frame []byte) { got <- len(frame) }, func(peers.ID) {})
		joined(t, a, b)
		start := time.Now()
		for range 12 { // 3 MiB, of which 1 MiB may come at once
			sendAll(t, a, b.ID(), make([]byte, wire.MaxMessage))
		}
		for range 1024 { // and 1 MiB as they are counted
			sendAll(t, a, b.ID(), nil)
		}
		for range 12 + 1024 {
			<-got
		}
		if d := time.Since(start); d < 2900*time.Millisecond || d > 4*time.Second {
			t.Error("4 MiB took", d, "at a rate of 1 MiB/s after a burst of 1 MiB")
		}
	})
}

func TestShutdownTimeoutBoundsClose(t *testing.T) {
	x := newMemory(t, 1<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		release, reading := make(chan struct{}), make(chan struct{}, 1)
		stuck := &memory{m: x.m, pieces: x.pieces, proofs: x.proofs}
		stuck.read = func(share.Piece, share.Block) wire.Reply { reading <- struct{}{}; <-release; return wire.Reply{} }
		src, err := New(n.config("1.0.0.1", Config{}))
		if err != nil {
			t.Fatal(err)
		}
		src.Serve(toAll(stuck), everybody{})
		h := n.host(t, "1.0.0.2", Config{})
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), newCatcher())
		defer l.Close()
		l.Request(whole(x, 1, 0, true))
		<-reading
		start := time.Now()
		if err := src.Close(); err == nil {
			t.Error("no error from a close that left a goroutine behind")
		}
		if d := time.Since(start); d != defaultTimeouts.Shutdown+time.Second {
			t.Error("closed after", d)
		}
		close(release)
	})
}

// A peer that is far away gets the last messages, and its answer is not waited for.
func TestClosingDoesNotWaitForAnAnswerFromAfar(t *testing.T) {
	inBubble(t, func(t *testing.T, n *packets) {
		n.delay = 200 * time.Millisecond
		b := n.host(t, "1.0.0.2", Config{})
		got, lost := make(chan string, 9), make(chan peers.ID, 1)
		b.OnMessages(func(_ peers.ID, frame []byte) { got <- string(frame) }, func(id peers.ID) { lost <- id })
		a, err := New(n.config("1.0.0.1", Config{}))
		if err != nil {
			t.Fatal(err)
		}
		joined(t, a, b)
		sendAll(t, a, b.ID(), []byte("one"), []byte("the last"))
		start := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d < defaultTimeouts.Farewell/25 || d > defaultTimeouts.Farewell/25+10*time.Millisecond {
			t.Error("closed after", d)
		}
		recv(t, "the end", lost)
		if len(got) != 2 || <-got != "one" || <-got != "the last" {
			t.Error("a message is missing")
		}
	})
}

// A peer that is cut off, or frozen, does not delay the end of a process.
func TestClosingDoesNotWaitForAPeerThatIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, n *packets) {
		n.delay = time.Millisecond
		b := n.host(t, "1.0.0.2", Config{})
		b.OnMessages(func(peers.ID, []byte) {}, func(peers.ID) {})
		for _, c := range []struct{ set, want time.Duration }{{0, defaultTimeouts.Farewell}, {2 * time.Second, 2 * time.Second}} {
			a, err := New(n.config("1.0.0.1", Config{Timeouts: Timeouts{Farewell: c.set}}))
			if err != nil {
				t.Fatal(err)
			}
			a.OnMessages(func(peers.ID, []byte) {}, func(peers.ID) {})
			joined(t, a, b)
			sendAll(t, a, b.ID(), []byte("one"))
			time.Sleep(time.Second)
			n.set("1.0.0.2", true)
			sendAll(t, a, b.ID(), []byte("two"))
			start := time.Now()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d < c.want || d > c.want+100*time.Millisecond {
				t.Errorf("closed after %v, with a time-out of %v", d, c.want)
			}
			n.set("1.0.0.2", false)
			time.Sleep(time.Minute) // for b to notice
		}
	})
}

// Each frame has the full time, even if it comes with the end of another and
// many came before it.
func TestMessagesOverASlowLineGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T, n *packets) {
		a, b := n.two(t, Config{}, Config{})
		got := make(chan int, 1000)
		b.OnMessages(func(_ peers.ID, frame []byte) { got <- len(frame) }, func(peers.ID) { got <- -1 })
		s := rawStream(t, a, b, wire.MessageProtocol)
		const size, count = 9973, 60
		go func() {
			frames := bytes.Repeat(wire.AppendFrame(nil, make([]byte, size)), count)
			for part := range slices.Chunk(frames, 7000) {
				time.Sleep(time.Second / 2)
				s.Write(part)
			}
		}()
		for i := range count {
			if k := recv(t, "a message", got); k != size {
				t.Errorf("got %d after %d messages", k, i)
				time.Sleep(time.Minute) // until all is written
				break
			}
		}
	})
}

// What a child sends while we make it wait is not late.
func TestAChildThatAsksFarAheadIsNotCut(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1000)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		src.Serve(toAll(x), admitFunc(func(context.Context, peers.ID, share.Piece, int) (func(), wire.Reply) {
			time.Sleep(50 * time.Millisecond)
			return func() {}, wire.Reply{}
		}))
		s := rawStream(t, h, src, wire.PieceProtocol)
		const asked = 3 * pipeline
		go func() {
			for i := range asked {
				askFor(s, x, uint64(i), 0)
			}
			s.CloseWrite()
		}()
		b, err := io.ReadAll(s)
		if err != nil || len(b) < asked*1000 {
			t.Errorf("%d bytes of %d came, then %v", len(b), asked*1000, err)
		}
	})
}

// desk is an Admit with a number of slots, first come, first served, that records who parks.
type desk struct {
	slots  budget
	parked atomic.Int32
	left   atomic.Int64 // bytes that were not taken by then
	out    atomic.Int32 // turns given and not given back
}

func (d *desk) Admit(ctx context.Context, _ peers.ID, _ share.ID, _ wire.PieceRequest, _ int) (func(int), func(int), wire.Reply) {
	if err := d.slots.Acquire(ctx, 1); err != nil {
		return nil, nil, wire.Reply{Status: wire.Busy}
	}
	d.out.Add(1)
	parked := false
	return func(int) {
			d.out.Add(-1)
			if !parked {
				d.slots.Release(1)
			}
		}, func(left int) {
			parked = true
			d.parked.Add(1)
			d.left.Store(int64(left))
			d.slots.Release(1)
		}, wire.Reply{}
}

// silent asks for all of x on a stream of its own, and reads no reply.
func (n *packets) silent(t *testing.T, h, src *Host, x *memory) network.Stream {
	s := rawStream(t, h, src, wire.PieceProtocol)
	for p := range x.m.Layout().Pieces() {
		askFor(s, x, uint64(p), share.Piece(p))
	}
	return s
}

func TestAChildThatTakesNothingGivesItsTurnToOthers(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 4<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src := n.host(t, "10.0.0.1", Config{})
		d := &desk{slots: newBudget(2)}
		src.Serve(toAll(x), d)
		silent := n.host(t, "10.0.0.2", Config{})
		for range 2 {
			n.silent(t, silent, src, x)
		}
		time.Sleep(time.Second)
		if d.slots.TryAcquire(1) {
			t.Fatal("a slot is free")
		}
		h := n.host(t, "10.0.0.3", Config{})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		start := time.Now()
		fetchAll(t, x, l, c)
		if took := time.Since(start); took > 5*time.Second {
			t.Error("another child was served after", took)
		}
		if d.parked.Load() != 2 {
			t.Error(d.parked.Load(), "turns were parked")
		}
		time.Sleep(time.Minute) // the silent ones are cut
		if d.out.Load() != 0 {
			t.Error(d.out.Load(), "turns were not given back")
		}
	})
}

func TestAReplyThatWasParkedGoesOnWhenItsChildReads(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		d := &desk{slots: newBudget(1)}
		src.Serve(toAll(x), d)
		s := n.silent(t, h, src, x)
		s.CloseWrite()
		got := 0
		buf := make([]byte, 64<<10)
		for {
			m, err := io.ReadFull(s, buf)
			if got += m; err != nil {
				break
			}
			time.Sleep(10 * time.Second)
		}
		if got < 2<<20 {
			t.Error("cut after", got, "bytes")
		}
		if d.parked.Load() == 0 || d.out.Load() != 0 {
			t.Error(d.parked.Load(), "turns were parked,", d.out.Load(), "were not given back")
		}
	})
}

func TestWhatIsParkedHoldsAPartOfServeBytes(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 4<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src := n.host(t, "10.0.0.1", Config{ServeBytes: 2 << 20})
		d := &desk{slots: newBudget(64)}
		src.Serve(toAll(x), d)
		slow, many := n.host(t, "10.0.0.2", Config{}), n.host(t, "10.0.0.3", Config{})
		n.silent(t, slow, src, x)
		time.Sleep(time.Second) // its reply is the oldest
		for range 4 {
			n.silent(t, many, src, x)
		}
		held, few, most := 0, 0, 0 // the most bytes; streams in the end
		for range 80 {
			time.Sleep(100 * time.Millisecond)
			src.kids.mu.Lock()
			held = max(held, src.kids.held)
			few, most = src.kids.each[slow.ID()].streams, src.kids.each[many.ID()].streams
			src.kids.mu.Unlock()
		}
		if held > 1<<20 || few != 1 || most >= 4 {
			t.Errorf("%d bytes were held by what is parked; of one child %d streams are left, of the other %d", held, few, most)
		}
		time.Sleep(time.Minute)
		if src.kids.mu.Lock(); src.kids.held != 0 {
			t.Error(src.kids.held, "bytes are held in the end")
		}
		src.kids.mu.Unlock()
	})
}

// strays returns how many addresses of nobody were dialled.
func (n *packets) strays() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.lost)
}

// dialled returns when peers that do not exist were first dialled, in order: 2.X.Y.Z is peer X.
func (n *packets) dialled() []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := map[byte]time.Time{}
	for to, t := range n.lost {
		x := to.Addr().As4()[1]
		if was, ok := first[x]; !ok || t.Before(was) {
			first[x] = t
		}
	}
	return slices.SortedFunc(maps.Values(first), time.Time.Compare)
}

// If a peer names hundreds of others, this one dials some of them, slowly. Peers that the
// user names are dialled at once.
func TestWhoIsNamedByPeersIsDialledWithinBounds(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1)
	open := func(h *Host, many, places int, by peers.ID) {
		for i := range many {
			to := peers.Addr{ID: peerOf(seedKey(byte(i))), By: by}
			for k := range places {
				to.Addrs = append(to.Addrs, fmt.Sprintf("/ip4/2.%d.%d.1/udp/4001/quic-v1", i, k))
			}
			h.Open(to, x.m.ID(), x.m.Layout(), newCatcher())
		}
	}
	inBubble(t, func(t *testing.T, n *packets) {
		open(n.host(t, "1.0.0.2", Config{}), 250, 8, "namer")
		time.Sleep(25 * time.Second)
		when := n.dialled()
		second, most := 0, 0
		for i, at := range when {
			for at.Sub(when[second]) >= time.Second {
				second++
			}
			most = max(most, i-second+1)
		}
		// A dial lasts five seconds: until QUIC gives up.
		if most > 2*16 || len(when) > 5*64 || n.strays() > peers.MaxEndpoints*len(when) {
			t.Errorf("%d peers were dialled at %d addresses, %d of them within a second", len(when), n.strays(), most)
		}
		if len(when) < 64 {
			t.Errorf("only %d were dialled", len(when))
		}
	})
	inBubble(t, func(t *testing.T, n *packets) {
		open(n.host(t, "1.0.0.2", Config{}), 100, 2, "")
		time.Sleep(time.Second)
		if when := n.dialled(); len(when) != 100 || n.strays() != 200 {
			t.Errorf("of 100 peers that the user named %d were dialled at %d addresses", len(when), n.strays())
		}
	})
}

// However many peers are said to be in one public network, few of its addresses are
// dialled at a time; those near the namer are counted separately.
func TestOneNetworkIsDialledAtFewAddressesAtATime(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1)
	for _, home := range []bool{false, true} {
		inBubble(t, func(t *testing.T, n *packets) {
			h, namer := n.host(t, "1.0.0.2", Config{}), n.host(t, "2.0.0.1", Config{})
			connected(t, h, namer)
			for i := range 40 {
				to := peers.Addr{ID: peerOf(seedKey(byte(i))), By: namer.ID(), Addrs: []string{fmt.Sprintf("/ip4/3.0.0.%d/udp/4001/quic-v1", i)}}
				if home {
					to.Addrs[0] = fmt.Sprintf("/ip4/2.0.0.%d/udp/4001/quic-v1", 10+i)
				}
				h.Open(to, x.m.ID(), x.m.Layout(), newCatcher())
			}
			time.Sleep(4 * time.Second)
			if want := map[bool]int{false: peers.MaxEndpoints, true: 40}[home]; n.strays() != want {
				t.Errorf("the namer's own %v: %d addresses were dialled at once, want %d", home, n.strays(), want)
			}
			time.Sleep(5 * time.Second) // those have failed
			if want := 2 * peers.MaxEndpoints; !home && n.strays() != want {
				t.Errorf("%d addresses were dialled after those had failed, want %d", n.strays(), want)
			}
		})
	}
}
