package bubble

import (
	"time"

	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/wire"
)

// liar stands between what a node has and the peers that ask for it, and does what the
// node's behaviour says. It changes nothing of an honest node.
type liar struct {
	p2p.Blocks
	x    *Node
	life *life
	to   peers.ID
}

// behaviour is how the node treats others now.
func (x *Node) behaviour() simnet.Behaviour {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.acts
}

// mute keeps a request waiting while the node does not answer.
func (l liar) mute() {
	b := l.x.behaviour()
	if b.MuteAfter == 0 {
		return
	}
	if _, out := l.x.Traffic(); out >= b.MuteAfter {
		<-l.life.over
	}
}

func (l liar) Manifest(id share.ID) ([]byte, wire.Reply) {
	l.mute()
	return l.Blocks.Manifest(id)
}

func (l liar) Check(id share.ID, p share.Piece, first share.Block, n int) (int, wire.Reply) {
	l.mute()
	return l.Blocks.Check(id, p, first, n)
}

func (l liar) Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply) {
	values, r := l.Blocks.Proof(id, p)
	b := l.x.behaviour()
	if b.Claims {
		return nil, wire.Reply{Status: wire.NotFound}
	}
	if b.Proof != nil && r.Status == wire.OK {
		values = append([]share.Hash(nil), values...)
		l.x.lie(func() { b.Proof(l.to, p, values, l.x.chance) })
	}
	return values, r
}

func (l liar) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	b := l.x.behaviour()
	if b.Claims {
		return 0, wire.Reply{Status: wire.NotFound}
	}
	if b.Rate > 0 { // a run is written whole, so it comes late in place of slowly
		select {
		case <-time.After(seconds(float64(len(dst)) / b.Rate)):
		case <-l.life.over:
		}
	}
	k, r := l.Blocks.ReadRun(id, p, first, n, dst)
	if b.Block != nil && r.Status == wire.OK {
		l.x.lie(func() { b.Block(l.to, p, first, dst[:k], l.x.chance) })
	}
	return k, r
}

// lie calls what draws from the node's chance, and may remember what it did.
func (x *Node) lie(f func()) {
	x.chanceMu.Lock()
	defer x.chanceMu.Unlock()
	f()
}

// bend changes the messages of the node on their way out. What a flooder adds is sent
// along with its other messages, ten times a second while it fetches.
func (x *Node) bend(to peers.ID, frame []byte) [][]byte {
	b := x.behaviour()
	out := [][]byte{frame}
	if b.Frame != nil {
		x.lie(func() { out = b.Frame(to, frame, x.chance) })
	}
	junk := simnet.Junk()
	for i := range b.Flood / 10 {
		out = append(out, junk[i%len(junk)])
	}
	return out
}
