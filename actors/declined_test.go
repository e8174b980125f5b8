package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/wire"
)

// declines makes a node decline every subscription for a minute.
func (n *simNode) declines(t *testing.T) {
	n.rewrite = func(frame []byte) []byte {
		e, err := wire.ParseEnvelope(frame)
		if err != nil || e.Type != wire.TypeSubscribeResult {
			return frame
		}
		r, err := wire.Parse[wire.SubscribeResult](e.Payload)
		if err != nil {
			t.Error(err)
			return frame
		}
		r.Accepted, r.Retry = false, time.Minute
		e.Payload = wire.Append(nil, r)
		return wire.AppendEnvelope(nil, e)
	}
}

// A source that said that it is whole and then declines the subscription has nothing for us: the only
// other source is asked again for what it failed with as soon as if it were alone.
func TestASourceThatSaidWholeAndDeclinesCountsForNothing(t *testing.T) {
	took := func(whole bool) time.Duration {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 1<<20)
		a := sw.add("a", 1e6).seed(m, content)
		a.whole = whole
		a.declines(t)
		b := sw.add("b", 1e6).seed(m, content)
		b.mute = true
		n := sw.add("node", 1e6)
		n.fetch(m.ID(), a, b)
		for n.transfer() != nil && len(n.opened) < 3 && sw.w.Elapsed() < 40*time.Second { // until b was found silent
			sw.w.Run(100 * time.Millisecond)
		}
		b.mute = false
		start := sw.w.Elapsed()
		for n.end == nil && sw.w.Elapsed() < 3*time.Minute {
			sw.w.Run(100 * time.Millisecond)
		}
		return sw.w.Elapsed() - start
	}
	if lied, silent := took(true), took(false); lied > silent+time.Second {
		t.Errorf("took %v more when one that declines had said that it is whole, and %v when not", lied, silent)
	}
}
