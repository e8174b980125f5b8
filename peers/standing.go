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

var setWords = [...]string{"active", "passive", "tracked", "outside"}

func (s Set) String() string { return setWords[s] }

// MarshalText is the word for it.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the word.
func (s *Set) UnmarshalText(b []byte) error { return unmarshal(s, setWords[:], b, "set") }

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

// DefaultDwell is how long a peer keeps its place against a better one.
const DefaultDwell = 10 * time.Second

// TierConfig bounds Tiers. The zero value is the default.
type TierConfig struct {
	// MaxActive, MaxPassive and MaxTracked are how many peers each set holds in all.
	// Default 128, 512 and 3,456.
	MaxActive, MaxPassive, MaxTracked int
	// Tick is how often sets are improved. Default 1 s.
	Tick time.Duration
	// Dwell is how long a peer keeps its place against one with a better score, and how long
	// it must be measured in another tier before it moves there. Default DefaultDwell.
	Dwell time.Duration
	// Explore is how often the peer that has waited longest is tried in the place of the worst; 0:
	// never. If it is set, a peer without a location has no claim to a place, and the best that
	// waits takes the place of the worst in another tier or location too, if that has more than its share.
	Explore time.Duration
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
	bounds.In(&f, "Explore", c.Explore, 0, time.Hour)
	bounds.In(&f, "Retry", c.Retry, 10*time.Millisecond, time.Hour)
	return f.Err()
}

func (c TierConfig) withDefaults() TierConfig {
	bounds.Default(&c.MaxActive, 128)
	bounds.Default(&c.MaxPassive, 512)
	bounds.Default(&c.MaxTracked, 3456)
	bounds.Default(&c.Tick, time.Second)
	bounds.Default(&c.Dwell, DefaultDwell)
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
	Tried                 // it had waited longest
	Worse                 // another did better
	Invalid               // it sent something invalid
)

var causes = [...]string{"arrived", "refilled", "claimed", "gave-way", "crowded", "better", "tried", "worse", "invalid"}

func (c Cause) String() string { return causes[c] }

// reasons are the causes in words.
var reasons = [...]string{"there was room", "a place became free", "other peers had more than their share of the places",
	"peers of its tier and location, or of its network, had more than their share of the places", "the next better set was full",
	"it did better than another", "it had waited longest", "another did better", "it sent something invalid"}

// Reason says it in words.
func (c Cause) Reason() string { return reasons[c] }

// MarshalText is the word for it.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the word.
func (c *Cause) UnmarshalText(b []byte) error { return unmarshal(c, causes[:], b, "cause") }

// Move is a peer that came into another set because of another peer's arrival or departure,
// or a tick.
type Move struct {
	ID       ID
	From, To Set
	Why      Cause
}

// Standing is the standing of a peer.
type Standing struct {
	ID       ID        `json:"-"`
	Set      Set       `json:"set" enum:"active,passive,tracked"`
	Tier     Tier      `json:"tier" doc:"by its round trip: 0, below 5 ms; 1, below 50; 2, below 100; 3, below 150; 4, the rest, and those not measured"`
	Location string    `json:"location,omitempty" doc:"the /16 of its address, or /32 of IPv6"`
	Score    float64   `json:"score" doc:"0 to 1; 0.3: a newcomer"`
	Since    time.Time `json:"moved" doc:"when it came into its set"`
	Why      Cause     `json:"why" enum:"arrived,refilled,claimed,gave-way,crowded,better,tried,worse" doc:"why it is in its set"`
}
