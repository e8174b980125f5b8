package peers

import (
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
)

// Set is one of the three sets in which Tiers keeps peers, or none of them.
type Set uint8

// The sets, best first.
const (
	Active  Set = iota // blocks flow
	Passive            // hears of pieces, and is asked or served when no active peer is
	Tracked            // hears of pieces every 30 s, and is served last
	Outside            // not known, or refused
)

func (s Set) String() string { return [...]string{"active", "passive", "tracked", "outside"}[s] }

// Tier is how far away a peer is, by its smoothed round trip.
type Tier uint8

const (
	tierCount = 5
	sets      = 3
)

// tierEnds are the round trips at which the next tier begins. A peer beyond the last, or
// not measured, is in the last tier.
var tierEnds = [tierCount - 1]time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond}

// tierTargets are how many peers of a tier and location each set holds when others want
// the places. One network in it may have half of them, rounded up.
var tierTargets = [tierCount][sets]int{{1, 5, 5}, {3, 15, 15}, {3, 15, 15}, {1, 5, 5}, {1, 5, 5}}

func tierOf(rtt time.Duration) Tier {
	for i, end := range tierEnds {
		if 0 < rtt && rtt < end {
			return Tier(i)
		}
	}
	return tierCount - 1
}

// TierConfig bounds Tiers. The zero value is the default.
type TierConfig struct {
	// MaxActive, MaxPassive and MaxTracked are how many peers each set holds in all.
	// Default 128, 512 and 3,456.
	MaxActive, MaxPassive, MaxTracked int
	// Tick is how often sets are improved. Default 1 s.
	Tick time.Duration
	// Dwell is how long a peer keeps its place against one with a better score, and how long
	// it must be measured in another tier before it moves there. Default 10 s.
	Dwell time.Duration
	// Retry is when a peer that found no room may come again. Default 10 s.
	Retry time.Duration
}

// Validate names the fields that are out of range, with their ranges. NewTiers takes a
// configuration that Validate has not refused.
func (c TierConfig) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "MaxActive", c.MaxActive, 1, 1<<20)
	bounds.In(&f, "MaxPassive", c.MaxPassive, 1, 1<<20)
	bounds.In(&f, "MaxTracked", c.MaxTracked, 1, 1<<20)
	bounds.In(&f, "Tick", c.Tick, 10*time.Millisecond, time.Hour)
	bounds.In(&f, "Dwell", c.Dwell, 10*time.Millisecond, time.Hour)
	bounds.In(&f, "Retry", c.Retry, 10*time.Millisecond, time.Hour)
	return f.Err()
}

func (c TierConfig) withDefaults() TierConfig {
	bounds.Default(&c.MaxActive, 128)
	bounds.Default(&c.MaxPassive, 512)
	bounds.Default(&c.MaxTracked, 3456)
	bounds.Default(&c.Tick, time.Second)
	bounds.Default(&c.Dwell, 10*time.Second)
	bounds.Default(&c.Retry, 10*time.Second)
	return c
}

// Answer is the result of a Subscribe: a set, or Outside and when to come again.
type Answer struct {
	Set   Set
	Retry time.Duration
}

// Cause is why a peer is in its set.
type Cause uint8

// The causes.
const (
	Arrived  Cause = iota // there was room, or its tier and location had a claim
	Refilled              // a place fell free
	Claimed               // others had more than their share of the places
	GaveWay               // its tier and location, or network, had more than their share
	Crowded               // the set held as many as it may
	Better                // it did better than another
	Worse                 // another did better
	Moved                 // it is now in another tier or location
	Invalid               // it sent something invalid
)

func (c Cause) String() string {
	return [...]string{"arrived", "refilled", "claimed", "gave-way", "crowded", "better", "worse", "moved", "invalid"}[c]
}

// Move is a peer that came into another set because of another peer's arrival or departure,
// or a tick.
type Move struct {
	ID       ID
	From, To Set
	Why      Cause
}

// Standing is the standing of a peer.
type Standing struct {
	ID       ID
	Set      Set
	Tier     Tier
	Location string
	Score    float64 // 0 to 1
	Since    time.Time
	Why      Cause
}
