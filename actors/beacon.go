package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/beacon"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// BeaconName is the name under which a beacon is exported.
const BeaconName = "beacon"

// beaconBox bounds a beacon's mailbox; credit bounds what each peer sends.
const beaconBox = 1 << 16

// BeaconStatus is what a beacon remembers.
type BeaconStatus = beacon.Stats

// beaconActor remembers for others which peers have which share, and passes on what two peers with a code say to
// each other. Package beacon decides what to remember.
type beaconActor struct {
	s        *system.System
	net      Network
	placed   func(peers.ID) bool // as Deps.Placed
	table    *beacon.Table
	channels *beacon.Channels[*actor.PID] // with those that wait for an answer
	wake     system.Alarm
}

func newBeacon(s *system.System, net Network, placed func(peers.ID) bool) *beaconActor {
	return &beaconActor{s: s, net: net, placed: placed, table: beacon.New(s.Seed("beacon")), channels: beacon.NewChannels[*actor.PID](s.Seed("channels"))}
}

func (b *beaconActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case wire.Announce:
		b.announce(ctx, m)
	case wire.Seek:
		b.seek(ctx, m)
	case wire.Say:
		b.say(ctx, m)
	case system.WakeDue:
		b.deserted(ctx)
	case BeaconQuery:
		ctx.Respond(b.table.Stats(b.s.Now()))
	case *actor.DeadLetterResponse, system.Unreadable:
	case *actor.Stopping, *actor.Restarting:
		b.wake.Stop()
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		system.Unexpected(ctx)
	}
}

// where returns the sender of the message, the remote end of its connection, and the addresses
// that it gives. What this node announces to itself is taken at its word.
func (b *beaconActor) where(ctx actor.Context, addrs []string) (id peers.ID, at peers.Endpoint, all []peers.Endpoint) {
	id, all = senderOf(b.s, ctx), b.net.Endpoints(addrs)
	if id != b.s.Self() {
		at, _ = b.net.Where(id)
		return id, at, all
	}
	at.Reach = share.SameMachine
	for _, a := range all {
		at.Reach = min(at.Reach, a.Reach)
	}
	for i := range all {
		all[i].Host = at.Host
	}
	return id, at, all
}

func (b *beaconActor) announce(ctx actor.Context, m wire.Announce) {
	id, at, all := b.where(ctx, m.Addrs)
	now := b.s.Now()
	a := wire.Announced{TTL: beacon.TTL}
	if m.Gone {
		b.table.Withdraw(id, m.Keys, now)
	} else {
		placed := b.placed != nil && b.placed(id)
		refused, retry := b.table.Announce(id, at, all, placed, m.Keys, now)
		if refused == beacon.NoAddress && b.placed != nil && b.awaits(m.Addrs) {
			retry = placedSoon
		}
		a.Refused, a.Retry = uint8(refused), retry
	}
	if ctx.Sender() != nil {
		ctx.Respond(a)
	}
}

// placedSoon is when a peer that is about to get a place at this node's relay may announce again.
const placedSoon = 5 * time.Second

// awaits says whether a peer with these addresses is to be reached through this node.
func (b *beaconActor) awaits(addrs []string) bool {
	return slices.ContainsFunc(addrs, func(a string) bool { return strings.Contains(a, peers.Through(b.s.Self())) })
}

// seekSize is the length of a Seek's payload without its padding; foundSize is the greatest
// length of a Found's payload without its peers.
const (
	seekSize  = 34
	foundSize = 34 + 5
)

func (b *beaconActor) seek(ctx actor.Context, m wire.Seek) {
	if ctx.Sender() == nil {
		return
	}
	id, at, _ := b.where(ctx, nil)
	found, retry := b.table.Sample(id, at, m.Key, wire.MaxIntroduced, 2*(seekSize+m.Padding)-foundSize, b.s.Now())
	ctx.Respond(wire.Found{Key: m.Key, Peers: found, Retry: retry})
}

// say opens a channel, or passes on what is said in one.
func (b *beaconActor) say(ctx actor.Context, m wire.Say) {
	if ctx.Sender() == nil {
		return
	}
	id, at, _ := b.where(ctx, nil)
	now := b.s.Now()
	if m.Channel == 0 {
		n, refused, retry := b.channels.Open(id, at.Net, now)
		ctx.Respond(wire.Heard{Channel: n, Refused: uint8(refused), Retry: retry, Life: beacon.ChannelLife})
		return
	}
	to, heard, refused, retry := b.channels.Say(id, at.Net, m.Channel, m.Last, ctx.Sender(), now)
	switch {
	case heard:
		ctx.Send(to, wire.Heard{Channel: m.Channel, Body: m.Body, From: id})
	case to != nil:
		ctx.Send(to, wire.Heard{Channel: m.Channel, Refused: uint8(beacon.Used)})
	}
	if m.Last || refused != 0 {
		ctx.Respond(wire.Heard{Channel: m.Channel, Refused: uint8(refused), Retry: retry})
	}
	b.deserted(ctx)
}

// deserted answers those in whose channels nobody speaks any more.
func (b *beaconActor) deserted(ctx actor.Context) {
	b.wake.Set(b.s, ctx, b.channels.Deserted(b.s.Now(), func(n int, ear *actor.PID) {
		ctx.Send(ear, wire.Heard{Channel: n, Refused: uint8(beacon.Expired)})
	}))
}

// ---- the Node's side ----

// BeaconQuery, API -> Node -> beacon. Answered with BeaconStatus.
type BeaconQuery struct{}

// ErrNotABeacon says that a node is not a beacon.
var ErrNotABeacon = errors.New("this node is not a beacon")

// Beacon is what this node remembers as a beacon for others.
func (p *Program) Beacon(ctx context.Context) (BeaconStatus, error) {
	return system.Ask[BeaconStatus](ctx, p.s, p.node, BeaconQuery{})
}

// toBeacon forwards a message to the beacon, or to the actors that talk to other beacons.
func (n *node) toBeacon(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case Speak:
		n.speak(ctx, m)
	case stopSpeaking:
		n.stopSpeaking(ctx, m)
	case MeetingsChanged:
		if n.beacons != nil {
			ctx.Forward(n.beacons)
		}
	default:
		if n.beacon == nil {
			ctx.Respond(ErrNotABeacon)
			return
		}
		ctx.Forward(n.beacon)
	}
}

// meet starts the actor that serves as a beacon, and the one that talks to beacons.
func (n *node) meet(ctx actor.Context) {
	if n.deps.Beacon {
		n.beacon = n.s.Spawn(ctx, "beacon", beaconBox, func() actor.Actor { return newBeacon(n.s, n.deps.Network, n.deps.Placed) }, system.OnPanicRestart)
		n.s.Export(BeaconName, n.beacon)
	}
	if n.deps.Meetings != nil {
		n.beacons = n.s.Spawn(ctx, "beacons", controlBox, func() actor.Actor { return newBeacons(n.s, n.deps.Network, n.beacon, n.deps.Meetings) }, system.OnPanicRestart)
	}
}
