package actors

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
)

// A request that arrives before the stored clock has been read does not make the clock useless.
func TestTheStoredClockIsBelievedWhateverIsAskedBefore(t *testing.T) {
	at := time.Unix(2e9, 0)
	stored := depot.Clock{Boot: "1", Wall: at.AddDate(-5, 0, 0), Now: at.AddDate(-5, 0, 0), Frozen: true}
	b, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	c := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "2", Wall: at} }}
	c.now() // for an answer "away", or for the status
	c.load(b)
	if now := c.now(); !c.state().Frozen || !now.Equal(stored.Now) {
		t.Errorf("the clock was not believed, and now it is: %v", now)
	}
}

// An owner may confirm the clock before the stored one has been read, such as while the disk is away. That does not make time
// jump either.
func TestAClockThatIsConfirmedBeforeItIsLoadedWaits(t *testing.T) {
	at := time.Unix(2e9, 0)
	stored := depot.Clock{Boot: "1", Wall: at.AddDate(0, 0, -40), Now: at.AddDate(0, 0, -40), Frozen: true}
	b, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	c := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "2", Wall: at} }}
	c.confirm()
	c.now()
	c.load(b)
	if now, s := c.now(), c.state(); s.Frozen || !s.Waits || !now.Equal(stored.Now) {
		t.Errorf("it is %v, and the clock is %+v", now, s)
	}
}

// fullLedger is one that cannot store the clock.
type fullLedger struct {
	Ledger
	full *bool
}

func (l fullLedger) Step(ctx context.Context, from, now time.Time, clock []byte) error {
	if *l.full {
		return errors.New("full")
	}
	return l.Ledger.Step(ctx, from, now, clock)
}

// Time stands still until a step of the clock is stored. If that fails, it is tried again soon.
func TestAClockThatCouldNotBeStoredIsStoredSoon(t *testing.T) {
	w, nodes, _ := newWorld(1, "self")
	s, l := nodes[0], fullLedger{ledgerOf(t), new(bool)}
	at := s.Wall().AddDate(0, 0, -40)
	b, err := json.Marshal(depot.Clock{Boot: "1", Wall: at, Now: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetClock(t.Context(), at, b, false); err != nil {
		t.Fatal(err)
	}
	d := newDepot(s, nil, nil, DepotConfig{Ledger: l, Keep: adoptedKeep{away: new(bool)}, Reading: func() depot.Reading {
		return depot.Reading{Boot: "2", Wall: s.Wall(), Passed: w.Elapsed(), Synced: true}
	}})
	*l.full = true
	s.Spawn(nil, "depot", depotBox, func() actor.Actor { return d }, system.OnPanicStop)
	if w.Run(10 * time.Minute); !d.time.state().Waits {
		t.Error("time does not stand still")
	}
	*l.full = false
	if w.Run(2 * depotRetry); d.time.state().Waits {
		t.Error("time stands still")
	}
	closeNode(t, s)
}
