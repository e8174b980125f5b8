package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// sources is what a Member knows of its sources, and of their leases.
type sources struct {
	cfg     MemberConfig
	now     time.Time
	seat    seat
	alone   bool
	trip    time.Duration // to the coordinator
	byID    map[peers.ID]*origin
	order   []*origin        // in the order of arrival
	stale   map[peers.ID]int // answers under way to requests that were taken back
	fellows fellows
	news    news
	do      []any
}

// origin is a source outside the fleet.
type origin struct {
	id   peers.ID
	pool Port
	have *share.Set // what it says it has; nil: nothing
	held map[share.Piece]*hold
	rate float64
	trip time.Duration

	want    int           // leases that the pool would take but the lease manager does not have
	asking  time.Time     // since when an answer is awaited; zero: none is
	keep    []share.Piece // what that request asked to keep
	again   time.Time     // refused: when to ask again
	refused wire.Reason   // why there was nothing more, last time
}

// hold is a piece that may be fetched from a source.
type hold struct {
	token share.Token // the coordinator's; 0: taken without its permission
	lease share.Token // the lease manager's; 0: not yet
	bytes int         // not yet told
	alive bool        // a sign of life not yet told, even if only that this node causes the wait
}

// pieces returns the held pieces in the order in which they are fetched, which is that
// of their leases; those without a lease come last.
func (o *origin) pieces() []share.Piece {
	place := func(p share.Piece) share.Token { return o.held[p].lease - 1 } // of no lease: the greatest
	return slices.SortedFunc(maps.Keys(o.held), func(p, q share.Piece) int {
		return cmp.Or(cmp.Compare(place(p), place(q)), cmp.Compare(p, q))
	})
}

// progress hands over the progress that was not yet told.
func (o *origin) progress(id share.ID) (out []any) {
	var items []wire.Progress
	for _, p := range o.pieces() {
		if h := o.held[p]; h.alive && h.token != 0 {
			items = append(items, wire.Progress{Piece: p, Token: h.token, Bytes: min(h.bytes, share.MaxPiece)})
			h.bytes, h.alive = 0, false
		}
	}
	for part := range slices.Chunk(items, wire.MaxLeases) {
		out = append(out, wire.LeaseProgress{Share: id, Source: o.id, Items: part})
	}
	return out
}

func (s *sources) then(action any) { s.do = append(s.do, action) }

// tellSeat tells the coordinator something, if this node is a member.
func (s *sources) tellSeat(message any) {
	if s.seat.state == seated {
		s.then(Tell{message})
	}
}

func (s *sources) tellAll(messages []any) {
	for _, x := range messages {
		s.tellSeat(x)
	}
}

func (s *sources) wants(p share.Piece) bool { return s.cfg.Wanted == nil || s.cfg.Wanted.Has(p) }

func (s *sources) choose(p share.Piece, wanted bool) {
	if s.cfg.Wanted == nil {
		s.cfg.Wanted = share.FullSet(s.cfg.Pieces)
	}
	if wanted {
		s.cfg.Wanted.Add(p)
	} else {
		s.cfg.Wanted.Remove(p)
	}
}

// close ends a source: its leases return.
func (s *sources) close(src *origin) {
	s.then(Send{src.pool, Unwatch{}})
	s.forget(src)
	if src.have != nil {
		s.down(src)
	}
}

// down makes the coordinator take back the leases of a source, after telling it what
// they have brought.
func (s *sources) down(src *origin) {
	s.tellAll(s.news.pieces(s.cfg.Share))
	s.tellSeat(wire.SourceDown{Share: s.cfg.Share, Source: src.id})
}

func (s *sources) forget(src *origin) {
	s.unask(src)
	delete(s.byID, src.id)
	s.order = slices.DeleteFunc(s.order, func(o *origin) bool { return o == src })
}

// unask takes back the request for leases that is under way.
func (s *sources) unask(src *origin) {
	if !src.asking.IsZero() {
		s.stale[src.id]++
	}
	src.asking, src.keep, src.again = time.Time{}, nil, time.Time{}
}

// announce tells the coordinator which wanted pieces a source has.
func (s *sources) announce(src *origin) {
	if src.have == nil || s.seat.state != seated {
		return
	}
	has := src.have
	if w := s.cfg.Wanted; w != nil {
		has = has.Minus(share.FullSet(has.Len()).Minus(w))
	}
	s.tellSeat(wire.SourceHas{Share: s.cfg.Share, Source: src.id, Pieces: has.Len(), Bits: has.Bytes()})
}

// govern tells the lease manager which pieces of a source this node may fetch.
func (s *sources) govern(src *origin) {
	var may *share.Set
	switch {
	case src.have == nil:
	case s.alone:
		may = src.have.Clone()
	default:
		may = share.NewSet(s.cfg.Pieces)
		for p := range src.held {
			may.Add(p)
		}
	}
	s.then(Allow{src.id, may})
}

// take takes away pieces that this node may no longer fetch from a source.
func (s *sources) take(src *origin, pieces []share.Piece) {
	if len(pieces) == 0 {
		return
	}
	x := Forbid{Source: src.id}
	for _, p := range pieces {
		delete(src.held, p)
		x.Pieces = append(x.Pieces, p)
	}
	s.then(x)
}

// giveBack returns the leases of some pieces to the coordinator.
func (s *sources) giveBack(src *origin, pieces []share.Piece, why leasemgr.Reason) {
	var items []wire.Returned
	for _, p := range pieces {
		if h := src.held[p]; h != nil && h.token != 0 {
			items = append(items, wire.Returned{Piece: p, Token: h.token, Reason: wire.Why(returns[why])})
		}
	}
	if !s.alone {
		s.take(src, pieces)
	}
	for part := range slices.Chunk(items, wire.MaxLeases) {
		s.tellSeat(wire.LeaseReturned{Share: s.cfg.Share, Source: src.id, Items: part})
	}
}

// unleased returns missing pieces that could be fetched from outside and are not leased,
// as many as one message holds.
func (s *sources) unleased() *share.Set {
	n := s.cfg.Pieces
	could, held, some := share.NewSet(n), share.NewSet(n), share.NewSet(n)
	for _, src := range s.order {
		if src.have != nil {
			could.Union(src.have)
		}
		for p := range src.held {
			held.Add(p)
		}
	}
	left := wire.MaxHave
	for p := range could.Minus(s.cfg.Mine).Minus(held).All() {
		if left == 0 {
			break
		}
		if s.wants(p) {
			some.Add(p)
			left--
		}
	}
	return some
}

// lease asks the coordinator for leases, those to be kept first.
func (s *sources) lease(src *origin, keep []share.Piece) {
	if src.have == nil || src.want <= 0 && len(keep) == 0 {
		return
	}
	if len(keep) > wire.MaxLeases {
		s.take(src, keep[wire.MaxLeases:])
		keep = keep[:wire.MaxLeases]
	}
	src.asking, src.keep, src.again = s.now, keep, time.Time{}
	s.tellSeat(wire.LeaseRequest{Share: s.cfg.Share, Max: uint32(min(src.want, wire.MaxLeases)), Rate: uint64(src.rate), RTT: src.trip + s.trip, Source: src.id, Keep: keep})
}

// refusal is why there are no leases for a source, for people.
func (s *sources) refusal(src *origin) string {
	switch {
	case s.seat.state != seated:
		return "waits for the coordinator of the fleet: " + s.seat.why
	case src.refused != wire.Reason{}:
		return "the coordinator of the fleet leases nothing more: " + src.refused.String()
	}
	return "waits for leases of the fleet"
}

// missed notes a piece that a source inside the fleet did not send, or sent wrong.
func (s *sources) missed(f *fellow, source peers.ID, p share.Piece) {
	if f.lacks == nil {
		f.lacks = share.NewSet(s.cfg.Pieces)
	}
	if f.lacks.Add(p) && s.seat.state == seated {
		s.news.lacks = append(s.news.lacks, wire.SourceDown{Share: s.cfg.Share, Source: source, Member: true, Pieces: []share.Piece{p}})
		within(&s.news.tellAt, s.now, gatherDone)
	}
}
