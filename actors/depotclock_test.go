package actors

import (
	"encoding/json"
	"testing"
	"time"

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
