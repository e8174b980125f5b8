package dht

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ipfs/go-cid"
	logging "github.com/ipfs/go-log/v2"
	kad "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p-kad-dht/records"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"
	"golang.org/x/sync/errgroup"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// prefix comes before the names of the protocols of fetcher's own table.
const prefix = "/fetcher"

// How long others remember what is entered, and how often it is entered again, so that one may
// fail: in fetcher's own table, and in that of IPFS, which decides that for its nodes.
const (
	lasts        = time.Hour
	again        = 25 * time.Minute
	againPublic  = 22 * time.Hour
	forgetsEvery = 5 * time.Minute
)

// How often, how long and how many at once.
const (
	looksIn    = time.Minute      // for what is to be entered, and for addresses that changed
	comesFirst = time.Second / 5  // between attempts to come into the table, twice as long each time ...
	comesLast  = 15 * time.Second // ... up to this; the longest attempt
	entersAt   = 4                // shares entered at once
	asksFor    = time.Minute      // one question at most, or one entering
	asksAtOnce = 8                // shares that are asked for
	asksFirst  = 10 * time.Second // before a question is asked again, twice as long each time ...
	asksLast   = 10 * time.Minute // ... up to this
	providers  = 32               // peers that one question is to bring
	turnFor    = 2 * time.Second  // of a question; one that takes longer goes on, and does not count
	maxRecords = 1 << 16          // what is remembered for others
	maxOfKey   = 64               // ... of one share
	maxAddrs   = 16               // of a peer that somebody names
)

// named stands for all who take part in the table: nobody knows who said where a peer is.
const named peers.ID = "dht"

// Config configures a DHT.
type Config struct {
	// Public uses the table of the IPFS network instead of fetcher's own.
	Public bool
	// Entry are nodes in the table by which this one comes into it: multiaddrs that end in
	// /p2p/ID. Others with which this node is connected and that take part need not be named. In the
	// public table, they are added to those that the library knows.
	Entry []string
	// Quiet enters nothing of this node.
	Quiet bool
	// Logger hears what fails; default none.
	Logger *slog.Logger
}

// DHT finds peers by a distributed hash table, and can be found there. It is a
// fetcher.Discovery. The log of the library, github.com/ipfs/go-log's dht and providers, is
// turned off for the whole process. The zero value is not usable: see New.
type DHT struct {
	cfg     Config
	entry   []peer.AddrInfo
	near    atomic.Int32 // the reach of the nearest address of entry, or else of this node's farthest: no nearer one is believed
	ctx     context.Context
	stop    context.CancelFunc
	changed chan struct{} // holds one if what is to be entered may have changed
	turns   chan struct{} // holds one for each question under way
	ready   chan struct{} // closed when table is set

	table atomic.Pointer[kad.IpfsDHT] // another when this node begins to answer others, or ends that
	shelf *shelf                      // what it remembers for others

	failed  atomic.Pointer[map[peer.ID]string] // why nodes of entry could not be connected with last; nil: none was tried
	told    bool                               // that no node of entry leads into the table; of run
	mu      sync.Mutex                         // guards closed
	closed  bool
	running sync.WaitGroup // Add only with mu held, and not closed
}

// New returns a DHT that is ready to Start. The caller must Close it, or the node to which it is
// given. The error names an address of Entry that cannot be read.
func New(cfg Config) (*DHT, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &DHT{cfg: cfg, changed: make(chan struct{}, 1), turns: make(chan struct{}, asksAtOnce), ready: make(chan struct{}), shelf: newShelf(maxRecords, maxOfKey)}
	var at []ma.Multiaddr
	near := share.Anywhere
	for _, s := range cfg.Entry {
		a, err := share.ParseAddr(s)
		if err == nil {
			_, err = peer.AddrInfoFromP2pAddr(a)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither %q nor %q nor the address of a node, which ends in /p2p/ID, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3... (%w)", s, Own, IPFS, err)
		}
		at, near = append(at, a), max(near, share.Reach(a))
	}
	if cfg.Public {
		at, near = append(at, kad.DefaultBootstrapPeers...), share.Anywhere
	}
	d.near.Store(int32(near))
	var err error
	if d.entry, err = peer.AddrInfosFromP2pAddrs(at...); err != nil {
		return nil, err
	}
	slices.SortFunc(d.entry, func(a, b peer.AddrInfo) int { return cmp.Compare(a.ID, b.ID) }) // that of the library is another each time
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// Start begins to take part. It does not wait.
func (d *DHT) Start(n fetcher.Local) { d.start(func() { d.run(n) }) }

// quiet keeps the library, which is the only one here with this logger, from writing to the
// standard error stream.
var quiet = sync.OnceFunc(func() { _ = logging.SetLogLevelRegex("^(dht|providers|table|kbucket)", "fatal") })

// start runs f in a goroutine that Close waits for, unless the DHT is closed.
func (d *DHT) start(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.running.Go(f)
	}
}

// Changed says that the shares or the addresses of the node may have changed. It does not block.
func (d *DHT) Changed() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Close ends all that Start and Find began, and waits for that. What was entered is forgotten
// when its time is over.
func (d *DHT) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.running.Wait()
	return nil
}

// run makes the table, and enters there what the node has, until Close.
func (d *DHT) run(n fetcher.Local) {
	quiet()
	var trusted []peers.Addr
	for _, e := range d.entry {
		trusted = append(trusted, addrOf(e.ID, e.Addrs))
	}
	guest := n.Guest(named, trusted...)
	known, err := newBook(guest.Peerstore(), d.speaks(), d.believed)
	if err != nil {
		d.cfg.Logger.Warn("the distributed hash table cannot be used", "error", err)
		return
	}
	defer known.Close()
	e := entering{d: d, n: n, due: map[share.ID]time.Time{}}
	for d.ctx.Err() == nil {
		serves := d.serves(n.Addrs())
		table, err := kad.New(&tableHost{guest, known}, d.options(serves)...)
		if err != nil {
			d.cfg.Logger.Warn("the distributed hash table cannot be used", "error", err)
			return
		}
		if d.table.Swap(table) == nil {
			close(d.ready)
		}
		for d.comeIn(func() bool { return d.serves(n.Addrs()) == serves }) {
			if !d.cfg.Quiet {
				e.enter()
			}
			d.wait(looksIn, d.changed)
		}
		table.Close()
		guest.RemoveStreamHandler(d.speaks()) // the library leaves it
	}
}

// comeIn waits until this node knows somebody in the table: it connects with the nodes of Entry,
// or others that take part connect with it. It is false if the DHT was closed first, or if still says so,
// which it asks now and then.
func (d *DHT) comeIn(still func() bool) bool {
	pause, failed := comesFirst, map[peer.ID]string(nil)
	for next := time.Now(); d.ctx.Err() == nil; d.wait(comesFirst, nil) {
		if time.Now().Before(next) {
			if d.table.Load().RoutingTable().Size() > 0 {
				return true
			}
			continue
		}
		if !still() {
			return false
		}
		if d.table.Load().RoutingTable().Size() > 0 {
			return true
		}
		if failed != nil && !d.told && len(d.entry) > 0 {
			d.told = true
			d.cfg.Logger.Warn("no way into the distributed hash table yet: " + d.Away() + "; still trying")
		}
		failed = d.knock()
		d.failed.Store(&failed)
		next, pause = time.Now().Add(pause), min(2*pause, comesLast)
	}
	return false
}

// knock connects with the nodes of Entry, and returns why that failed.
func (d *DHT) knock() map[peer.ID]string {
	failed := map[peer.ID]string{}
	for _, e := range d.entry {
		ctx, cancel := context.WithTimeout(d.ctx, comesLast)
		if err := d.table.Load().Host().Connect(ctx, e); err != nil {
			failed[e.ID] = err.Error()
		}
		cancel()
	}
	return failed
}

// Away says why this node has no way into the table yet; empty if it has one.
func (d *DHT) Away() string {
	if t := d.table.Load(); t != nil && t.RoutingTable().Size() > 0 {
		return ""
	}
	if len(d.entry) == 0 {
		return "no node in it is known"
	}
	tried, failed := d.failed.Load(), map[peer.ID]string{}
	without := "it has not answered yet"
	if tried != nil {
		failed, without = *tried, "connected, and it takes no part in the table"
	}
	var out []string
	for _, e := range d.entry {
		out = append(out, fmt.Sprintf("%s (%s)", peers.ID(e.ID.String()).Short(), cmp.Or(failed[e.ID], without)))
	}
	return strings.Join(out, ", ")
}

// speaks is the protocol of the table.
func (d *DHT) speaks() protocol.ID {
	if d.cfg.Public {
		return kad.ProtocolDHT
	}
	return prefix + "/kad/1.0.0"
}

func (d *DHT) options(serves bool) []kad.Option {
	out := []kad.Option{kad.BootstrapPeersFunc(func() []peer.AddrInfo { return d.entry }), kad.AddressFilter(d.believed)}
	if d.cfg.Public {
		return append(out, kad.Mode(kad.ModeClient), kad.QueryFilter(kad.PublicQueryFilter))
	}
	mode := kad.ModeClient
	if serves {
		mode = kad.ModeServer
	}
	return append(out, kad.Mode(mode), kad.ProtocolPrefix(prefix), kad.DisableValues(),
		kad.ProviderDatastore(d.shelf),
		kad.ProviderManagerOpts(records.ProvideValidity(lasts), records.ProviderAddrTTL(lasts), records.CleanupInterval(forgetsEvery), records.Cache(forgetful{})))
}

// serves says whether others ask this node, which has these addresses: one that does not stay,
// or that they cannot reach, would keep them waiting. It also notes from how far a node that knows no
// other can be reached.
func (d *DHT) serves(addrs []string) bool {
	reach := share.Farthest(addrs, false)
	if len(d.entry) == 0 {
		d.near.Store(int32(min(reach, share.SameMachine)))
	}
	return !d.cfg.Public && !d.cfg.Quiet && reach <= int(d.near.Load())
}

// addrOf is a peer as the rest of fetcher names it.
func addrOf(id peer.ID, addrs []ma.Multiaddr) peers.Addr {
	a := peers.Addr{ID: peers.ID(id.String())}
	for _, x := range addrs[:min(len(addrs), maxAddrs)] {
		a.Addrs = append(a.Addrs, x.String())
	}
	return a
}

// believed are the addresses that may be dialled because somebody in the table names them: none
// is nearer than the nodes by which this one came into it.
func (d *DHT) believed(all []ma.Multiaddr) []ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(all), func(a ma.Multiaddr) bool { return share.Reach(a) > int(d.near.Load()) })
}

// wait waits so long, or until something comes from early, or the DHT is closed.
func (d *DHT) wait(long time.Duration, early <-chan struct{}) {
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-d.ctx.Done():
	}
}

// entering is what of a node stands in the table.
type entering struct {
	d     *DHT
	n     fetcher.Local
	addrs []string               // under which it stands there
	due   map[share.ID]time.Time // when each is to be entered again
}

// enter enters what is due. A node that nobody could reach enters nothing.
func (e *entering) enter() {
	if now := e.n.Addrs(); !slices.Equal(now, e.addrs) {
		clear(e.due)
		e.addrs = now
	}
	public := e.n.Shares(fetcher.Public)
	for id := range e.due {
		if !slices.Contains(public, id) {
			delete(e.due, id)
		}
	}
	if len(e.addrs) == 0 {
		return
	}
	now := time.Now()
	due := slices.DeleteFunc(public, func(id share.ID) bool { return now.Before(e.due[id]) })
	when := make([]time.Time, len(due))
	var all errgroup.Group
	all.SetLimit(entersAt)
	for i, id := range due {
		all.Go(func() error {
			if slices.Contains(e.n.Shares(fetcher.Public), id) { // still: the others may have taken minutes
				when[i] = time.Now().Add(e.d.provide(id))
			}
			return nil
		})
	}
	_ = all.Wait()
	for i, id := range due {
		e.due[id] = when[i]
	}
}

// provide enters a share, and returns when that is to be done again.
func (d *DHT) provide(id share.ID) time.Duration {
	ctx, cancel := context.WithTimeout(d.ctx, asksFor)
	defer cancel()
	if err := d.table.Load().Provide(ctx, keyOf(id), true); err != nil {
		d.cfg.Logger.Debug("a share was not entered into the distributed hash table", "share", id, "error", err)
		return looksIn
	}
	return d.again()
}

func (d *DHT) again() time.Duration {
	if d.cfg.Public {
		return againPublic
	}
	return again
}

// keyOf stands for a share in the table.
func keyOf(id share.ID) cid.Cid {
	sum := id.Blinded("fetcher dht 1")
	mh, err := multihash.Encode(sum[:], multihash.BLAKE3)
	if err != nil {
		panic(err) // it is one that the library knows
	}
	return cid.NewCidV1(cid.Raw, mh)
}
