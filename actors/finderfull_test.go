package actors

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Peers that name many that do not exist do not keep one from being found that comes by itself, or is on the local network.
func TestInventedPeersDoNotKeepOthersFromBeingFound(t *testing.T) {
	for _, via := range []peers.Via{peers.ViaItself, peers.ViaLAN, peers.ViaDHT} {
		sw := newSwarm(t, 1)
		n := sw.add("node", 1e6)
		s := n.program.s
		finder := s.Spawn(nil, "a-finder", 1000, func() actor.Actor { return newFinder(s, n, nil, nil) }, system.OnPanicStop)
		id, found := share.IDOf(nil), map[peers.ID]bool{}
		s.Spawn(nil, "a-transfer", 1000, receive(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *actor.Started:
				ctx.Request(finder, FindSources{Share: id})
			case SourceFound:
				found[m.Addr.ID] = true
			}
		}), system.OnPanicStop)
		sw.w.Settle()
		for liar := range 6 {
			for i := range maxNamedBy {
				s.Send(finder, PeersNamed{Share: id, By: peers.ID(fmt.Sprint("liar ", liar)), Via: peers.ViaPeer,
					Peers: []peers.Addr{{ID: peers.ID(fmt.Sprint("nobody ", liar, " ", i)), Addrs: []string{"/sim"}}}})
				sw.w.Settle()
			}
		}
		s.Send(finder, PeersNamed{Share: id, By: peers.ID(via.String()), Via: via, Peers: []peers.Addr{{ID: "honest", Addrs: []string{"/sim"}}}})
		sw.w.Settle()
		if !found["honest"] {
			t.Errorf("%v: after %d peers that six others named it is not found", via, len(found))
		}
		closeNode(t, s)
	}
}
