package transfer

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	maxManifestAsks = 3 // peers asked for the manifest at once, of each kind, slow ones not counted
	slowManifest    = 5 * time.Second
	maxBusy         = 30 * time.Second // before a busy source is asked again, whatever it says
)

// findManifest asks for the manifest while there is none.
func (s *sources) findManifest() (next time.Time) {
	if s.state != Finding {
		return next
	}
	next = s.askListers()
	s.askForManifest()
	for _, src := range s.order {
		if !s.mayList(src) {
			continue
		}
		at := src.askAt
		if src.asking {
			at = src.slowAt
		}
		if at.After(s.now) { // a time that has passed waits for an answer, or for one to be slow
			next = times.Earliest(next, at)
		}
	}
	return next
}

// askForManifest asks some sources that have not failed lately, those first that were not asked for the longest time: nobody
// keeps another from being asked. Those that named others are counted apart, as the others may all be mute.
func (s *sources) askForManifest() {
	asking := map[bool]int{}
	for _, src := range s.order {
		if src.asking && src.slowAt.After(s.now) {
			asking[src.sent]++
		}
	}
	for _, src := range slices.SortedStableFunc(slices.Values(s.order), func(a, b *source) int { return a.slowAt.Compare(b.slowAt) }) {
		if asking[src.sent] >= maxManifestAsks || src.asking || src.out || src.askAt.After(s.now) || !s.mayList(src) {
			continue
		}
		asking[src.sent]++
		src.asking, src.slowAt = true, s.now.Add(slowManifest)
		why := "connecting"
		if src.up {
			why = "asking for the list of files"
		}
		if src.lastLoss != "" {
			why = src.lastLoss + "; trying again"
		}
		src.stands(s.now, Connecting, why)
		s.then(AskManifest{src.at.Try(src.asks), !src.sent && !s.cfg.Fleet.Used()})
	}
}

// replied takes note of what a source that was asked for the manifest has answered.
func (s *sources) replied(src *source, r wire.Reply, err error) {
	switch {
	case err != nil:
		s.manifestFailed(src, err)
	case r.Status == wire.OK:
		src.up, src.dials, src.lastLoss, src.whole = true, 0, "", r.Whole
	case r.Status == wire.Busy:
		src.up, src.dials, src.lastLoss = true, 0, ""
		why := r.String()
		if len(r.Others) > 0 {
			src.sent, why = true, "is busy with many peers, and named others that have the list of files"
		}
		src.retry(s.now, min(max(r.Retry, 100*time.Millisecond), maxBusy), why+"; asked again in ")
	case r.Status == wire.NotFound:
		src.up, src.notFound = true, true
		s.giveUp(src, wire.CodeNoShare.String())
	default:
		src.up, src.notFound, src.denied = true, r.Status == wire.Gone, r.Status == wire.Refused && r.Reason.Code == wire.CodeNotAllowed
		s.giveUp(src, r.String())
	}
}

func (s *sources) manifestFailed(src *source, err error) {
	switch {
	case errors.Is(err, peers.ErrProtocol), errors.Is(err, share.ErrManifest):
		src.up = true
		s.lied(SourceLied{Source: src.addr.ID, Kind: Broken, Rule: Rule(err)})
		s.giveUp(src, src.info.Lie)
		return
	case errors.Is(err, peers.ErrUnreachable):
		src.dials++
	default:
		src.up = true
	}
	src.lastLoss = err.Error()
	if src.info.Via != peers.ViaTicket && src.dials >= namedDials {
		src.lost = true
		s.giveUp(src, src.lastLoss)
		return
	}
	src.asks++
	src.retry(s.now, min(time.Second<<min(src.asks-1, 5), 30*time.Second), src.lastLoss+"; trying again in ")
}

func (s *sources) stopAsking() {
	for _, src := range s.order {
		if src.asking {
			src.asking = false
			s.then(StopAsking{src.addr.ID})
		}
	}
}

// Rule returns the broken rule that an error wrapping peers.ErrProtocol names.
func Rule(err error) string {
	return strings.TrimPrefix(err.Error(), peers.ErrProtocol.Error()+": ")
}
