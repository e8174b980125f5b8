package fetchpool

import (
	"time"

	"github.com/piecelease/fetcher/share"
)

// Work is a piece lease as given to the pool.
type Work struct {
	Piece   share.Piece
	Token   share.Token
	Have    []bool // blocks that are verified already; nil is none. Read once, not kept.
	Proven  bool   // the piece's proof is known already
	Hedge   bool   // another source works on it too: begin at the other end
	Urgent  bool   // ask for it before what was leased earlier
	Pressed bool   // tell the source that others bring us less than it could
}

// Request asks for a run of blocks of one piece.
type Request struct {
	ID      uint64 // grows; never used again, not on a later link either
	Piece   share.Piece
	First   share.Block
	Count   int
	Proof   bool // ask for the block hashes of the piece as well
	Pressed bool // as in Work
	Bytes   int  // of the blocks
	Token   share.Token
}

// Reason is why a lease comes back.
type Reason uint8

const (
	MissedDeadline Reason = iota // nothing came in time
	NoSuchPiece                  // the source does not have the piece it had announced
	SourceBusy                   // the source asked us to wait longer than a lease is held for
	LinkLost                     // the link is down, or was when the lease came
	Stopped                      // the pool has ended
	Unneeded                     // more than the source can do soon, or a lease that makes no sense
	GivenToOthers                // the source has just given the piece to others: fetch it from them
)

func (r Reason) String() string {
	return [...]string{"missed its deadline", "source does not have the piece", "source is busy", "link lost", "stopped", "not needed", "given to others"}[r]
}

// Return is a lease that is given back.
type Return struct {
	Work
	Why   Reason
	Retry time.Duration // GivenToOthers: when the source may be asked again
}

// lease is a piece that is being fetched.
type lease struct {
	Work
	prev, next *lease       // all leases, by time of grant
	todo       share.Blocks // neither here nor asked for
	bytes      int          // of todo
	reqs       []*request
	proof      proof
	deadline   time.Time // while reqs is not empty
	guessed    bool      // the deadline was set before the source was measured
	queued     bool
	over       bool // dropped; it may still stand in the queue
}

type proof uint8

const (
	unasked proof = iota
	asked
	known
)

// request is a request in flight.
type request struct {
	Request
	lease *lease
	got   int // bytes arrived
	early int // ... of a run that is not complete
	sent  sent
}

// came is the number of its blocks that came in whole.
func (r *request) came() int {
	if r.got == r.Bytes {
		return r.Count
	}
	return r.got / share.BlockSize
}

// run returns the next blocks to ask for, at most n: side by side, from the front, or
// for a hedge from the back, so that two holders meet in the middle.
func (l *lease) run(n int) (first share.Block, count int) {
	if !l.Hedge {
		first = l.todo.First()
		for count < n && int(first)+count < 64*len(l.todo) && l.todo.Has(first+share.Block(count)) {
			count++
		}
		return first, count
	}
	last := l.todo.Last()
	for count < n && count <= int(last) && l.todo.Has(last-share.Block(count)) {
		count++
	}
	return last + 1 - share.Block(count), count
}
