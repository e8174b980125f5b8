package actors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

func TestMain(m *testing.M) {
	system.Lean()
	goleak.VerifyTestMain(m)
}

// receive is an actor made of one function.
func receive(f func(actor.Context)) func() actor.Actor {
	return func() actor.Actor { return actor.ReceiveFunc(f) }
}

// The messages of these tests.
type (
	ping struct{}
	pong struct{}
)

// none is the outbox of a node without peers.
type none struct{}

func (none) Send(peers.ID, []byte) bool { return false }

// newNode is a system of its own in real time. It is closed when the test ends.
func newNode(t testing.TB) (*system.System, *rig.Errors) {
	log := &rig.Errors{}
	s := system.NewSystem(system.Real(slog.New(log)), "self", none{}, wire.Codec{})
	t.Cleanup(func() { closeNode(t, s); log.None(t) })
	return s, log
}

// newWorld is a world with some nodes in it.
func newWorld(seed uint64, names ...peers.ID) (*system.World, []*system.System, *rig.Errors) {
	log := &rig.Errors{}
	w := system.NewWorld(seed)
	w.Log = slog.New(log)
	var nodes []*system.System
	for _, n := range names {
		nodes = append(nodes, system.NewSystem(w.Runtime(string(n)), n, w.Outbox(n), wire.Codec{}))
	}
	return w, nodes, log
}

func closeNode(t testing.TB, s *system.System) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}
