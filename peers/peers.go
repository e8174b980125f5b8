package peers

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ID is a peer ID in its text form (12D3Koo...). A connection proves it.
type ID string

// Short is an ID for people: enough of its end to tell peers apart.
func (id ID) Short() string { return string(id[max(0, len(id)-8):]) }

// Addr is a peer and where it may be reached.
type Addr struct {
	ID    ID
	Addrs []string // multiaddrs, without /p2p/ID; may be empty
	// By is the peer that named it, which bounds how the addresses are dialled (see
	// Dials). Empty: the user did. It is not sent to others.
	By ID
}

// SameMachine is what counts as the round trip between two nodes of one machine: what could be
// measured there is how busy the machine is.
const SameMachine = time.Microsecond

// Via is how a peer was found.
type Via uint8

const (
	ViaTicket Via = iota // the user named it, in a ticket or beside one
	ViaPeer              // another peer named it
	ViaItself            // it came to us
	ViaLAN               // it is announced on the local network
	ViaBeacon            // a beacon named it
	ViaDHT               // it stands in the distributed hash table
)

var vias = [...]string{"ticket", "peer", "itself", "lan", "beacon", "dht"}

func (v Via) String() string { return vias[v] }

// MarshalText is the word for it.
func (v Via) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the word.
func (v *Via) UnmarshalText(b []byte) error {
	return unmarshal(v, vias[:], b, "way of finding a peer")
}

// unmarshal reads one of the words for a kind of thing.
func unmarshal[T ~uint8](v *T, words []string, b []byte, what string) error {
	i := slices.Index(words, string(b))
	if i < 0 {
		return fmt.Errorf("%q is not a %s", b, what)
	}
	*v = T(i)
	return nil
}

// Port is where messages to somebody go: the node, and a name that the owner of a core
// understands. The zero Port is nobody.
type Port struct{ Node, Name string }

// How a link to a peer ends.
var (
	ErrUnreachable = errors.New("peer is unreachable")     // no dial worked
	ErrLost        = errors.New("connection was lost")     // after it had worked
	ErrProtocol    = errors.New("peer broke the protocol") // sent what no honest peer sends

	// ErrProxy is why the proxy of this node makes no connection: ErrNoProxy, whatever peer is dialled, of which ErrProxyUser wants
	// another user or password; and ErrProxyRule, as it may not do so.
	ErrProxy     = errors.New("proxy")
	ErrNoProxy   = fmt.Errorf("no %w", ErrProxy)
	ErrProxyUser = fmt.Errorf("user refused: %w", ErrNoProxy)
	ErrProxyRule = fmt.Errorf("not allowed: %w", ErrProxy)
	// ErrNoTCP is an ErrUnreachable of a peer without an address for the proxy of this node, which carries TCP alone.
	ErrNoTCP = fmt.Errorf("no TCP address: %w", ErrUnreachable)
	// ErrStream is an ErrLost of a stream alone: the peer was connected all the same.
	ErrStream = fmt.Errorf("stream ended: %w", ErrLost)
	// ErrCrowded is ErrStream where this node itself ended it, for others that came at once.
	ErrCrowded = fmt.Errorf("too many at once: %w", ErrStream)
)

// ProxyFault is what err says of the proxy of this node, if there is advice about that: ErrNoTCP or one of ErrProxy; else nil.
func ProxyFault(err error) error {
	for _, is := range []error{ErrNoTCP, ErrProxyUser, ErrProxyRule, ErrNoProxy} {
		if errors.Is(err, is) {
			return is
		}
	}
	return nil
}
