package depots

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/wire"
)

// Limit is how long a story may take in virtual time.
const Limit = 24 * time.Hour * 365

// A Story says step by step what is done in a run, while the world goes on.
type Story struct {
	*simnet.Run
	yield    func(func(resume func())) bool
	requests int
}

// errOver ends a story before its end.
var errOver = errors.New("the run is over")

// Tell makes a run last as long as its story, which begins with it.
func Tell(r *simnet.Run, tell func(*Story)) {
	over := false
	next, stop := iter.Pull(func(yield func(func(resume func())) bool) {
		defer func() {
			if err := recover(); err != nil && err != any(errOver) {
				panic(err)
			}
		}()
		tell(&Story{Run: r, yield: yield})
		over = true
	})
	var advance func()
	advance = func() {
		if arm, more := next(); more {
			arm(advance)
		} else {
			r.AtLeast(0)
		}
	}
	r.AtLeast(math.MaxInt64)
	r.After(0, advance)
	r.Finally(func() {
		stop()
		r.Expect(over, "the scenario did not get to its end")
	})
}

// wait suspends the story until resume is called.
func (s *Story) wait(arm func(resume func())) {
	if !s.yield(arm) {
		panic(errOver)
	}
}

// Pass lets d of time pass.
func (s *Story) Pass(d time.Duration) { s.wait(func(resume func()) { s.After(d, resume) }) }

// Until lets time pass until a condition is true, for within at most: after that it is a fault. It
// checks every second, and less often when it has waited for long.
func (s *Story) Until(what string, within time.Duration, is func() bool) bool {
	for began := s.Elapsed(); !is(); s.Pass(max(time.Second, (s.Elapsed()-began)/30)) {
		if s.Elapsed() >= began+within {
			s.Expect(false, "after %v it is still not true that %s", within, what)
			return false
		}
	}
	return true
}

// Sleep suspends depots for d, and then keeps them awake for a little more than an hour, so
// that they do what they do every hour.
func (s *Story) Sleep(d time.Duration, depots ...*Depot) {
	for _, x := range depots {
		x.Sleep(d)
	}
	s.Pass(61 * time.Minute)
}

// errSilent says that there was no answer, because the asker or the asked node is gone.
var errSilent = errors.New("no answer")

// hear asks the program of a node.
func (s *Story) hear(x *simnet.Node, question any) (answer any) {
	if x.Program() == nil {
		return errSilent
	}
	answer = errSilent
	s.wait(func(resume func()) {
		told := false
		once := func(a any) {
			if !told {
				told, answer = true, a
				resume()
			}
		}
		x.Program().Hear(question, once)
		s.After(time.Minute, func() { once(errSilent) })
	})
	return answer
}

// Ask has a node ask a depot one of the questions of wire/depot.go.
func (s *Story) Ask(x *simnet.Node, d *Depot, question any) (any, error) {
	return answer(s.hear(x, asking(d, question)))
}

func asking(d *Depot, question any) actors.AskDepot {
	return actors.AskDepot{Depot: peers.Addr{ID: d.ID(), Addrs: []string{"/sim"}}, Question: question}
}

func answer(a any) (any, error) {
	switch a := a.(type) {
	case actors.DepotAnswer:
		return a.Answer, a.Err
	case error:
		return nil, a
	default:
		return nil, fmt.Errorf("answered with %T", a)
	}
}

// AskLater is Ask without waiting.
func AskLater(x *simnet.Node, d *Depot, question any, then func(any, error)) {
	x.Program().Hear(asking(d, question), func(a any) { then(answer(a)) })
}

// Do has a depot do something for its owner, such as actors.CrawlNow; it returns its status.
func (s *Story) Do(d *Depot, what any) (st actors.DepotStatus, err error) {
	switch a := s.hear(d.Node, what).(type) {
	case actors.DepotStatus:
		return a, nil
	case error:
		return st, a
	default:
		return st, fmt.Errorf("answered with %T", a)
	}
}

// Request is the ID of a request that was never used before.
func (s *Story) Request() string {
	s.requests++
	return fmt.Sprint("request ", s.requests)
}

// Held sends a request that is answered with wire.Held; a refusal is a *depot.Refusal.
func (s *Story) Held(x *simnet.Node, d *Depot, question any) (wire.Held, error) {
	a, err := s.Ask(x, d, question)
	if err != nil {
		return wire.Held{}, err
	}
	h, ok := a.(wire.Held)
	if !ok {
		return h, fmt.Errorf("answered with %T", a)
	}
	if h.Refused != 0 {
		return h, &depot.Refusal{Reason: depot.Reason(h.Refused), Room: h.Room, Retry: h.Retry, Current: h.Current, Coming: h.Coming}
	}
	return h, nil
}

// HoldOf asks for a lease of content that ends this long from now, by the depot's wall clock.
func (s *Story) HoldOf(d *Depot, c *simnet.Content, length time.Duration) wire.Hold {
	return wire.Hold{Share: c.ID(), Request: s.Request(), Bytes: depot.Bytes(c.Manifest), Until: d.Reading().Wall.Add(length).Unix()}
}

// Hold has a node hold content, which must be granted.
func (s *Story) Hold(x *simnet.Node, d *Depot, c *simnet.Content, length time.Duration) wire.Held {
	return s.Granted(x, d, s.HoldOf(d, c, length))
}

// Replace has a node hold content under a name, in the place of other content or nil; it
// must be granted.
func (s *Story) Replace(x *simnet.Node, d *Depot, name string, expect, c *simnet.Content, length time.Duration) wire.Held {
	return s.Granted(x, d, s.ReplaceOf(d, name, expect, c, length))
}

// ReplaceOf is the request that Replace sends.
func (s *Story) ReplaceOf(d *Depot, name string, expect, c *simnet.Content, length time.Duration) wire.Hold {
	h := s.HoldOf(d, c, length)
	h.Name = name
	if expect != nil {
		h.Expect = expect.ID()
	}
	return h
}

// Granted sends a request of a node that must be granted.
func (s *Story) Granted(x *simnet.Node, d *Depot, question any) wire.Held {
	h, err := s.Held(x, d, question)
	s.Expect(err == nil, "%s asks %+v: %v", x.Name(), question, err)
	return h
}

// Release has a node give up content, which must be granted.
func (s *Story) Release(x *simnet.Node, d *Depot, c *simnet.Content) {
	s.Granted(x, d, wire.Release{Share: c.ID(), Request: s.Request()})
}

// Refused sends a request of a node that must be refused, for that reason.
func (s *Story) Refused(x *simnet.Node, d *Depot, why depot.Reason, question any) depot.Refusal {
	_, err := s.Held(x, d, question)
	var r *depot.Refusal
	if !errors.As(err, &r) {
		if err == nil {
			err = errors.New("granted")
		}
		s.Expect(false, "%s asks %+v: %v; it should be refused: %v", x.Name(), question, err, why)
		return depot.Refusal{}
	}
	s.Expect(r.Reason == why, "%s asks %+v: refused with the reason %q; it should be %q", x.Name(), question, r.Reason, why)
	return *r
}

// Is waits, for an hour at most, until a share is in a state.
func (s *Story) Is(d *Depot, c *simnet.Content, want depot.State) bool {
	return s.Until(fmt.Sprintf("%s is %v at %s", c.Manifest.Name, want, d.Name()), time.Hour, func() bool { return d.State(c) == want })
}

// Kept waits until a share is STABLE, and checks each byte of it.
func (s *Story) Kept(d *Depot, all ...*simnet.Content) {
	for _, c := range all {
		if s.Is(d, c, depot.Stable) {
			err := d.Here(c)
			s.Expect(err == nil, "%s counts as stable at %s, and its files are wrong: %v", c.Manifest.Name, d.Name(), err)
		}
	}
}

// Gone waits, for two hours at most, until a share has left the disk and the database.
func (s *Story) Gone(d *Depot, c *simnet.Content) {
	s.Until(fmt.Sprintf("%s is gone from %s", c.Manifest.Name, d.Name()), 2*time.Hour, func() bool { return d.State(c) == depot.None && len(d.Left(c)) == 0 })
}

// Used is what an account uses, according to the depot.
func (s *Story) Used(x *simnet.Node, d *Depot) wire.UsageReport {
	a, err := s.Ask(x, d, wire.Usage{})
	u, ok := a.(wire.UsageReport)
	s.Expect(err == nil, "the depot was asked for the usage: %v", err)
	s.Expect(err != nil || ok && u.Refused == 0, "the depot was asked for the usage, and answered %+v", a)
	return u
}

// Holdings returns the leases of an account, according to the depot.
func (s *Story) Holdings(x *simnet.Node, d *Depot) (out []wire.Holding, err error) {
	for after := (share.ID{}); ; {
		a, err := s.Ask(x, d, wire.Holdings{After: after})
		if err != nil {
			return nil, err
		}
		p, ok := a.(wire.HoldingsPage)
		if !ok || p.Refused != 0 {
			return nil, fmt.Errorf("holdings: %+v", a)
		}
		if out = append(out, p.Items...); !p.More || len(p.Items) == 0 {
			return out, nil
		}
		after = p.Items[len(p.Items)-1].Share
	}
}
