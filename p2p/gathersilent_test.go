package p2p

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// noTurn is an Admit that has everybody wait for piece 2, as a child does that has as many replies under way as it may.
type noTurn struct{}

func (noTurn) Admit(ctx context.Context, _ peers.ID, _ share.ID, r wire.PieceRequest, _ int) (func(int), func(int), wire.Reply) {
	if r.Piece == 2 {
		select {
		case <-time.After(20 * time.Second):
		case <-ctx.Done():
		}
	}
	return func(int) {}, func(int) {}, wire.Reply{}
}

// What was gathered for children that read nothing does not take the memory from those that do: parked replies hold a half of it at most.
func TestGatheredRepliesOfTheSilentAreCutLikeParkedOnes(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 8<<20, 6000, 6001, 2000) // piece 8 and those behind are small; see below
	l := x.m.Layout()
	small, last := share.Piece(l.Pieces()-3), share.Piece(l.Pieces()-1)
	inBubble(t, func(t *testing.T, n *packets) {
		src := n.host(t, "1.0.0.1", Config{ServeBytes: 16 << 20})
		src.Serve(toAll(x), noTurn{})
		var silent []*Host
		for i := range 10 {
			h := n.host(t, fmt.Sprint("1.0.1.", i+1), Config{})
			silent = append(silent, h)
			for range 3 {
				s := rawStream(t, h, src, wire.PieceProtocol) // uses up what the connection takes unread
				for p := range share.Piece(8) {
					if p != 2 {
						askFor(s, x, uint64(p), p)
					}
				}
			}
		}
		time.Sleep(10 * time.Second)
		for _, h := range silent {
			for range 27 {
				s := rawStream(t, h, src, wire.PieceProtocol)
				b := wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), whole(x, 1, small, false)))
				s.Write(wire.AppendFrame(b, wire.AppendPieceRequest(nil, x.m.ID(), whole(x, 2, 2, false)))) // waits for its turn
			}
		}
		time.Sleep(3 * time.Second) // Park, and half of it
		h := n.host(t, "1.0.2.1", Config{})
		c := newCatcher()
		link := h.Open(addr(src), x.m.ID(), l, c)
		defer link.Close()
		began := time.Now()
		link.Request(whole(x, 1, last, false))
		recv(t, "the reply", c.finished)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("an honest child waited %v for 2000 bytes", took)
		}
	})
}
