package api

import (
	"context"
	"io"
	"time"

	"github.com/piecelease/fetcher"
)

// Node is what the API serves. Its methods may be called concurrently. An error that is
// a *Problem is sent as it is, others with the code that ProblemOf finds.
type Node interface {
	Status(ctx context.Context) (Status, error)
	Entries(ctx context.Context) ([]Entry, error)
	Entry(ctx context.Context, id int64) (Entry, error)
	Add(ctx context.Context, a Add) (Entry, error)
	Set(ctx context.Context, id int64, s Set) (Entry, error)
	Remove(ctx context.Context, id int64, data bool) (Removed, error)
	Files(ctx context.Context, id int64) ([]File, error)
	// OpenFile opens a file of an entry by its path in the share. Read waits for data that is
	// not here yet, for as long as ctx lasts.
	OpenFile(ctx context.Context, id int64, path string) (Content, error)
	Sources(ctx context.Context, id int64) ([]Source, error)
	Children(ctx context.Context, id int64) ([]Child, error)
	Pieces(ctx context.Context, id int64) (Pieces, error)
	Why(ctx context.Context, id int64) ([]string, error)
	Peers(ctx context.Context) ([]Peer, error)
	History(ctx context.Context, peer string) ([]Moment, error)
	Limits(ctx context.Context) (Limits, error)
	SetLimits(ctx context.Context, l SetLimits) (Limits, error)
	Feed() *Feed
	DepotNode
	FleetNode
}

// Content is an open file of a share.
type Content struct {
	io.ReadSeekCloser
	Name  string
	Share string // its ID, under which the bytes are always these
}

// Status is the status of the node.
type Status struct {
	Version   string    `json:"version" doc:"of the program"`
	Peer      string    `json:"peer" doc:"the node's peer ID"`
	Addrs     []string  `json:"addrs" doc:"multiaddrs under which it can be reached"`
	Relays    []Relay   `json:"relays" doc:"through which others reach it"`
	Tried     []Tried   `json:"tried" doc:"what relays found when they dialled its public addresses; empty until one has"`
	Dir       string    `json:"dir" doc:"its state directory"`
	Since     time.Time `json:"since" doc:"when it began"`
	Entries   int       `json:"entries"`
	Fetching  int       `json:"fetching" doc:"entries that are being fetched"`
	Waiting   int       `json:"waiting" doc:"entries that wait for their turn, or for their next attempt"`
	Troubled  int       `json:"troubled" doc:"entries that are missing or have failed"`
	Holds     int       `json:"holds" doc:"leases at depots elsewhere that are renewed"`
	HoldEnds  time.Time `json:"hold_ends,omitzero" doc:"when the first lease at a depot elsewhere ends, unless it is renewed"`
	Unheld    int       `json:"unheld,omitempty" doc:"leases that there should be, and that have ended or were not granted yet"`
	Children  int       `json:"children" doc:"peers that fetch from this node"`
	InBytes   int64     `json:"in_bytes" doc:"of all streams, since it began"`
	OutBytes  int64     `json:"out_bytes" doc:"of all streams, since it began"`
	Carried   int64     `json:"carried_bytes,omitempty" doc:"between others, as a relay, since it began; not counted in in_bytes and out_bytes"`
	Rate      int64     `json:"rate" doc:"verified bytes a second"`
	FreeBytes int64     `json:"free_bytes" doc:"on the disk of the folder that shares are put into; -1 if it is not known"`
	Limits    Limits    `json:"limits"`
	Fleet     bool      `json:"fleet" doc:"it belongs to a fleet"`
	Depot     bool      `json:"depot" doc:"it keeps shares for accounts"`
	Beacon    *Beacon   `json:"beacon,omitempty" doc:"if it is a beacon for others"`
	Warnings  []string  `json:"warnings" doc:"sentences on what its owner should know"`
}

// Beacon counts what a beacon remembers.
type Beacon struct {
	Peers  int `json:"peers" doc:"that have announced something"`
	Shares int `json:"shares" doc:"that they have"`
}

// Tried is what a relay found when it dialled a public address of the node.
type Tried struct {
	Addr    string    `json:"addr"`
	Reached bool      `json:"reached"`
	At      time.Time `json:"at"`
}

// Relay is a node through which others reach this one.
type Relay struct {
	Peer    string `json:"peer"`
	Held    bool   `json:"held" doc:"the node has a place there"`
	Why     string `json:"why" doc:"if the node has no place there: why"`
	Carries int64  `json:"carries_bytes" doc:"of content, each way for each connection; 0: none; 2^62: as many as come"`
}

// The states of an entry.
const (
	Opening  = "opening"
	Waiting  = "waiting"
	Fetching = "fetching"
	Served   = "served"
	Ended    = "ended"
	Paused   = "paused"
	Missing  = "missing"
	Failed   = "failed"
)

// Entry is one line of the catalog: what the owner asked for, and its status.
type Entry struct {
	ID        int64      `json:"id"`
	Kind      string     `json:"kind" enum:"serve,fetch"`
	State     string     `json:"state" enum:"opening,waiting,fetching,served,ended,paused,missing,failed"`
	Reason    string     `json:"reason" doc:"a sentence: why nothing moves, or what is wrong; may be empty"`
	Code      string     `json:"code,omitempty" doc:"failed: the code of the problem that is the reason; empty if it failed before this run of the node"`
	Name      string     `json:"name" doc:"of the share; empty until it is known"`
	Named     string     `json:"named,omitempty" doc:"serve: the name that it was given, if any"`
	Share     string     `json:"share" doc:"share ID; empty until it is known"`
	Ticket    string     `json:"ticket" doc:"for others to fetch it from here; empty if nothing is served"`
	Paths     []string   `json:"paths,omitempty" doc:"serve: what is served"`
	Dir       string     `json:"dir,omitempty" doc:"fetch: the folder it is put into"`
	Path      string     `json:"path,omitempty" doc:"fetch: where it is, once it is here"`
	Bytes     int64      `json:"bytes"`
	Verified  int64      `json:"verified_bytes"`
	Files     int        `json:"files"`
	Rate      int64      `json:"rate" doc:"verified bytes a second"`
	Sent      int64      `json:"sent_bytes" doc:"to others"`
	Sources   int        `json:"sources" doc:"that are connected"`
	Children  int        `json:"children" doc:"peers that fetch it from here"`
	Priority  string     `json:"priority" enum:"low,normal,high"`
	Only      []string   `json:"only,omitempty"`
	Skip      []string   `json:"skip,omitempty"`
	First     []string   `json:"first,omitempty"`
	SeedRatio float64    `json:"seed_ratio,omitempty"`
	SeedTime  string     `json:"seed_time,omitempty" doc:"such as 36h"`
	LimitUp   int64      `json:"limit_up,omitempty" doc:"its own, beside that of the node, in bytes a second"`
	LimitDown int64      `json:"limit_down,omitempty" doc:"fetch: its own, beside that of the node, in bytes a second"`
	Visible   string     `json:"visible" enum:"private,lan,public" doc:"where it is announced that the node has it"`
	Added     time.Time  `json:"added"`
	Since     time.Time  `json:"since" doc:"of the state"`
	Done      *time.Time `json:"done,omitempty" doc:"fetch: when all of it was here"`
	Fleet     bool       `json:"fleet,omitempty" doc:"fetch: it is here because the fleet has it"`
	Older     []string   `json:"older,omitempty" doc:"share IDs of earlier versions, the oldest first"`
	Warnings  []string   `json:"warnings,omitempty"`
}

// Add asks for a new entry, from either a ticket or paths.
type Add struct {
	Ticket    string   `json:"ticket,omitempty" doc:"fetch: a ticket or a share ID"`
	Dir       string   `json:"dir,omitempty" doc:"fetch: the folder to put it into, absolute; default as configured"`
	Peers     []string `json:"peers,omitempty" doc:"fetch: further sources, multiaddrs that end in /p2p/ID"`
	Called    bool     `json:"called,omitempty" doc:"fetch: wait until a source connects to the node; the ticket of the entry is what the source is given for that"`
	Only      []string `json:"only,omitempty" doc:"fetch: patterns of what is fetched; default all"`
	Skip      []string `json:"skip,omitempty" doc:"fetch: patterns of what is not fetched"`
	First     []string `json:"first,omitempty" doc:"fetch: patterns of what is fetched before the rest"`
	Repair    bool     `json:"repair,omitempty" doc:"fetch: replace what is there and differs"`
	SeedRatio float64  `json:"seed_ratio,omitempty" minimum:"0" doc:"fetch: serve on until so many times its size was sent; 0: for ever"`
	SeedTime  string   `json:"seed_time,omitempty" doc:"fetch: serve on for so long, such as 36h; default for ever"`
	Paths     []string `json:"paths,omitempty" doc:"serve: absolute paths; several need a name"`
	Name      string   `json:"name,omitempty" doc:"serve: what the share is called"`
	Exclude   []string `json:"exclude,omitempty" doc:"serve: patterns of what is left out"`
	Links     string   `json:"links,omitempty" enum:"keep,skip,refuse" doc:"serve: what becomes of symbolic links"`
	Priority  string   `json:"priority,omitempty" enum:"low,normal,high"`
	LimitUp   int64    `json:"limit_up,omitempty" minimum:"0" doc:"bytes a second that others are sent of it; 0: as the node's"`
	LimitDown int64    `json:"limit_down,omitempty" minimum:"0" doc:"fetch: bytes a second that are asked for; 0: as the node's"`
	Visible   string   `json:"visible,omitempty" enum:"private,lan,public" doc:"where it is announced that the node has it; default private: nowhere"`
	Secret    bool     `json:"secret,omitempty" doc:"serve: give it only to those who have its ticket, which then holds a secret"`
	Paused    bool     `json:"paused,omitempty"`
}

// Set changes an entry; fields that are not set stay as they are.
type Set struct {
	Paused    *bool     `json:"paused,omitempty"`
	Priority  *string   `json:"priority,omitempty" enum:"low,normal,high"`
	Only      *[]string `json:"only,omitempty"`
	Skip      *[]string `json:"skip,omitempty"`
	First     *[]string `json:"first,omitempty"`
	SeedRatio *float64  `json:"seed_ratio,omitempty" minimum:"0"`
	SeedTime  *string   `json:"seed_time,omitempty"`
	LimitUp   *int64    `json:"limit_up,omitempty" minimum:"0" doc:"bytes a second; 0: as the node's"`
	LimitDown *int64    `json:"limit_down,omitempty" minimum:"0" doc:"fetch: bytes a second; 0: as the node's"`
	Visible   *string   `json:"visible,omitempty" enum:"private,lan,public"`
	Repair    bool      `json:"repair,omitempty" doc:"fetch: replace what is there and differs, once"`
	Rescan    bool      `json:"rescan,omitempty" doc:"look at its files again now, or try again"`
}

// Removed says what was removed.
type Removed struct {
	Entry Entry    `json:"entry" doc:"as it was"`
	Data  []string `json:"data" doc:"the files and folders that were removed from the disk"`
	Kept  string   `json:"kept,omitempty" doc:"a sentence: why files stay"`
}

// File is one entry of a share's list of files.
type File struct {
	Path     string `json:"path"`
	Kind     string `json:"kind" enum:"file,dir,symlink"`
	Size     int64  `json:"size"`
	Priority string `json:"priority,omitempty" enum:"skip,normal,high" doc:"high: it is fetched before the rest"`
}

// Pieces says which pieces of a share are here.
type Pieces struct {
	Pieces int    `json:"pieces" doc:"of the share"`
	Here   int    `json:"here" doc:"pieces that are here, verified"`
	Map    []byte `json:"map" doc:"a bit for each piece, set if the piece is here; the first piece is the lowest bit of the first byte; base64"`
	By     []byte `json:"by,omitempty" doc:"while the share is fetched, a byte for each piece: the number of the source that brought it, from 1; 0: none; 255: several; base64"`
}

// Source is a peer that an entry is fetched from.
type Source = fetcher.Source

// Child is a peer that fetches an entry from this node, and its rank among all that do.
type Child struct {
	Peer     string    `json:"peer"`
	Addr     string    `json:"addr,omitempty" doc:"where its connection comes from"`
	Bytes    int64     `json:"bytes" doc:"of content of the entry that it was sent"`
	Since    time.Time `json:"since" doc:"when it began to take"`
	Set      string    `json:"set" enum:"active,passive,tracked,outside" doc:"active: it hears of new pieces and is served first; passive: served when no active one waits; tracked: when nobody else does; outside: it asks without a subscription"`
	Tier     int       `json:"tier" doc:"by its round trip: 0, below 5 ms; 1, below 50; 2, below 100; 3, below 150; 4, the rest, and those not measured"`
	Location string    `json:"location,omitempty" doc:"the /16 of its address, or /32 of IPv6"`
	Score    float64   `json:"score" doc:"how well it has used its place lately, 0 to 1; 0.3: a newcomer"`
	Moved    time.Time `json:"moved,omitzero" doc:"when it came into its set"`
	Why      string    `json:"why,omitempty" enum:"arrived,refilled,claimed,gave-way,crowded,better,tried,worse,invalid" doc:"why it is in its set: there was room when it came; a place was free; other peers had more than their share of the places; peers of its tier and location, or of its network, had more than their share; the next better set was full; it did better than another; it had waited longest; another did better than it; it sent something invalid"`
}

// Failures counts the piece leases that a source did not keep.
type Failures = fetcher.Failures

// Peer is a peer that fetches from this node, or sends to it, now.
type Peer struct {
	Peer     string `json:"peer"`
	Addr     string `json:"addr,omitempty"`
	Entries  int    `json:"entries" doc:"that it gives to, or takes from"`
	InBytes  int64  `json:"in_bytes" doc:"of content, verified, from it"`
	OutBytes int64  `json:"out_bytes" doc:"of content, to it"`
	Rate     int64  `json:"rate" doc:"verified bytes a second from it"`
	Banned   bool   `json:"banned"`
}

// Moment is the state of a peer over an interval.
type Moment struct {
	At        time.Time `json:"t"`
	InBytes   int64     `json:"in_bytes" doc:"from it, since the moment before"`
	OutBytes  int64     `json:"out_bytes" doc:"to it, since the moment before"`
	Rate      int64     `json:"rate"`
	BadBlocks int       `json:"bad_blocks" doc:"since the moment before"`
	Failures  Failures  `json:"failures" doc:"piece leases that it did not keep, since the moment before"`
	Score     float64   `json:"score" doc:"what it is worth as a source, from 0 (banned) to 3; 1 if not known"`
	Set       string    `json:"set,omitempty" doc:"in which set it was last, as a child: active, passive or tracked; empty: it took nothing"`
	Child     float64   `json:"child_score" doc:"what it was worth as a child at that time: 0 to 1"`
}

// Limits are the limits in force, in bytes per second; 0 is none.
type Limits struct {
	Up       int64     `json:"up"`
	Down     int64     `json:"down"`
	Schedule bool      `json:"schedule" doc:"a schedule gave them"`
	Until    time.Time `json:"until,omitzero" doc:"when the schedule changes them next"`
}

// SetLimits changes the limits outside the schedule, across restarts too, until the settings that they replace change.
type SetLimits struct {
	Up   *int64 `json:"up,omitempty" minimum:"0" doc:"bytes per second; 0: no limit"`
	Down *int64 `json:"down,omitempty" minimum:"0" doc:"bytes per second; 0: no limit"`
}
