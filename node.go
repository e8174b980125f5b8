package fetcher

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot/keep"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/wire"
)

var _ p2p.Lists = actors.Server{} // Serve looks for it

// Node is one running fetcher. It serves what it shares and what it fetches.
// Its methods are safe for concurrent use. The caller must Close it.
type Node struct {
	cfg      Config
	log      *slog.Logger
	state    *store.State
	stateDir io.Closer // the state, and the folder it is in
	host     *p2p.Host
	catalog  *catalog
	program  *actors.Program
	keep     *keep.Keep     // what is kept for others; nil: the node is no depot
	finds    sync.WaitGroup // searches of keep
	meet     []byte         // the key that the secrets of its tickets are derived from
	syncs    stopwatch      // of what is fetched
	named    bool           // its key is one that others know it by, not made for this run

	mu       sync.Mutex
	fleets   map[share.ID]*Coordination
	closed   bool
	closing  chan struct{} // closed when Close begins
	ended    chan struct{} // closed when Close is done
	closeErr error         // what Close returns; good once ended is closed
	leaving  sync.WaitGroup
}

// Open starts a node. It listens, but does nothing until asked. ctx is for the
// start alone; Close ends the node. An address that cannot be listened on is an
// error that wraps share.ErrNetwork, one that cannot be read ErrAddress, and a state
// directory that cannot be used ErrStateDir.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Logger, fleets: map[share.ID]*Coordination{}, closing: make(chan struct{}), ended: make(chan struct{})}
	if n.state, n.stateDir, err = cfg.Simulation.openState(cfg.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStateDir, err)
	}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.stateDir.Close())
	}
	return n, nil
}

// start wires the parts together, from the disk up.
func (n *Node) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := n.p2pConfig(ctx)
	if err != nil {
		return err
	}
	if n.host, err = p2p.New(p); err != nil {
		return err
	}
	if n.named && len(n.cfg.Listen) == 0 {
		n.savePort(p.Port)
	}
	if n.catalog, err = openCatalog(n.cfg); err != nil {
		return errors.Join(err, n.host.Close())
	}
	offers := n.catalog.offers
	rt := system.Real(n.log)
	rt.SetWall(n.cfg.Wall)
	var net actors.Network = network{n.host}
	if send := n.cfg.Simulation.Send; send != nil {
		net = bent{network{n.host}, send}
	}
	n.program = actors.Start(actors.Deps{
		Runtime:      rt,
		Network:      net,
		Catalog:      offers,
		Discovery:    n.cfg.Discovery,
		Beacon:       n.cfg.Beacons.Serve,
		Placed:       n.placed(),
		Meetings:     n.cfg.Beacons.meetings(n),
		InFlight:     n.cfg.InFlight,
		Buffers:      n.cfg.Buffers,
		DownloadRate: n.cfg.DownloadRate,
		Ranking:      n.cfg.Ranking,
		Uploads:      n.cfg.Uploads,
		Remembered:   rememberedBy(n),
		Remember:     n.remember,
		Elections:    n.cfg.Fleet.elections(),
		Depot:        depotDeps(n),
		Holds:        n.cfg.Holds,
		Child:        n.cfg.OnChild,
		Failed:       n.failed,
	})
	n.catalog.changed = func() { n.program.Tell(actors.MeetingsChanged{}) }
	offers.OnGone(n.gone)
	n.host.OnMessages(n.program.Deliver, n.program.Lost)
	blocks := func(child peers.ID) p2p.Blocks { return offers.For(child) }
	if serve := n.cfg.Simulation.Serve; serve != nil {
		blocks = serve(offers)
	}
	n.host.Serve(blocks, actors.Server{Program: n.program})
	n.host.AskFor(offers)
	n.discover()
	return nil
}

func (n *Node) p2pConfig(ctx context.Context) (p2p.Config, error) {
	p := n.cfg.P2P
	p.Logger = n.log
	p.Version = cmp.Or(p.Version, Version())
	p.Listen, p.Announce, p.Reach = n.cfg.Listen, n.cfg.Announce, n.cfg.Reach
	n.named = p.Key != nil
	if !n.cfg.FreshIdentity && p.Key == nil {
		key, stored, err := n.key(ctx)
		if err != nil {
			return p, err
		}
		if !stored {
			n.log.Warn("another fetcher is using the state directory " + n.cfg.Dir + ", so this process has an ID of its own, and its addresses and tickets are good only while it runs")
		}
		p.Key, n.named = key, stored
	}
	if n.named && len(p.Listen) == 0 && p.Port == 0 {
		p.Port = n.state.LoadPort()
	}
	n.meet = p.Key
	if n.meet == nil { // tickets of this run are good for this run only
		n.meet = make([]byte, 32)
		rand.Read(n.meet)
	}
	return p, nil
}

// letGo is how long a sole node waits for a process that has its key: one that ends, or only asks for the node's ID.
const letGo = time.Second

// key is the stored key. If another process has it, a sole node fails, and any other gets a fresh one.
func (n *Node) key(ctx context.Context) (key ed25519.PrivateKey, stored bool, err error) {
	patience := time.After(letGo)
	for {
		if key, stored, err = n.state.Key(); err != nil || stored || !n.cfg.Sole {
			return key, stored, err
		}
		select {
		case <-time.After(letGo / 20):
		case <-patience:
			return nil, false, words.Error(share.ErrHeld, "another fetcher is using the state directory %s", n.cfg.Dir)
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// network is the host as the actors see it.
type network struct{ *p2p.Host }

func (w network) Self() peers.ID { return w.ID() }

// Addrs are those of the host as they are sent: without the peer ID, which is sent beside them.
func (w network) Addrs() []string { return w.bare(w.Host.Addrs()) }

func (w network) AddrsFor(to peers.ID) []string { return w.bare(p2p.AddrsFor(w.Host, to)) }

func (w network) bare(addrs []string) []string {
	for i, a := range addrs {
		addrs[i] = strings.TrimSuffix(a, "/p2p/"+string(w.ID()))
	}
	return addrs
}

func (w network) Endpoints(addrs []string) []peers.Endpoint { return p2p.Endpoints(addrs) }

func (w network) Open(to peers.Addr, id share.ID, layout *share.Layout, sink actors.Sink) actors.Link {
	return w.Host.Open(to, id, layout, sink)
}

// placed says which peers have a place at this node; nil: it is no relay.
func (n *Node) placed() func(peers.ID) bool {
	if !n.cfg.Reach.Relay {
		return nil
	}
	return n.host.Placed
}

func rememberedBy(n *Node) (records []peers.Record) {
	if b := n.state.LoadRanking(); b != nil {
		if err := json.Unmarshal(b, &records); err != nil {
			n.log.Warn("the saved ranking of peers cannot be read; the node begins a new one", "error", err)
			return nil
		}
	}
	return records
}

func (n *Node) remember(records []peers.Record) {
	b, err := json.Marshal(records)
	if err == nil {
		err = n.state.SaveRanking(b)
	}
	if err != nil {
		n.log.Warn("the ranking of peers was not saved", "error", err)
	}
}

// failed is called when a bug has ended the actors: nothing is served or coordinated any
// more. The transfers end by themselves.
func (n *Node) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return // all is ended anyway
	}
	shares, _ := n.catalog.lists()
	fleets := slices.Collect(maps.Values(n.fleets))
	n.leaving.Go(func() {
		for _, s := range shares {
			s.end(err)
		}
		for _, c := range fleets {
			c.end(err)
		}
		n.catalog.unkeepAll(err)
	})
}

// gone is called by the offers when a file of a share has changed.
func (n *Node) gone(id share.ID, why string) {
	n.log.Info("a share is no longer offered", "share", id.String(), "reason", why)
	if n.keep != nil {
		n.keep.Damaged(id)
	}
	s, _ := n.catalog.drop(id, nil)
	if s != nil {
		n.catalog.set(s.entry, EntryMissing, changed(why))
		defer s.over(changed(why))       // the last: whoever waits for it may close the node, and the children are to hear why
		defer n.catalog.unkeeps(id, nil) // nothing of that has changed
	} else {
		n.catalog.set(n.catalog.fetched(id).ID, EntryMissing, changed(why))
		defer n.catalog.unkeeps(id, changed(why)) // the last, as above
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := n.program.Withdraw(ctx, id, wire.CodeFileChanged); err != nil {
		n.log.Debug("withdraw", "error", err)
	}
}

// changed is share.ErrChanged with a text that already says so.
type changed string

func (e changed) Error() string { return string(e) }
func (e changed) Unwrap() error { return share.ErrChanged }

// ID is the node's peer ID.
func (n *Node) ID() peers.ID { return n.host.ID() }

// Addrs returns the full multiaddrs under which this node can be reached: first those
// of Config.Announce, then those it listens on, the machine's own last. Each can be
// given to another node as a peer; a loopback address only on this machine.
func (n *Node) Addrs() []string { return n.host.Addrs() }

// Children returns the peers that fetch something of a share from this node at present, in
// the order in which they began.
func (n *Node) Children(ctx context.Context) ([]Child, error) { return n.program.Children(ctx) }

// Way is how a peer is connected: directly or through a relay.
type Way = p2p.Way

// The ways; Unconnected is none, and Punched is direct after a relay had introduced the two.
const (
	Unconnected = p2p.Unconnected
	Direct      = p2p.Direct
	Punched     = p2p.Punched
	Relayed     = p2p.Relayed
)

// Way returns how a peer is connected at present.
func (n *Node) Way(peer peers.ID) Way { return n.host.Way(peer) }

// Dialled returns the multiaddrs, each ending in /p2p/ID, at which this node has reached a peer and is connected to it.
func (n *Node) Dialled(peer peers.ID) []string {
	out := p2p.Dialled(n.host, peer)
	for i := range out {
		out[i] += "/p2p/" + string(peer)
	}
	return out
}

// Place is the state of this node's reservation at one of Reach.Relays.
type Place = p2p.Place

// Unbounded is Place.Carries at a relay that sets no bound.
const Unbounded = p2p.Unbounded

// Tried is what happened when a relay dialled one of this node's addresses.
type Tried = p2p.Tried

// Tried returns what relays found when they dialled the node's public addresses, as it asks them to from
// time to time with Reach.Traverse; empty as long as none has.
func (n *Node) Tried() []Tried { return n.host.Tried() }

// Places returns the state at each of Reach.Relays, once each was asked or ctx has ended.
func (n *Node) Places(ctx context.Context) []Place { return n.host.Places(ctx) }

// Scores returns how the node rates peers as sources, in the order given: from 0
// for a banned one to 3; 1 for one that is not known.
func (n *Node) Scores(ctx context.Context, of []peers.ID) ([]float64, error) {
	return n.program.Scores(ctx, of)
}

// Traffic returns the bytes of all streams so far, framing included.
func (n *Node) Traffic() (in, out int64) {
	for _, f := range n.Flows() {
		in, out = in+f.In, out+f.Out
	}
	return in, out
}

// Carried returns the bytes that this node has carried between others as a relay, which Traffic does not count.
func (n *Node) Carried() int64 { return n.host.Carried() }

// Flow is the bytes of all streams with the peers of one class.
type Flow = p2p.Flow

// Flows returns Traffic by class of peer: anywhere, network, machine and relay, as they are connected.
func (n *Node) Flows() []Flow { return n.host.Flows() }

// Syncs returns how long it took to make what was fetched durable, since the node began.
func (n *Node) Syncs() Latency { return n.syncs.latency() }

// UploadStatus says what became of the requests of peers for content.
type UploadStatus = actors.UploadStatus

// Uploads returns what became of the requests of peers for content.
func (n *Node) Uploads(ctx context.Context) (UploadStatus, error) {
	return actors.Uploads(ctx, n.program)
}

// InFlight returns what is requested and not verified yet, over all transfers: bytes,
// and the buffers they need. Config.InFlight and Config.Buffers bound it.
func (n *Node) InFlight() (bytes int64, buffers int) { return n.program.InFlight() }

// SetUploadRate bounds what is sent to others, in bytes per second, from now on; 0 is no bound, and what is below
// 1,024 counts as that.
func (n *Node) SetUploadRate(rate int64) {
	n.program.Tell(actors.SetUploadRate{Rate: uploadRate(rate)})
}

// uploadRate is a rate that Config.UploadRate can have, too.
func uploadRate(rate int64) int64 {
	if rate > 0 {
		return max(rate, minUploadRate)
	}
	return 0
}

// SetShareUploadRate bounds what is sent of a share, in bytes per second within the bound
// for all, from now on, whether the share is served at present or not; 0 is no bound, and
// what is below 1,024 counts as that.
func (n *Node) SetShareUploadRate(id share.ID, rate int64) {
	n.program.Tell(actors.SetUploadRate{Share: id, Rate: uploadRate(rate)})
}

// SetDownloadRate bounds what is requested from others, in bytes per second of file
// content over all transfers, from now on; 0 is no bound.
func (n *Node) SetDownloadRate(rate int64) { n.program.SetDownloadRate(rate) }

// closeTimeout bounds Close.
const closeTimeout = 10 * time.Second

// Close ends all transfers, keeping what is verified, finishes the replies in
// flight, says goodbye to the children and waits until nothing runs any more. Later
// calls wait for the first and return the same. What is asked of a closed node is
// refused with ErrClosed.
func (n *Node) Close() error {
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	n.mu.Unlock()
	if first {
		close(n.closing)
		n.closeErr = n.close()
		close(n.ended)
	}
	<-n.ended
	return n.closeErr
}

func (n *Node) close() error {
	running := n.catalog.close()
	var unfound error
	if n.cfg.Discovery != nil {
		unfound = n.cfg.Discovery.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, t := range running {
		t.stop()
	}
	for _, t := range running {
		select {
		case <-t.done:
		case <-ctx.Done():
		}
	}
	n.leaving.Wait()
	err := n.program.Close(ctx)            // says goodbye
	err = errors.Join(err, n.host.Close()) // finishes the replies in flight
	if n.keep != nil {
		n.keep.Stop()
		n.finds.Wait()
	}
	n.catalog.offers.Close()
	n.mu.Lock()
	fleets := slices.Collect(maps.Values(n.fleets))
	n.mu.Unlock()
	for _, c := range fleets {
		c.end(nil)
	}
	shares, _ := n.catalog.lists()
	for _, s := range shares {
		s.end(nil)
	}
	n.catalog.unkeepAll(nil)
	return errors.Join(unfound, err, n.stateDir.Close())
}

// partingTime is how long the replies in flight may take after a share was withdrawn.
const partingTime = 5 * time.Second

// leave withdraws what a transfer offered, in good order: the children are told, and what
// they have requested before is still sent.
func (n *Node) leave(t *Transfer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.catalog.shared(t.id) != nil {
		return // Close does it for all; what is shared from its own path stays
	}
	n.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), partingTime)
		defer cancel()
		p := t.place()
		if p != nil {
			n.catalog.offers.Leave(t.id, p)
		}
		if children, err := n.program.Withdraw(ctx, t.id, 0); err == nil && children > 0 {
			select {
			case <-ctx.Done():
			case <-n.closing:
				return // the host finishes the replies
			}
		}
		if p != nil {
			n.catalog.offers.Drop(p) // unless the share is offered again
		}
		n.catalog.unkeepsLost(t.id)
	})
}
