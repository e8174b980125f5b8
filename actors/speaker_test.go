package actors

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/beacon"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/spoken"
	"github.com/piecelease/fetcher/wire"
)

// spokenAt is a code that somebody gives at a beacon, and what becomes of it.
type spokenAt struct {
	code spoken.Code
	end  *Spoken
}

const someTicket = "sharethatnobodyreads"

func chance(b byte) (c [ChanceSize]byte) {
	for i := range c {
		c[i] = b + byte(i)
	}
	return c
}

// gives has a node give a ticket at a beacon.
func (n *simNode) gives(b peers.ID) *spokenAt {
	x := &spokenAt{}
	n.program.Hear(Speak{Beacon: peers.Addr{ID: b}, Ticket: someTicket, Chance: chance(1), Opened: func(c spoken.Code, life time.Duration) {
		if life != beacon.ChannelLife {
			n.sw.t.Errorf("it lives for %v", life)
		}
		x.code = c
	}, serial: 1}, func(a any) { r := a.(Spoken); x.end = &r })
	n.sw.w.Run(time.Second)
	return x
}

// takesBy has a node ask for the ticket of a code.
func (n *simNode) takesBy(b peers.ID, c spoken.Code) *spokenAt {
	x := &spokenAt{code: c}
	n.program.Hear(Speak{Beacon: peers.Addr{ID: b}, Code: c, Chance: chance(101), serial: 2}, func(a any) { r := a.(Spoken); x.end = &r })
	return x
}

// ended checks how it ended.
func (x *spokenAt) ended(t *testing.T, what string, ticket string, want error) {
	t.Helper()
	switch {
	case x.end == nil:
		t.Errorf("%s: it has not ended", what)
	case x.end.Ticket != ticket || !errors.Is(x.end.Err, want):
		t.Errorf("%s: it ended with %+v, want %q, %v", what, *x.end, ticket, want)
	}
}

func speakers(t *testing.T, seed uint64) (sw *swarm, s, f *simNode) {
	sw = newSwarm(t, seed)
	sw.add("beacon", 1e6, isBeacon)
	return sw, sw.add("sharer", 1e6), sw.add("fetcher", 1e6)
}

func TestATicketTravelsByACode(t *testing.T) {
	sw, s, f := speakers(t, 1)
	said := 0
	sw.w.Observe = func(d system.Delivery) {
		if m, ok := d.Message.(wire.Say); ok {
			said++
			if bytes.Contains(m.Body, []byte(someTicket)) {
				t.Error("the beacon reads the ticket")
			}
		}
	}
	given := s.gives("beacon")
	if given.code == (spoken.Code{}) || given.end != nil {
		t.Fatalf("%+v", given)
	}
	sw.w.Run(time.Minute)
	got := f.takesBy("beacon", given.code)
	sw.w.Run(2 * time.Second)
	got.ended(t, "fetcher", someTicket, nil)
	given.ended(t, "sharer", "", nil)
	if said != 7 {
		t.Errorf("%d messages", said)
	}
	again := f.takesBy("beacon", given.code)
	sw.w.Run(2 * time.Second)
	again.ended(t, "again", "", ErrCodeUsed)
}

// One guess is all, whoever makes it.
func TestACodeEndsWithTheFirstGuess(t *testing.T) {
	sw, s, f := speakers(t, 2)
	given := s.gives("beacon")
	wrong := f.takesBy("beacon", spoken.New(given.code.Channel, 77))
	sw.w.Run(2 * time.Second)
	wrong.ended(t, "wrong", "", spoken.ErrWords)
	given.ended(t, "sharer", "", spoken.ErrWords)
	right := sw.add("other", 1e6).takesBy("beacon", given.code)
	sw.w.Run(2 * time.Second)
	right.ended(t, "too late", "", ErrCodeUsed)
	none := f.takesBy("beacon", spoken.New(given.code.Channel%99+1, 77))
	sw.w.Run(2 * time.Second)
	none.ended(t, "another channel", "", ErrCodeUnknown)
}

func TestACodeExpires(t *testing.T) {
	sw, s, f := speakers(t, 3)
	given := s.gives("beacon")
	sw.w.Run(beacon.ChannelLife - 2*time.Second)
	if given.end != nil {
		t.Fatalf("it ended early: %+v", *given.end)
	}
	sw.w.Run(4 * time.Second)
	given.ended(t, "sharer", "", ErrCodeExpired)
	late := f.takesBy("beacon", given.code)
	sw.w.Run(2 * time.Second)
	late.ended(t, "late", "", ErrCodeExpired)
}

// A code ends with whoever gave it: whoever knows it is told at once.
func TestACodeIsWithdrawn(t *testing.T) {
	sw, s, f := speakers(t, 4)
	given := s.gives("beacon")
	s.program.Tell(stopSpeaking{1})
	sw.w.Run(time.Second)
	late := f.takesBy("beacon", given.code)
	sw.w.Run(2 * time.Second)
	late.ended(t, "late", "", ErrCodeUsed)
}

// Each side ends within a bounded time, whatever is lost, and says what.
func TestNobodyWaitsForEver(t *testing.T) {
	sw, s, f := speakers(t, 5)
	sw.add("no beacon", 1e6)
	x := f.takesBy("no beacon", spoken.New(7, 1))
	sw.w.Run(2 * time.Second)
	x.ended(t, "no beacon", "", errNoChannels)

	given := s.gives("beacon")
	s.program.Freeze()
	x = f.takesBy("beacon", given.code)
	sw.w.Run(speakTime + lastWordTime + time.Second)
	x.ended(t, "a sharer that says nothing", "", ErrCodeAway)
	s.program.Thaw()

	given = sw.add("second", 1e6).gives("beacon")
	sw.nodes["beacon"].program.Crash()
	sw.w.Run(2 * beacon.ChannelLife)
	given.ended(t, "a beacon that has gone", "", ErrBeaconAway)
}

// Each Say is answered with one Heard, also if nobody comes, or the channel ends while it waits.
func TestWhoeverWaitsInAChannelIsAnswered(t *testing.T) {
	for name, end := range map[string]func(p *puppet, b *simNode, channel int){
		"nobody came": func(p *puppet, _ *simNode, _ int) { p.sw.w.Run(2 * beacon.ChannelLife) },
		"the other guest came and said nothing more": func(p *puppet, b *simNode, channel int) {
			guest := p.sw.puppet("guest", b)
			guest.asks(b, wire.TypeSay, wire.Append(nil, wire.Say{Channel: channel})) // which answers p
			p.say(b, wire.Envelope{Kind: wire.KindTell, To: BeaconName, Reply: 102, Type: wire.TypeSay, Payload: wire.Append(nil, wire.Say{Channel: channel})})
			p.sw.w.Run(2 * beacon.ChannelLife)
		},
		"it ends the channel itself": func(p *puppet, b *simNode, channel int) {
			p.say(b, wire.Envelope{Kind: wire.KindTell, To: BeaconName, Reply: 102, Type: wire.TypeSay, Payload: wire.Append(nil, wire.Say{Channel: channel, Last: true})})
		},
	} {
		t.Run(name, func(t *testing.T) {
			sw := newSwarm(t, 1)
			b := sw.add("beacon", 1e6, isBeacon)
			p := sw.puppet("owner", b)
			opened, ok := p.asks(b, wire.TypeSay, wire.Append(nil, wire.Say{})).(wire.Heard)
			if !ok || opened.Refused != 0 {
				t.Fatalf("%+v", opened)
			}
			p.heard = nil
			p.say(b, wire.Envelope{Kind: wire.KindTell, To: BeaconName, Reply: 101, Type: wire.TypeSay, Payload: wire.Append(nil, wire.Say{Channel: opened.Channel})})
			end(p, b, opened.Channel)
			p.sw.w.Run(time.Second)
			answered := map[uint64]int{}
			for _, e := range p.heard {
				if e.Type == wire.TypeHeard {
					answered[e.Token]++
				}
			}
			if answered[101] != 1 || name != "nobody came" && answered[102] != 1 {
				t.Errorf("answers by token: %v, want one for each", answered)
			}
		})
	}
}

// A beacon that changes what is said, or lies about who said it, brings nobody a ticket.
func TestABeaconThatMeddlesIsNoticed(t *testing.T) {
	sw, s, f := speakers(t, 6)
	m := sw.add("meddler", 1e6, isBeacon)
	given := s.gives("meddler")
	m.bends = func(frame []byte) []byte {
		if bytes.Contains(frame, []byte("fetcher")) { // it names who spoke
			return bytes.ReplaceAll(frame, []byte("fetcher"), []byte("another"))
		}
		return frame
	}
	got := f.takesBy("meddler", given.code)
	sw.w.Run(time.Minute)
	got.ended(t, "fetcher", "", spoken.ErrWords)
	given.ended(t, "sharer", "", spoken.ErrWords)
}
