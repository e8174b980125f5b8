package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/spoken"
)

// codes has scenarios of tickets that travel by a code.
var codes = []*simnet.Scenario{
	{
		Name: "guessing-beacon",
		Says: "A beacon has an accomplice guess the words of a code before the person who was given the code can use it; the next code is left alone.",
		Only: noCodes,
		Set: func(r *simnet.Run) {
			t := newCall(r, simnet.Behaviour{})
			var guessed, late, again *actors.Spoken
			t.give(func(c spoken.Code) {
				t.take(t.other, spoken.New(c.Channel, r.Rand("guess").Uint32()>>10), func(s actors.Spoken) {
					guessed = &s
					t.take(t.node, c, func(s actors.Spoken) {
						late = &s
						t.give(func(c spoken.Code) { t.take(t.node, c, func(s actors.Spoken) { again = &s; t.fetch(s) }) })
					})
				})
			})
			r.Finally(func() {
				r.Expect(guessed != nil && errors.Is(guessed.Err, spoken.ErrWords), "the accomplice got %s for its guess", told(guessed))
				r.Expect(late != nil && errors.Is(late.Err, actors.ErrCodeUsed), "the person was told %s", told(late))
				r.Expect(again != nil && again.Ticket == t.ticket, "the second code brought %s", told(again))
				r.Expect(len(t.given) == 2 && errors.Is(t.given[0].Err, spoken.ErrWords) && t.given[1].Err == nil, "the sharer was told %s", told(t.given...))
			})
		},
	},
	{
		Name: "interposed-beacon",
		Says: "A beacon poses to each side as the other one; later, through an honest beacon, a code works.",
		Only: noCodes,
		Set: func(r *simnet.Run) {
			t := newCall(r, simnet.Interposer())
			var first, second *actors.Spoken
			t.give(func(c spoken.Code) {
				t.take(t.node, c, func(s actors.Spoken) {
					first = &s
					t.beacon = t.other
					t.give(func(c spoken.Code) { t.take(t.node, c, func(s actors.Spoken) { second = &s; t.fetch(s) }) })
				})
			})
			r.Finally(func() {
				r.Expect(first != nil && errors.Is(first.Err, spoken.ErrWords), "the code brought %s through the beacon that poses as the other side", told(first))
				r.Expect(second != nil && second.Ticket == t.ticket, "the code brought %s through the honest beacon", told(second))
				r.Expect(len(t.given) == 2 && errors.Is(t.given[0].Err, spoken.ErrWords) && t.given[1].Err == nil, "the sharer was told %s", told(t.given...))
			})
		},
	},
}

const noCodes = "it passes its codes to modelled programs"

// told is what somebody was told of codes, for people who read a fault.
func told(all ...*actors.Spoken) string {
	var out []string
	for _, s := range all {
		if s != nil {
			out = append(out, fmt.Sprintf("(ticket: %q, error: %s)", s.Ticket, orNothing(s.Err)))
		}
	}
	return cmp.Or(strings.Join(out, ", "), "nothing")
}

// call is two people, one of whom gives a ticket to the other by a code.
type call struct {
	r                           *simnet.Run
	content                     *simnet.Content
	sharer, node, beacon, other *simnet.Node
	ticket                      string
	given                       []*actors.Spoken // what the sharer was told, of each code
}

func newCall(r *simnet.Run, acts simnet.Behaviour) *call {
	isBeacon := func(d *actors.Deps) { d.Beacon = true }
	t := &call{r: r, content: r.File("film", 4*mib), ticket: "sharethatnobodyreads"}
	t.beacon = r.Add(simnet.NodeConfig{Name: "beacon", Acts: acts, Deps: isBeacon})
	t.other = r.Add(simnet.NodeConfig{Name: "other", Deps: isBeacon})
	t.sharer = r.Add(simnet.NodeConfig{Name: "sharer"}).Seed(t.content)
	t.node = r.Add(simnet.NodeConfig{Name: "node"})
	r.AtLeast(15 * time.Second)
	return t
}

// give has the sharer give its ticket, soon.
func (t *call) give(opened func(spoken.Code)) {
	t.r.After(time.Second, func() {
		t.ask(t.sharer, actors.Speak{Ticket: t.ticket, Opened: func(c spoken.Code, _ time.Duration) { t.r.After(time.Second, func() { opened(c) }) }},
			func(s actors.Spoken) { t.given = append(t.given, &s) })
	})
}

// take has a node ask for the ticket of a code.
func (t *call) take(x *simnet.Node, c spoken.Code, then func(actors.Spoken)) {
	t.ask(x, actors.Speak{Code: c}, then)
}

func (t *call) ask(x *simnet.Node, m actors.Speak, then func(actors.Spoken)) {
	m.Beacon = peers.Addr{ID: t.beacon.ID(), Addrs: []string{"/sim"}}
	rng := t.r.Rand("chance " + x.Name())
	for i := range m.Chance {
		m.Chance[i] = byte(rng.Uint32())
	}
	x.Program().Hear(m, func(a any) {
		if s, ok := a.(actors.Spoken); ok {
			then(s)
		}
	})
}

// fetch fetches what the ticket is for, if it came.
func (t *call) fetch(s actors.Spoken) {
	if s.Ticket == t.ticket {
		t.node.Fetch(t.content, t.sharer)
	}
}
