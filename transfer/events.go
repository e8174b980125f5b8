package transfer

import (
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Event is what happened to a transfer, told to its Notify in order. It is one
// of Planned, Progress, SourceChanged, LeaseEvent, Stalled and Ended.
type Event interface{ event() }

// Planned says that the manifest is here and what will be fetched.
type Planned struct {
	Manifest *share.Manifest
	Bytes    int64 // of what was chosen
	Resumed  int64 // of these, verified before
	Pieces   int   // still to fetch

	Files, Dirs, Links int // that were chosen
}

// Progress is a snapshot of a transfer. All counts are exact, and about what was
// chosen, unless they say otherwise.
type Progress struct {
	Share     share.ID  `json:"share"`
	State     State     `json:"state"`
	Wait      Wait      `json:"wait"`              // what it waits for; Reason says it in words
	Reason    string    `json:"reason"`            // why nothing moves, or what is being done; empty while bytes flow
	Since     time.Time `json:"since"`             // since when the reason holds
	At        time.Time `json:"at"`                // of all this
	Moved     time.Time `json:"moved"`             // when the last byte was verified, or the transfer began
	GivesUp   time.Time `json:"gives_up,omitzero"` // if no byte comes until then; zero: not at all
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"`           // of the content; 0 until the manifest is here
	Verified  int64     `json:"verified_bytes"`  // bytes here and verified, those of unfinished pieces too
	Resumed   int64     `json:"resumed_bytes"`   // of these, from an earlier run
	Duplicate int64     `json:"duplicate_bytes"` // bytes that came twice, of the whole share
	Hashed    int64     `json:"hashed_bytes"`    // bytes hashed, of the whole share
	WireIn    int64     `json:"wire_in_bytes"`   // stream bytes from sources, framing included
	WireOut   int64     `json:"wire_out_bytes"`  // ... and to them
	Files     int       `json:"files"`
	Dirs      int       `json:"dirs"` // empty ones
	Links     int       `json:"links"`
	Pieces    int       `json:"pieces"`
	Done      int       `json:"done_pieces"` // pieces verified
	Rate      float64   `json:"rate"`        // verified bytes per second, over the last few seconds
	File      string    `json:"file"`        // path of the file of which a block came last; empty before the first
	Leases    Leases    `json:"-"`           // how the leases of the pieces fared, since the process began
	Sources   []Source  `json:"-"`
	Path      string    `json:"path,omitempty"` // where the share is, once State is Complete
}

// Lists reports whether a source that is connected is asked for the list of files.
func (p Progress) Lists() bool {
	return p.State == Finding && (p.Wait == ForBytes || p.Wait == ForLease)
}

// Source is what one source has done for a transfer.
type Source struct {
	Peer      peers.ID      `json:"peer"`
	Via       peers.Via     `json:"via" enum:"ticket,peer,itself,lan,beacon,dht" doc:"how it was found"`
	State     SourceState   `json:"state" enum:"connecting,joining,active,resting,left,banned"`
	Since     time.Time     `json:"since"` // of the state
	Why       string        `json:"why"`
	Bytes     int64         `json:"bytes" doc:"verified"`
	Pieces    int           `json:"pieces" doc:"that it had a part in"`
	BadBlocks int           `json:"bad_blocks"`
	Failures  Failures      `json:"failures" doc:"piece leases that it did not keep"`
	Banned    bool          `json:"banned"`
	Lie       string        `json:"lie"` // the last, when BadBlocks > 0
	Rate      float64       `json:"rate" doc:"verified bytes a second, over the last few seconds"`
	RTT       time.Duration `json:"rtt_ms"`
	// Standing is its standing among all sources, given only while there are more of them than this node fetches from at once.
	Standing peers.Standing `json:"standing,omitzero" doc:"its standing among all sources, given only while there are more of them than this node fetches from at once; it fetches from the active ones"`
	Way      string         `json:"way" doc:"how it is connected now: direct, punched (directly, after a relay introduced it) or relayed; empty if it is not connected"` // filled in by the node
}

// Failures counts the piece leases that a source did not fulfil, by reason.
type Failures struct {
	Bad  int `json:"bad_data" doc:"it sent wrong data"`
	Late int `json:"late" doc:"the piece did not come in time"`
	None int `json:"not_found" doc:"it did not have the piece after all"`
	Lost int `json:"lost" doc:"the connection ended"`
}

// SourceChanged says that a source has a new state.
type SourceChanged struct{ Source Source }

// Stalled says that no byte was verified for a while, and why. It is repeated
// when the reason changes.
type Stalled struct {
	For    time.Duration
	Reason string
	Why    []string // per missing piece or run of pieces
}

// Ended is the last event. Err is nil when the share is whole at Path.
type Ended struct {
	Path string
	Err  error
	Last Progress
}

// Leases counts the piece leases of a transfer, by how they ended.
type Leases = leasemgr.Stats

// LeaseEvent is the beginning or the end of one piece lease. It is told only to those
// who ask for it.
type LeaseEvent leasemgr.LeaseEvent

func (Planned) event()       {}
func (LeaseEvent) event()    {}
func (Progress) event()      {}
func (SourceChanged) event() {}
func (Stalled) event()       {}
func (Ended) event()         {}

// State is the phase of a transfer.
//
//	Finding -> Opening -> Fetching -> Finishing -> Complete
//	   |          |         |  ^         |
//	   +----------+---------+--|---------+-> Failed
//	                        v  |
//	                       DiskFull
type State uint8

const (
	Finding   State = iota // looking for a source with the manifest
	Opening                // preparing the place on disk
	Fetching               // pieces are leased and fetched
	DiskFull               // waiting for room
	Finishing              // all verified; syncing and naming
	Complete               // whole on disk
	Failed                 // over; what was verified is kept
)

func (s State) String() string {
	return [...]string{"finding", "opening", "fetching", "disk full", "finishing", "complete", "failed"}[s]
}

// Wait is what a transfer waits for, if no byte comes in.
type Wait uint8

const (
	NoWait        Wait = iota // for nothing: bytes flow, or this node is at work itself
	ForSource                 // none is known, or none is left
	ForConnection             // no source is connected
	ForHolder                 // sources are connected, but none has what is missing
	ForLease                  // what is missing is not leased to any source
	ForBytes                  // sources have not sent what is leased to them
	ForLimit                  // the download limit
	ForReader                 // on demand, and nobody reads what is missing
	ForRoom                   // on the disk
)

func (w Wait) String() string {
	return [...]string{"none", "source", "connection", "holder", "lease", "bytes", "limit", "reader", "room"}[w]
}

// SourceState is the state of a source.
type SourceState uint8

const (
	Connecting SourceState = iota
	Joining                // connected, subscribing
	Active                 // may be leased pieces
	Resting                // waiting before another try
	Left                   // over, for a stated reason
	Banned                 // proven to have lied; over until the ban ends
)

var sourceStates = [...]string{"connecting", "joining", "active", "resting", "left", "banned"}

func (s SourceState) String() string { return sourceStates[s] }

// Connected says whether there is a connection that works.
func (s SourceState) Connected() bool { return s == Joining || s == Active }
