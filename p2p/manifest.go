package p2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// FetchManifest asks a peer for a share's manifest of at most limit bytes; with others the
// peer may name some that have it in place of sending it. While it comes, came is told now and then
// how much of it has; nil: nobody is. done
// is called once, from another goroutine, with the manifest, which hashes to
// id; or with the peer's reply that it has none to give; or with an error that
// wraps peers.ErrUnreachable, peers.ErrLost or peers.ErrProtocol. cancel makes
// done be called soon, with an error.
func (h *Host) FetchManifest(from peers.Addr, id share.ID, others bool, limit int, came func(bytes, size int), done func(manifest []byte, r wire.Reply, err error)) (cancel func()) {
	ctx, cancel := context.WithCancel(h.drain)
	if !h.start(func() {
		defer cancel()
		done(h.fetchManifest(ctx, from, wire.ManifestRequest{Share: id, Others: others}, limit, came))
	}) {
		go done(nil, wire.Reply{}, errClosed)
	}
	return cancel
}

func (h *Host) fetchManifest(ctx context.Context, from peers.Addr, q wire.ManifestRequest, limit int, came func(bytes, size int)) ([]byte, wire.Reply, error) {
	fail := func(err error) ([]byte, wire.Reply, error) { return nil, wire.Reply{}, err }
	to, err := connectEarly(ctx, h, from)
	if err != nil {
		return fail(err)
	}
	if err := h.asks.take(ctx, from.ID, func() {}); err != nil {
		return fail(errCancelled)
	}
	defer h.asks.give(from.ID)
	h.prove(ctx, to, from.ID, q.Share)
	s, err := openEarly(ctx, h, to, from.ID, wire.ManifestProtocol)
	if err != nil {
		return fail(err)
	}
	defer s.uncount()
	defer s.Reset() // no effect after Close
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	raw, reply, err := h.readManifest(s, q, min(limit, share.MaxManifest), came)
	switch {
	case err == nil:
		s.Close()
		return raw, reply, nil
	case ctx.Err() != nil:
		return fail(errCancelled)
	case errors.Is(err, peers.ErrProtocol):
		return fail(err)
	}
	h.log.Debug("no list of files", "peer", from.ID, "err", err)
	if notServed(err) || late(err) {
		return fail(streamFailed(wire.ManifestProtocol, err))
	}
	return fail(streamLost(h, from.ID, err))
}

var errCancelled = fmt.Errorf("cancelled: %w", peers.ErrLost)

// readManifest asks and reads the answer.
func (h *Host) readManifest(s *counted, q wire.ManifestRequest, limit int, came func(bytes, size int)) ([]byte, wire.Reply, error) {
	t := h.cfg.Timeouts
	if err := writeAll(s, wire.AppendFrame(nil, wire.AppendManifestRequest(nil, q)), t.Stall); err != nil {
		return nil, wire.Reply{}, err
	}
	s.CloseWrite() // over QUIC an error if the peer has read the request and stopped reading: it answers all the same
	start := time.Now()
	s.SetReadDeadline(start.Add(t.Manifest))
	br := bufio.NewReader(s)
	frame, err := wire.ReadFrame(br, wire.MaxHeader, nil)
	if err != nil {
		return nil, wire.Reply{}, err
	}
	reply, size, err := wire.ParseManifestHeader(frame)
	if err != nil || reply.Status != wire.OK {
		return nil, reply, err
	}
	if size > int64(limit) {
		return nil, reply, fmt.Errorf("%w: a list of files of %d bytes, where at most %d are allowed", peers.ErrProtocol, size, limit)
	}
	s.SetReadDeadline(start.Add(t.Manifest + time.Duration(float64(size)/float64(t.ManifestRate)*float64(time.Second))))
	list := h.lists.begin(func() { s.Reset() })
	raw, err := readList(br, int(size), list, came)
	if list.end() && err != nil {
		if list.inTurn {
			return nil, reply, said{listInTurn, peers.ErrCrowded, err}
		}
		return nil, reply, said{listGivenUp, peers.ErrStream, err}
	}
	if err != nil {
		return nil, reply, err
	}
	if got := share.IDOf(raw); got != q.Share {
		return nil, reply, fmt.Errorf("%w: the list of files is that of %s", peers.ErrProtocol, got.Short())
	}
	return raw, reply, nil
}

// tellCame is how often it is told how much of a manifest has come.
const tellCame = 250 * time.Millisecond

// readList reads a manifest of a size that is believed only as the bytes arrive.
func readList(r io.Reader, size int, list *coming, came func(bytes, size int)) ([]byte, error) {
	var raw []byte
	told := time.Now()
	for len(raw) < size {
		if len(raw) == cap(raw) {
			room := min(size, max(listFirst, 4*cap(raw)))
			list.holds(len(raw), room)
			raw = append(make([]byte, 0, room), raw...)
		}
		n, err := r.Read(raw[len(raw):cap(raw)])
		if raw = raw[:len(raw)+n]; len(raw) == size {
			break
		}
		if err != nil {
			return nil, err
		}
		list.holds(len(raw), cap(raw))
		if now := time.Now(); came != nil && now.Sub(told) >= tellCame {
			told = now
			came(len(raw), size)
		}
	}
	return raw, nil
}

// serveManifest answers one request.
func (h *Host) serveManifest(b Blocks, a Admit, s *counted, from peers.ID) error {
	t := h.cfg.Timeouts
	s.SetReadDeadline(time.Now().Add(t.Request))
	frame, err := wire.ReadFrame(bufio.NewReader(s), wire.MaxRequest, nil)
	if err != nil {
		return err
	}
	q, err := wire.ParseManifestRequest(frame)
	if err != nil {
		return err
	}
	raw, reply := b.Manifest(q.Share)
	if l, ok := a.(Lists); ok && reply.Status == wire.OK {
		ctx, cancel := context.WithTimeout(h.ctx, t.Request)
		if r := l.List(ctx, from, q); r.Status != wire.OK {
			reply = r
		}
		cancel()
	}
	header := wire.AppendFrame(nil, wire.AppendManifestHeader(nil, reply, int64(len(raw))))
	if err := writeAll(s, header, t.Stall); err != nil || reply.Status != wire.OK {
		return err
	}
	for len(raw) > 0 { // in steps, so that a stall shows
		n := min(len(raw), 256<<10)
		if err := writeAll(s, raw[:n], t.Stall); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}
