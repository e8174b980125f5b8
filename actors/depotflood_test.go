package actors

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// line is an outbox that brings frames to one other system, in their order.
type line struct {
	frames chan []byte
	done   chan struct{}
}

func newLine() line { return line{make(chan []byte, 1<<16), make(chan struct{})} }

func (l line) Send(_ peers.ID, frame []byte) bool {
	l.frames <- frame
	return true
}

func (l line) bring(from peers.ID, to *system.System) {
	for {
		select {
		case f := <-l.frames:
			to.Deliver(from, f)
		case <-l.done:
			return
		}
	}
}

// busyLedger is one that says whose account a peer's is once it is free.
type busyLedger struct {
	Ledger
	asks *atomic.Int64
	free chan struct{}
}

func (l busyLedger) AccountOf(context.Context, peers.ID) (depot.Account, error) {
	l.asks.Add(1)
	<-l.free
	return 0, depot.ErrNoKey
}

func (busyLedger) Corrupt(error) bool { return false }

// awayKeep is a disk that is not there.
type awayKeep struct{ Keep }

func (awayKeep) Ready(context.Context, Ledger) error { return errors.New("away") }

// A peer that nobody knows asks a depot that is busy for more than it can answer. What waits for the ledger is bounded, as what waits in the
// mailbox is, and all is answered in the end.
func TestAPeerThatAsksADepotOftenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, back := newLine(), newLine()
		a := system.NewSystem(system.Real(nil), "a", there, wire.Codec{})
		b := system.NewSystem(system.Real(nil), "b", back, wire.Codec{})
		go there.bring("a", b)
		go back.bring("b", a)
		l := busyLedger{asks: &atomic.Int64{}, free: make(chan struct{})}
		d := newDepot(b, nil, nil, DepotConfig{Ledger: l, Keep: awayKeep{}, Reading: func() depot.Reading { return depot.Reading{Wall: b.Wall()} }})
		d.loaded, d.hourly, d.crawler.busy = true, b.Now().Add(everyHour), true
		b.Export(DepotName, b.Spawn(nil, "depot", depotBox, func() actor.Actor { return d }, system.OnPanicStop))
		answers := 0
		a.Spawn(nil, "asker", depotBox, receive(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				for range 1000 {
					ctx.Request(a.Remote("b", DepotName), wire.Holdings{})
				}
			case wire.HoldingsPage:
				answers++
			}
		}), system.OnPanicStop)
		synctest.Wait()
		if n := l.asks.Load(); n != 256 { // which a peer may have under way
			t.Errorf("%d requests of a peer wait for the ledger at once", n)
		}
		close(l.free)
		if synctest.Wait(); answers != 1000 {
			t.Errorf("%d are answered", answers)
		}
		closeNode(t, a)
		closeNode(t, b)
		close(there.done)
		close(back.done)
	})
}
