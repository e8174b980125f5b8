package actors

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/beacon"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// How this node talks to beacons.
const (
	maxBeacons   = 64              // at a time
	meetSoon     = time.Second     // from a change of what is to be announced
	meetAnew     = time.Minute     // from one look at what is to be announced to the next
	seekSoonest  = 5 * time.Second // from one question about a share to the next; doubles
	seekRarest   = time.Minute     //
	beaconRarest = 5 * time.Minute // between attempts to reach a beacon, and to tell it something that it does not answer
	leastTTL     = time.Minute     // the shortest that is believed
	seekPadding  = 2 << 10         // so that the answer may be a few KiB long
)

// Meeting is a share at a beacon, and the key that stands for it there.
type Meeting struct {
	Beacon peers.Addr
	Key    share.Hash
}

// beacons announces to beacons what this node has, and asks them who has what it wants.
type beacons struct {
	s     *system.System
	net   Network
	own   *actor.PID // this node's own beacon; nil: there is none
	say   func() []Meeting
	posts map[peers.ID]*beaconPost
	links linkNumber // opened so far
	look  time.Time  // when it is looked what is to be announced
	addrs []string   // of this node, when it was last looked
	wake  system.Alarm
}

// beaconPost is one beacon.
type beaconPost struct {
	at     peers.Addr
	pid    *actor.PID
	calls  *peers.Calls
	link   Link                     // nil: none
	number linkNumber               // of the link; messages of an older one are ignored
	up     bool                     // it can be sent messages
	away   bool                     // it was said that it cannot be reached
	stood  bool                     // it has answered since it can be sent messages
	other  bool                     // it was said that it is not a beacon
	full   bool                     // it was said that it has no room
	keys   map[share.Hash]time.Time // to be announced, and when next
	said   []share.Hash             // of keys: announced, and not answered
	quiet  time.Time                // nothing is announced before
	asks   map[share.Hash]*beaconAsk
}

// beaconAsk is a share that is being looked for.
type beaconAsk struct {
	share  share.ID
	finder *actor.PID
	next   time.Time
	tries  int
	open   bool // an answer is awaited
}

func newBeacons(s *system.System, net Network, own *actor.PID, say func() []Meeting) *beacons {
	return &beacons{s: s, net: net, own: own, say: say, posts: map[peers.ID]*beaconPost{}}
}

func (b *beacons) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		b.look = b.s.Now()
	case MeetingsChanged:
		b.look = times.Earliest(b.look, b.s.Now().Add(meetSoon))
	case SeekAt:
		b.seek(ctx, m)
	case linkUp:
		b.linkUp(ctx, m)
	case linkDown:
		b.linkDown(ctx, m)
	case wire.Announced:
		b.announced(ctx, m)
	case wire.Found:
		b.found(ctx, m)
	case *actor.Terminated:
		b.ended(ctx, b.posts[b.peerOf(m.Who)])
	case *actor.DeadLetterResponse:
		b.unheard(ctx, m.Target)
	case linkWaits, system.Unreadable, system.WakeDue:
	case *actor.Stopping:
		b.leave(ctx)
		return
	case *actor.Restarting:
		b.stop(ctx)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	b.tick(ctx)
}

// peerOf returns the peer that an actor belongs to.
func (b *beacons) peerOf(pid *actor.PID) peers.ID {
	if pid.Equal(b.own) {
		return b.s.Self()
	}
	return peers.ID(pid.Address)
}

// post returns the post of a beacon, and makes it if it does not exist. It is nil if there are
// too many, or if the beacon named is this node, which is not one.
func (b *beacons) post(at peers.Addr) *beaconPost {
	p := b.posts[at.ID]
	if p == nil {
		pid := b.own
		if at.ID != b.s.Self() {
			pid = b.s.Remote(at.ID, BeaconName)
		}
		if len(b.posts) >= maxBeacons || pid == nil {
			return nil
		}
		p = &beaconPost{at: peers.Addr{ID: at.ID}, pid: pid, keys: map[share.Hash]time.Time{}, asks: map[share.Hash]*beaconAsk{}}
		b.posts[at.ID] = p
		b.callAnew(p)
	}
	was := slices.DeleteFunc(slices.Clone(p.at.Addrs), func(a string) bool { return slices.Contains(at.Addrs, a) })
	all := slices.Concat(at.Addrs, was) // what was said first makes way
	p.at.Addrs = all[:min(len(all), maxAddrs)]
	return p
}

// callAnew makes a beacon due to be called at once.
func (b *beacons) callAnew(p *beaconPost) {
	p.calls = peers.NewCalls([]peers.ID{p.at.ID}, b.s.Seed("beacon "+string(p.at.ID)))
	p.calls.Rarest = beaconRarest
}

// tick checks what is to be announced, calls beacons, tells them what is due, and sets the alarm.
func (b *beacons) tick(ctx actor.Context) {
	now := b.s.Now()
	if !b.look.After(now) {
		b.look = now.Add(meetAnew) // not every change is told: the node gets an address
		b.compare(ctx, now)
	}
	next := b.look
	for _, id := range slices.Sorted(maps.Keys(b.posts)) {
		p := b.posts[id]
		if len(p.keys)+len(p.asks) == 0 {
			b.hangUp(ctx, p)
			delete(b.posts, id)
			continue
		}
		next = times.Earliest(next, b.call(ctx, p, now))
		if p.up {
			next = times.Earliest(next, b.speak(ctx, p, now))
		}
	}
	b.wake.Set(b.s, ctx, next)
}

// compare adds what is now to be announced, and withdraws what no longer is. If this node has other addresses than before, all of it is
// announced again.
func (b *beacons) compare(ctx actor.Context, now time.Time) {
	if is := b.net.Addrs(); !slices.Equal(is, b.addrs) {
		b.addrs = is
		for _, p := range b.posts {
			p.due(now)
		}
	}
	wanted := map[peers.ID]map[share.Hash]bool{}
	for _, m := range b.say() {
		p := b.post(m.Beacon)
		if p == nil {
			continue
		}
		if wanted[p.at.ID] == nil {
			wanted[p.at.ID] = map[share.Hash]bool{}
		}
		wanted[p.at.ID][m.Key] = true
		if _, known := p.keys[m.Key]; !known {
			p.keys[m.Key] = now
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.posts)) {
		p := b.posts[id]
		gone := p.sorted(func(k share.Hash, _ time.Time) bool { return !wanted[id][k] })
		for _, k := range gone {
			delete(p.keys, k)
		}
		p.said = slices.DeleteFunc(slices.Clone(p.said), func(k share.Hash) bool { return !wanted[id][k] })
		if p.up {
			b.withdraw(ctx, p, gone)
		}
	}
}

// due has everything announced again. An answer that is awaited still is not about that.
func (p *beaconPost) due(now time.Time) {
	p.said = nil
	for k := range p.keys {
		p.keys[k] = now
	}
}

// sorted returns the keys for which is returns true, those first that are due longest.
func (p *beaconPost) sorted(is func(share.Hash, time.Time) bool) (out []share.Hash) {
	for k, at := range p.keys {
		if is(k, at) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b share.Hash) int { return cmp.Or(p.keys[a].Compare(p.keys[b]), bytes.Compare(a[:], b[:])) })
	return out
}

// withdraw takes back what was announced, and awaits no answer.
func (b *beacons) withdraw(ctx actor.Context, p *beaconPost, keys []share.Hash) {
	for some := range slices.Chunk(keys, wire.MaxBeaconKeys) {
		ctx.Send(p.pid, wire.Announce{Keys: some, Addrs: b.net.Addrs(), Gone: true})
	}
}

// call calls a beacon that is due, and gives up a call that takes too long.
func (b *beacons) call(ctx actor.Context, p *beaconPost, now time.Time) (next time.Time) {
	due, late, next := p.calls.Due(now)
	if len(late) > 0 {
		b.hangUp(ctx, p)
	}
	if len(due) == 0 {
		return next
	}
	if _, connected := b.net.Where(p.at.ID); connected || p.pid == b.own {
		b.begin(ctx, p)
		return next
	}
	b.links++
	p.number = b.links
	p.link = b.net.Open(p.at, share.ID{}, nil, &sink{b.s, ctx.Self(), p.number})
	return next
}

// begin makes everything due again at a beacon, which may have forgotten what it knew.
func (b *beacons) begin(ctx actor.Context, p *beaconPost) {
	now := b.s.Now()
	p.up, p.stood, p.quiet = true, false, now
	ctx.Watch(p.pid)
	p.due(now)
	for _, a := range p.asks {
		*a = beaconAsk{share: a.share, finder: a.finder, next: now}
	}
}

// speak tells a beacon what is due, in one Announce at a time: its answer is about those keys alone. next is when more
// will be due.
func (b *beacons) speak(ctx actor.Context, p *beaconPost, now time.Time) (next time.Time) {
	if !p.quiet.After(now) {
		due := p.sorted(func(_ share.Hash, at time.Time) bool { return !at.After(now) })
		if p.said = due[:min(len(due), wire.MaxBeaconKeys)]; len(due) > 0 {
			ctx.Request(p.pid, wire.Announce{Keys: p.said, Addrs: b.net.AddrsFor(p.at.ID)})
			p.quiet = now.Add(beaconRarest)
		}
		for _, k := range p.said {
			p.keys[k] = now // if it is not answered, the others come first
		}
	}
	for _, at := range p.keys {
		if at.Before(p.quiet) {
			at = p.quiet
		}
		next = times.Earliest(next, at)
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.asks), func(a, b share.Hash) int { return bytes.Compare(a[:], b[:]) }) {
		a := p.asks[k]
		if !a.next.After(now) {
			ctx.Request(p.pid, wire.Seek{Key: k, Padding: seekPadding})
			a.open, a.next = true, now.Add(min(seekSoonest<<min(a.tries, 8), seekRarest))
			a.tries++
		}
		next = times.Earliest(next, a.next)
	}
	return next
}

// from returns the beacon that sent the answer; nil: not one that was asked.
func (b *beacons) from(ctx actor.Context) *beaconPost {
	p := b.posts[senderOf(b.s, ctx)]
	if p == nil || !p.up {
		return nil
	}
	p.stood = true
	hangUp(&p.link) // the connection stays up without it
	p.calls.Stands(p.at.ID, b.s.Now())
	return p
}

func (b *beacons) announced(ctx actor.Context, m wire.Announced) {
	p := b.from(ctx)
	if p == nil {
		return
	}
	now := b.s.Now()
	again := now.Add(min(max(m.TTL, leastTTL), beacon.TTL) / 2)
	if m.Refused != 0 && m.Retry > 0 {
		again = times.Earliest(again, now.Add(max(m.Retry, meetSoon)))
	}
	p.quiet = now
	switch beacon.Refusal(m.Refused) {
	case 0, beacon.NoAddress:
	case beacon.TooOften:
		p.quiet = again
	default:
		if !p.full {
			p.full = true
			b.s.Log().Warn("a beacon has no room for all that is announced to it: some shares are not found through it; name another beacon in their tickets", "beacon", p.at.ID)
		}
	}
	for _, k := range p.said {
		p.keys[k] = again
	}
	p.said = nil
}

func (b *beacons) found(ctx actor.Context, m wire.Found) {
	p := b.from(ctx)
	if p == nil || p.asks[m.Key] == nil || !p.asks[m.Key].open {
		return
	}
	a := p.asks[m.Key]
	a.open = false
	if m.Retry > 0 {
		a.next = b.s.Now().Add(max(m.Retry, meetSoon))
	}
	for _, x := range m.Peers {
		if i := slices.Index(x.Addrs, peers.ThroughNamer); i >= 0 {
			x.Addrs[i] = peers.Through(p.at.ID)
		}
	}
	if len(m.Peers) > 0 {
		ctx.Send(a.finder, PeersNamed{Share: a.share, By: p.at.ID, Via: peers.ViaBeacon, Peers: m.Peers})
	}
}

func (b *beacons) seek(ctx actor.Context, m SeekAt) {
	for _, p := range b.posts {
		maps.DeleteFunc(p.asks, func(_ share.Hash, a *beaconAsk) bool { return a.share == m.Share })
	}
	for _, at := range m.At {
		p := b.post(at.Beacon)
		if p == nil {
			continue
		}
		p.asks[at.Key] = &beaconAsk{share: m.Share, finder: ctx.Sender(), next: b.s.Now()}
		if !p.up && p.link == nil {
			b.callAnew(p)
		}
	}
}

func (b *beacons) on(link linkNumber) *beaconPost {
	for _, p := range b.posts {
		if p.link != nil && p.number == link {
			return p
		}
	}
	return nil
}

func (b *beacons) linkUp(ctx actor.Context, m linkUp) {
	if p := b.on(m.from()); p != nil {
		p.away = false
		b.begin(ctx, p)
	}
}

func (b *beacons) linkDown(ctx actor.Context, m linkDown) {
	if p := b.on(m.from()); p != nil {
		level := slog.LevelDebug
		if !p.up && !p.away && len(p.keys) > 0 { // tickets of this node name it
			level, p.away = slog.LevelWarn, true
		}
		b.s.Log().Log(context.Background(), level, "a beacon cannot be reached", "beacon", p.at.ID, "error", m.err)
		b.over(ctx, p)
	}
}

// ended notes that a beacon has gone, or that the node is not one.
func (b *beacons) ended(ctx actor.Context, p *beaconPost) {
	if p != nil && b.answersElse(p) && !p.other && len(p.keys) > 0 {
		p.other = true
		b.s.Log().Warn("a node that is named as a beacon is not a beacon, or is of an older version: nobody is found through it; name an up-to-date beacon instead, and make new tickets in place of those that name the old one", "beacon", p.at.ID)
	}
	b.over(ctx, p)
}

// answersElse says whether a node is connected, and has not answered as a beacon.
func (b *beacons) answersElse(p *beaconPost) bool {
	_, connected := b.net.Where(p.at.ID)
	return connected && !p.stood
}

// unheard notes that a message was not received. Of one that crossed the network it is not said where
// it went; that the actor there is not there is said as well, since it is watched.
func (b *beacons) unheard(ctx actor.Context, at *actor.PID) {
	if at != nil {
		b.over(ctx, b.posts[b.peerOf(at)])
	}
}

// over stops talking to a beacon until the next call.
func (b *beacons) over(ctx actor.Context, p *beaconPost) {
	if p != nil {
		b.hangUp(ctx, p)
		p.calls.Ended(p.at.ID, 0, b.s.Now())
	}
}

func (b *beacons) hangUp(ctx actor.Context, p *beaconPost) {
	hangUp(&p.link)
	if p.up {
		p.up = false
		ctx.Unwatch(p.pid)
	}
}

// leave takes everything back that was announced, and hangs up.
func (b *beacons) leave(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(b.posts)) {
		if p := b.posts[id]; p.up {
			b.withdraw(ctx, p, p.sorted(func(share.Hash, time.Time) bool { return true }))
		}
	}
	b.stop(ctx)
}

func (b *beacons) stop(ctx actor.Context) {
	b.wake.Stop()
	for _, p := range b.posts {
		b.hangUp(ctx, p)
	}
}

// ---- its messages ----

// MeetingsChanged, API -> Node -> Beacons: what is to be announced has changed.
type MeetingsChanged struct{}

// SeekAt, Finder -> Beacons: who has a share, according to these beacons? Answered with PeersNamed
// whenever they know somebody, until the next SeekAt of the share; with no At, nobody is asked any more.
type SeekAt struct {
	Share share.ID
	At    []Meeting
}
