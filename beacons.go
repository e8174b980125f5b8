package fetcher

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// Beacons configures a node's use of beacons: nodes that remember who has which share, so that a
// ticket still works when its source has gone or changed its address. The zero value uses none.
type Beacons struct {
	// Use makes fetches ask the beacons that their tickets name, and announces there what
	// this node has of such a share.
	Use bool
	// At lists the beacons, at most two, that this node's tickets name and that fetches ask too:
	// multiaddrs that end in /p2p/ID. It requires Use.
	At []string
	// Serve makes this node a beacon, for everybody. Others must be able to reach it.
	Serve bool
}

// maxBeaconsAt is the maximum length of Beacons.At: as many as a ticket names.
const maxBeaconsAt = 2

// Validate says what is wrong with it. Of an address that cannot be read the error wraps ErrAddress.
func (b Beacons) Validate() error {
	at, err := b.at()
	switch {
	case err != nil:
		return err
	case len(at) > maxBeaconsAt:
		return fmt.Errorf("at most %d beacons", maxBeaconsAt)
	case len(at) > 0 && !b.Use:
		return errors.New("with At, Use must be true")
	}
	return nil
}

// at are the beacons of At.
func (b Beacons) at() (out []ma.Multiaddr, err error) {
	for _, s := range b.At {
		a, err := share.ParseAddr(s)
		if err == nil {
			_, err = groupPeers([]ma.Multiaddr{a})
		}
		if err != nil {
			return nil, words.Error(ErrAddress, "beacon %q is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/12D3... (%v)", s, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// meetings returns where a node announces what it has; nil: nowhere, and it asks nobody.
func (b Beacons) meetings(n *Node) func() []actors.Meeting {
	if !b.Use {
		return nil
	}
	return n.meetings
}

// meetings are the shares that this node has, each with the beacons that its ticket names.
func (n *Node) meetings() (out []actors.Meeting) {
	if len(n.host.Addrs()) == 0 {
		return nil // nobody could connect
	}
	own, _ := n.cfg.Beacons.at()
	for id, ticket := range n.catalog.had() {
		secret, at := n.meeting(id, ticket)
		out = append(out, meetAt(id, secret, slices.Concat(own, at))...)
	}
	return out
}

// meeting is where a share that this node has is to be found, and under which secret: that
// which peers must know to have it, if there is one, or what the ticket that it came by says,
// or else one of this node's own. Most shares are found nowhere: then there is no secret either.
func (n *Node) meeting(id share.ID, ticket string) (secret *share.Secret, at []ma.Multiaddr) {
	t, _ := share.Parse(ticket)
	own, _ := n.cfg.Beacons.at() // Validate has looked
	if at = slices.Concat(t.Beacons, own); len(at) == 0 {
		return nil, nil
	}
	switch guard := n.catalog.offers.Secret(id); {
	case guard != nil:
		return guard, at
	case len(t.Beacons) > 0:
		return t.Secret, at
	}
	return n.secretOf(id), at
}

// secretOf is this node's own secret for its tickets of a share.
func (n *Node) secretOf(id share.ID) *share.Secret {
	h := hmac.New(sha256.New, n.meet)
	h.Write(append([]byte("fetcher ticket 1 "), id.Bytes()...))
	return (*share.Secret)(h.Sum(nil)[:len(share.Secret{})])
}

// asked lists whom a fetch asks for sources: the beacons of its ticket, and if it names any, those
// of the node too, as peers that have the share by that ticket announce it there.
func (n *Node) asked(ticketOrID string) []actors.Meeting {
	t, _ := share.Parse(ticketOrID)
	if !n.cfg.Beacons.Use || len(t.Beacons) == 0 {
		return nil
	}
	own, _ := n.cfg.Beacons.at()
	return meetAt(t.ID, t.Secret, slices.Concat(own, t.Beacons))
}

// meetAt is a share at beacons. What the node's owner says of where one is comes first, as it is not dialled at all that are said.
func meetAt(id share.ID, secret *share.Secret, at []ma.Multiaddr) (out []actors.Meeting) {
	key := id.AtBeacon(secret)
	all, _ := groupPeers(at) // they come from parsed tickets and validated options
	for _, b := range all {
		out = append(out, actors.Meeting{Beacon: b, Key: key})
	}
	return out
}

// had are the shares that others may fetch from here, each with the ticket that it was fetched by,
// if any; those that are fetched anonymously are left out.
func (c *catalog) had() map[share.ID]string {
	out := map[share.ID]string{}
	for _, e := range c.all() {
		served := e.State == EntryServed || e.State == EntryFetching
		if served && !e.Share.IsZero() && !e.Fetching.Anonymous {
			out[e.Share] = cmp.Or(out[e.Share], e.Ticket, e.Serving.Ticket)
		}
	}
	shares, _ := c.lists()
	for _, s := range shares {
		out[s.ID()] = cmp.Or(out[s.ID()], "")
	}
	return out
}

// BeaconStatus is what a beacon remembers.
type BeaconStatus = actors.BeaconStatus

// Beacon returns what this node remembers as a beacon, if it is one.
func (n *Node) Beacon(ctx context.Context) (BeaconStatus, error) { return n.program.Beacon(ctx) }
