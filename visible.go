package fetcher

import (
	"errors"
	"fmt"
	"slices"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Discovery finds peers that nobody named, and makes this node known to others. Package
// discovery has one for the local network, and discovery/dht one for everywhere; a program
// without one pays nothing for it.
type Discovery interface {
	actors.Discovery
	// Start begins. Open calls it once. It does not wait.
	Start(n Local)
	// Changed says that Shares would now return something else. It does not block.
	Changed()
	// Close ends what Start began, and waits for that. The node calls it.
	Close() error
}

// Local is a node as its Discovery sees it.
type Local struct {
	ID    peers.ID
	Addrs func() []string // its current multiaddrs
	// Shares returns what is visible to at least so many, the newest last.
	Shares func(Visibility) []share.ID
	// Guest returns the node's libp2p host for a protocol of another library. Peers that it
	// wants to reach are dialled like those that another peer, named, has named; the trusted
	// ones like those in a ticket.
	Guest func(named peers.ID, trusted ...peers.Addr) p2p.Guest
}

// Discoveries is several ways of finding peers as one.
type Discoveries []Discovery

// Start implements Discovery, as do the others.
func (all Discoveries) Start(n Local) {
	for _, d := range all {
		d.Start(n)
	}
}

func (all Discoveries) Find(id share.ID, known []peers.ID, found func(peers.Via, peers.Addr)) (cancel func()) {
	var ends []func()
	for _, d := range all {
		ends = append(ends, d.Find(id, known, found))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

func (all Discoveries) Changed() {
	for _, d := range all {
		d.Changed()
	}
}

func (all Discoveries) Close() (err error) {
	for _, d := range all {
		err = errors.Join(err, d.Close())
	}
	return err
}

// Visibility is where Config.Discovery announces that this node has a share. Whoever has a
// ticket finds the node in any case.
type Visibility uint8

const (
	Private    Visibility = iota // nowhere
	VisibleLAN                   // on the local networks of this machine, to those who know its ID
	Public                       // there, and in a distributed hash table, to those who know its ID
)

var visibilities = [...]string{"private", "lan", "public"}

func (v Visibility) String() string {
	if int(v) >= len(visibilities) {
		return fmt.Sprintf("Visibility(%d)", uint8(v))
	}
	return visibilities[v]
}

// MarshalText returns the name of the visibility.
func (v Visibility) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the name of a visibility.
func (v *Visibility) UnmarshalText(b []byte) error {
	i := slices.Index(visibilities[:], string(b))
	if i < 0 {
		return fmt.Errorf("%q is not private, lan or public", b)
	}
	*v = Visibility(i)
	return nil
}

// visible returns the shares that are visible to at least so many, by the age of their entries.
func (c *catalog) visible(where Visibility) []share.ID {
	var out []share.ID
	seen := map[share.ID]bool{{}: true}
	for _, e := range c.all() {
		served := e.State == EntryServed || e.State == EntryFetching
		if served && max(e.Serving.Visible, e.Fetching.Visible) >= where && !seen[e.Share] {
			seen[e.Share] = true
			out = append(out, e.Share)
		}
	}
	return out
}

// SetVisible changes where it is announced that this node has a share, for all entries
// that have it now. Errors are those of Config.Catalog.
func (n *Node) SetVisible(id share.ID, v Visibility) error {
	var f bounds.Fields
	if bounds.In(&f, "Visibility", v, Private, Public); f.Err() != nil {
		return f.Err()
	}
	for _, e := range n.catalog.all() {
		if e.Share != id {
			continue
		}
		err := n.catalog.change(e.ID, func(e *Entry) { e.Serving.Visible, e.Fetching.Visible = v, v })
		if err != nil && !errors.Is(err, ErrNoEntry) {
			return err
		}
	}
	return nil
}

// discover starts Config.Discovery.
func (n *Node) discover() {
	if d := n.cfg.Discovery; d != nil {
		guest := func(named peers.ID, trusted ...peers.Addr) p2p.Guest { return p2p.NewGuest(n.host, named, trusted...) }
		d.Start(Local{ID: n.ID(), Addrs: n.Addrs, Shares: n.catalog.visible, Guest: guest})
	}
}
