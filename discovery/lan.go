package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/zeroconf/v2"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Parameters of the protocol on the local network.
const (
	service   = "_piecelease._udp"
	domain    = "local"
	ttl       = 120             // seconds, of an announcement
	soonest   = 3 * time.Second // between two announcements that differ
	settles   = 200 * time.Millisecond
	lookAgain = 15 * time.Second // for networks that came or went
	tooMany   = 4 * maxHeard     // announcements of one browsing, after which it pauses
	pause     = time.Minute
)

// LAN finds peers on the local networks of this machine, and can be found there. It
// is a fetcher.Discovery. The zero value is not usable: see NewLAN.
type LAN struct {
	// Quiet turns announcing off. It is set before Start.
	Quiet bool

	log     *slog.Logger
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	changed chan struct{} // holds one if what is announced may have changed

	register func(record) (end func(), err error)
	hears    func(context.Context, zeroconf.IPType, chan<- *zeroconf.ServiceEntry) error // until the context ends

	mu    sync.Mutex // guards table
	table *table
}

// NewLAN returns a LAN that is ready to Start. The caller must Close it.
func NewLAN(log *slog.Logger) *LAN {
	l := &LAN{log: log, changed: make(chan struct{}, 1), table: newTable(), register: register, hears: hears}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Start begins to listen and, if the node can be reached from another machine, to announce it: under Addrs,
// with what Shares returns at the time. Both are asked now and whenever Changed was called.
// It does not wait. A machine without a network cannot be found, which is no
// error: networks that appear later are used.
func (l *LAN) Start(n fetcher.Local) {
	if !l.Quiet {
		l.running.Go(func() {
			l.announce(n.ID, n.Addrs, func() []share.ID { return n.Shares(fetcher.VisibleLAN) })
		})
	}
	l.running.Go(func() { l.browse(n.ID, zeroconf.IPv4) }) // apart, as either may be missing
	l.running.Go(func() { l.browse(n.ID, zeroconf.IPv6) })
}

// Changed says that the shares, or the addresses, may have changed. It does not block.
func (l *LAN) Changed() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Find calls found with every peer that is announced to have the share, and with those of
// known at the addresses that they announce, until cancel is called. For what has been heard
// already it is called from within Find. found must not block. cancel waits for a running call.
func (l *LAN) Find(id share.ID, known []peers.ID, found func(peers.Via, peers.Addr)) (cancel func()) {
	f := &find{key: keyOf(id), peers: slices.Clone(known), found: found}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.begin(f, time.Now())
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.table.end(f)
	}
}

// Neighbour is a node that announces itself on a local network.
type Neighbour struct {
	ID     peers.ID
	Addrs  []string // multiaddrs without /p2p; of its last announcement
	Shares int      // that it announces, the private ones left out
}

// Neighbours returns the nodes that have been heard since Start, ordered by ID.
func (l *LAN) Neighbours() []Neighbour {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.neighbours(time.Now())
}

// Close says goodbye on the network, and waits until nothing runs any more.
func (l *LAN) Close() error {
	l.stop()
	l.running.Wait()
	return nil
}

// announce announces this node and its shares on the network, until Close. A change is
// a new announcement in place of the old one: listeners ignore one that they know. What is no
// longer to be announced is withdrawn at once.
func (l *LAN) announce(self peers.ID, addrs func() []string, shares func() []share.ID) {
	var said []string
	var failed []record // of said: could not be made
	var keys []key      // in the present announcements
	var servers []func()
	hush := func() {
		for _, end := range servers {
			end()
		}
		servers, said, keys = nil, nil, nil
	}
	defer hush()
	takeBack := func() {
		if len(keys) > 0 && !subset(keys, shares()) {
			hush()
		}
	}
	for wait := settles; l.wait(wait, true, takeBack); wait = lookAgain {
		at := reachable(addrs())
		if len(at) == 0 {
			hush()
			continue
		}
		all := records(self, at, shares())
		now := []string{strings.Join(networks(), " ")}
		for _, r := range all {
			now = append(now, r.text()...)
		}
		if slices.Equal(now, said) {
			all = failed
		} else {
			hush()
		}
		if said, failed = now, nil; len(all) == 0 {
			continue
		}
		for _, r := range all {
			if end, err := l.register(r); err != nil {
				l.log.Debug("this node cannot be found on the local network", "error", err)
				failed = append(failed, r)
			} else {
				servers, keys = append(servers, end), append(keys, r.keys...)
			}
		}
		if !l.wait(soonest, false, takeBack) {
			return
		}
	}
}

// subset says whether all keys are those of some shares.
func subset(keys []key, shares []share.ID) bool {
	of := map[key]bool{}
	for _, id := range shares {
		of[keyOf(id)] = true
	}
	return !slices.ContainsFunc(keys, func(k key) bool { return !of[k] })
}

// register makes the library answer for one announcement, under a meaningless name,
// until end, which says goodbye.
func register(r record) (end func(), err error) {
	name := fmt.Sprintf("%016x", rand.Uint64())
	ips := hosts(r.addrs)
	// Nobody reads port and host: the strings say where the peer is, with transports.
	s, err := zeroconf.RegisterProxy(name, service, domain, 1, name, ips, r.text(), nil, zeroconf.TTL(ttl))
	if err != nil {
		return nil, err
	}
	return s.Shutdown, nil
}

// browse listens to IPv4 or IPv6 until Close. It starts over when networks come or go, and
// from time to time, as the library keeps what it has heard; after too many announcements it
// pauses, so that nobody on the network can fill this node's memory.
func (l *LAN) browse(self peers.ID, ip zeroconf.IPType) {
	for l.ctx.Err() == nil {
		heard, err := l.listen(self, ip)
		switch {
		case heard > tooMany:
			l.log.Warn("too much is announced on the local network: this node stops listening there for a while", "for", pause)
			sleep(l.ctx, pause)
		case err != nil:
			l.log.Debug("the local network cannot be listened to", "error", err)
			sleep(l.ctx, lookAgain)
		}
	}
}

// listen browses once, and returns how many announcements it heard.
func (l *LAN) listen(self peers.ID, ip zeroconf.IPType) (heard int, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, lasts)
	defer cancel()
	entries, ended := make(chan *zeroconf.ServiceEntry), make(chan error, 1)
	go func() { ended <- l.hears(ctx, ip, entries) }()
	before := networks()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case e, more := <-entries:
			switch {
			case !more:
				entries = nil // closed; it ends
			case heard == tooMany:
				cancel() // what still comes is read
				heard++
			case heard < tooMany:
				heard++
				l.hear(self, e)
			}
		case <-look.C:
			if !slices.Equal(networks(), before) {
				cancel()
			}
		case err := <-ended:
			return heard, err
		}
	}
}

// hears has the library listen.
func hears(ctx context.Context, ip zeroconf.IPType, entries chan<- *zeroconf.ServiceEntry) error {
	return zeroconf.Browse(ctx, service, domain, entries, zeroconf.SelectIPTraffic(ip))
}

func (l *LAN) hear(self peers.ID, e *zeroconf.ServiceEntry) {
	r, ok := parse(e.Text)
	if !ok || r.peer == self || len(e.Instance) > maxString {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.hear(e.Instance, r, time.Now())
}

// wait waits for d and calls takeBack at each change; with early, the first change ends it soon
// after. It is false if the LAN was closed first.
func (l *LAN) wait(d time.Duration, early bool, takeBack func()) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-l.changed:
			takeBack()
			if early {
				return sleep(l.ctx, settles)
			}
			defer l.Changed() // it is to be announced afterwards
		case <-l.ctx.Done():
			return false
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
