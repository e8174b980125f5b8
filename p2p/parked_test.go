package p2p

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// ledger is an Admit that lets everybody go ahead, except with the rest of what was parked
// if it is set to be busy then, and records what it was asked.
type ledger struct {
	busy bool

	mu     sync.Mutex
	asks   []wire.PieceRequest
	bytes  []int
	parked map[share.Piece]bool // pieces
}

func (d *ledger) Admit(_ context.Context, _ peers.ID, _ share.ID, q wire.PieceRequest, bytes int) (func(int), func(int), wire.Reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks, d.bytes = append(d.asks, q), append(d.bytes, bytes)
	if d.busy && d.parked[q.Piece] {
		d.parked[q.Piece] = false
		return nil, nil, wire.Reply{Status: wire.Busy, Retry: 3 * time.Second}
	}
	return func(int) {}, func(int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.parked[q.Piece] = true
	}, wire.Reply{}
}

// A reply whose child took nothing for a while continues when it gets a turn for the rest,
// and for no more than the rest. If that is refused, it ends where it was: what came before is
// complete, and the child asks for what is missing.
func TestTheRestOfAParkedReplyNeedsATurnOfItsOwn(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 6<<20)
	l := x.m.Layout()
	for _, busy := range []bool{false, true} {
		inBubble(t, func(t *testing.T, n *packets) {
			src, h := n.two(t, Config{}, Config{})
			d := &ledger{busy: busy, parked: map[share.Piece]bool{}}
			src.Serve(toAll(x), d)
			s := n.silent(t, h, src, x)
			time.Sleep(10 * time.Second) // some of it is parked
			got := make([][]byte, l.Pieces())
			asked := uint64(l.Pieces()) // the number of the next request
			of := map[uint64]share.Piece{}
			for p := range l.Pieces() {
				of[uint64(p)] = share.Piece(p)
			}
			cut := 0
			for br := bufio.NewReader(s); len(of) > 0; {
				frame, err := wire.ReadFrame(br, wire.MaxHeader, nil)
				if err != nil {
					t.Fatal(err)
				}
				head, err := wire.ParseHeader(frame)
				if err != nil {
					t.Fatal(err)
				}
				p, ok := of[head.ID]
				if !ok {
					t.Fatalf("busy %v: %+v answers nothing that is open", busy, head)
				}
				if have := len(got[p]) / share.BlockSize; head.Count > 0 && int(head.First) != have {
					t.Fatalf("busy %v: block %d of piece %d, and %d are here", busy, head.First, p, have)
				}
				b := make([]byte, head.Bytes)
				if _, err := io.ReadFull(br, b); err != nil {
					t.Fatal(err)
				}
				got[p] = append(got[p], b...)
				if head.Last {
					delete(of, head.ID)
				}
				if head.Status == wire.Busy {
					cut++
					first := len(got[p]) / share.BlockSize
					if first == 0 || head.Retry != 3*time.Second || !head.Last {
						t.Errorf("%+v after %d blocks", head, first)
					}
					rest := wire.PieceRequest{ID: asked, Piece: p, First: share.Block(first), Count: l.Blocks(p) - first}
					of[asked] = p
					asked++
					s.Write(wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), rest)))
				}
			}
			for p := range got {
				if !bytes.Equal(got[p], x.pieces[p]) {
					t.Errorf("busy %v: piece %d has other bytes", busy, p)
				}
			}
			rests := 0
			for i, q := range d.asks {
				if want := l.RunSpan(q.Piece, share.Block(q.First), int(q.Count)).Len; d.bytes[i] != want {
					t.Errorf("busy %v: %+v has %d bytes by the listing, and really %d", busy, q, d.bytes[i], want)
				}
				if q.First > 0 {
					rests++
				}
			}
			if rests == 0 || busy != (cut > 0) {
				t.Errorf("busy %v: %d turns for a rest, %d cut off", busy, rests, cut)
			}
		})
	}
}

// A child that asks on many streams and reads none makes a source hold part of its memory
// for it, not all.
func TestOneChildHoldsAPartOfServeBytes(t *testing.T) {
	rig.Slow(t)
	const all = 16 << 20
	x := newMemory(t, 4<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{ServeBytes: all}, Config{})
		src.Serve(toAll(x), everybody{})
		for range 20 {
			n.silent(t, h, src, x)
		}
		time.Sleep(time.Second) // before anything is parked, and cut
		rest := int64(all - all/childPart)
		if !src.serving.TryAcquire(rest) {
			t.Errorf("one child holds more than %d bytes of %d", all/childPart, all)
		} else {
			src.serving.Release(rest)
		}
	})
}

// When too much is parked, the child with most of it loses its oldest reply, whoever was
// parked last.
func TestWhatIsParkedIsCutOfTheChildThatHasMost(t *testing.T) {
	k := &kids{each: map[peers.ID]*kid{}, room: 4 * wire.MaxRun}
	var cut []string
	park := func(id peers.ID, n int) {
		t.Helper()
		name := fmt.Sprint(id, n)
		k.park(&child{kid: k.join(id, 1<<20), cut: func() { cut = append(cut, name) }})
	}
	want := func(names ...string) {
		t.Helper()
		if !slices.Equal(cut, names) {
			t.Fatalf("%v were cut, want %v", cut, names)
		}
	}
	park("slow", 1)
	for i := range 3 {
		park("many", i)
	}
	want()
	park("newcomer", 1)
	want("many0")
	park("many", 3)
	want("many0", "many1")
	park("newcomer", 2) // both have two: the one that parks now
	want("many0", "many1", "newcomer1")
	if k.held != 4*wire.MaxRun {
		t.Errorf("%d bytes are held", k.held)
	}
}
