package depot

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/share"
)

// State is how a depot has a share. The numbers are stored in databases.
type State uint8

// The states. None is the state of a share that the database does not know.
const (
	None    State = iota
	Coming        // leased, and not all of it is here
	Stable        // all of it is here, verified and durable
	Corrupt       // was stable; some of its pieces are missing or wrong
	Going         // is being removed
)

var stateNames = [...]string{"none", "coming", "stable", "corrupt", "going"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Cause is why a share changes its state.
type Cause uint8

// The causes.
const (
	Held       Cause = iota + 1 // an account's hold was admitted
	FoundWhole                  // the crawler found it complete
	FoundPart                   // the crawler found it incomplete
	Completed                   // all pieces are verified and durable
	Damaged                     // pieces are missing or wrong, perhaps all, and were so an hour ago
	Mended                      // they were fetched again and verified
	Collected                   // no lease is live, and the grace is over
	Removed                     // everything of it was found to be gone
	Outdated                    // the database is older than the leases beside the data
)

var causeNames = [...]string{"?", "held", "found whole", "found in part", "completed", "damaged", "mended", "collected", "removed", "outdated"}

func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// An Edge is a possible change of state.
type Edge struct {
	From State
	Why  Cause
	To   State
}

// Edges are all the possible changes.
var Edges = [...]Edge{
	{None, Held, Coming},
	{None, FoundWhole, Stable},
	{None, FoundPart, Coming},
	{Coming, Completed, Stable},
	{Coming, Collected, Going},
	{Stable, Damaged, Corrupt},
	{Stable, Collected, Going},
	{Corrupt, Mended, Stable},
	{Corrupt, Collected, Going},
	{Going, Removed, None},
	{Going, Outdated, None},
}

// An EdgeError refuses a change of state that is not in Edges. Either the caller made a
// mistake, or the share has changed since the caller looked.
type EdgeError struct {
	From State
	Why  Cause
}

func (e *EdgeError) Error() string {
	return fmt.Sprintf("a share in state %v cannot be %v", e.From, e.Why)
}

// Next returns the state that follows from, or an *EdgeError.
func Next(from State, why Cause) (State, error) {
	for _, e := range Edges {
		if e.From == from && e.Why == why {
			return e.To, nil
		}
	}
	return from, &EdgeError{from, why}
}

const (
	// Starter is how long a share that the crawler found is kept, so that its holders
	// have time to say so.
	Starter = 2 * 31 * 24 * time.Hour
	// Grace is how long a share is kept after its last lease expired, unless the owner of
	// the depot says otherwise.
	Grace = 24 * time.Hour
	// StrikeGap is how far apart two visits must be for damage to be believed.
	StrikeGap = time.Hour
)

// A Strike is the damage that a visit to a share found. Bad is nil if there is none.
type Strike struct {
	At  time.Time
	Bad *share.Set
}

// Struck judges a visit at now that found the pieces bad missing or wrong. The returned
// set has those that an earlier visit, at least StrikeGap ago, found as well: they are
// lost; nil if there are none. The Strike is what to remember. A visit that finds nothing
// clears it.
func (s Strike) Struck(now time.Time, bad *share.Set) (Strike, *share.Set) {
	if bad.Count() == 0 {
		return Strike{}, nil
	}
	if s.Bad == nil || s.Bad.Len() != bad.Len() || now.Before(s.At) {
		return Strike{now, bad}, nil
	}
	both := bad.Minus(bad.Minus(s.Bad))
	if both.Count() == 0 {
		return Strike{now, bad}, nil
	}
	if now.Sub(s.At) < StrikeGap {
		return s, nil
	}
	return Strike{now, bad}, both
}
