package fetchpool

import (
	"math/bits"
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
	prev, next *lease // all leases, by time of grant
	todo       mask   // blocks neither here nor asked for
	bytes      int    // of todo
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

// maxBlocks is the number of blocks of the largest piece.
const maxBlocks = share.MaxPiece / share.BlockSize

// mask is a set of blocks of one piece.
type mask [maxBlocks / 64]uint64

func (m *mask) has(b int) bool { return m[b/64]>>(b%64)&1 != 0 }
func (m *mask) add(b int)      { m[b/64] |= 1 << (b % 64) }
func (m *mask) remove(b int)   { m[b/64] &^= 1 << (b % 64) }
func (m *mask) empty() bool    { return *m == mask{} }

// first is the lowest block of a set that is not empty.
func (m *mask) first() int {
	i := 0
	for m[i] == 0 {
		i++
	}
	return i*64 + bits.TrailingZeros64(m[i])
}

// last is the highest block of a set that is not empty.
func (m *mask) last() int {
	i := len(m) - 1
	for m[i] == 0 {
		i--
	}
	return i*64 + 63 - bits.LeadingZeros64(m[i])
}

// run returns the next blocks to ask for, at most n: side by side, from the front, or
// for a hedge from the back, so that two holders meet in the middle.
func (l *lease) run(n int) (first share.Block, count int) {
	if !l.Hedge {
		from := l.todo.first()
		for count < n && from+count < maxBlocks && l.todo.has(from+count) {
			count++
		}
		return share.Block(from), count
	}
	to := l.todo.last()
	for count < n && to-count >= 0 && l.todo.has(to-count) {
		count++
	}
	return share.Block(to - count + 1), count
}
