package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/beacon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/spoken"
	"github.com/piecelease/fetcher/wire"
)

// Why a ticket did not travel by a code.
var (
	ErrBeaconAway  = errors.New("the beacon does not answer")
	ErrCodeBusy    = errors.New("the beacon is too busy")
	ErrCodeUnknown = errors.New("the beacon knows no such code")
	ErrCodeUsed    = errors.New("the code has been used, or whoever made it has ended it")
	ErrCodeExpired = errors.New("the code has expired")
	ErrCodeAway    = errors.New("the other side has gone")
	errNoChannels  = words.Error(ErrBeaconAway, "that node is not a beacon, or is of an older version")
)

// How long a speaker waits for a beacon, or for the other side once it has spoken, and for
// the beacon to take its last message.
const (
	speakTime    = 30 * time.Second
	lastWordTime = 5 * time.Second
)

// Speak, API -> Node -> speaker: give a ticket to whoever knows a new code, or get one for a
// code. Answered with Spoken.
type Speak struct {
	Beacon peers.Addr
	Ticket string      // to give; "": to get one
	Code   spoken.Code // to get one by
	// Chance is random.
	Chance [ChanceSize]byte
	// Opened hears the code of a ticket to give, and how long it waits for somebody. It must
	// not block.
	Opened func(code spoken.Code, life time.Duration)
	serial uint64
}

// ChanceSize is the length of Speak.Chance: of a code, a half and a session ID.
const ChanceSize = 4 + 64 + 16

// Spoken, speaker -> API.
type Spoken struct {
	Ticket string // that was got
	Err    error
}

// stopSpeaking, API -> Node: whoever sent the Speak of this serial no longer waits.
type stopSpeaking struct{ serial uint64 }

// Through gives or gets a ticket, and returns the one that it has got. A code that is given ends with
// ctx.
func (m Speak) Through(ctx context.Context, p *Program) (ticket string, err error) {
	m.serial = p.handles.Add(1)
	a, err := system.Ask[Spoken](ctx, p.s, p.node, m)
	if err != nil {
		p.s.Send(p.node, stopSpeaking{m.serial})
		return "", err
	}
	return a.Ticket, a.Err
}

func speakerName(serial uint64) string { return fmt.Sprint("speaker-", serial) }

// speak starts a speaker.
func (n *node) speak(ctx actor.Context, m Speak) {
	asker := ctx.Sender()
	n.s.Spawn(ctx, speakerName(m.serial), controlBox, func() actor.Actor {
		return &speaker{s: n.s, net: n.deps.Network, m: m, asker: asker, beacon: n.s.Remote(m.Beacon.ID, BeaconName)}
	}, system.OnPanicStop)
}

// stopSpeaking stops a speaker, if it still runs.
func (n *node) stopSpeaking(ctx actor.Context, m stopSpeaking) {
	for _, pid := range ctx.Children() {
		if strings.HasSuffix(pid.Id, "/"+speakerName(m.serial)) {
			ctx.Stop(pid)
		}
	}
}

// speaker is one side of an exchange at a beacon. Package spoken decides what it says.
type speaker struct {
	s       *system.System
	net     Network
	m       Speak
	asker   *actor.PID
	beacon  *actor.PID
	link    Link
	channel int // 0: none
	sharer  *spoken.Sharer
	fetcher *spoken.Fetcher
	open    func()  // tells the code when the beacon passes on what comes; then nil
	met     bool    // the other side has spoken
	result  *Spoken // to be answered with once the beacon has the last word; nil: it goes on
	wake    system.Alarm
	giveUp  time.Time
}

func (x *speaker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		x.begin(ctx)
	case linkUp:
		x.start(ctx)
	case linkDown:
		x.down(ctx, m)
	case wire.Heard:
		x.heard(ctx, m)
	case system.Unreadable:
		x.end(ctx, "", fmt.Errorf("%w: %w", peers.ErrProtocol, m.Err))
	case *actor.DeadLetterResponse, *actor.Terminated:
		x.unheard(ctx)
	case system.WakeDue:
		x.late(ctx)
	case linkWaits:
	case *actor.Stopping, *actor.Restarting:
		x.stop(ctx)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		system.Unexpected(ctx)
	}
}

func (x *speaker) begin(ctx actor.Context) {
	x.within(ctx, speakTime)
	if x.m.Beacon.ID == x.s.Self() {
		x.end(ctx, "", errors.New("the beacon of a code must be a node other than this one"))
		return
	}
	x.link = x.net.Open(x.m.Beacon, share.ID{}, nil, &sink{x.s, ctx.Self(), 1})
}

// within sets the time until which something must happen.
func (x *speaker) within(ctx actor.Context, d time.Duration) {
	x.giveUp = x.s.Now().Add(d)
	x.wake.Set(x.s, ctx, x.giveUp)
}

// start says the first thing.
func (x *speaker) start(ctx actor.Context) {
	ctx.Watch(x.beacon)
	if x.m.Ticket != "" {
		x.say(ctx, wire.Say{})
		return
	}
	x.channel = x.m.Code.Channel
	side, first := spoken.NewFetcher(x.m.Code, string(x.s.Self()), [80]byte(x.m.Chance[4:]))
	x.fetcher = side
	x.say(ctx, wire.Say{Channel: x.channel, Body: first})
}

func (x *speaker) say(ctx actor.Context, m wire.Say) {
	x.within(ctx, speakTime)
	ctx.Request(x.beacon, m)
}

func (x *speaker) heard(ctx actor.Context, m wire.Heard) {
	switch {
	case system.SenderPeer(ctx) != x.m.Beacon.ID:
	case x.result != nil: // it has the last word
		if m.Refused != 0 && x.result.Err == nil {
			x.result.Err = ErrCodeAway
		}
		x.finish(ctx)
	case x.open != nil && beacon.Refusal(m.Refused) == beacon.Deaf:
		x.open()
		x.open = nil
	case m.Refused != 0:
		x.channel = 0 // there is nobody to be told
		x.end(ctx, "", x.why(m))
	case x.m.Ticket != "" && x.channel == 0:
		x.opened(ctx, m)
	case m.From == "" || m.Channel != x.channel:
		x.end(ctx, "", peers.ErrProtocol)
	case x.fetcher != nil:
		x.met = true
		x.fetch(ctx, m)
	default:
		x.met = true
		x.give(ctx, m)
	}
}

// why returns what a refusal means to this side.
func (x *speaker) why(m wire.Heard) error {
	switch beacon.Refusal(m.Refused) {
	case beacon.NoChannel:
		return ErrCodeUnknown
	case beacon.Expired:
		return ErrCodeExpired
	case beacon.Used:
		if x.met {
			return ErrCodeAway
		}
		return ErrCodeUsed
	case beacon.Deaf:
		return ErrCodeAway
	}
	if m.Retry > 0 {
		return fmt.Errorf("%w: try again in %s", ErrCodeBusy, words.Duration(m.Retry.Round(time.Second)+time.Second))
	}
	return ErrCodeBusy
}

// opened makes the code, and waits for somebody who knows it.
func (x *speaker) opened(ctx actor.Context, m wire.Heard) {
	if m.Channel == 0 {
		x.end(ctx, "", peers.ErrProtocol)
		return
	}
	c := x.m.Chance
	x.channel = m.Channel
	code := spoken.New(m.Channel, uint32(c[0])|uint32(c[1])<<8|uint32(c[2])<<16)
	side, err := spoken.NewSharer(code, string(x.s.Self()), x.m.Ticket, [64]byte(c[4:]))
	if err != nil {
		x.end(ctx, "", err)
		return
	}
	life := min(max(m.Life, lastWordTime), beacon.ChannelLife)
	x.sharer = side
	x.say(ctx, wire.Say{Channel: x.channel})
	x.say(ctx, wire.Say{Channel: x.channel}) // refused, as this side is waiting: then the beacon knows that it is
	x.within(ctx, life)
	x.open = func() { x.m.Opened(code, life) }
}

func (x *speaker) give(ctx actor.Context, m wire.Heard) {
	say, done, err := x.sharer.Hear(m.Body, string(m.From))
	switch {
	case err != nil:
		x.end(ctx, "", err)
	case done:
		x.lastly(ctx, Spoken{}, say)
	default:
		x.say(ctx, wire.Say{Channel: x.channel, Body: say})
	}
}

func (x *speaker) fetch(ctx actor.Context, m wire.Heard) {
	say, ticket, err := x.fetcher.Hear(m.Body, string(m.From))
	switch {
	case err != nil:
		x.end(ctx, "", err)
	case ticket != "":
		x.channel = 0 // the sharer has ended it
		x.end(ctx, ticket, nil)
	default:
		x.say(ctx, wire.Say{Channel: x.channel, Body: say})
	}
}

// end answers; if the other side may still wait, it is told first that nothing more comes.
func (x *speaker) end(ctx actor.Context, ticket string, err error) {
	r := Spoken{ticket, err}
	if x.channel != 0 && x.result == nil {
		x.lastly(ctx, r, nil)
		return
	}
	x.result = &r
	x.finish(ctx)
}

// lastly says the last word, and ends when the beacon has it.
func (x *speaker) lastly(ctx actor.Context, r Spoken, body []byte) {
	x.result = &r
	ctx.Request(x.beacon, wire.Say{Channel: x.channel, Body: body, Last: true})
	x.within(ctx, lastWordTime)
}

func (x *speaker) finish(ctx actor.Context) {
	x.channel = 0
	ctx.Send(x.asker, *x.result)
	ctx.Stop(ctx.Self())
}

func (x *speaker) down(ctx actor.Context, m linkDown) {
	x.link = nil
	x.away(ctx, m.err)
}

// away handles a beacon that cannot be reached, or has gone.
func (x *speaker) away(ctx actor.Context, err error) {
	x.channel = 0
	if x.result == nil {
		x.result = &Spoken{Err: ErrBeaconAway}
		switch {
		case errors.Is(err, ErrBeaconAway):
			x.result.Err = err
		case err != nil:
			x.result.Err = fmt.Errorf("%w: %w", ErrBeaconAway, err)
		}
	}
	x.finish(ctx)
}

// unheard handles news that nobody receives what is said.
func (x *speaker) unheard(ctx actor.Context) {
	if _, connected := x.net.Where(x.m.Beacon.ID); connected && !x.met && x.sharer == nil {
		x.away(ctx, errNoChannels)
	} else {
		x.away(ctx, nil)
	}
}

// late handles that somebody has taken too long.
func (x *speaker) late(ctx actor.Context) {
	switch {
	case x.s.Now().Before(x.giveUp):
	case x.result != nil:
		x.finish(ctx)
	case x.met, x.fetcher != nil:
		x.end(ctx, "", ErrCodeAway)
	case x.sharer != nil:
		x.end(ctx, "", ErrCodeExpired)
	default:
		x.away(ctx, nil)
	}
}

// stop withdraws a code that nobody has used, and hangs up.
func (x *speaker) stop(ctx actor.Context) {
	if x.channel != 0 && x.result == nil {
		ctx.Request(x.beacon, wire.Say{Channel: x.channel, Last: true})
	}
	hangUp(&x.link)
	x.wake.Stop()
}
