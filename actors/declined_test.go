package actors

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// declines makes a node decline every subscription for a minute.
func (n *simNode) declines(t *testing.T) {
	n.answersSubscribers(t, wire.SubscribeResult{Retry: time.Minute})
}

// answersSubscribers makes a node answer every subscription so.
func (n *simNode) answersSubscribers(t *testing.T, answer wire.SubscribeResult) {
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
		answer.Share = r.Share
		r = answer
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

// What a source says for a reason ends a fetch in the same way, whatever it was asked. That it serves as many peers as it
// can is waited for.
func TestAReasonEndsAFetchWhateverWasAsked(t *testing.T) {
	t.Parallel()
	for code, c := range map[wire.Code]struct {
		ends  error
		after time.Duration // at the earliest
		says  string
	}{
		wire.CodeNotAllowed: {share.ErrNotAllowed, 0, ""},
		wire.CodeNoShare:    {share.ErrNotFound, 0, "does not have the share"},
		wire.CodeNoBlocks:   {share.ErrStalled, 0, "the only source was given up"},
		wire.CodeFull:       {share.ErrStalled, 20 * time.Second, "busy"},
	} {
		for asked, refuse := range map[string]func(*simNode){
			"the list":     func(n *simNode) { n.shuts = &wire.Reply{Status: wire.Refused, Reason: wire.Why(code)} },
			"to subscribe": func(n *simNode) { n.answersSubscribers(t, wire.SubscribeResult{Reason: wire.Why(code)}) },
			"a piece":      func(n *simNode) { n.denies, n.denial = true, wire.Why(code) },
		} {
			sw := newSwarm(t, 1)
			m, content := testShare(t, 1<<20)
			source := sw.add("source", 4e6).seed(m, content)
			refuse(source)
			n := sw.add("node", 1e6)
			n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: 20 * time.Second}, source)
			sw.run(time.Minute, n)
			says := c.says
			if says == "busy" && asked != "a piece" {
				says = wire.CodeFull.String()
			}
			if took := sw.w.Elapsed(); !errors.Is(n.end.Err, c.ends) || took < c.after || c.after == 0 && took > 5*time.Second || !strings.Contains(n.end.Err.Error(), says) {
				t.Errorf("code %d, asked for %s: after %v ended with %v", code, asked, took, n.end.Err)
			} else if strings.Contains(n.end.Err.Error(), "no connection") {
				t.Errorf("code %d, asked for %s: ended with %v, and it is connected", code, asked, n.end.Err)
			}
		}
	}
}
