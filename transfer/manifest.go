package transfer

import (
	"errors"
	"fmt"
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
	listRate        = 16 << 10         // bytes a second of a manifest that keep a transfer from stalling
	fullFor         = 5 * time.Second  // ... before one that serves as many as it can is, and says no time
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
		src.asking, src.slowAt, src.listAt = true, s.now.Add(slowManifest), time.Time{}
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
		src.up, src.here, src.dials, src.lastLoss, src.whole = true, true, 0, "", r.Whole
	case r.Status == wire.Busy:
		src.up, src.here, src.dials, src.lastLoss = true, true, 0, ""
		why := r.String()
		if len(r.Others) > 0 {
			src.sent, why = true, "is busy with many peers, and named others that have the list of files"
		}
		src.retry(s.now, min(max(r.Retry, 100*time.Millisecond), maxBusy), why+"; is asked again in ")
	case r.Status == wire.Refused && r.Reason.Code == wire.CodeFull:
		src.up, src.here, src.dials, src.lastLoss = true, true, 0, ""
		src.retry(s.now, fullFor, r.String()+"; is asked again in ")
	case r.Status == wire.NotFound:
		src.up, src.notFound = true, true
		s.giveUp(src, wire.CodeNoShare.String())
	default:
		src.up, src.notFound, src.denied = true, r.Status == wire.Gone || r.Reason.Code.NoShare(), r.Status == wire.Refused && r.Reason.Code == wire.CodeNotAllowed
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
	if !src.listAt.IsZero() && !errors.Is(err, peers.ErrCrowded) {
		src.cuts++
	}
	src.here = errors.Is(err, peers.ErrStream)
	src.lastLoss, src.proxy, src.dialled = err.Error(), peers.ProxyFault(err), src.dialled || !errors.Is(err, peers.ErrNoTCP)
	if src.info.Via != peers.ViaTicket && src.dials >= namedDials {
		src.lost = true
		s.giveUp(src, src.lastLoss)
		return
	}
	src.asks++
	src.retry(s.now, min(time.Second<<min(src.asks-1, 5), 30*time.Second), src.lastLoss+"; trying again in ")
}

// listComes takes note of how much of the manifest a source has sent, and returns until when that is a sign
// of life: one second for each listRate bytes, and not again and again from one that never comes to the end.
func (s *sources) listComes(src *source, bytes, size int) (alive time.Time) {
	if src.listAt.IsZero() {
		src.listAt = s.now
	}
	src.up, src.here, src.dials, src.lastLoss = true, true, 0, ""
	src.listed = fmt.Sprintf("%s of %s so far", share.Size(bytes), share.Size(size))
	src.stands(s.now, Joining, "sends the list of files: "+src.listed)
	if src.cuts >= maxRestarts {
		return alive
	}
	return times.Earliest(s.now, src.listAt.Add(time.Duration(bytes)*time.Second/listRate))
}

// whoLists is a source that is sending the manifest; nil: none is.
func whoLists(all []*source) *source {
	for _, src := range all {
		if src.asking && !src.listAt.IsZero() {
			return src
		}
	}
	return nil
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
