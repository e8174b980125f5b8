package peers

import "errors"

// ID is a peer ID in its text form (12D3Koo...). A connection proves it.
type ID string

// Short is an ID for people: enough of its end to tell peers apart.
func (id ID) Short() string { return string(id[max(0, len(id)-8):]) }

// Addr is a peer and where it may be reached.
type Addr struct {
	ID    ID
	Addrs []string // multiaddrs, without /p2p/ID; may be empty
	// By is the peer that says so, which bounds how the addresses are dialled (see
	// Dials). Empty: the user does. It does not travel.
	By ID
}

// Port is where messages to somebody go: the node, and a name that the owner of a core
// understands. The zero Port is nobody.
type Port struct{ Node, Name string }

// How a link to a peer ends.
var (
	ErrUnreachable = errors.New("peer is unreachable")     // no dial worked
	ErrLost        = errors.New("connection was lost")     // after it had worked
	ErrProtocol    = errors.New("peer broke the protocol") // sent what no honest peer sends
)
