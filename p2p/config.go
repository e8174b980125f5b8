package p2p

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/libp2p/go-libp2p"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Config configures a Host. The zero value works.
type Config struct {
	// Key is the node's identity. nil: a fresh one.
	Key ed25519.PrivateKey

	// Listen is where to listen; each must bind: multiaddrs, or "PORT", which is TCP
	// and QUIC on all interfaces, IPv4 and, where the system has it, IPv6, or
	// "IP:PORT". Empty: as "PORT", on one that is free. []string{"none"}: no listening.
	Listen []string

	// Announce are multiaddrs under which others reach this node, such as the
	// external address of a port mapping. They come first among Addrs.
	Announce []string

	// Port is the port preferred when Listen is empty; another is taken when
	// it is not free. 0: any.
	Port int

	// MaxPeers is how many peers may be connected; every other limit of the
	// host follows from it. Default 256.
	MaxPeers int

	// Streams is how many data streams a Link spreads its requests over.
	// Default 2; docs/decisions/0010-streams-windows.md has the figures.
	Streams int

	// ServeBytes is how many bytes of blocks may be held in memory while they
	// are sent, over all children; and as many of messages, over all peers, not
	// counting one message each. Default 32 MiB, at least 1 MiB.
	ServeBytes int

	// FetchBytes is how many bytes of blocks may be held in memory between
	// their arrival and their release, over all links. Beyond it readers wait,
	// and in the end so do the sources. Default 64 MiB, at least 1 MiB.
	FetchBytes int

	// MessageRate is how many bytes of messages per second are read from one
	// peer, and at once if none came before; a message counts as at least 1 KiB. Beyond it, reading waits.
	// Default 8 MiB/s.
	MessageRate int

	// Version is the version of the program, for identify. Default "(devel)".
	Version string

	Timeouts Timeouts

	// Reach is how peers behind routers are reached.
	Reach Reach

	// Logger gets what an operator or a developer may want to know. May be nil.
	Logger *slog.Logger

	// QUICOnly disables TCP.
	QUICOnly bool

	// Packets, unless nil, replaces the system's network. There is no
	// TCP then, and Listen should name addresses that it has.
	Packets Packets

	// Libp2p are options applied after ours.
	Libp2p []libp2p.Option
}

// Bounds that are not configurable.
const (
	pipeline      = 512     // requests read ahead on one stream of a child
	childPipeline = 2048    // ... and on all of its streams
	childPart     = 8       // one child may hold this part of ServeBytes, or 1 MiB
	parkedPart    = 2       // replies that are not being read may hold this part of ServeBytes
	linkQueue     = 4096    // requests outstanding on one link
	messageQueue  = 1024    // messages waiting to be written to one peer
	messageBytes  = 4 << 20 // ... and their bytes, with those being written
	minMessage    = 1 << 10 // how much the smallest message counts in MessageRate
)

func (c Config) withDefaults() (Config, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	if c.Key == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return c, fmt.Errorf("make a node key: %w", err)
		}
		c.Key = key
	}
	bounds.Default(&c.MaxPeers, 256)
	bounds.Default(&c.Streams, 2)
	bounds.Default(&c.ServeBytes, 32<<20)
	bounds.Default(&c.FetchBytes, 64<<20)
	bounds.Default(&c.MessageRate, 8<<20)
	bounds.Default(&c.Version, "(devel)")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.QUICOnly = c.QUICOnly || c.Packets != nil
	c.Timeouts = c.Timeouts.withDefaults()
	return c, nil
}

// Validate returns an error that names the fields out of range, with their ranges.
func (c Config) Validate() error {
	var f bounds.Fields
	switch n := len(c.Key); {
	case n == 0:
	case n != ed25519.PrivateKeySize:
		f.Add("Key", fmt.Errorf("it has %d bytes, and an Ed25519 private key has %d", n, ed25519.PrivateKeySize))
	case !c.Key.Equal(ed25519.NewKeyFromSeed(c.Key.Seed())): // no peer would believe it
		f.Add("Key", errors.New("its second half, the public key, is not that of its seed"))
	}
	bounds.In(&f, "Port", c.Port, 1, 65535)
	bounds.In(&f, "MaxPeers", c.MaxPeers, 1, 1<<16)
	bounds.In(&f, "Streams", c.Streams, 1, 16)
	bounds.In(&f, "ServeBytes", c.ServeBytes, 1<<20, 1<<40)
	bounds.In(&f, "FetchBytes", c.FetchBytes, 1<<20, 1<<40)
	bounds.In(&f, "MessageRate", c.MessageRate, wire.MaxMessage, 1<<40) // one largest message a second
	c.Timeouts.check(&f)
	f.Add("Reach", c.Reach.Validate())
	if c.Reach.Proxy != "" && (c.QUICOnly || c.Packets != nil) {
		f.Add("Reach.Proxy", errors.New("it needs TCP"))
	}
	return f.Err()
}

// ErrAddress says that an address of the configuration cannot be read.
var ErrAddress = errors.New("not an address")

// parse reads a multiaddr; what says what it is for, with an example.
func parse(what, s string) (ma.Multiaddr, error) {
	a, err := share.ParseAddr(s)
	if err != nil {
		return nil, words.Error(ErrAddress, "%q is not an address %s (%v)", s, what, err)
	}
	return a, nil
}
