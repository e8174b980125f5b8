package p2p

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// pacing is a share that has enough links, while others wait for theirs.
func pacing(t *testing.T, waiting int) (p *pace, x *paced, got chan error) {
	t.Helper()
	p = &pace{}
	for range enoughLinks {
		var ok bool
		if x, ok = p.begin(share.ID{}, false); !ok {
			t.Fatal("one of the first links had to wait")
		}
	}
	got = make(chan error, waiting)
	for range waiting {
		if _, ok := p.begin(share.ID{}, false); ok {
			t.Fatal("a link too many need not wait")
		}
		go func() { got <- p.wait(t.Context(), share.ID{}, x) }()
	}
	return p, x, got
}

func TestAMachineWithTimeToSpareDialsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p, x, got := pacing(t, 50)
		p.saw(notLate)
		for range 50 {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 50*paceTick {
			t.Error("50 links took", took)
		}
		if x.links != enoughLinks+50 || x.waiting != 0 {
			t.Errorf("counted are %d links, and %d that wait", x.links, x.waiting)
		}
		for range x.links {
			p.end(share.ID{}, x)
		}
		if len(p.each) > 0 {
			t.Error("the share is not forgotten")
		}
	})
}

func TestALateMachineDialsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := pacing(t, 0)
		took := func() time.Duration {
			began := time.Now()
			x, _ := p.begin(share.ID{}, false)
			if err := p.wait(t.Context(), share.ID{}, x); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		p.saw(notLate + 8*time.Millisecond)
		for _, late := range []time.Duration{8, 4, 2} { // it may have been luck that the last timer was not late
			if d := took(); d != paceTick+lateFactor*late*time.Millisecond {
				t.Errorf("%v late, the next link waited %v", late*time.Millisecond, d)
			}
		}
		p.saw(time.Hour)
		if d := took(); d != paceTick+longestPace {
			t.Error("an hour late, the next link waited", d)
		}
	})
}

// A source that has left is replaced at once, however busy the machine is, and by one.
func TestALinkThatEndsMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p, x, got := pacing(t, 3)
		p.late = time.Hour
		p.end(share.ID{}, x)
		if _, ok := p.begin(share.ID{}, false); !ok { // before those that wait have noticed
			t.Fatal("no room for a link in place of one that has ended")
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Error("two links take the place of one")
		}
		p.end(share.ID{}, x)
		if <-got; time.Since(began) != 0 {
			t.Error("the next link waited", time.Since(began))
		}
		p.end(share.ID{}, x)
		p.end(share.ID{}, x)
		<-got
		if <-got; time.Since(began) != 0 {
			t.Error("two links take the place of two after", time.Since(began))
		}
	})
}

func TestALinkThatWaitsForTheMachineCanEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x, _ := pacing(t, 0)
		p.late = time.Hour
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 2)
		for range 2 { // one has the turn
			p.begin(share.ID{}, false)
			go func() { got <- p.wait(ctx, share.ID{}, x) }()
		}
		synctest.Wait()
		cancel(errClosed)
		for range 2 {
			if err := <-got; err != errClosed {
				t.Error("it ended with", err)
			}
		}
		if x.links != enoughLinks || x.waiting != 0 || len(x.turn) > 0 {
			t.Errorf("left are %+v", x)
		}
		p.begin(share.ID{}, false)
		for range x.links {
			p.end(share.ID{}, x)
		}
		x.turn <- struct{}{} // another's
		if err := p.wait(ctx, share.ID{}, x); err != errClosed || len(p.each) > 0 {
			t.Errorf("it ended with %v, and %d shares are left", err, len(p.each))
		}
	})
}

func TestABusyMachineWaitsBeforeItDialsWhomPeersNamed(t *testing.T) {
	x := newMemory(t, 1000)
	a, b, d, h := newHost(t, Config{}), newHost(t, Config{}), newHost(t, Config{}), newHost(t, Config{Listen: []string{"none"}})
	for _, src := range []*Host{a, b, d} {
		src.Serve(toAll(x), everybody{})
	}
	h.pace.saw(time.Hour)
	open := func(to *Host, by peers.ID) (*Link, *catcher) {
		c, from := newCatcher(), addr(to)
		from.By = by
		return h.Open(from, x.m.ID(), x.m.Layout(), c), c
	}
	said := func(c *catcher) []string { defer c.lock()(); return c.waits }
	at := func(to *Host, by peers.ID) *Link {
		l, c := open(to, by)
		recv(t, "the link", c.up)
		if why := said(c); len(why) > 0 {
			t.Error("it waited:", why)
		}
		return l
	}
	var all []*Link
	for range enoughLinks {
		all = append(all, at(a, b.ID()))
	}
	at(b, "")                          // the ticket's
	for _, to := range []*Host{d, a} { // a is connected
		l, c := open(to, b.ID())
		eventually(t, "the link to wait", func() bool { return len(said(c)) > 0 })
		if why := said(c); why[0] != paceReason {
			t.Error("it waited:", why)
		}
		for range 2 { // the ticket's counts too
			all[0].Close()
			all = all[1:]
		}
		recv(t, "the link that waited", c.up)
		all = append(all, l)
	}
}

// A process that was stopped for an hour was late once. It is not slow for minutes afterwards.
func TestOneLongPauseDoesNotSlowDownTheDialsThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := pacing(t, 0)
		p.saw(time.Hour) // a laptop's lid, a debugger, SIGSTOP
		began := time.Now()
		for range 20 { // none of these timers is late
			x, _ := p.begin(share.ID{}, false)
			if err := p.wait(t.Context(), share.ID{}, x); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 4*longestPace {
			t.Errorf("20 dials of a machine with time to spare took %v", took)
		}
	})
}
