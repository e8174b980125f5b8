package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
)

// Config configures a Node. The zero value works.
type Config struct {
	// Dir is the state directory: the node's key, what was imported, and the
	// ranking of peers. Default: DefaultDir. Several nodes may share one; the first
	// gets its key, the others a fresh one each.
	Dir string
	// FreshIdentity gives the node a key for this run only, so that it can connect
	// to a node that uses the key in Dir.
	FreshIdentity bool
	// Sole makes Open fail, with an error that wraps share.ErrHeld, if another process
	// uses the key in Dir, and has not ended within a second.
	Sole bool
	// Listen are the addresses to listen on, all of which must be available: multiaddrs;
	// "PORT", for TCP and QUIC on all interfaces; or "IP:PORT". Default all interfaces, on
	// the previous port if the node has the same key as before and the port is free.
	// A single "none" turns listening off.
	Listen []string
	// Announce are multiaddrs that are given to others instead of those listened on.
	Announce []string
	// Reach is how the node reaches peers behind routers, and is reached behind one; default not at all.
	Reach Reach
	// Discovery finds peers that nobody named, and makes this node known to them. The node
	// closes it. Default none.
	Discovery Discovery
	// Beacons is how the node uses beacons, which remember who has which share; default not at all.
	Beacons Beacons
	// InFlight bounds the bytes of blocks requested and not yet verified, over all
	// transfers; default 32 MiB. Buffers bounds their number; default 1,024.
	InFlight int64
	Buffers  int
	// UploadRate bounds what is sent to others, in bytes per second, at least 1,024; 0 is
	// no bound.
	UploadRate int64
	// DownloadRate bounds what this node requests from others, in bytes per second of
	// file content over all transfers; 0 is no bound.
	DownloadRate int64
	// Allow are the peers that may have what this node serves; default everybody. A share
	// may have a list of its own, which applies instead.
	Allow []peers.ID
	// Fleet is how the node cooperates with others of its owner; default none.
	Fleet Fleet
	// Depot makes the node keep shares for accounts, under storage leases; default none.
	Depot *DepotConfig
	// Holds makes the node keep its shares at depots, for as long as it is asked to; default
	// off. The Book must work until Close has returned.
	Holds *HoldsConfig
	// Leases, Ranking, Uploads and P2P are the configuration of those packages. The fields
	// above take precedence: Uploads.Rate applies only if UploadRate is 0; Listen, Announce,
	// Reach and Logger of P2P are ignored. P2P.Key, if set, is the node's identity.
	Leases  leasemgr.Config
	Ranking peers.RankingConfig
	Uploads peers.UploadConfig
	P2P     p2p.Config
	// OnChild is called for each child, which is a peer that fetches something of a share
	// from this node: when it begins, and when it has ended. The calls come one at a time;
	// it must not block. May be nil. Node.Children lists the children.
	OnChild func(Child)
	// Catalog keeps what is asked of the node across restarts; default none. Open starts
	// none of its entries: Resume does. It must work until Close has returned.
	Catalog Catalog
	// OnEntry is called for each entry of the catalog that is new or has changed. The calls
	// come one at a time; it must not block, nor call the node. May be nil.
	OnEntry func(Entry)
	// Logger gets what an operator should know; default none.
	Logger *slog.Logger
	// Wall is the wall clock, for times that are stored; default time.Now.
	Wall func() time.Time

	// Simulation replaces the machine in simulations; its zero value replaces nothing.
	Simulation Simulation
}

// Reach configures how a node reaches peers behind routers, and is reached behind one itself.
type Reach = p2p.Reach

// CheckProxy says whether a text is as Reach.Proxy has it. Errors wrap ErrAddress, and do not
// repeat the text, which may hold a password.
func CheckProxy(url string) error { return p2p.CheckProxy(url) }

// CheckAddrs says whether addresses are as Config.Listen, Config.Announce and Reach.Relays have them. Errors wrap ErrAddress.
func CheckAddrs(listen, announce, relays []string) error {
	return p2p.CheckAddrs(listen, announce, relays)
}

// ErrStateDir says that the state directory cannot be used.
var ErrStateDir = errors.New("the state directory cannot be used")

// ErrAddress says that an address of a configuration cannot be read.
var ErrAddress = p2p.ErrAddress

// DefaultDir is the state directory of this user: $XDG_DATA_HOME/fetcher or its
// like on other systems.
func DefaultDir() (string, error) {
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "fetcher"), nil
	}
	if runtime.GOOS == "windows" {
		if d := os.Getenv("LocalAppData"); d != "" {
			return filepath.Join(d, "fetcher"), nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: there is no place for it: %w", ErrStateDir, err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "fetcher"), nil
	}
	return filepath.Join(home, ".local", "share", "fetcher"), nil
}

const minUploadRate = 1 << 10 // bytes per second

// Validate returns an error that names the fields out of range, with their ranges; nil if there
// are none. Open calls it.
func (c Config) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "InFlight", c.InFlight, 1, 1<<40)
	bounds.In(&f, "Buffers", c.Buffers, 1, 1<<24)
	bounds.In(&f, "UploadRate", c.UploadRate, minUploadRate, 1<<50)
	bounds.In(&f, "DownloadRate", c.DownloadRate, 1, 1<<50)
	f.Add("Allow", peerIDs(c.Allow))
	f.Add("Fleet", c.Fleet.validate())
	f.Add("Leases", c.Leases.Validate())
	f.Add("Ranking", c.Ranking.Validate())
	f.Add("Uploads", c.Uploads.Validate())
	f.Add("Reach", c.Reach.Validate())
	f.Add("P2P", c.P2P.Validate())
	f.Add("Beacons", c.Beacons.Validate())
	if c.Holds != nil {
		f.Add("Holds.Renewal", c.Holds.Renewal.Validate())
	}
	return f.Err()
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		dir, err := DefaultDir()
		if err != nil {
			return c, err
		}
		c.Dir = dir
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if err := c.Validate(); err != nil {
		return c, err
	}
	if c.UploadRate > 0 {
		c.Uploads.Rate = c.UploadRate
	}
	return c, nil
}

// LogLibraries makes libp2p log to l, one level lower than it asks for. It applies to
// the whole process, and only if called before the first Open; so it is for programs,
// not for libraries.
func LogLibraries(l *slog.Logger) { p2p.LogLibraries(l.Handler()) }
