package actors

import (
	"errors"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// connection is a network with one connection.
type connection struct {
	Network
	up bool
}

func (c *connection) Where(peers.ID) (peers.Endpoint, bool) { return peers.Endpoint{}, c.up }

// A depot that is being closed takes no requests for a moment before its connection ends. It is away then, and
// not a node that keeps no shares.
func TestADepotThatIsBeingClosedIsAway(t *testing.T) {
	for _, closes := range []bool{false, true} {
		w, n, _ := newWorld(1, "a")
		s, net := n[0], &connection{up: true}
		var got []error
		s.Spawn(nil, "asker", 10, receive(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *actor.Started:
				self := ctx.Self()
				s.Spawn(ctx, "call", 10, func() actor.Actor {
					return &depotCall{s: s, net: net, m: AskDepot{Depot: peers.Addr{ID: "depot"}, Question: wire.Usage{}}, asker: self, depot: s.Remote("depot", DepotName)}
				}, system.OnPanicStop)
			case DepotAnswer:
				got = append(got, m.Err)
			}
		}), system.OnPanicStop)
		w.Run(depotAgain / 2)
		if len(got) != 0 {
			t.Fatal("it is given up at once:", got)
		}
		net.up = !closes
		w.Run(depotAgain)
		if want := map[bool]error{false: ErrNoDepot, true: ErrDepotAway}[closes]; len(got) != 1 || !errors.Is(got[0], want) {
			t.Errorf("closes %v: %v, want %v", closes, got, want)
		}
		closeNode(t, s)
	}
}
