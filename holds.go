package fetcher

import (
	"context"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/renewal"
)

// HoldsConfig has a node see to it that depots keep shares for it, for as long as its
// owner wants: it renews their leases, has lost shares fetched again, and follows them to new versions.
//
//	Book     HoldBook                    what is wanted and how it stands, over restarts
//	Renewal  renewal.Config              when depots are visited; the zero value is the default
//	Purse    Purse                       pays depots that take passes; default: none is paid
//	Visited  func(peers.ID, string)      told of each visit of a depot, and why not all went well
type HoldsConfig = actors.HoldsConfig

// HoldBook keeps what is wanted of depots, such as a catalog.DB.
type HoldBook = actors.HoldBook

// Purse is the passes that pay depots, such as a purse.Purse.
type Purse = actors.Purse

// Hold is what the owner of a node wants of depots: that Copies of Depots keep Share. One
// without an ID is new.
type Hold = renewal.Want

// HoldStanding is how it stands with a share at one depot.
type HoldStanding = renewal.Standing

// HoldList is all Holds of a node, and how they stand.
type HoldList = actors.HoldList

// ErrNoHolds says that a node was opened without Config.Holds.
var ErrNoHolds = actors.ErrNoHolds

// The shortest and the longest lease that is asked for.
const (
	MinHoldLength = 10 * time.Second
	MaxHoldLength = 366 * 24 * time.Hour
)

// KeepHold enters or changes a Hold, at depots whose addresses are multiaddrs that end in
// /p2p/ID, in place of its Depots; none leaves these as they are. It returns when the Hold is kept durably and each
// depot was asked; why one does not do it stands in the list. With noWait the depots are asked later.
func (n *Node) KeepHold(ctx context.Context, h Hold, depots []string, noWait bool) (HoldList, error) {
	if h.Length != 0 && (h.Length < MinHoldLength || h.Length > MaxHoldLength) {
		return HoldList{}, fmt.Errorf("a lease is of %s to %s, not %s", words.Duration(MinHoldLength), words.Duration(MaxHoldLength), words.Duration(h.Length))
	}
	who, err := depotsAt(depots)
	if err != nil {
		return HoldList{}, err
	}
	if len(who) > 0 {
		h.Depots = nil
	}
	for _, d := range who {
		h.Depots = append(h.Depots, d.ID)
	}
	return actors.AskHolds(ctx, n.program, actors.KeepHold{Want: h, Depots: who, NoWait: noWait})
}

// DropHold ends a Hold: its leases are released where nothing else needs them, at once or when the
// depot is heard of again.
func (n *Node) DropHold(ctx context.Context, id int64) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.DropHold{Want: id})
}

// Holds is what depots are to keep for this node, and how that stands.
func (n *Node) Holds(ctx context.Context) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.HoldsQuery{})
}
