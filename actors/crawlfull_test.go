package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// onceFullLedger is one that once cannot store the end of a cycle.
type onceFullLedger struct {
	Ledger
	full *bool
}

func (l onceFullLedger) CycleDone(ctx context.Context, now time.Time, self string, c depot.Cycle) error {
	if *l.full {
		*l.full = false
		return errors.New("full")
	}
	return l.Ledger.CycleDone(ctx, now, self, c)
}

// The disk is full for the moment in which a cycle of the crawler ends. That is tried again soon: until it is stored the ledger is not complete,
// and nothing is removed that could make room; and the owner is not told for three days that shares cannot be looked at.
func TestTheEndOfACycleThatCouldNotBeStoredIsStoredSoon(t *testing.T) {
	w, nodes, _ := newWorld(1, "self")
	s, l := nodes[0], onceFullLedger{ledgerOf(t), new(bool)}
	*l.full = true
	k := adoptedKeep{pagedKeep: pagedKeep{page: 9}, away: new(bool), seen: map[share.ID]bool{}}
	d := newDepot(s, nil, nil, DepotConfig{Ledger: l, Keep: k, Reading: func() depot.Reading {
		return depot.Reading{Boot: "1", Wall: s.Wall(), Passed: w.Elapsed(), Synced: true}
	}})
	s.Spawn(nil, "depot", depotBox, func() actor.Actor { return d }, system.OnPanicStop)
	w.Run(time.Hour)
	if *l.full {
		t.Fatal("no cycle has ended")
	}
	if m, err := l.Meta(t.Context()); err != nil || m.CompleteSince.IsZero() {
		t.Errorf("an hour later the ledger is not complete; %v; the depot says %q", err, d.status().Stuck)
	}
	closeNode(t, s)
}
