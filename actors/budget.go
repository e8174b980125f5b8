package actors

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/share"
)

// A Budget bounds the blocks that a node has asked for and not yet verified, in
// bytes and in number. It is shared by all pools of the node, safe for
// concurrent use, and fair: a pool that found it empty waits in line. Each pool takes
// through its own [Budget.For]; that is how the line tells the pools apart.
//
// A pool that was refused calls WaitFor. When something comes back, the first in
// line gets its turn: it is sent budgetFree, and until it has handled that
// message nobody else is served. A pool that asks while others wait is refused
// and gets in line; one that is refused in its own turn, because what it needs is
// not free yet, keeps its place.
type Budget struct {
	*pot
	who *actor.PID // nil: no pool in particular
}

// pot is what the budgets of all pools share.
type pot struct {
	s      *system.System
	bytes  int64
	blocks int

	fetches atomic.Int32 // transfers of the node that run

	mu        sync.Mutex
	usedBytes int64
	used      int  // blocks
	fresh     bool // something came back since the last refusal
	turn      *actor.PID
	served    bool // something was taken in this turn
	line      []*actor.PID
}

// budgetFree gives a pool its turn at the budget. Budget -> pool.
type budgetFree struct{}

// NewBudget makes a budget of so many bytes and blocks.
func NewBudget(s *system.System, bytes int64, blocks int) *Budget {
	return &Budget{pot: &pot{s: s, bytes: bytes, blocks: blocks}}
}

// For returns the same budget for one pool to take from.
func (b *Budget) For(who *actor.PID) *Budget { return &Budget{b.pot, who} }

// Begin counts a transfer that runs, until End.
func (b *pot) Begin() { b.fetches.Add(1) }

// End undoes one Begin.
func (b *pot) End() { b.fetches.Add(-1) }

// Fetches is the number of transfers that run.
func (b *pot) Fetches() int { return int(b.fetches.Load()) }

// blocksIn is the number of blocks in n bytes, the last of which may be short.
func blocksIn(n int) int { return (n + share.BlockSize - 1) / share.BlockSize }

// Take takes n bytes and their blocks, or nothing. A request larger than the whole
// budget is let through when nothing else is taken. A request for no pool in
// particular is let through in anybody's turn.
func (b *Budget) Take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := len(b.line) > 0
	if b.turn != nil {
		queued = b.who != nil && !b.turn.Equal(b.who)
	}
	fits := b.used == 0 || b.usedBytes+int64(n) <= b.bytes && b.used+blocksIn(n) <= b.blocks
	if queued || !fits {
		if !fits {
			b.fresh = false
		}
		return false
	}
	b.usedBytes += int64(n)
	b.used += blocksIn(n)
	b.served = true
	return true
}

// Give gives n bytes back. What was taken at once may come back in parts; each
// part is whole blocks, except the last of a piece.
func (b *pot) Give(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.usedBytes -= int64(n)
	b.used -= blocksIn(n)
	b.fresh = true
	if b.usedBytes < 0 || b.used < 0 {
		b.s.Log().Error("budget: more given back than was taken", "bytes", -b.usedBytes, "blocks", -b.used)
		b.usedBytes, b.used = max(0, b.usedBytes), max(0, b.used)
	}
	b.next()
}

// WaitFor puts a pool in line, if it is not there yet. It is sent budgetFree
// when its turn has come.
func (b *pot) WaitFor(who *actor.PID) {
	b.mu.Lock()
	switch {
	case b.waits(who):
	case b.turn != nil && b.turn.Equal(who) && !b.served:
		b.line = append([]*actor.PID{who}, b.line...)
	default:
		b.line = append(b.line, who)
	}
	b.next()
}

func (b *pot) waits(who *actor.PID) bool {
	for _, p := range b.line {
		if p.Equal(who) {
			return true
		}
	}
	return false
}

// next gives the first in line its turn, if something is free. It
// unlocks b.mu. A pool that has stopped has no turn.
func (b *pot) next() {
	for b.turn == nil && len(b.line) > 0 && (b.fresh || b.used == 0) {
		who := b.line[0]
		b.line = b.line[1:]
		b.turn, b.served = who, false
		b.mu.Unlock()
		if b.s.Assure(who, budgetFree{}, b.turnOver) {
			return
		}
		b.mu.Lock()
		b.turn = nil
	}
	b.mu.Unlock()
}

func (b *pot) turnOver() {
	b.mu.Lock()
	b.turn = nil
	b.next()
}

// Used is what is taken now.
func (b *pot) Used() (bytes int64, blocks int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usedBytes, b.used
}
