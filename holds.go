package fetcher

import (
	"context"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// HoldsConfig makes a node see to it that depots keep shares for it, for as long as its
// owner wants: it renews leases, has lost shares fetched again, and moves to new versions.
//
//	Book     HoldBook                    what is wanted and how it stands, across restarts
//	Renewal  renewal.Config              when depots are visited; the zero value is the default
//	Purse    Purse                       pays depots that take passes; default: none is paid
//	Visited  func(peers.ID, string)      told of each visit to a depot, and what went wrong
type HoldsConfig = actors.HoldsConfig

// HoldBook keeps what is wanted of depots, such as a catalog.DB.
type HoldBook = actors.HoldBook

// Purse is the passes that pay depots, such as a purse.Purse.
type Purse = actors.Purse

// Hold is what the owner of a node wants of depots: that as many as Copies of its Depots keep
// Share. A Hold without an ID is new.
type Hold = renewal.Want

// HoldStanding is the state of a share at one depot.
type HoldStanding = renewal.Standing

// HoldList is all Holds of a node, and their states.
type HoldList = actors.HoldList

// ErrNoHolds says that a node was opened without Config.Holds.
var ErrNoHolds = actors.ErrNoHolds

// ErrOthersTurn says that another member of the fleet is renewing what a depot keeps: nothing is wrong.
var ErrOthersTurn = actors.ErrOthersTurn

// The shortest and the longest lease that is asked for.
const (
	MinHoldLength = 10 * time.Second
	MaxHoldLength = 366 * 24 * time.Hour
)

// KeepHold enters or changes a Hold. depots, multiaddrs that end in /p2p/ID, replace its Depots;
// none leaves these as they are. Other addresses of a depot that are known stay so. It returns when the Hold is stored durably and each depot was asked;
// the list says why one does not keep it. With noWait the depots are asked later.
func (n *Node) KeepHold(ctx context.Context, h Hold, depots []string, noWait bool) (HoldList, error) {
	if h.Length != 0 && (h.Length < MinHoldLength || h.Length > MaxHoldLength) {
		return HoldList{}, fmt.Errorf("a lease lasts from %s to %s, not %s", words.Duration(MinHoldLength), words.Duration(MaxHoldLength), words.Duration(h.Length))
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

// DropHold ends a Hold: leases that nothing else needs are released, at once or when the
// depot can be reached again. With noWait it does not wait for that.
func (n *Node) DropHold(ctx context.Context, id int64, noWait bool) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.DropHold{Want: id, NoWait: noWait})
}

// LapseHold ends a Hold without a release: leases that nothing else needs are not renewed, and lapse. It returns when that is stored
// durably; DropHeld still releases them.
func (n *Node) LapseHold(ctx context.Context, id int64) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.DropHold{Want: id, Lapse: true, NoWait: true})
}

// DropHeld ends all that keeps a share at one depot or, if at is empty, at any: all Holds of it, or this depot's part in them, and
// that it is an earlier version of what a Hold keeps; but the latest that a depot has whole stays. It ends as DropHold does, all or
// nothing of it.
func (n *Node) DropHeld(ctx context.Context, x share.ID, at peers.ID, noWait bool) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.DropShare{Share: x, Depot: at, NoWait: noWait})
}

// AwaitVisits waits for what a call with noWait did not wait for, and returns what that would have returned then. since is its answer.
func (n *Node) AwaitVisits(ctx context.Context, since HoldList) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.AwaitVisits{Since: since})
}

// SetHoldBudget sets how many passes a depot may be paid in 31 days, for all that it keeps for this node; 0: any number. It
// returns when that is stored durably.
func (n *Node) SetHoldBudget(ctx context.Context, id peers.ID, passes int64) error {
	_, err := actors.AskHolds(ctx, n.program, actors.SetBudget{Depot: id, Units: passes})
	return err
}

// VisitDepot has a depot that is to keep something visited now, and not when its time comes: what was missing for
// it, such as passes, may be there. It does not wait for the visit.
func (n *Node) VisitDepot(ctx context.Context, id peers.ID) error {
	_, err := actors.AskHolds(ctx, n.program, actors.VisitDepot{Depot: id})
	return err
}

// DepotsAt says where depots are. Of those that are to keep something it is remembered, before the addresses that they had. It
// does not contact them.
func (n *Node) DepotsAt(ctx context.Context, addrs ...string) (l HoldList, err error) {
	who, err := depotsAt(addrs)
	if err != nil {
		return l, err
	}
	for _, at := range who {
		if _, err := actors.AskHolds(ctx, n.program, actors.DepotAt{Depot: at}); err != nil {
			return l, err
		}
	}
	return n.Holds(ctx)
}

// Holds is what depots are to keep for this node, and how that stands.
func (n *Node) Holds(ctx context.Context) (HoldList, error) {
	return actors.AskHolds(ctx, n.program, actors.HoldsQuery{})
}
