package actors

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

const (
	maxTold   = 8                // peers that hear that this node serves a share on
	notBefore = 15 * time.Minute // until a peer that refused or has ended is told again
)

// mirror tells peers that this node serves a share on, so that they name it to whoever
// asks them for the share. They believe it for as long as the connection stands, so it
// repeats this after the connection was lost. peers.Calls decides when.
type mirror struct {
	s     *system.System
	net   Network
	m     ServeOn
	calls *peers.Calls
	posts []*post
	links linkNumber // opened so far
	wake  system.Alarm
}

// post is one of those peers.
type post struct {
	at     peers.Addr
	seeder *actor.PID
	link   Link       // nil: none
	number linkNumber // of the link; messages of an older one are ignored
}

func newMirror(s *system.System, net Network, m ServeOn) *mirror {
	x := &mirror{s: s, net: net, m: m}
	var ids []peers.ID
	for _, a := range m.Sources {
		if len(ids) < maxTold && a.ID != s.Self() && x.to(a.ID) == nil {
			x.posts = append(x.posts, &post{at: a, seeder: s.Remote(a.ID, SeederName)})
			ids = append(ids, a.ID)
		}
	}
	x.calls = peers.NewCalls(ids, s.Seed(fmt.Sprint("mirror ", m.Share)))
	x.calls.Rarest = cmp.Or(m.Again, x.calls.Rarest)
	return x
}

func (x *mirror) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, system.WakeDue:
	case linkUp:
		x.up(ctx, m)
	case linkDown:
		x.down(ctx, m)
	case linkWaits: // a call that waits too long is made again
	case wire.SubscribeResult:
		x.answered(ctx, m)
	case wire.Goodbye, wire.ShareGone:
		x.over(ctx, system.SenderPeer(ctx), notBefore)
	case *actor.Terminated:
		x.over(ctx, peers.ID(m.Who.Address), 0)
	case wire.HaveMap, wire.Have, *actor.DeadLetterResponse: // of a node that knows no mirrors; time will tell
	case *actor.Stopping, *actor.Restarting:
		x.stop(ctx)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	x.call(ctx)
}

// call makes the calls that are due, and gives up those that take too long.
func (x *mirror) call(ctx actor.Context) {
	due, late, next := x.calls.Due(x.s.Now())
	for _, id := range late {
		p := x.to(id)
		hangUp(&p.link)
		ctx.Unwatch(p.seeder)
		x.heard(id, errNoAnswer)
	}
	for _, id := range due {
		p := x.to(id)
		hangUp(&p.link)
		if _, connected := x.net.Where(id); connected {
			x.tell(ctx, p)
			continue
		}
		x.links++
		p.number = x.links
		p.link = x.net.Open(p.at, x.m.Share, x.m.Layout, &sink{x.s, ctx.Self(), p.number})
	}
	x.wake.Set(x.s, ctx, next)
}

// to returns the post of the peer whose link sent the message; nil if there is none, or
// if it has another link by now.
func (x *mirror) to(id peers.ID) *post {
	return x.post(func(p *post) bool { return p.at.ID == id })
}

func (x *mirror) on(link linkNumber) *post {
	return x.post(func(p *post) bool { return p.link != nil && p.number == link })
}

func (x *mirror) post(is func(*post) bool) *post {
	if i := slices.IndexFunc(x.posts, is); i >= 0 {
		return x.posts[i]
	}
	return nil
}

func (x *mirror) up(ctx actor.Context, m linkUp) {
	if p := x.on(m.from()); p != nil {
		x.tell(ctx, p)
	}
}

func (x *mirror) tell(ctx actor.Context, p *post) {
	x.s.ExportTo(p.at.ID, ctx.Self())
	ctx.Watch(p.seeder)
	ctx.Request(p.seeder, wire.Subscribe{Share: x.m.Share, Addrs: x.net.AddrsFor(p.at.ID), Nameable: true, Mirror: true, Offer: x.m.Heard != nil, Whole: x.m.Whole})
}

func (x *mirror) down(ctx actor.Context, m linkDown) {
	if p := x.on(m.from()); p != nil {
		x.over(ctx, p.at.ID, 0)
		x.heard(p.at.ID, m.err)
	}
}

func (x *mirror) answered(ctx actor.Context, m wire.SubscribeResult) {
	p := x.to(system.SenderPeer(ctx))
	switch {
	case p == nil || m.Share != x.m.Share:
	case m.Accepted:
		hangUp(&p.link) // the connection stays up without it
		x.calls.Stands(p.at.ID, x.s.Now())
		x.heard(p.at.ID, nil)
	default:
		x.over(ctx, p.at.ID, cmp.Or(m.Retry, x.m.Again, notBefore))
		x.heard(p.at.ID, &Unwanted{m.Reason, m.Retry})
	}
}

// errNoAnswer says that a peer did not answer a call.
var errNoAnswer = words.Error(peers.ErrUnreachable, "it does not answer")

func (x *mirror) heard(id peers.ID, err error) {
	if x.m.Heard != nil {
		x.m.Heard(id, err)
	}
}

// over withdraws what a peer was told, until the next call.
func (x *mirror) over(ctx actor.Context, id peers.ID, after time.Duration) {
	if p := x.to(id); p != nil {
		hangUp(&p.link)
		ctx.Unwatch(p.seeder)
		x.calls.Ended(id, after, x.s.Now())
	}
}

func (x *mirror) stop(ctx actor.Context) {
	x.wake.Stop()
	for _, p := range x.posts {
		hangUp(&p.link)
	}
	x.s.Unexport(ctx.Self())
}
