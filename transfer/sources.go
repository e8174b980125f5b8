package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

const (
	enoughDials = 4 // failed in a row, after which a source counts as unreachable
	namedDials  = 6 // ... after which one that only another peer named is given up
)

// sources are all the peers that a share is fetched from, or may be.
type sources struct {
	*core
	places
	byID    map[peers.ID]*source
	order   []*source // in order of arrival
	brought []byte    // see Brought; nil: nothing yet
	pools   int       // started so far
	pardons time.Time // when the first ban ends; zero: no source is banned
	listers listers
	excused time.Time // when one was last seen to wait for other links of this node
}

func (s *sources) found(m SourceFound) {
	if src := s.byID[m.Addr.ID]; src != nil {
		s.foundAgain(src, m)
		return
	}
	src := &source{addr: m.Addr, at: Addresses{m.Addr}, index: len(s.order), set: peers.Outside, info: Source{Peer: m.Addr.ID, Via: m.Via, Since: s.now}}
	s.byID[m.Addr.ID] = src
	s.order = append(s.order, src)
	s.then(Rank{m.Addr.ID})
	s.enlist(src)
}

// foundAgain notes other addresses of a source, and takes it up again if it was given up
// as unreachable: always if it has come to us, otherwise only a few times, because a peer
// that is named need not exist. One that has come to us may also have the share by now, or
// give it to this node, though it said that it did not.
func (s *sources) foundAgain(src *source, m SourceFound) {
	if src.at.Also(m.Addr) {
		if src.pool != 0 {
			s.then(TellPool{src.pool, m.Addr})
		}
		if src.dials > 0 && !src.asking { // it is tried at the new address, and now
			src.asks, src.askAt = len(src.at)-1, time.Time{}
		}
	}
	switch {
	case src.info.Banned:
		return
	case m.Via == peers.ViaItself && (src.lost || src.notFound || src.denied):
		src.at = Addresses{m.Addr}
	case !src.lost || src.again == MaxAddresses:
		return
	default:
		src.again++
	}
	s.takeUp(src)
}

// takeUp begins with a source anew that was given up.
func (s *sources) takeUp(src *source) {
	src.out, src.lost, src.notFound, src.denied = false, false, false, false
	src.dials, src.asks, src.askAt = 0, 0, time.Time{}
	src.stands(s.now, Connecting, "")
	s.tell(src)
	s.enlist(src)
}

func (s *sources) tell(src *source) { s.notify(SourceChanged{s.seen(src)}) }

// good returns the sources that the share came from, those that it began with first.
func (s *sources) good() []peers.Addr {
	out := slices.DeleteFunc(slices.Clone(s.fetch.Sources), func(a peers.Addr) bool { return s.byID[a.ID] != nil && s.byID[a.ID].info.Banned })
	for _, src := range s.order {
		if src.info.Bytes > 0 && !src.info.Banned && !slices.ContainsFunc(out, func(a peers.Addr) bool { return a.ID == src.addr.ID }) {
			out = append(out, src.at[0])
		}
	}
	return out
}

// startPool gives a source that has a place its pool, if there is work for one.
func (s *sources) startPool(src *source) {
	if !s.working || s.state >= Finishing {
		return
	}
	s.pools++
	src.pool = s.pools
	s.then(StartPool{src.pool, src.addr, slices.Clone(src.at), src.whole})
	src.whole = false
}

// poolFailed begins the pool of a source again that has failed, unless it fails again and again.
func (s *sources) poolFailed(pool int) {
	for _, src := range s.order {
		if src.pool != pool {
			continue
		}
		src.pool, src.held = 0, false
		if src.fails++; src.fails > maxRestarts {
			s.giveUp(src, "fetching from it failed again and again")
		} else {
			s.startPool(src)
		}
		return
	}
}

// stop ends what a source is doing; its record stays.
func (s *sources) stop(src *source) {
	if src.asking {
		src.asking = false
		s.then(StopAsking{src.addr.ID})
	}
	if src.pool != 0 {
		s.then(StopPool{src.pool})
		src.pool, src.held = 0, false
	}
}

func (s *sources) stopAll() {
	for _, src := range s.order {
		s.stop(src)
	}
}

// giveUp ends a source for good.
func (s *sources) giveUp(src *source, why string) {
	src.out = true
	s.stop(src)
	if src.info.State != Banned {
		src.stands(s.now, Left, why)
	}
	s.tell(src)
	s.dismiss(src)
}

// status records the state of a pool. It reports whether it is one that counts.
func (s *sources) status(m SourceStatus) bool {
	src := s.byID[m.Source]
	if src == nil || src.pool != m.Pool {
		return false
	}
	src.up, src.answered = src.up || m.Connected, src.answered || m.Answered
	src.dials, src.lastLoss, src.proxy, src.dialled = m.Dials, m.LastLoss, m.Proxy, src.dialled || m.LastLoss != "" && m.Proxy != peers.ErrNoTCP
	s.excuse(src)
	src.held, src.fetching, src.busy, src.paced = m.Held, m.Fetching, m.Busy, m.Paced
	src.here = m.State.Connected() || m.LastLoss != "" && m.Stood
	if m.RTT > 0 {
		src.info.RTT = m.RTT
	}
	if m.From.Addr != "" {
		src.from = m.From
	}
	was := src.info
	src.stands(s.now, m.State, m.Why)
	switch {
	case m.Gone:
		src.notFound = src.notFound || errors.Is(m.Outcome, share.ErrNotFound)
		src.denied = src.denied || errors.Is(m.Outcome, share.ErrNotAllowed)
		s.giveUp(src, m.Why)
	case src.info.Via != peers.ViaTicket && !src.up && m.Dials >= namedDials:
		src.lost = true
		s.giveUp(src, m.LastLoss)
	case m.Dials >= enoughDials && s.someWait():
		s.makeRoom(src)
	case was.State != src.info.State:
		s.tell(src)
	}
	return true
}

// excuse notes that a source waits for other links of this node: the transfer does not
// end because of that.
func (s *sources) excuse(src *source) {
	if src.held {
		s.excused = s.now
	}
}

// makeRoom gives the place of a source that cannot be reached to one that waits. If it has brought
// something, it is tried again before those that never did.
func (s *sources) makeRoom(src *source) {
	s.rest(src, "waits while others are tried: "+cmp.Or(src.lastLoss, src.info.Why)) // not when it is tried again
	s.dismiss(src)
	s.enlist(src)
	if src.info.Bytes > 0 {
		s.tiers.Did(src.addr.ID, 1, s.clock)
	}
}

func (s *sources) lied(m SourceLied) {
	src := s.byID[m.Source]
	if src == nil {
		return
	}
	src.info.BadBlocks++
	src.info.Lie = m.Kind.String()
	if m.Rule != "" {
		src.info.Lie += ": " + m.Rule
	}
	s.then(Blame{m.Source, m.Kind == BadProof || m.Kind == Broken})
}

// ban gives up a banned source until the ban ends. It reports whether the ban is new.
func (s *sources) ban(peer peers.ID, until time.Time) bool {
	src := s.byID[peer]
	if src == nil {
		return false
	}
	src.until = until
	s.pardons = times.Earliest(s.pardons, until)
	if src.info.Banned {
		return false
	}
	src.info.Banned = true
	src.stands(s.now, Banned, fmt.Sprintf("banned for %s: it %s", words.Duration(until.Sub(s.now)), cmp.Or(src.info.Lie, "lied before")))
	s.toLeases(DropSource{peer})
	s.giveUp(src, src.info.Why)
	return true
}

// pardon takes up the sources whose ban has ended. It returns when to call it again.
func (s *sources) pardon() (next time.Time) {
	if s.pardons.IsZero() || s.pardons.After(s.now) {
		return s.pardons
	}
	for _, src := range s.order {
		switch {
		case !src.info.Banned:
		case src.until.After(s.now):
			next = times.Earliest(next, src.until)
		default:
			src.info.Banned = false
			s.then(Rank{src.addr.ID})
			s.takeUp(src)
		}
	}
	s.pardons = next
	return next
}

// failed counts a lease that its source did not fulfil.
func (s *sources) failed(e leasemgr.LeaseEvent) {
	src := s.byID[e.Source]
	if src == nil {
		return
	}
	f := &src.info.Failures
	switch {
	case e.End == leasemgr.Expired, e.End == leasemgr.Failed && e.Why == leasemgr.Missed:
		f.Late++
	case e.End != leasemgr.Failed:
	case e.Why == leasemgr.BadData:
		f.Bad++
	case e.Why == leasemgr.NotFound:
		f.None++
	case e.Why == leasemgr.Lost:
		f.Lost++
	}
}

// gave counts verified bytes from a source.
func (s *sources) gave(peer peers.ID, bytes int) {
	if src := s.byID[peer]; src != nil {
		src.rate.add(bytes, s.now)
		src.info.Bytes += int64(bytes)
	}
}

// Several, as what Brought has of a piece, means several sources, or one of those beyond the 254th.
const Several = 255

// hadAPart counts a piece for the sources that contributed to it.
func (s *sources) hadAPart(p share.Piece, pieces int, of []peers.ID) {
	if s.brought == nil {
		s.brought = make([]byte, pieces)
	}
	for _, id := range of {
		src := s.byID[id]
		if src == nil {
			continue
		}
		src.info.Pieces++
		if s.brought[p] = byte(min(src.index+1, Several)); len(of) > 1 {
			s.brought[p] = Several
		}
	}
}

// Brought says who brought each piece since the transfer began: n is the n-th of
// Progress.Sources, 0 nobody. The slice is the caller's.
func (s *sources) Brought() []byte { return slices.Clone(s.brought) }
