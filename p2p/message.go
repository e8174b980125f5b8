package p2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// messenger has an exchange with every peer to or from which frames were sent
// since it was last lost.
type messenger struct {
	h    *Host
	recv func(peers.ID, []byte)
	lost func(peers.ID)

	bytes atomic.Int64 // queued or being written, for all peers

	mu    sync.Mutex
	with  map[peers.ID]*exchange
	rates map[peers.ID]*rate.Limiter // of peers that had an exchange and may not send all yet that may come at once
	here  map[peers.ID]bool          // connected or with an exchange, and not reported as lost since
}

// exchange is the exchange of frames with one peer: an outgoing stream, opened for
// the first frame, and an incoming one. When either breaks, or the last connection
// to the peer ends, both end, and lost is called, after the last call of recv.
// So between two calls of lost nothing is missing in either direction.
type exchange struct {
	m    *messenger
	id   peers.ID
	peer peer.ID
	rate *rate.Limiter // of what comes in; it goes on in the next exchange

	ctx  context.Context
	end  context.CancelFunc
	done chan struct{} // lost has been called

	ready chan struct{} // something is queued

	mu     sync.Mutex
	queue  [][]byte
	bytes  int            // of queue, and of what is being written
	in     bool           // there is, or was, an incoming stream
	ending bool           // nothing may join any more
	work   sync.WaitGroup // Add only with mu held and not ending
}

// OnMessages starts the exchange of messages, once per host. recv is given each
// frame of a peer, at most wire.MaxMessage bytes, in order, from the goroutine
// of that peer's stream: it must not block, and may keep the frame. lost says
// that frames to and from the peer may be missing: the last connection to it is
// gone, or a stream of messages broke. Frames queued for it are gone too.
// No call of recv for the peer is under way then, and the next belongs to a new exchange.
func (h *Host) OnMessages(recv func(from peers.ID, frame []byte), lost func(peers.ID)) {
	m := &h.messages
	m.mu.Lock()
	m.recv, m.lost = recv, lost
	m.mu.Unlock()
	h.handle(wire.MessageProtocol, func(s *counted, from peers.ID) error {
		x := m.join(from, s.Conn().RemotePeer())
		if x == nil {
			return errClosed
		}
		defer x.work.Done()
		defer x.end()
		return x.read(s)
	})
}

// Send queues a frame for a peer and never blocks. The frame must not be
// changed afterwards. false: it is longer than wire.MaxMessage, the queue is
// full, or the peer is not connected. Frames arrive in the order in which they
// were sent, or lost is called.
func (h *Host) Send(to peers.ID, frame []byte) bool {
	m := &h.messages
	if len(frame) > wire.MaxMessage || h.drain.Err() != nil {
		return false
	}
	m.mu.Lock()
	x := m.with[to]
	m.mu.Unlock()
	if x == nil {
		id, err := decode(to)
		if err != nil || !h.usable(id) {
			return false
		}
		if x = m.exchange(to, id); x == nil {
			return false
		}
	}
	return x.push(frame)
}

// exchange returns the exchange with a peer, a new one if there is none. nil: the
// host is closed.
func (m *messenger) exchange(id peers.ID, to peer.ID) *exchange {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.with[id]; x != nil {
		return x
	}
	x := &exchange{m: m, id: id, peer: to, rate: m.rates[id], done: make(chan struct{}), ready: make(chan struct{}, 1)}
	if x.rate == nil {
		x.rate = rate.NewLimiter(rate.Limit(m.h.cfg.MessageRate), m.h.cfg.MessageRate)
	}
	x.ctx, x.end = context.WithCancel(m.h.ctx)
	if !m.h.start(x.run) {
		x.end()
		return nil
	}
	m.with[id] = x
	m.here[id] = true
	return x
}

// join makes the caller's stream the incoming stream of an exchange. A peer that opens
// a second one has lost the first, so the exchange with it ends first.
func (m *messenger) join(id peers.ID, from peer.ID) *exchange {
	for {
		x := m.exchange(id, from)
		if x == nil {
			return nil
		}
		x.mu.Lock()
		if !x.in && !x.ending {
			x.in = true
			x.work.Add(1)
			x.mu.Unlock()
			return x
		}
		x.mu.Unlock()
		x.end()
		<-x.done
	}
}

// connected is called by libp2p for every new connection.
func (m *messenger) connected(_ network.Network, c network.Conn) {
	id := peers.ID(c.RemotePeer().String())
	m.mu.Lock()
	m.here[id] = true
	m.mu.Unlock()
}

// disconnected is called by libp2p for every connection that ends.
func (m *messenger) disconnected(_ network.Network, c network.Conn) {
	to := c.RemotePeer()
	if m.h.usable(to) {
		return
	}
	id := peers.ID(to.String())
	m.mu.Lock()
	x := m.with[id]
	m.mu.Unlock()
	if x != nil {
		x.end()
	} else if m.h.begin() {
		defer m.h.work.Done()
		m.gone(id)
	}
}

// gone reports that a peer was lost, once for each time that it was here.
func (m *messenger) gone(id peers.ID) {
	m.mu.Lock()
	here, lost := m.here[id], m.lost
	delete(m.here, id)
	m.mu.Unlock()
	if here && lost != nil {
		lost(id)
	}
}

// run runs an exchange until it ends.
func (x *exchange) run() {
	h := x.m.h
	err := h.caught(x.write)
	if err != nil && x.ctx.Err() == nil {
		h.log.Debug("messages ended", "peer", x.id, "err", err)
	}
	x.end()
	x.mu.Lock()
	x.ending = true
	x.hold(-x.bytes) // nothing can join any more
	x.mu.Unlock()
	x.work.Wait()
	x.m.gone(x.id)
	x.m.mu.Lock()
	delete(x.m.with, x.id)
	x.m.rates[x.id] = x.rate
	maps.DeleteFunc(x.m.rates, func(_ peers.ID, l *rate.Limiter) bool { return l.Tokens() >= float64(l.Burst()) })
	x.m.mu.Unlock()
	close(x.done)
}

// push queues a frame.
func (x *exchange) push(frame []byte) bool {
	x.mu.Lock()
	if x.ending || x.ctx.Err() != nil || len(x.queue) >= messageQueue || !x.room(len(frame)) {
		x.mu.Unlock()
		return false
	}
	x.queue = append(x.queue, frame)
	x.hold(len(frame))
	x.mu.Unlock()
	signal(x.ready)
	return true
}

// room says whether n more bytes may be held for the peer. When all peers together
// hold as much as is allowed, each still has room for one message, so that peers that
// read nothing do not block the others. mu is held.
func (x *exchange) room(n int) bool {
	mine, all := x.bytes+n, x.m.bytes.Load()+int64(n)
	return mine <= wire.MaxMessage || mine <= messageBytes && all <= int64(x.m.h.cfg.ServeBytes)
}

// hold counts n more bytes, or fewer if negative, as held for the peer. mu is held.
func (x *exchange) hold(n int) {
	x.bytes += n
	x.m.bytes.Add(int64(n))
}

// wrote counts n bytes as no longer held.
func (x *exchange) wrote(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hold(-n)
}

// pull takes everything that is queued.
func (x *exchange) pull(spare [][]byte) [][]byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	queue := x.queue
	clear(spare)
	x.queue = spare[:0]
	return queue
}

// write sends what is queued until the exchange ends. Whatever has gathered
// is sent in one write.
func (x *exchange) write() error {
	var s *counted
	var frames [][]byte
	var buf []byte
	stall := x.m.h.cfg.Timeouts.Stall
	for {
		var closing bool
		select {
		case <-x.ctx.Done():
			return nil
		case <-x.m.h.drain.Done(): // the host closes: send what is queued
			closing = true
			defer time.AfterFunc(x.farewell(), x.end).Stop()
		case <-x.ready:
		}
		for frames = x.pull(frames); len(frames) > 0; frames = x.pull(frames) {
			if s == nil {
				var err error
				if s, err = x.m.h.open(x.ctx, x.peer, x.id, wire.MessageProtocol); err != nil {
					return err
				}
				defer s.uncount()
				defer s.Reset() // no effect after Close
				defer context.AfterFunc(x.ctx, func() { s.Reset() })()
			}
			n := 0 // bytes of frames in buf
			for i, f := range frames {
				frames[i] = nil
				n += len(f)
				if buf = wire.AppendFrame(buf, f); len(buf) < 64<<10 {
					continue
				}
				if err := writeAll(s, buf, stall); err != nil {
					return err
				}
				x.wrote(n)
				buf, n = buf[:0], 0
			}
			if err := writeAll(s, buf, stall); err != nil {
				return err
			}
			x.wrote(n)
			if buf = buf[:0]; cap(buf) > 128<<10 { // large messages are rare
				buf = nil
			}
		}
		if closing {
			return linger(s)
		}
	}
}

// farewell is how long the peer may take to notice the last messages. The answer of one that is more than a tenth of
// Timeouts.Farewell away is not waited for: it has time to read them until the end of the connection gets there, which
// is sent a twenty-fifth of it later.
func (x *exchange) farewell() time.Duration {
	t := x.m.h.cfg.Timeouts.Farewell
	if x.m.h.RoundTrip(x.id) > t/10 {
		return t / 25
	}
	return t
}

// linger ends a stream that only we write to, and waits until the peer has
// noticed: closing a connection loses what is still in it. Host.Close
// bounds the wait, and for messages Timeouts.Farewell does.
func linger(s *counted) error {
	if s == nil {
		return nil
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	err := error(os.ErrDeadlineExceeded)
	for timedOut(err) {
		s.SetReadDeadline(time.Time{})
		_, err = io.Copy(io.Discard, s)
	}
	return err
}

// read hands over what comes in until the stream ends.
func (x *exchange) read(s *counted) error {
	defer context.AfterFunc(x.ctx, func() { s.Reset() })()
	cfg := x.m.h.cfg
	br := bufio.NewReaderSize(s, 16<<10)
	var armed time.Time
	for {
		if err := x.rate.WaitN(x.ctx, 0); err != nil { // until what came before is paid for, also by an earlier stream
			return err
		}
		if br.Buffered() == 0 {
			s.SetReadDeadline(time.Time{})
			if _, err := br.Peek(1); err != nil {
				return ended(err)
			}
			armed = time.Time{}
		}
		armed = frameWithin(s, cfg.Timeouts.Request, armed)
		frame, err := wire.ReadFrame(br, wire.MaxMessage, nil)
		if err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		x.rate.ReserveN(time.Now(), max(len(frame), minMessage))
		x.m.recv(x.id, frame)
	}
}

// ended returns nil for a stream that ended between frames.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
