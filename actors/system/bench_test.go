package system

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
)

// counter counts pings and reports when there were n.
func counter(n int) (func() actor.Actor, chan struct{}) {
	got, done := 0, make(chan struct{})
	return receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			if got++; got == n {
				close(done)
			}
		}
	}), done
}

// A message from outside to an actor of this node.
func BenchmarkTellLocal(b *testing.B) {
	for _, how := range []string{"Send", "Root.Send"} {
		b.Run(how, func(b *testing.B) {
			s, _ := newNode(b)
			f, done := counter(b.N)
			pid := s.Spawn(nil, "sink", b.N+1, f, OnPanicStop)
			var m any = ping{}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if how == "Send" {
					s.Send(pid, m)
				} else {
					s.Root.Send(pid, m)
				}
			}
			<-done
		})
	}
}

// A question and its answer between two actors of this node.
func BenchmarkAskLocal(b *testing.B) {
	s, _ := newNode(b)
	echo := s.Spawn(nil, "echo", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			ctx.Respond(pong{m.N})
		}
	}), OnPanicStop)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Ask[pong](context.Background(), s, echo, ping{}); err != nil {
			b.Fatal(err)
		}
	}
}

// A message to an actor of another node, through bytes and credit, over an outbox
// in memory.
func BenchmarkTellRemote(b *testing.B) {
	for _, size := range []int{32, 1024} {
		b.Run(map[int]string{32: "32B", 1024: "1KiB"}[size], func(b *testing.B) {
			x, y := joined(b)
			f, done := counter(b.N)
			y.Export("sink", y.Spawn(nil, "sink", 1, f, OnPanicStop))
			to := x.Remote("b", "sink")
			var m any = ping{Pad: make([]byte, size)}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for !x.remote.room("b") { // as an actor that minds its credit would
					time.Sleep(20 * time.Microsecond)
				}
				x.Send(to, m)
			}
			<-done
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// room reports whether the next message to a peer would be accepted for its credit.
func (r *remote) room(peer peers.ID) bool {
	s := r.session(peer)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.len() < maxWaiting
}

// A question to an actor of another node, and its answer.
func BenchmarkAskRemote(b *testing.B) {
	x, y := joined(b)
	y.Export("echo", y.Spawn(nil, "echo", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			ctx.Respond(pong{m.N})
		}
	}), OnPanicStop))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Ask[pong](context.Background(), x, x.Remote("b", "echo"), ping{}); err != nil {
			b.Fatal(err)
		}
	}
}

// A message delivered in a World, including random choices and the trace.
func BenchmarkWorld(b *testing.B) {
	w, n, _ := newWorld(1, "a", "b")
	f, _ := counter(-1)
	for _, s := range n {
		s.Export("sink", s.Spawn(nil, "sink", 1, f, OnPanicStop))
	}
	b.ReportAllocs()
	for b.Loop() {
		n[0].Send(n[0].Remote("b", "sink"), ping{})
		w.Run(time.Millisecond)
	}
	for _, s := range n {
		closeNode(b, s)
	}
}

// A node's system: made and closed.
func BenchmarkNewSystem(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		closeNode(b, NewSystem(Real(nil), "self", none{}, testCodec{}))
	}
}
