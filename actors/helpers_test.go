package actors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

func TestMain(m *testing.M) {
	system.Lean()
	goleak.VerifyTestMain(m)
}

// receive is an actor that is one function.
func receive(f func(actor.Context)) func() actor.Actor {
	return func() actor.Actor { return actor.ReceiveFunc(f) }
}

// The messages of these tests.
type (
	ping struct{}
	pong struct{}
)

// errorLog keeps the errors that are logged. Those that a test has not taken
// when it ends fail it.
type errorLog struct {
	mu  sync.Mutex
	got []string
}

func (l *errorLog) Enabled(_ context.Context, lv slog.Level) bool { return lv >= slog.LevelError }
func (l *errorLog) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l *errorLog) WithGroup(string) slog.Handler                 { return l }
func (l *errorLog) Handle(_ context.Context, r slog.Record) error {
	s := r.Message
	r.Attrs(func(a slog.Attr) bool { s += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, s)
	return nil
}

func (l *errorLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	return got
}

// none is the outbox of a node without peers.
type none struct{}

func (none) Send(peers.ID, []byte) bool { return false }

// newNode is a system of its own in real time. It is closed when the test ends.
func newNode(t testing.TB) (*system.System, *errorLog) {
	log := &errorLog{}
	s := system.NewSystem(system.Real(slog.New(log)), "self", none{}, wire.Codec{})
	t.Cleanup(func() { closeNode(t, s); noErrors(t, log) })
	return s, log
}

// newWorld is a world with some nodes in it.
func newWorld(seed uint64, names ...peers.ID) (*system.World, []*system.System, *errorLog) {
	log := &errorLog{}
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

func noErrors(t testing.TB, log *errorLog) {
	t.Helper()
	for _, e := range log.take() {
		t.Errorf("logged: %.2000s", e)
	}
}
