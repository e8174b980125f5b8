package system

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// receive is an actor made of one function.
func receive(f func(actor.Context)) func() actor.Actor {
	return func() actor.Actor { return actor.ReceiveFunc(f) }
}

// none is the outbox of a node without peers.
type none struct{}

func (none) Send(peers.ID, []byte) bool { return false }

// newNode is a system of its own in real time. It is closed when the test ends.
func newNode(t testing.TB) (*System, *rig.Errors) {
	log := &rig.Errors{}
	s := NewSystem(Real(slog.New(log)), "self", none{}, testCodec{})
	t.Cleanup(func() { closeNode(t, s); log.None(t) })
	return s, log
}

func closeNode(t testing.TB, s *System) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// deadLetters collects the types of the dead letters of a system.
func deadLetters(s *System) func() []any {
	var mu sync.Mutex
	var got []any
	s.EventStream.Subscribe(func(e any) {
		d, ok := e.(*actor.DeadLetterEvent)
		if !ok {
			return
		}
		// A Stop that arrives when the actor has stopped is not a lost message.
		if _, late := d.Message.(actor.SystemMessage); !late {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, d.Message)
		}
	})
	return func() []any { mu.Lock(); defer mu.Unlock(); return append([]any(nil), got...) }
}

// The messages of these tests.
type (
	ping struct {
		N   uint32
		Pad []byte
	}
	pong struct{ N uint32 }
	// local may not travel.
	local struct{}
	// later is not known to whoever decodes it.
	later struct{}
)

const (
	typePing = 1 + iota
	typePong
	typeLater
)

type testCodec struct{}

func (testCodec) Encode(msg any) (uint32, []byte, bool) {
	switch m := msg.(type) {
	case ping:
		return typePing, append(binary.BigEndian.AppendUint32(nil, m.N), m.Pad...), true
	case pong:
		return typePong, binary.BigEndian.AppendUint32(nil, m.N), true
	case later:
		return typeLater, nil, true
	}
	return 0, nil, false
}

func (testCodec) Decode(typ uint32, b []byte) (any, error) {
	switch {
	case typ != typePing && typ != typePong:
		return nil, fmt.Errorf("%w %d", wire.ErrUnknownType, typ)
	case len(b) < 4:
		return nil, errors.New("short")
	case typ == typePing:
		return ping{binary.BigEndian.Uint32(b), bytes.Clone(b[4:])}, nil
	}
	return pong{binary.BigEndian.Uint32(b)}, nil
}

// newWorld is a world with some nodes in it.
func newWorld(seed uint64, names ...peers.ID) (*World, []*System, *rig.Errors) {
	log := &rig.Errors{}
	w := NewWorld(seed)
	w.Log = slog.New(log)
	var nodes []*System
	for _, n := range names {
		nodes = append(nodes, NewSystem(w.Runtime(string(n)), n, w.Outbox(n), testCodec{}))
	}
	return w, nodes, log
}

func TestMain(m *testing.M) {
	Lean()
	goleak.VerifyTestMain(m)
}

func TestAskIsAnsweredByAnotherNode(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	echo := n[1].Spawn(nil, "echo", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			ctx.Respond(pong{m.N + 1})
		}
	}), OnPanicStop)
	n[1].Export("echo", echo)
	got, err := Ask[pong](context.Background(), n[0], n[0].Remote("b", "echo"), ping{N: 41})
	if err != nil || got.N != 42 {
		t.Fatal(got, err)
	}
	if w.Elapsed() != 20*time.Millisecond {
		t.Errorf("took %v, want a round trip of 20 ms", w.Elapsed())
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

// fixedDelay is a TaskDelay that can be changed.
func fixedDelay(d *time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return *d }
}
