package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// What the Finder remembers for one share, at most. Peers are named by peers,
// so nobody may fill the memory of others with inventions.
const (
	maxKnown   = 512 // peers of a share
	maxNamedBy = 96  // of these, named by one peer
	maxAddrs   = 8   // addresses of a peer
)

// finder knows who is said to have a share, and tells the transfer of it. It
// dials nobody: a FetchPool does, and finds out whether it is true.
type finder struct {
	s      *System
	self   peers.ID
	wanted map[share.ID]*search
}

// search is what is known about one wanted share.
type search struct {
	transfer *actor.PID
	known    map[peers.ID]bool
	namedBy  map[peers.ID]int
}

func newFinder(s *System, self peers.ID) *finder {
	return &finder{s: s, self: self, wanted: map[share.ID]*search{}}
}

func (f *finder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case FindSources:
		f.find(ctx, m)
	case StopFinding:
		delete(f.wanted, m.Share)
	case PeersNamed:
		f.named(ctx, m)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		unexpected(ctx)
	}
}

func (f *finder) find(ctx actor.Context, m FindSources) {
	w := &search{transfer: ctx.Sender(), known: map[peers.ID]bool{f.self: true}, namedBy: map[peers.ID]int{}}
	f.wanted[m.Share] = w
	for _, a := range m.Known {
		if !w.known[a.ID] {
			w.tell(ctx, a, false)
		}
	}
}

func (f *finder) named(ctx actor.Context, m PeersNamed) {
	w := f.wanted[m.Share]
	if w == nil {
		return
	}
	for _, a := range m.Peers {
		switch {
		case w.known[a.ID] && m.By == f.self: // it has come to us: it can be reached
			w.tell(ctx, a, true)
		case w.known[a.ID], len(w.known) >= maxKnown, w.namedBy[m.By] >= maxNamedBy:
		default:
			w.namedBy[m.By]++
			w.tell(ctx, a, true)
		}
	}
}

// tell passes a peer on to the transfer.
func (w *search) tell(ctx actor.Context, a peers.Addr, named bool) {
	w.known[a.ID] = true
	a.Addrs = a.Addrs[:min(len(a.Addrs), maxAddrs)]
	ctx.Send(w.transfer, SourceFound{Addr: a, Named: named})
}
