package actors

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A clientLab is a leaseClient; the test plays its coordinator, its LeaseManager and one pool,
// that of the source "x", which has all of 8 pieces.
type clientLab struct {
	*system.System
	w        *system.World
	id       share.ID
	client   *actor.PID
	pool     *actor.PID
	seat     *actor.PID
	may      *share.Set          // what the LeaseManager may lease on x
	requests []wire.LeaseRequest // those that the coordinator got
	told     []any               // what else the coordinator was told
	grants   []leasemgr.Lease    // what the LeaseManager leases
	excused  int                 // how often it was told that a source is not late
}

func newClientLab(t *testing.T) *clientLab {
	w, n, log := newWorld(1, "a")
	m, _ := testShare(t, 8<<20)
	k := &clientLab{System: n[0], w: w, id: m.ID(), may: share.NewSet(8)}
	t.Cleanup(func() { closeNode(t, k.System); log.None(t) })
	finder := k.Spawn(nil, "finder", 100, receive(func(actor.Context) {}), system.OnPanicStop)
	k.pool = k.Spawn(nil, "pool", 100, receive(k.relay), system.OnPanicStop)
	k.seat = k.Spawn(nil, "seat", 100, receive(k.coordinate), system.OnPanicStop)
	k.Export(coordinatorName(k.id), k.seat)
	cfg := FleetConfig{Coordinator: peers.Addr{ID: "a"}}
	k.client = k.Spawn(nil, "client", 100, func() actor.Actor {
		c := newLeaseClient(k.System, &simNode{id: "a"}, finder, nil, k.id, m.Layout(), cfg, share.NewSet(8))
		c.leases = receive(k.lease)
		return c
	}, system.OnPanicStop)
	w.Run(time.Second) // it joins
	k.from(k.pool, SourceUp{"x"}, SourceHas{"x", share.FullSet(8)})
	return k
}

// relay is the pool, or anything else that sends something to the client.
func (k *clientLab) relay(ctx actor.Context) {
	if m, ok := ctx.Message().(say); ok {
		ctx.Request(k.client, m.what)
	}
}

func (k *clientLab) coordinate(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case wire.Subscribe:
		ctx.Respond(wire.SubscribeResult{Share: k.id, Accepted: true})
	case wire.LeaseRequest:
		k.requests = append(k.requests, m)
	case wire.PieceDone, wire.Have, wire.HaveMap, wire.SourceDown, wire.LeaseProgress:
		k.told = append(k.told, m)
	default:
		k.relay(ctx)
	}
}

// hears fails the test unless the coordinator was told exactly this since the last look.
func (k *clientLab) hears(t *testing.T, want ...any) {
	t.Helper()
	k.w.Run(time.Second)
	if !reflect.DeepEqual(k.told, want) {
		t.Errorf("the coordinator was told %+v, want %+v", k.told, want)
	}
	k.told = nil
}

// rejoin makes the client lose its coordinator, and find it again.
func (k *clientLab) rejoin() {
	k.from(k.seat, wire.SubscribeResult{Share: k.id, Reason: wire.Reason{Prose: "for a test"}, Retry: time.Second})
	k.w.Run(2 * time.Second)
}

// lease is the LeaseManager, which remembers what it may lease, and leases what the test says.
func (k *clientLab) lease(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case SourceHas:
		k.may = share.NewSet(8)
		if m.Have != nil {
			k.may.Union(m.Have)
		}
	case SourceHasMore:
		for _, p := range m.Pieces {
			k.may.Add(p)
		}
	case SourceHasNot:
		for _, p := range m.Pieces {
			k.may.Remove(p)
		}
	case PlanQuery:
		ctx.Respond(PlanStatus{})
	case LeaseRequest:
		ctx.Respond(LeaseResponse{Leases: k.grants, Refused: leasemgr.Refusal{Reason: leasemgr.NoneHere}})
	case SourceExcused:
		k.excused++
	}
}

// from makes an actor send something to the client, and runs all that follows.
func (k *clientLab) from(who *actor.PID, what ...any) {
	for _, m := range what {
		k.Send(who, say{m})
		k.w.Settle()
	}
}

// ask makes the pool ask for leases, and runs until the coordinator is asked.
func (k *clientLab) ask(t *testing.T) wire.LeaseRequest {
	t.Helper()
	had := len(k.requests)
	k.from(k.pool, LeaseRequest{Source: "x", Max: 2})
	if len(k.requests) != had+1 {
		t.Fatalf("asked the coordinator %d times, want once", len(k.requests)-had)
	}
	return k.requests[had]
}

func (k *clientLab) grant(token share.Token, pieces ...share.Piece) {
	m := wire.LeaseResponse{Share: k.id, Source: "x"}
	for i, p := range pieces {
		m.Leases = append(m.Leases, wire.Lease{Piece: p, Token: token + share.Token(i)})
	}
	k.from(k.seat, m)
}

// holds fails the test unless these are the pieces that may be leased.
func (k *clientLab) holds(t *testing.T, pieces ...share.Piece) {
	t.Helper()
	var got []share.Piece
	for p := range share.Piece(8) {
		if k.may.Has(p) {
			got = append(got, p)
		}
	}
	if !slices.Equal(got, pieces) {
		t.Errorf("may fetch %v, want %v", got, pieces)
	}
}

// A member of a fleet that its own node will coordinate joins as soon as it does.
func TestAMemberOfAFleetOfItsOwnNodeLooksForItSoon(t *testing.T) {
	k := newClientLab(t)
	k.Unexport(k.seat)
	k.from(k.seat, wire.SubscribeResult{Share: k.id, Reason: wire.Reason{Prose: "for a test"}, Retry: time.Second})
	k.w.Run(1500 * time.Millisecond) // it looked, and found nothing
	k.Export(coordinatorName(k.id), k.seat)
	k.told = nil
	k.w.Run(time.Second)
	k.hears(t, wire.HaveMap{Share: k.id, Pieces: 8, Bits: []byte{0}})
}

// What the core of a member decides is done: its LeaseManager is told what it may lease, the
// coordinator what is here and what others do not deliver, each in its own messages.
func TestAMemberDoesWhatItsCoreSays(t *testing.T) {
	k := newClientLab(t)
	k.ask(t)
	k.grant(100, 3, 5)
	k.holds(t, 3, 5)
	k.from(k.seat, wire.LeaseRevoked{Share: k.id, Source: "x", Items: []wire.Revoked{{Piece: 5, Token: 101}}})
	k.holds(t, 3)
	k.told = nil
	k.from(k.pool, PieceVerified{Piece: 3}, PieceVerified{Piece: 6})
	k.hears(t, wire.PieceDone{Share: k.id, Piece: 3, Token: 100}, wire.Have{Share: k.id, Pieces: []share.Piece{6}})
	k.from(k.seat, wire.FleetMembers{Share: k.id, Members: []peers.Addr{{ID: "b"}}})
	k.from(k.pool, LeaseReturned{"b", []ReturnedLease{{Piece: 1, Why: leasemgr.NotFound}, {Piece: 2, Why: leasemgr.Missed}, {Piece: 4, Why: leasemgr.BadData}}})
	k.hears(t, wire.SourceDown{Share: k.id, Source: "b", Member: true, Pieces: []share.Piece{1, 4}})
	k.w.Run(15 * time.Second) // nothing comes
	k.from(k.pool, PlanQuery{1, k.Now().Add(-10 * time.Second)})
	k.hears(t, wire.SourceDown{Share: k.id, Member: true, Pieces: []share.Piece{0, 1, 2, 4, 5, 7}})
	k.rejoin()
	k.hears(t, wire.SourceDown{Share: k.id, Source: "b", Member: true, Pieces: []share.Piece{1, 4}}, wire.HaveMap{Share: k.id, Pieces: 8, Bits: []byte{1<<3 | 1<<6}})
}

// A source outside that says that it is busy, or is held up by this node, is late neither to the LeaseManager nor to the coordinator.
func TestABusySourceOfAFleetIsNotLate(t *testing.T) {
	k := newClientLab(t)
	k.ask(t)
	k.grant(100, 3, 5)
	k.grants = []leasemgr.Lease{{Piece: 5, Token: 7}, {Piece: 3, Token: 8}}
	k.from(k.pool, LeaseRequest{Source: "x", Max: 2})
	for _, m := range []any{SourceBusy{"x"}, SourceExcused{"x"}} {
		k.told, k.excused = nil, 0
		k.from(k.pool, m)
		k.hears(t, wire.LeaseProgress{Share: k.id, Source: "x", Items: []wire.Progress{{Piece: 3, Token: 100}}})
		if k.excused == 0 {
			t.Errorf("after %T the LeaseManager thinks that x is late", m)
		}
	}
}

// A source of a fleet that has many to feed, and sends this node to others, surprises nobody: it is no bug.
func TestASourceOfAFleetMaySendToOthers(t *testing.T) {
	k := newClientLab(t)
	k.from(k.pool, SourceSent{"x"})
	k.ask(t)
	k.grant(100, 3)
	k.holds(t, 3)
}

// In a fleet a transfer is more patient with its leases, and with its sources.
func TestATransferInAFleetIsPatient(t *testing.T) {
	var cfg TransferConfig
	for _, secret := range []fleet.Secret{"", "the secret of a fleet"} {
		cfg.Fleet.Secret = secret
		got := (&transferActor{cmd: FetchShare{Config: cfg}}).leasing().Leases.Patience
		want := cfg.Leases.Patience
		if secret != "" {
			want = fleet.MemberPatience(want)
		}
		if got != want {
			t.Errorf("secret %q: %+v, want %+v", secret, got, want)
		}
	}
}
