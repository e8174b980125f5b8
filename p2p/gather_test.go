package p2p

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// queueTest is an Admit that lets many requests arrive before it admits the first, and
// makes piece at wait until held is closed.
type queueTest struct {
	at   share.Piece
	held chan struct{}
}

func (q *queueTest) Admit(_ context.Context, _ peers.ID, _ share.ID, r wire.PieceRequest, _ int) (func(int), func(int), wire.Reply) {
	if r.Piece == 0 {
		time.Sleep(time.Second)
	}
	if r.Piece == q.at {
		<-q.held
	}
	return func(int) {}, func(int) {}, wire.Reply{}
}

// replies reads the replies to requests for whole pieces, from number from on, until s takes too long.
func replies(s network.Stream, x *memory, from int) (n int, err error) {
	br := bufio.NewReader(s)
	for n = from; ; n++ {
		frame, err := wire.ReadFrame(br, wire.MaxHeader, nil)
		if err != nil {
			return n - from, err
		}
		h, err := wire.ParseHeader(frame)
		if err != nil {
			return n - from, err
		}
		b := make([]byte, h.Bytes)
		if _, err := io.ReadFull(br, b); err != nil || h.ID != uint64(n) || !bytes.Equal(b, x.pieces[n]) {
			return n - from, fmt.Errorf("reply %d to request %d: %v", n, h.ID, err)
		}
	}
}

// Replies for small files are gathered while more requests wait, and leave if the next one waits
// for its turn, or for its file.
func TestSmallRepliesAreGatheredButNotKeptBack(t *testing.T) {
	rig.Slow(t)
	sizes := slices.Repeat([]int{2500}, 20)
	for i := range sizes {
		sizes[i] += i // a share has no equal files here
	}
	sizes[11] = gatherReply + 1
	x := newMemory(t, sizes...)
	for _, c := range []struct{ turn, file share.Piece }{{5, 99}, {12, 99}, {14, 99}, {99, 5}, {99, 12}} {
		inBubble(t, func(t *testing.T, n *packets) {
			src, h := n.two(t, Config{}, Config{})
			q := &queueTest{c.turn, make(chan struct{})}
			src.Serve(func(peers.ID) Blocks { return slowFile{x, c.file, q.held} }, q)
			s := rawStream(t, h, src, wire.PieceProtocol)
			for i := range sizes {
				if err := askFor(s, x, uint64(i), share.Piece(i)); err != nil {
					t.Fatal(err)
				}
			}
			s.SetReadDeadline(time.Now().Add(10 * time.Second))
			got, err := replies(s, x, 0)
			if got != int(min(c.turn, c.file)) || !timedOut(err) {
				t.Errorf("%+v: %d replies came before the one that waits: %v", c, got, err)
			}
			close(q.held)
			s.CloseWrite()
			s.SetReadDeadline(time.Time{})
			rest, err := replies(s, x, got)
			if got+rest != len(sizes) || err != io.EOF {
				t.Errorf("%d replies came in all, then %v", got+rest, err)
			}
		})
	}
}

// What is gathered gives way when the next reply needs its memory.
func TestGatheredRepliesHoldNoMemoryThatTheNextNeeds(t *testing.T) {
	x := newMemory(t, 2500, 2501, 2502, 5000, 2503)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		src.Serve(toAll(x), &queueTest{at: 99})
		all := int64(src.cfg.ServeBytes - classes[0] - classes[1])
		if !src.serving.TryAcquire(all) {
			t.Fatal("it is in use")
		}
		defer src.serving.Release(all)
		s := rawStream(t, h, src, wire.PieceProtocol)
		for i := range x.pieces {
			if err := askFor(s, x, uint64(i), share.Piece(i)); err != nil {
				t.Fatal(err)
			}
		}
		s.CloseWrite()
		s.SetReadDeadline(time.Now().Add(30 * time.Second))
		if got, err := replies(s, x, 0); got != len(x.pieces) || err != io.EOF {
			t.Errorf("%d replies, then %v", got, err)
		}
	})
}

// slowFile serves one piece only when it is told to.
type slowFile struct {
	*memory
	at   share.Piece
	held chan struct{}
}

func (b slowFile) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	if p == b.at {
		<-b.held
	}
	return b.memory.ReadRun(id, p, first, n, dst)
}

// slowDesk is an Admit that gives each turn late, and notes the longest.
type slowDesk struct{ longest atomic.Int64 }

func (q *slowDesk) Admit(context.Context, peers.ID, share.ID, wire.PieceRequest, int) (func(int), func(int), wire.Reply) {
	time.Sleep(2 * gatherFor)
	start := time.Now()
	var once sync.Once
	give := func(int) {
		once.Do(func() { q.longest.Store(max(q.longest.Load(), int64(time.Since(start)))) })
	}
	return give, give, wire.Reply{}
}

// A child that reads nothing keeps its turn for Park, also while what was gathered for it leaves.
func TestAChildThatReadsNothingKeepsNoTurnWhileRepliesLeave(t *testing.T) {
	rig.Slow(t)
	sizes := slices.Repeat([]int{6000}, 400)
	for i := range sizes {
		sizes[i] += i
	}
	x := newMemory(t, sizes...)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		q := &slowDesk{}
		src.Serve(toAll(x), q)
		s := rawStream(t, h, src, wire.PieceProtocol)
		go func() {
			for i := range sizes {
				if askFor(s, x, uint64(i), share.Piece(i)) != nil {
					return
				}
			}
		}()
		time.Sleep(2 * time.Minute)
		if d := time.Duration(q.longest.Load()); d == 0 || d > 2*src.cfg.Timeouts.Park {
			t.Errorf("a turn was kept for %v", d)
		}
		s.Reset()
	})
}
