package fetcher

import (
	"errors"
	"fmt"
	"slices"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Discovery finds peers that nobody named, and makes this node known to others. Package
// discovery has one for the local network; a program without one pays nothing for it.
type Discovery interface {
	actors.Discovery
	// Start begins. Open calls it once: self is the node, addrs returns its current
	// multiaddrs, and shares what is to be announced, the newest last. It does not wait.
	Start(self peers.ID, addrs func() []string, shares func() []share.ID)
	// Changed says that shares would now return something else. It does not block.
	Changed()
	// Close ends what Start began, and waits for that. The node calls it.
	Close() error
}

// Visibility is where Config.Discovery announces that this node has a share. Whoever has a
// ticket finds the node in any case.
type Visibility uint8

const (
	Private    Visibility = iota // nowhere
	VisibleLAN                   // on the local networks of this machine, to those who know its ID
)

var visibilities = [...]string{"private", "lan"}

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
		return fmt.Errorf("%q is none of private and lan", b)
	}
	*v = Visibility(i)
	return nil
}

// visible returns the shares that are announced, by the age of their entries.
func (c *catalog) visible() []share.ID {
	var out []share.ID
	seen := map[share.ID]bool{{}: true}
	for _, e := range c.all() {
		served := e.State == EntryServed || e.State == EntryFetching
		if served && max(e.Serving.Visible, e.Fetching.Visible) >= VisibleLAN && !seen[e.Share] {
			seen[e.Share] = true
			out = append(out, e.Share)
		}
	}
	return out
}

// SetVisible changes where it is announced that this node has a share, for all entries
// that have it now. Errors are those of Config.Catalog.
func (n *Node) SetVisible(id share.ID, v Visibility) error {
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
		d.Start(n.ID(), n.Addrs, n.catalog.visible)
	}
}
