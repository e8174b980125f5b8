package actors

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what a leaseClient does about the sources outside the fleet and
// their leases.

// origin is a source outside the fleet.
type origin struct {
	id   peers.ID
	pool *actor.PID
	have *share.Set // what it says it has; nil: nothing
	held map[share.Piece]*hold
	rate float64
	trip time.Duration

	want    int       // leases that the pool would take and the LeaseManager does not have
	asking  time.Time // since when an answer is awaited; zero: none is
	keep    []uint32  // what that request asked to keep
	again   time.Time // refused: when to ask again
	refused string    // why there was nothing more, last time
}

// hold is a piece that may be fetched from a source.
type hold struct {
	token share.Token // the coordinator's; 0: taken without its leave
	lease share.Token // the LeaseManager's; 0: not yet
	bytes int         // not yet told
	alive bool        // ... nor that it came on, if only because it is we who wait
}

// ---- sources ----

func (c *leaseClient) sourceUp(ctx actor.Context, m SourceUp) {
	defer ctx.Forward(c.local)
	if c.fellows[m.Source] != nil || m.Source == c.cfg.Coordinator.ID {
		return
	}
	if src := c.sources[m.Source]; src != nil { // its pool is another one now
		c.close(ctx, src)
	}
	src := &origin{id: m.Source, pool: ctx.Sender(), held: map[share.Piece]*hold{}}
	c.sources[src.id] = src
	c.order = append(c.order, src)
	ctx.Watch(src.pool)
}

// close ends a source: its leases return.
func (c *leaseClient) close(ctx actor.Context, src *origin) {
	ctx.Unwatch(src.pool)
	c.forget(src)
	if src.have != nil {
		c.down(ctx, src)
	}
}

// down has the coordinator take the leases of a source back; first it hears what
// they have brought.
func (c *leaseClient) down(ctx actor.Context, src *origin) {
	c.tellDone(ctx)
	c.tellSeat(ctx, wire.SourceDown{Share: c.share, Source: src.id})
}

func (c *leaseClient) forget(src *origin) {
	c.unask(src)
	delete(c.sources, src.id)
	c.order = slices.DeleteFunc(c.order, func(o *origin) bool { return o == src })
}

// unask takes back the request for leases that is under way.
func (c *leaseClient) unask(src *origin) {
	if !src.asking.IsZero() {
		c.stale[src.id]++
	}
	src.asking, src.keep, src.again = time.Time{}, nil, time.Time{}
}

func (c *leaseClient) sourceHas(ctx actor.Context, m SourceHas) {
	src := c.sources[m.Source]
	if src == nil {
		ctx.Forward(c.local)
		return
	}
	was := src.have
	src.have = m.Have
	for p := range src.held {
		if src.have == nil || !src.have.Has(p) {
			delete(src.held, p)
		}
	}
	switch {
	case src.have == nil && was != nil: // it is not connected: its leases return
		c.down(ctx, src)
		c.unask(src)
	case src.have != nil:
		c.announce(ctx, src)
	}
	c.govern(ctx, src)
}

func (c *leaseClient) sourceHasMore(ctx actor.Context, m SourceHasMore) {
	src := c.sources[m.Source]
	if src == nil || src.have == nil {
		ctx.Forward(c.local)
		return
	}
	var fresh []uint32
	for _, p := range m.Pieces {
		if src.have.Add(p) && c.wants(p) {
			fresh = append(fresh, uint32(p))
		}
	}
	for part := range slices.Chunk(fresh, wire.MaxHave) {
		c.tellSeat(ctx, wire.SourceHasMore{Share: c.share, Source: src.id, Pieces: part})
	}
	if c.alone {
		ctx.Forward(c.local)
	}
}

func (c *leaseClient) sourceDown(ctx actor.Context, id peers.ID) {
	if src := c.sources[id]; src != nil {
		c.close(ctx, src)
	} else if f := c.fellows[id]; f != nil && !f.down {
		f.down = true
		c.tellSeat(ctx, wire.SourceDown{Share: c.share, Source: id, Member: true})
	}
	ctx.Forward(c.local)
}

// announce tells the coordinator what a source has of what is wanted here.
func (c *leaseClient) announce(ctx actor.Context, src *origin) {
	if src.have == nil || c.state != seated {
		return
	}
	has := src.have
	if c.wanted != nil {
		has = has.Minus(share.FullSet(has.Len()).Minus(c.wanted))
	}
	c.tellSeat(ctx, wire.SourceHas{Share: c.share, Source: src.id, Pieces: uint32(has.Len()), Bits: has.Bytes()})
}

// govern tells the LeaseManager what a source has as far as this node may fetch it.
func (c *leaseClient) govern(ctx actor.Context, src *origin) {
	var may *share.Set
	switch {
	case src.have == nil:
	case c.alone:
		may = src.have.Clone()
	default:
		may = share.NewSet(c.layout.Pieces())
		for p := range src.held {
			may.Add(p)
		}
	}
	ctx.Send(c.local, SourceHas{src.id, may})
}

func (c *leaseClient) wants(p share.Piece) bool { return c.wanted == nil || c.wanted.Has(p) }

// setPriorities follows what is selected: the coordinator leases nothing else.
func (c *leaseClient) setPriorities(ctx actor.Context, m SetPriorities) {
	ctx.Forward(c.local)
	changed := false
	for _, r := range m.Runs {
		for p := r.First; p < r.First+share.Piece(r.N); p++ {
			if skip := r.Priority == leasemgr.Skip; skip == c.wants(p) {
				changed = true
				c.choose(p, !skip)
			}
		}
	}
	if !changed {
		return
	}
	for _, src := range c.order {
		c.announce(ctx, src)
		c.giveBack(ctx, src, slices.DeleteFunc(src.pieces(), func(p uint32) bool { return c.wants(share.Piece(p)) }), leasemgr.GaveBack)
	}
}

func (c *leaseClient) choose(p share.Piece, wanted bool) {
	if c.wanted == nil {
		c.wanted = share.FullSet(c.layout.Pieces())
	}
	if wanted {
		c.wanted.Add(p)
	} else {
		c.wanted.Remove(p)
	}
}

// pieces are those held, in order.
func (o *origin) pieces() []uint32 {
	out := make([]uint32, 0, len(o.held))
	for p := range o.held {
		out = append(out, uint32(p))
	}
	slices.Sort(out)
	return out
}

// take takes pieces from a source that this node may not fetch from there any more.
func (c *leaseClient) take(ctx actor.Context, src *origin, pieces []uint32) {
	if len(pieces) == 0 {
		return
	}
	m := SourceHasNot{Source: src.id}
	for _, p := range pieces {
		delete(src.held, share.Piece(p))
		m.Pieces = append(m.Pieces, share.Piece(p))
	}
	ctx.Send(c.local, m)
}

// giveBack returns the leases of some pieces to the coordinator.
func (c *leaseClient) giveBack(ctx actor.Context, src *origin, pieces []uint32, why leasemgr.Reason) {
	m := wire.LeaseReturned{Share: c.share, Source: src.id}
	for _, p := range pieces {
		if h := src.held[share.Piece(p)]; h != nil && h.token != 0 {
			m.Items = append(m.Items, wire.Returned{Piece: p, Token: uint64(h.token), Reason: string(why)})
		}
	}
	if !c.alone {
		c.take(ctx, src, pieces)
	}
	for part := range slices.Chunk(m.Items, wire.MaxLeases) {
		c.tellSeat(ctx, wire.LeaseReturned{Share: m.Share, Source: m.Source, Items: part})
	}
}

// tellSeat sends the coordinator what only a member says.
func (c *leaseClient) tellSeat(ctx actor.Context, m any) {
	if c.state == seated {
		ctx.Request(c.seat, m)
	}
}

// ---- leases, here ----

// ask passes a question on to the LeaseManager, to be answered through here.
func (c *leaseClient) ask(ctx actor.Context, q asking, m any) {
	c.asked.Push(q)
	ctx.Request(c.local, m)
}

func (c *leaseClient) request(ctx actor.Context, m LeaseRequest) {
	src := c.sources[m.Source]
	if src != nil && m.Rate > 0 {
		src.rate, src.trip = m.Rate, m.RTT
	}
	c.ask(ctx, asking{ctx.Sender(), src, m.Max}, m)
}

// granted passes leases on to the pool, and has more asked for if there were too
// few.
func (c *leaseClient) granted(ctx actor.Context, m LeaseResponse) {
	q, _ := c.asked.Pop()
	src := q.src
	if src == nil { // inside the fleet
		ctx.Send(q.from, m)
		return
	}
	for _, l := range m.Leases {
		h := src.held[l.Piece]
		if h == nil && c.alone {
			h = &hold{}
			src.held[l.Piece] = h
		}
		if h != nil {
			h.lease = l.Token
		}
	}
	src.want = 0
	if no := m.Refused.Reason; no == leasemgr.NoneHere || no == leasemgr.AllLeased {
		src.want = q.max - len(m.Leases)
		if !c.alone {
			m.Refused.Reason = leasemgr.Why(c.refusal(src))
		}
	}
	ctx.Send(q.from, m)
}

// refusal is why there are no leases for a source, for people.
func (c *leaseClient) refusal(src *origin) string {
	switch {
	case c.state != seated:
		return "waits for the coordinator of the fleet: " + c.why
	case src.refused != "":
		return "the coordinator of the fleet leases nothing more: " + src.refused
	}
	return "waits for leases of the fleet"
}

func (c *leaseClient) progress(ctx actor.Context, m LeaseProgress) {
	ctx.Forward(c.local)
	src := c.sources[m.Source]
	if src == nil {
		return
	}
	if h := src.held[m.Piece]; h != nil && h.lease == m.Token {
		h.bytes += m.Bytes
		h.alive = true
		if c.bytesAt.IsZero() && c.state == seated {
			c.bytesAt = c.s.Now().Add(gatherBytes)
		}
	}
}

func (c *leaseClient) returned(ctx actor.Context, m LeaseReturned) {
	ctx.Forward(c.local)
	c.missed(m)
	src := c.sources[m.Source]
	if src == nil {
		return
	}
	for _, r := range m.Leases {
		if h := src.held[r.Piece]; h == nil || h.lease != r.Token {
			continue // not good any more
		}
		if r.Why == leasemgr.NotFound && src.have != nil {
			src.have.Remove(r.Piece)
		}
		c.giveBack(ctx, src, []uint32{uint32(r.Piece)}, r.Why)
		delete(src.held, r.Piece)
	}
}

func (c *leaseClient) verified(ctx actor.Context, m PieceVerified) {
	ctx.Forward(c.local)
	c.mine.Add(m.Piece)
	leased := false
	for _, src := range c.order {
		h := src.held[m.Piece]
		if h == nil {
			continue
		}
		delete(src.held, m.Piece)
		if h.token != 0 && !leased {
			leased = true
			c.done = append(c.done, wire.PieceDone{Share: c.share, Piece: uint32(m.Piece), Token: uint64(h.token)})
		}
	}
	if !leased {
		c.more = append(c.more, uint32(m.Piece))
	}
	if c.state != seated {
		c.done, c.more = nil, nil // the next HaveMap says it
		return
	}
	c.tellSoon()
}

// tellSoon has what is gathered told.
func (c *leaseClient) tellSoon() {
	if c.tellAt.IsZero() {
		c.tellAt = c.s.Now().Add(gatherDone)
	}
}

// ---- leases, of the fleet ----

// askAll asks for leases where some are wanted and could be had.
func (c *leaseClient) askAll(ctx actor.Context, now time.Time) (next time.Time) {
	if c.state != seated {
		return next
	}
	for _, src := range c.order {
		switch {
		case !src.asking.IsZero():
			if late := src.asking.Add(answerIn); late.After(now) {
				next = earliest(next, late)
			} else {
				c.lost(ctx, "it does not answer")
				return c.retry
			}
		case src.want <= 0 || src.have == nil:
		case src.again.After(now):
			next = earliest(next, src.again)
		default:
			c.lease(ctx, src, nil)
			next = earliest(next, now.Add(answerIn))
		}
	}
	return next
}

// lease asks the coordinator for leases, first of all those that are to be kept.
func (c *leaseClient) lease(ctx actor.Context, src *origin, keep []uint32) {
	if src.have == nil || src.want <= 0 && len(keep) == 0 {
		return
	}
	if len(keep) > wire.MaxLeases {
		c.take(ctx, src, keep[wire.MaxLeases:])
		keep = keep[:wire.MaxLeases]
	}
	src.asking, src.keep, src.again = c.s.Now(), keep, time.Time{}
	c.tellSeat(ctx, wire.LeaseRequest{Share: c.share, Max: uint32(min(src.want, wire.MaxLeases)), Rate: uint64(src.rate), RTT: src.trip + c.trip, Source: src.id, Keep: keep})
}

// response takes on what the coordinator leased, and ends what it did not let us
// keep.
func (c *leaseClient) response(ctx actor.Context, m wire.LeaseResponse) {
	src := c.sources[m.Source]
	switch {
	case !c.coordinator(ctx, m.Share):
		return
	case c.stale[m.Source] > 0:
		if c.stale[m.Source]--; c.stale[m.Source] == 0 {
			delete(c.stale, m.Source)
		}
		return
	case src == nil || src.asking.IsZero():
		return
	}
	now := c.s.Now()
	kept := map[uint32]bool{}
	var fresh []share.Piece
	var back []wire.Returned
	for _, l := range m.Leases {
		p, token := share.Piece(l.Piece), share.Token(l.Token)
		c.epoch = l.Token >> 40
		h := src.held[p]
		switch {
		case h != nil:
			h.token = token
			kept[l.Piece] = true
		case src.have == nil || !src.have.Has(p) || !c.wants(p) || c.mine.Has(p):
			back = append(back, wire.Returned{Piece: l.Piece, Token: l.Token, Reason: string(leasemgr.GaveBack)})
		default:
			src.held[p] = &hold{token: token}
			fresh = append(fresh, p)
		}
	}
	c.take(ctx, src, slices.DeleteFunc(src.keep, func(p uint32) bool { return kept[p] || src.held[share.Piece(p)] == nil }))
	if len(back) > 0 {
		c.tellSeat(ctx, wire.LeaseReturned{Share: c.share, Source: src.id, Items: back})
	}
	if len(fresh) > 0 {
		ctx.Send(c.local, SourceHasMore{src.id, fresh})
	}
	src.asking, src.keep, src.refused = time.Time{}, nil, m.Refused
	src.want = max(0, src.want-len(fresh))
	if m.Refused != "" {
		src.again = now.Add(cmp.Or(m.Until, askAnyway))
	}
}

func (c *leaseClient) available(ctx actor.Context, m wire.LeasesAvailable) {
	if src := c.sources[m.Source]; src != nil && c.coordinator(ctx, m.Share) {
		src.again, src.refused = time.Time{}, ""
	}
}

func (c *leaseClient) revoked(ctx actor.Context, m wire.LeaseRevoked) {
	src := c.sources[m.Source]
	if src == nil || !c.coordinator(ctx, m.Share) {
		return
	}
	var gone []uint32
	for _, i := range m.Items {
		if h := src.held[share.Piece(i.Piece)]; h != nil && h.token == share.Token(i.Token) {
			gone = append(gone, i.Piece)
		}
	}
	c.take(ctx, src, gone)
}

// tell sends what was gathered and is due.
func (c *leaseClient) tell(ctx actor.Context, now time.Time) time.Time {
	if !c.bytesAt.IsZero() && !c.bytesAt.After(now) {
		c.bytesAt = time.Time{}
		for _, src := range c.order {
			c.tellBytes(ctx, src)
		}
	}
	if !c.tellAt.IsZero() && !c.tellAt.After(now) {
		c.tellAt = time.Time{}
		c.tellDone(ctx)
		c.tellLacks(ctx)
	}
	return earliest(c.tellAt, c.bytesAt)
}

func (c *leaseClient) tellBytes(ctx actor.Context, src *origin) {
	var items []wire.Progress
	for _, p := range src.pieces() {
		if h := src.held[share.Piece(p)]; h.alive && h.token != 0 {
			items = append(items, wire.Progress{Piece: p, Token: uint64(h.token), Bytes: uint32(min(h.bytes, share.MaxPiece))})
			h.bytes, h.alive = 0, false
		}
	}
	for part := range slices.Chunk(items, wire.MaxLeases) {
		c.tellSeat(ctx, wire.LeaseProgress{Share: c.share, Source: src.id, Items: part})
	}
}

func (c *leaseClient) tellDone(ctx actor.Context) {
	for i, d := range c.done {
		if i < singleDones {
			c.tellSeat(ctx, d)
		} else {
			c.more = append(c.more, d.Piece)
		}
	}
	for part := range slices.Chunk(c.more, wire.MaxHave) {
		c.tellSeat(ctx, Have{Share: c.share, Pieces: convert[share.Piece](part)})
	}
	c.done, c.more = nil, nil
}
