package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/share"
)

// A Budget bounds the blocks that a node has asked for and not yet verified, in
// bytes and in number. It is shared by all pools of the node, safe for
// concurrent use, and fair: who found it empty waits in line.
//
// A pool that was refused calls WaitFor. When something comes back, the first in
// line gets its turn: it is sent budgetFree, and until it has handled that
// message what is free is not offered to the next. A pool that asks while others
// wait is refused and gets in line; one that is refused in its own turn, because
// what it needs is not free yet, keeps its place.
type Budget struct {
	s      *System
	bytes  int64
	blocks int

	mu        sync.Mutex
	usedBytes int64
	used      int  // blocks
	fresh     bool // something came back since the last refusal
	turn      *actor.PID
	line      []*actor.PID
}

// budgetFree gives a pool its turn at the budget. Budget -> pool.
type budgetFree struct{}

// NewBudget makes a budget of so many bytes and blocks.
func NewBudget(s *System, bytes int64, blocks int) *Budget {
	return &Budget{s: s, bytes: bytes, blocks: blocks}
}

// blocksIn is how many blocks n bytes are, the last one short.
func blocksIn(n int) int { return (n + share.BlockSize - 1) / share.BlockSize }

// Take takes n bytes and the blocks they are, or nothing. One that is larger
// than the whole budget has it alone.
func (b *Budget) Take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := b.turn == nil && len(b.line) > 0
	fits := b.used == 0 || b.usedBytes+int64(n) <= b.bytes && b.used+blocksIn(n) <= b.blocks
	if queued || !fits {
		if !fits {
			b.fresh = false
		}
		return false
	}
	b.usedBytes += int64(n)
	b.used += blocksIn(n)
	return true
}

// Give gives n bytes back. What was taken at once may come back in parts, each
// of them, but the last of a piece, of whole blocks.
func (b *Budget) Give(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.usedBytes -= int64(n)
	b.used -= blocksIn(n)
	b.fresh = true
	if b.usedBytes < 0 || b.used < 0 {
		b.s.log.Error("budget: more given back than was taken", "bytes", -b.usedBytes, "blocks", -b.used)
		b.usedBytes, b.used = max(0, b.usedBytes), max(0, b.used)
	}
	b.next()
}

// WaitFor puts a pool in line, if it is not there yet. It is sent budgetFree
// when its turn has come.
func (b *Budget) WaitFor(who *actor.PID) {
	b.mu.Lock()
	switch {
	case b.waits(who):
	case b.turn != nil && b.turn.Equal(who):
		b.line = append([]*actor.PID{who}, b.line...)
	default:
		b.line = append(b.line, who)
	}
	b.next()
}

func (b *Budget) waits(who *actor.PID) bool {
	for _, p := range b.line {
		if p.Equal(who) {
			return true
		}
	}
	return false
}

// next gives the first in line its turn, if there is something to be had. It
// unlocks b.mu. A pool that has stopped has no turn.
func (b *Budget) next() {
	for b.turn == nil && len(b.line) > 0 && (b.fresh || b.used == 0) {
		who := b.line[0]
		b.line = b.line[1:]
		b.turn = who
		b.mu.Unlock()
		if b.s.deliver(who, letter{msg: budgetFree{}, done: b.turnOver, assured: true}) {
			return
		}
		b.mu.Lock()
		b.turn = nil
	}
	b.mu.Unlock()
}

func (b *Budget) turnOver() {
	b.mu.Lock()
	b.turn = nil
	b.next()
}

// Used is what is taken now.
func (b *Budget) Used() (bytes int64, blocks int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usedBytes, b.used
}
