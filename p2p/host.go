package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/piecelease/fetcher/internal/few"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// faults are the faults of peers that were logged: a peer can make as many as it likes.
type faults struct {
	mu  sync.Mutex
	few few.Limiter[fault]
}

type fault struct {
	peer     peers.ID
	protocol string
}

// faultsSaid is how many faults of a peer in a protocol are logged in a minute.
const faultsSaid = 4

// take says whether a fault is logged, and with what besides.
func (f *faults) take(peer peers.ID, protocol string, now time.Time) (say bool, more []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	say, left := f.few.Take(fault{peer, protocol}, now)
	if left > 0 {
		more = []any{"more", left}
	}
	return say, more
}

// Host is this node on the network. Its methods are safe for concurrent use.
type Host struct {
	cfg      Config
	log      *slog.Logger
	host     host.Host
	swarm    *swarm.Swarm
	book     *book
	id       peers.ID
	announce []ma.Multiaddr

	counts  counters
	buffers freeList
	serving budget // bytes on their way out
	arrived budget // bytes that came in and were not released
	waste   atomic.Int64
	dropped atomic.Int64
	faults  faults // what was logged of them

	kids     kids
	first    *slots // streams of links
	more     *slots // ... that have one
	asks     *slots // of manifests
	lists    lists
	messages messenger
	dials    *dials // of peers that peers named
	pace     pace   // of these dials
	reach    reach
	secrets  secrets

	ctx    context.Context // ends when everything must stop
	cancel context.CancelFunc
	drain  context.Context // ends when nothing new may begin
	stop   context.CancelFunc
	links  atomic.Uint64 // number of the last link

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // every goroutine of ours; Add only with mu held and not closed
	done   chan struct{}  // closed when Close is done
	err    error          // what Close returns
}

// New makes a host and binds every listen address, or returns an error that names
// the address: it wraps share.ErrNetwork if the address cannot be bound, and ErrAddress if
// it cannot be read. The host answers nobody before Serve.
func New(cfg Config) (*Host, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	listen, err := spots(cfg)
	if err != nil {
		return nil, err
	}
	announce, err := announced(cfg)
	if err != nil {
		return nil, err
	}
	places, err := newPlaces(cfg.Reach.Relays)
	if err != nil {
		return nil, err
	}
	book, err := newBook()
	if err != nil {
		return nil, fmt.Errorf("start the network: %w", err)
	}
	node, acks, err := newNode(cfg, book)
	if err != nil {
		book.Close()
		return nil, err
	}
	h := &Host{
		cfg:      cfg,
		log:      cfg.Logger,
		host:     node,
		swarm:    node.Network().(*swarm.Swarm),
		book:     book,
		id:       peers.ID(node.ID().String()),
		announce: announce,
		counts:   counters{each: map[peers.ID]*traffic{}},
		serving:  newBudget(cfg.ServeBytes),
		arrived:  newBudget(cfg.FetchBytes),
		first:    newSlots(linkStreams - max(moreStreams, cfg.Streams-1)),
		more:     newSlots(max(moreStreams, cfg.Streams-1)),
		asks:     newSlots(manifestAsks),
		dials:    newDials(),
		done:     make(chan struct{}),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.drain, h.stop = context.WithCancel(h.ctx)
	h.messages.h, h.messages.with, h.messages.here, h.messages.rates = h, map[peers.ID]*exchange{}, map[peers.ID]bool{}, map[peers.ID]*rate.Limiter{}
	h.kids.each, h.kids.room, h.faults.few = map[peers.ID]*kid{}, cfg.ServeBytes/parkedPart, few.Limiter[fault]{Most: faultsSaid, Per: time.Minute}
	h.swarm.Notify(&network.NotifyBundle{ConnectedF: h.messages.connected, DisconnectedF: h.messages.disconnected})
	h.reach.h, h.reach.places, acks.h = h, places, h
	if err = h.listen(listen); err == nil {
		err = h.startReach()
	}
	if err != nil {
		h.cancel()
		h.reach.close()
		node.Close()
		return nil, err
	}
	return h, nil
}

// announced reads Config.Announce.
func announced(cfg Config) (out []ma.Multiaddr, err error) {
	for _, s := range cfg.Announce {
		a, err := parse("to announce, such as /dns4/example.org/tcp/4001", s)
		if err != nil {
			return nil, err
		}
		if !transported(a) {
			return nil, words.Error(ErrAddress, "%q is not an address to announce: it must end in /tcp/PORT or /udp/PORT/quic-v1, such as /dns4/example.org/tcp/4001", s)
		}
		out = append(out, a)
	}
	return out, nil
}

// protocolVersion is what identify gives as the family of our protocols.
const protocolVersion = "fetcher/1"

// newNode is the libp2p host, not listening, and what watches its connections.
func newNode(cfg Config, b *book) (host.Host, *acks, error) {
	key, err := crypto.UnmarshalEd25519PrivateKey(cfg.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("node key: %w", err)
	}
	lim := newLimits(cfg.MaxPeers, cfg.Streams)
	resources, err := lim.resourceManager()
	if err != nil {
		return nil, nil, err
	}
	t := cfg.Timeouts
	conns, err := lim.connManager()
	if err != nil {
		resources.Close()
		return nil, nil, err
	}
	a := &acks{}
	opts := []libp2p.Option{
		libp2p.Identity(key),
		libp2p.UserAgent("fetcher/" + cfg.Version),
		libp2p.ProtocolVersion(protocolVersion),
		libp2p.NoListenAddrs,                     // listen binds them, one by one
		libp2p.DisableIdentifyAddressDiscovery(), // reach has its own, if it is wanted
		libp2p.ResourceManager(resources),
		libp2p.ConnectionManager(conns),
		libp2p.Peerstore(b),
		libp2p.ConnectionGater(newGate(lim, t, a)),
		acceptWithin(t.Accept),
		libp2p.Security(libp2ptls.ID, newTLS), // the first is preferred, at two thirds of Noise's cost
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer(yamux.ID, muxer(t)),
		// The dial of each address ends before the attempt does, the delays of rankDials included:
		// if the attempt ends first, libp2p does not say why.
		libp2p.WithDialTimeout(t.Dial * 4 / 5),
		libp2p.SwarmOpts(swarm.WithDialTimeoutLocal(t.Dial*4/5), swarm.WithDialRanker(rankDials)),
		// The pool learns whether an address is worth dialing. libp2p
		// would stop dialing QUIC everywhere after a hundred failures.
		libp2p.UDPBlackHoleSuccessCounter(nil),
		libp2p.IPv6BlackHoleSuccessCounter(nil),
		noMetrics,
	}
	opts = append(opts, cfg.Reach.options(cfg)...)
	if cfg.Packets != nil {
		opts = append(opts, over(cfg.Packets))
	}
	node, err := libp2p.New(append(opts, cfg.Libp2p...)...)
	if err != nil {
		resources.Close()
		conns.Close()
		return nil, nil, fmt.Errorf("start the network: %w", err)
	}
	return node, a, nil
}

// muxer is yamux as libp2p sets it up, with our windows, message size and timeouts:
// its own 10 s, for a write to the connection or the answer to a ping, are less
// than a slow line takes for what is queued before them.
func muxer(t Timeouts) *yamux.Transport {
	m := *yamux.DefaultTransport
	m.MaxStreamWindowSize = maxWindow
	m.InitialStreamWindowSize = firstWindow
	m.MaxMessageSize = muxerMessage
	m.ConnectionWriteTimeout = t.Stall
	return &m
}

// noMetrics keeps libp2p out of the process's Prometheus registry.
// DisableMetrics alone leaves the event bus registering there.
func noMetrics(cfg *libp2p.Config) error {
	cfg.DisableMetrics = true
	cfg.PrometheusRegisterer = prometheus.NewRegistry()
	return nil
}

// ID is this node's peer ID.
func (h *Host) ID() peers.ID { return h.id }

// Addrs returns the multiaddrs this node can be reached at, each ending in
// /p2p/ID: those announced, then those it listens on, with the addresses of
// the interfaces in place of "all interfaces": public ones first, and those of the
// machine itself last. Those through relays come last of all.
func (h *Host) Addrs() []string {
	addrs := append([]ma.Multiaddr{}, h.announce...)
	if own, err := h.swarm.InterfaceListenAddresses(); err == nil {
		own, _ = split(own)
		own = append(own, h.reach.mapped(own)...)
		slices.SortFunc(own, func(a, b ma.Multiaddr) int {
			return cmp.Or(cmp.Compare(share.Reach(a), share.Reach(b)), cmp.Compare(a.String(), b.String()))
		})
		addrs = append(addrs, own...)
	}
	addrs = append(addrs, h.reach.relayed()...)
	var out []string
	for _, a := range addrs {
		if s := bare(a).String() + "/p2p/" + string(h.id); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// bare is an address without the peer ID at its end.
func bare(a ma.Multiaddr) ma.Multiaddr {
	if rest, last := ma.SplitLast(a); last != nil && last.Protocol().Code == ma.P_P2P {
		return rest
	}
	return a
}

// Discarded returns how many bytes came in for requests that had been cancelled.
func (h *Host) Discarded() int64 { return h.waste.Load() }

// Dropped returns how many streams of peers were reset for a frame that was too long or
// otherwise not one of ours.
func (h *Host) Dropped() int64 { return h.dropped.Load() }

// begin says whether the host still runs, and if so counts one goroutine that
// must call h.work.Done.
func (h *Host) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Add(1)
	return true
}

// start runs f in a goroutine that Close waits for, unless the host is closed.
func (h *Host) start(f func()) bool {
	if !h.begin() {
		return false
	}
	go func() {
		defer h.work.Done()
		f()
	}()
	return true
}

// handle answers a protocol. A panic in serve is logged and costs the stream.
func (h *Host) handle(protocol string, serve func(s *counted, from peers.ID) error) {
	h.host.SetStreamHandler(protoID(protocol), func(s network.Stream) {
		if !h.begin() {
			s.Reset()
			return
		}
		defer h.work.Done()
		from := peers.ID(s.Conn().RemotePeer().String())
		c := h.count(s, from)
		defer c.uncount()
		err := h.caught(func() error { return serve(c, from) })
		switch {
		case err == nil:
			s.Close()
			return
		case errors.Is(err, peers.ErrProtocol):
			h.dropped.Add(1)
			if say, left := h.faults.take(from, protocol, time.Now()); say {
				h.log.Warn("peer broke the protocol", append([]any{"peer", from, "protocol", protocol, "err", err}, left...)...)
			}
		default:
			h.log.Debug("stream ended", "peer", from, "protocol", protocol, "err", err)
		}
		s.Reset()
	})
}

// caught runs f and turns a panic into an error, logged with its stack.
func (h *Host) caught(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			h.log.Error("panic", "panic", r, "stack", string(debug.Stack()))
		}
	}()
	return f()
}

// Close ends everything: links at once; replies and messages under way when
// they are done, or at Timeouts.Shutdown. It returns when every goroutine
// has ended, or with an error a second after Timeouts.Shutdown if some have
// not. Later calls wait for the first and return the same.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		<-h.done
		return h.err
	}
	h.closed = true
	h.mu.Unlock()
	defer close(h.done)

	limit := time.NewTimer(h.cfg.Timeouts.Shutdown)
	defer limit.Stop()
	ended := make(chan struct{})
	h.stop()
	go func() {
		h.work.Wait()
		close(ended)
	}()
	late := false
	select {
	case <-ended:
	case <-limit.C:
		late = true
		limit.Reset(time.Second) // for what only has to notice the end
	}
	h.cancel()
	closed := make(chan error, 1)
	go func() {
		h.reach.close()
		err := h.host.Close() // resets every stream
		<-ended
		closed <- err
	}()
	select {
	case err := <-closed:
		if err != nil {
			h.err = fmt.Errorf("close the network: %w", err)
		}
	case <-limit.C:
		h.err = errors.New("close: parts of the network were still running when the time for closing was over")
	}
	if late {
		h.log.Debug("closed before all replies were sent")
	}
	return h.err
}

// connect reaches a peer: over an open connection, or by one attempt on all its addresses, after
// which it waits until the peer has said what it serves. The error is of type said.
func (h *Host) connect(ctx context.Context, to peers.Addr) (peer.ID, error) {
	return connectBy(ctx, h, to, func(ctx context.Context, id peer.ID) error { return h.host.Connect(ctx, peer.AddrInfo{ID: id}) })
}

// connectBy is connect with a way of its own to dial.
func connectBy(ctx context.Context, h *Host, to peers.Addr, dial func(context.Context, peer.ID) error) (peer.ID, error) {
	id, err := decode(to.ID)
	switch {
	case err != nil:
		return "", said{fmt.Sprintf("%q is not a peer ID", to.ID), peers.ErrUnreachable, err}
	case id == h.host.ID():
		return "", said{"it is this node itself", peers.ErrUnreachable, nil}
	}
	if h.usable(id) {
		return id, nil
	}
	end, err := h.dials.begin(ctx, h, &to)
	if err != nil {
		return "", err
	}
	defer end()
	direct, over, err := h.ways(to)
	if err != nil {
		return "", err
	}
	defer h.through(over)()
	defer h.book.dial(id, append(direct, over...))()
	t := h.cfg.Timeouts
	dialing, cancel := context.WithTimeout(network.WithDialPeerTimeout(ctx, t.Dial), t.Dial+t.Handshake)
	defer cancel()
	if err := afresh(dialing, h, id, dial); err != nil {
		h.log.Debug("no connection", "peer", to.ID, "err", err)
		if h.swarm.Connectedness(id) == network.Connected {
			return "", said{noReply, peers.ErrLost, err}
		}
		return "", dialFailed(err, direct)
	}
	return id, h.upgraded(ctx, id)
}

// open opens a stream on the open connection.
func (h *Host) open(ctx context.Context, to peer.ID, id peers.ID, protocol string) (*counted, error) {
	ctx, cancel := context.WithTimeout(onOpen(ctx, h, to), h.cfg.Timeouts.Handshake)
	defer cancel()
	s, err := h.host.NewStream(ctx, to, protoID(protocol))
	if err != nil {
		return nil, streamFailed(protocol, err)
	}
	return h.count(s, id), nil
}

// errClosed is the error of what ends because the host closes.
var errClosed = fmt.Errorf("this node is shutting down: %w", peers.ErrLost)

// lowPort reports whether an address has one of the ports that systems keep for programs with a right to them.
func lowPort(addr ma.Multiaddr) bool {
	for _, protocol := range []int{ma.P_TCP, ma.P_UDP} {
		if text, err := addr.ValueForProtocol(protocol); err == nil {
			n, err := strconv.Atoi(text)
			return err == nil && 0 < n && n < 1024
		}
	}
	return false
}

// unusable is the error for an address that cannot be listened on.
func unusable(addr ma.Multiaddr, err error) error {
	why := err
	if s, ok := errors.AsType[*os.SyscallError](err); ok {
		why = s.Err
	}
	if errors.Is(err, os.ErrPermission) && lowPort(addr) {
		why = errors.New("only root, or a program that has been given the right, may use ports below 1024; take another port")
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, wsaAddrNotAvail) {
		why = errors.New("this machine does not have that address")
	}
	return words.Error(errors.Join(share.ErrNetwork, err), "cannot listen on %s: %s", addr, oneLine(why.Error()))
}
