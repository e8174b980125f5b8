package actors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// The reason why a connection failed is shown while it is retried, and at the end.
func TestWhyAConnectionFailedIsSaidToTheEnd(t *testing.T) {
	said := func(words string, is error) error { return fmt.Errorf("%s (%w)", words, is) }
	for name, c := range map[string]struct {
		fails error
		ends  error
		want  string // at the end
	}{
		"refused":  {said("refused", peers.ErrUnreachable), share.ErrNetwork, "network: no connection to 1 peer (source: refused (peer is unreachable))"},
		"no TCP":   {said("no TCP", peers.ErrNoTCP), peers.ErrNoTCP, "network: no connection to 1 peer (source: no TCP ("},
		"no proxy": {said("no proxy", errors.Join(peers.ErrUnreachable, peers.ErrNoProxy)), peers.ErrNoProxy, "network: no connection to 1 peer (source: no proxy ("},
		"silent":   {said("says nothing", peers.ErrLost), share.ErrStalled, "stalled: no verified byte for 20 s: no connection to 1 source (source: says nothing (connection was lost))"},
	} {
		for _, known := range []bool{false, true} {
			sw := newSwarm(t, 1)
			m, content := testShare(t, 1<<20)
			source := sw.add("source", 4e6).seed(m, content)
			source.fails = c.fails
			n := sw.add("node", 1e6)
			if known {
				n.known = m
			}
			n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: 20 * time.Second}, source)
			sw.run(time.Minute, n)
			if !errors.Is(n.end.Err, c.ends) || !strings.Contains(n.end.Err.Error(), c.want) {
				t.Errorf("%s, list of files known: %v: ended with %q, want %q", name, known, n.end.Err, c.want)
			}
			lost, retried := false, 0
			for _, e := range n.events {
				p, ok := e.(Progress)
				if !ok || len(p.Sources) == 0 {
					continue
				}
				s := p.Sources[0]
				if lost = lost || s.State == Resting; !lost {
					continue
				}
				if retried++; !strings.HasPrefix(s.Why, c.fails.Error()+"; trying again") && s.State != Left {
					t.Errorf("%s, list of files known: %v: %v, and says %q", name, known, s.State, s.Why)
				}
			}
			if retried == 0 {
				t.Errorf("%s: nothing was said meanwhile", name)
			}
		}
	}
}

// The reason for a ban names the rule that was broken.
func TestABanNamesTheRule(t *testing.T) {
	for _, known := range []bool{false, true} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 1<<20)
		source := sw.add("source", 4e6).seed(m, content)
		source.fails = fmt.Errorf("%w: reply to request 7: nothing was asked", peers.ErrProtocol)
		n := sw.add("node", 1e6)
		if known {
			n.known = m
		}
		n.fetch(m.ID(), source)
		sw.run(time.Minute, n)
		s := n.end.Last.Sources[0]
		want := "broke the protocol: reply to request 7: nothing was asked"
		if known {
			want = "banned for 24 h: it " + want
		}
		if s.Why != want || !errors.Is(n.end.Err, share.ErrLied) {
			t.Errorf("says %q, want %q; ended with %v", s.Why, want, n.end.Err)
		}
	}
}
