package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// DepotName is the name under which a depot is exported.
const DepotName = "depot"

// Errors of AskDepot.
var (
	ErrNoDepot   = errors.New("it keeps no shares for others")
	ErrDepotAway = errors.New("it does not answer")
)

// depotTime bounds the time to connect to a depot and get its answer.
const depotTime = 30 * time.Second

// depotAgain is when a request that nobody received is sent once more.
const depotAgain = time.Second

// AskDepot, API -> Node -> depotCall: a request to a depot, one of the messages of
// wire/depot.go and wire/passes.go. Answered with DepotAnswer.
type AskDepot struct {
	Depot    peers.Addr
	Question any
	// Changed hears what follows a wire.Usage that watches, and finally an error, which
	// ends the watch. It must not block.
	Changed func(change wire.HoldingChanged, over error)
}

// DepotAnswer, depotCall -> API.
type DepotAnswer struct {
	Depot  peers.ID
	Answer any // of wire/depot.go and wire/passes.go
	Err    error
	call   *actor.PID
}

// stopCall, API -> depotCall: nobody watches any more.
type stopCall struct{}

// AskDepot asks a depot, connecting to it if need be, for 30 s at most. stop ends a watch.
func (p *Program) AskDepot(ctx context.Context, m AskDepot) (answer any, stop func(), err error) {
	a, err := system.Ask[DepotAnswer](ctx, p.s, p.node, m)
	if err = errors.Join(err, a.Err); err != nil {
		return nil, nil, err
	}
	return a.Answer, func() { p.s.Send(a.call, stopCall{}) }, nil
}

// askDepot starts a depotCall.
func (n *node) askDepot(ctx actor.Context, m AskDepot) {
	n.started++
	asker := ctx.Sender()
	n.s.Spawn(ctx, fmt.Sprint("depot-call-", n.started), controlBox, func() actor.Actor {
		return &depotCall{s: n.s, net: n.deps.Network, m: m, asker: asker, depot: n.s.Remote(m.Depot.ID, DepotName)}
	}, system.OnPanicStop)
}

// depotCall connects to a depot, asks it one thing, and watches if that was asked for.
type depotCall struct {
	s      *system.System
	net    Network
	m      AskDepot
	asker  *actor.PID
	depot  *actor.PID
	link   Link
	told   bool // the answer has come
	again  bool // nobody received the request, and it is sent once more
	wake   system.Alarm
	giveUp time.Time
}

func (c *depotCall) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.begin(ctx)
	case linkUp:
		c.ask(ctx)
	case linkDown:
		c.down(ctx, m.err)
	case wire.Held, wire.HoldingsPage, wire.UsageReport, wire.PassKeyList, wire.Signed, wire.Paid:
		c.answered(ctx, m)
	case wire.HoldingChanged:
		c.changed(ctx, m)
	case system.Unreadable:
		c.fail(ctx, fmt.Errorf("%w: %w", peers.ErrProtocol, m.Err))
	case *actor.DeadLetterResponse:
		c.unheard(ctx)
	case *actor.Terminated:
		c.ended(ctx)
	case system.WakeDue:
		c.late(ctx)
	case stopCall:
		ctx.Stop(ctx.Self())
	case linkWaits:
	case *actor.Stopping, *actor.Restarting:
		c.stop()
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		system.Unexpected(ctx)
	}
}

func (c *depotCall) begin(ctx actor.Context) {
	c.giveUp = c.s.Now().Add(depotTime)
	c.wake.Set(c.s, ctx, c.giveUp)
	if c.m.Depot.ID == c.s.Self() {
		c.fail(ctx, errors.New("a node cannot be its own depot"))
		return
	}
	if _, connected := c.net.Where(c.m.Depot.ID); connected {
		c.ask(ctx)
		return
	}
	c.link = c.net.Open(c.m.Depot, share.ID{}, nil, &sink{c.s, ctx.Self(), 1})
}

func (c *depotCall) ask(ctx actor.Context) {
	if c.m.Changed != nil {
		c.s.ExportTo(c.m.Depot.ID, ctx.Self())
		ctx.Watch(c.depot)
	}
	ctx.Request(c.depot, c.m.Question)
}

func (c *depotCall) answered(ctx actor.Context, m any) {
	if c.told || system.SenderPeer(ctx) != c.m.Depot.ID {
		return
	}
	c.told = true
	c.wake.Stop()
	ctx.Send(c.asker, DepotAnswer{Depot: c.m.Depot.ID, Answer: m, call: ctx.Self()})
	if c.m.Changed == nil {
		ctx.Stop(ctx.Self())
	}
}

func (c *depotCall) changed(ctx actor.Context, m wire.HoldingChanged) {
	if c.m.Changed != nil && c.told && system.SenderPeer(ctx) == c.m.Depot.ID {
		c.m.Changed(m, nil)
	}
}

// down handles the end of the link, which does not matter once the answer has come.
func (c *depotCall) down(ctx actor.Context, err error) {
	c.link = nil
	if !c.told {
		c.fail(ctx, fmt.Errorf("%w: %w", ErrDepotAway, err))
		return
	}
	if c.m.Changed != nil {
		c.fail(ctx, ErrDepotAway)
	}
}

// unheard handles news that nobody received the request. A depot that is being closed looks for a
// moment like a node that is none: its connection ends last.
func (c *depotCall) unheard(ctx actor.Context) {
	_, connected := c.net.Where(c.m.Depot.ID)
	switch {
	case c.told || !connected:
		c.fail(ctx, ErrDepotAway)
	case !c.again:
		c.again = true
		c.wake.Set(c.s, ctx, c.s.Now().Add(depotAgain))
	default:
		c.fail(ctx, ErrNoDepot)
	}
}

// ended handles the end of a watch.
func (c *depotCall) ended(ctx actor.Context) {
	if c.told { // else somebody says that the request was not received
		c.fail(ctx, ErrDepotAway)
	}
}

// late handles a depot that has taken too long, or whose request is due once more.
func (c *depotCall) late(ctx actor.Context) {
	if c.told {
		return
	}
	if _, connected := c.net.Where(c.m.Depot.ID); !connected && c.again || !c.s.Now().Before(c.giveUp) {
		c.fail(ctx, ErrDepotAway)
		return
	}
	if c.again {
		c.wake.Set(c.s, ctx, c.giveUp)
		c.ask(ctx)
	}
}

// fail answers with an error, or tells the watcher, and ends the call.
func (c *depotCall) fail(ctx actor.Context, err error) {
	if !c.told {
		c.told = true
		ctx.Send(c.asker, DepotAnswer{Depot: c.m.Depot.ID, Err: err})
	} else if c.m.Changed != nil {
		c.m.Changed(wire.HoldingChanged{}, err)
	}
	ctx.Stop(ctx.Self())
}

func (c *depotCall) stop() {
	hangUp(&c.link)
	c.wake.Stop()
}
