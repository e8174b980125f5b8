package transfer

import (
	"time"

	"github.com/piecelease/fetcher/internal/times"
)

// core is what the parts of a Transfer have in common.
type core struct {
	cfg   Config
	fetch Fetch
	limit int64 // of this node's requests, in bytes per second; 0: none
	own   bool  // it is this transfer's alone, not the node's

	turn   time.Duration // the longest wait for the limit, of one source
	turnOf time.Time     // ... since something moved then

	now     time.Time
	state   State
	reason  string
	wait    Wait      // which of its kinds that is
	since   time.Time // of the reason
	changed bool      // since Progress was last told
	working bool      // there is a LeaseManager
	placed  bool      // there is a place on disk
	moved   time.Time // when a byte was last verified, or the transfer began; later by what does not count as silence
	long    time.Time // since when the disk is opened or finishes, which does not count; zero: it is not
	again   bool      // it is being given up, to begin again
	ending  *Ended
	over    bool // the end was told
	do      []any
}

func (c *core) then(action any) { c.do = append(c.do, action) }

// FindAgain is told that whoever looks for sources has forgotten this transfer.
func (c *core) FindAgain(now time.Time) {
	if c.now = now; c.ending == nil {
		c.then(FindSources{})
	}
}

// takesLong says that what the disk does from now on cannot be hurried.
func (c *core) takesLong() { c.long = times.Earliest(c.long, c.now) }

// notify tells whoever asked for the share; nothing is told after the end.
func (c *core) notify(e Event) {
	if !c.over {
		c.then(Tell{e})
	}
}

// toLeases sends an action to the LeaseManager, if there is one.
func (c *core) toLeases(action any) {
	if c.working {
		c.then(action)
	}
}

func (c *core) stopWorkers() {
	c.working = false
	c.then(StopWorkers{})
}

func (c *core) enter(s State) {
	if c.state != s {
		c.state, c.since = s, c.now
	}
}

// because sets the reason that people see while nothing moves.
func (c *core) because(wait Wait, why string) {
	if c.wait = wait; c.reason != why {
		c.reason, c.since, c.changed = why, c.now, true
	}
}
