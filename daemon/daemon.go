package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/share"
)

// Daemon is one running node and its catalog. Its methods are safe for concurrent use.
// The caller must Close it.
type Daemon struct {
	depots
	member  *member // nil: it belongs to no fleet
	dir     string
	log     *slog.Logger
	since   time.Time
	node    *fetcher.Node
	db      *catalog.DB
	feed    *api.Feed
	queue   *queue
	reads   chan struct{} // one for each import under way
	watch   *watch
	tally   *tally
	holds   *holds
	purse   *purse.Purse
	onLAN   bool // the node looks for peers there, and is found
	inTable bool // of a distributed hash table, where others find what is public

	unwritten atomic.Pointer[error] // why the catalog could not be written; nil: it can be

	choosing sync.Mutex // held while limits are chosen; taken before mu

	life context.Context // the parent of all background work
	end  context.CancelFunc
	runs sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	settings Settings
	began    Settings // those of the start
	chosen   chosen
	limits   api.Limits
	look     chan struct{} // closed when the limits must be checked again
	keepers  map[catalog.ID]*keeper
	bounded  map[share.ID]int64 // the limits of shares that have their own
	warnings []string
	closed   bool
}

// imports is how many paths are read at once.
const imports = 2

// Open starts the node of a state directory, and all entries of its catalog. The context is
// for the start only. If another process has the directory, the error wraps share.ErrHeld;
// other errors are those of fetcher.Open.
func Open(ctx context.Context, cfg Config) (*Daemon, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	d := &Daemon{dir: cfg.Dir, log: cfg.Logger, since: now, feed: api.NewFeed(strconv.FormatInt(now.UnixNano(), 36)), queue: newQueue(cfg.Fetches),
		reads: make(chan struct{}, imports), tally: newTally(), onLAN: !cfg.NoLAN, inTable: len(cfg.DHT) > 0, settings: cfg.Settings, began: cfg.Settings, look: make(chan struct{}),
		keepers: map[catalog.ID]*keeper{}, bounded: map[share.ID]int64{}}
	d.life, d.end = context.WithCancel(context.Background())
	r, _, _ := limitsAt(d.chosen.rates(cfg.Settings), cfg.Schedule, now)
	d.depots.Daemon = d
	d.holds, d.purse = newHolds(d), openPurse(d)
	keeps, err := d.openLender(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if d.member, err = openMember(d, cfg); err != nil {
		return nil, errors.Join(err, d.lender.close())
	}
	host := fetcher.Config{Dir: cfg.Dir, Sole: true, Listen: cfg.Listen, Announce: cfg.Announce, Reach: cfg.reach(), Beacons: cfg.beacons(), Discovery: cfg.discovery(), UploadRate: r.up, DownloadRate: r.down,
		OnChild: d.tally.child, Depot: keeps,
		Holds: &fetcher.HoldsConfig{Book: d.holds, Visited: d.holds.visited, Purse: d.purse, Turn: d.member.turn}, Fleet: d.member.fleet(), Logger: cfg.Logger}
	if cfg.simulated != nil {
		cfg.simulated(&host)
	} else if d.watch, err = newWatch(d.touched); err != nil {
		d.warn(fmt.Sprintf("the system does not report changed files, so they are looked for only every %s: %v", words.Duration(d.settings.Rescan), err))
	}
	if d.node, err = fetcher.Open(ctx, host); err != nil {
		d.watch.close()
		return nil, errors.Join(err, d.lender.close(), d.member.close())
	}
	if err := errors.Join(d.lender.begin(ctx, false), d.start(ctx)); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start opens the catalog and starts the keepers of its entries.
func (d *Daemon) start(ctx context.Context) error {
	path := filepath.Join(d.dir, "catalog.db")
	db, aside, err := catalog.Open(ctx, path)
	if err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	d.db = db
	if err := d.member.takeOver(ctx, db); err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	close(d.holds.ready)
	if aside != "" {
		d.warn(fmt.Sprintf("the catalog was damaged, and a new one was begun; add again what is missing. The damaged one is in %s", aside))
	}
	entries, err := db.List(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	set, err := db.Limits(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	d.choosing.Lock()
	rechoose(d, set)
	d.choosing.Unlock()
	slices.SortStableFunc(entries, soonest)
	d.mu.Lock()
	for _, e := range entries {
		d.keep(e, nil)
	}
	d.mu.Unlock()
	d.runs.Go(func() { limit(d) })
	d.runs.Go(d.count)
	if d.member != nil {
		d.runs.Go(d.member.follow)
		if d.lender != nil {
			d.runs.Go(d.member.snapshots)
		}
	}
	d.log.Info("the node is running", "peer", d.node.ID(), "dir", d.dir, "entries", len(entries))
	return nil
}

// soonest compares entries by which is fetched first after a start: of equal priority one that was begun.
func soonest(a, b catalog.Entry) int {
	begun := func(e catalog.Entry) int { return int(min(e.Verified, 1)) }
	return cmp.Or(b.Priority-a.Priority, begun(b)-begun(a))
}

// warn tells the owner something, in the log and in the status.
func (d *Daemon) warn(text string) {
	d.log.Warn(text)
	d.mu.Lock()
	d.warnings = append(d.warnings, text)
	d.mu.Unlock()
}

// keep starts the keeper of an entry. The caller holds mu.
func (d *Daemon) keep(e catalog.Entry, unwritten error) *keeper {
	k := newKeeper(d, e)
	k.unwritten = unwritten
	enqueue(k, e)
	d.keepers[e.ID] = k
	d.bound(e)
	d.runs.Go(k.run)
	return k
}

// keeper returns the keeper of an entry.
func (d *Daemon) keeper(id int64) (*keeper, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.keepers[catalog.ID(id)]
	if k == nil {
		return nil, noEntry(id)
	}
	return k, nil
}

func noEntry(id int64) error { return api.Refuse(api.ErrNoEntry, "there is no entry %d", id) }

// all returns the keepers, in the order of their entries.
func (d *Daemon) all() []*keeper {
	d.mu.Lock()
	out := make([]*keeper, 0, len(d.keepers))
	for _, k := range d.keepers {
		out = append(out, k)
	}
	d.mu.Unlock()
	slices.SortFunc(out, func(a, b *keeper) int { return int(a.id - b.id) })
	return out
}

// touched handles a report that files of an entry may have changed. That only the mode of one has matters if they could not be read.
func (d *Daemon) touched(id catalog.ID, chmod bool) {
	if k, err := d.keeper(int64(id)); err == nil && (!chmod || k.entry().State == catalog.Missing || k.entry().State == catalog.Failed) {
		k.touch()
	}
}

// replaced makes the other entries of a share check it again: one of them no longer serves
// what all of them have.
func (d *Daemon) replaced(by *keeper, id share.ID) {
	if id.IsZero() {
		return
	}
	for _, k := range d.all() {
		if k != by && k.entry().Share == id {
			k.poke()
		}
	}
}

// Reload takes new settings, and returns the names of those that wait for the next start, also since an earlier Reload.
func (d *Daemon) Reload(s Settings) (later []string, err error) {
	if s, err = s.withDefaults(d.dir); err != nil {
		return nil, err
	}
	d.choosing.Lock()
	defer d.choosing.Unlock()
	d.mu.Lock()
	old := d.began
	for name, same := range map[string]bool{
		"listen": slices.Equal(old.Listen, s.Listen), "announce": slices.Equal(old.Announce, s.Announce), "http": old.HTTP == s.HTTP,
		"socket": old.Socket == s.Socket, "fleet": old.Fleet == s.Fleet, "fleet-secret": old.FleetSecret == s.FleetSecret, "via": slices.Equal(old.Via, s.Via), "map-port": old.MapPort == s.MapPort, "proxy": old.Proxy == s.Proxy,
		"relay": old.Relay == s.Relay, "beacon": old.Beacon == s.Beacon, "beacon-at": slices.Equal(old.BeaconAt, s.BeaconAt), "dht": slices.Equal(old.DHT, s.DHT), "lan": old.NoLAN == s.NoLAN, "relay-carries": old.RelayCarries == s.RelayCarries,
		"name": old.Name == s.Name, "depot": old.Depot == s.Depot, "depot-reserve": old.Reserve == s.Reserve, "depot-open": old.DepotOpen == s.DepotOpen, "depot-grace": old.DepotGrace == s.DepotGrace, "depot-price": old.DepotPaid == s.DepotPaid,
		"http-hosts": slices.Equal(old.Hosts, s.Hosts), "http-cert": old.Cert == s.Cert, "http-key": old.Key == s.Key, "http-insecure": old.Insecure == s.Insecure,
	} {
		if !same {
			later = append(later, name)
		}
	}
	slices.Sort(later)
	d.settings = s
	d.queue.setMax(s.Fetches)
	for _, k := range d.keepers {
		signal(k.anew)
	}
	set := d.chosen
	d.mu.Unlock()
	rechoose(d, set)
	d.log.Info("the settings were read again", "at_the_next_start", later)
	return later, nil
}

func (d *Daemon) setting() Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}

// Close ends the node and waits until nothing runs any more, for some 10 s at most. The
// entries stay as they are. Later calls do nothing.
func (d *Daemon) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.mu.Unlock()
	if !first {
		return nil
	}
	d.end()
	err := d.node.Close() // ends what the keepers wait for
	d.runs.Wait()
	d.watch.close()
	d.feed.Close()
	if d.db != nil {
		d.flush(context.Background())
		err = errors.Join(err, d.db.Close())
	}
	err = errors.Join(err, d.lender.close(), d.member.close())
	d.log.Info("the node has ended")
	return err
}

// beaconOf returns what a node remembers as a beacon; nil: it is not one.
func beaconOf(ctx context.Context, n *fetcher.Node) *api.Beacon {
	b, err := n.Beacon(ctx)
	if err != nil {
		return nil
	}
	return &api.Beacon{Peers: b.Peers, Shares: b.Shares}
}
