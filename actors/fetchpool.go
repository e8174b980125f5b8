package actors

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// fetchPool is one source of one transfer: it owns the fetchpool core that
// decides every request, and the Link that carries them.
type fetchPool struct {
	s         *system.System
	net       Network
	budget    *Budget
	ration    *Ration
	transfer  *actor.PID
	leases    *actor.PID
	verifiers []*actor.PID
	finder    *actor.PID
	source    peers.Addr
	number    int                // of the transfer's pools
	at        transfer.Addresses // of the source
	nowhere   int                // attempts that did not reach the source
	whole     bool               // the source said that it has every piece; good for the first link, and for the only fetch: others may wait for the same source
	sent      bool               // the source has many to feed, and is spared for a while
	share     share.ID
	layout    *share.Layout
	anonymous bool
	member    bool // of a fleet, in which it waits for the others that it hears of: the source need not name them

	core      *fetchpool.Pool
	part      part
	link      Link
	links     linkNumber                     // links opened so far; messages of an older one are dropped
	requests  map[uint64]*request            // on the link, by the core's ID
	unclear   map[share.Piece]leasemgr.Lease // leased, and their block state asked for
	asked     bool                           // a LeaseRequest is under way
	unchecked int                            // bytes at the verifiers, without a verdict yet
	joining   bool                           // a Subscribe is under way
	closed    bool                           // Stopping has come
	told      SourceStatus                   // what the transfer heard last
	missed    int                            // deadlines, not yet reported
	reported  time.Time
	rate      float64 // as reported
	earned    int64
	excused   time.Time // when the lease manager was last told that the delay is ours
	owed      time.Time // since when something waits for the verifiers; zero: nothing does
	wake      system.Alarm
}

// request is one request on the link.
type request struct {
	fetchpool.Request
	left  int // bytes of the budget that it still holds
	early int // bytes told to the lease manager before their run was whole
}

func (f *fetchPool) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		f.start(ctx)
	case fromLink:
		f.hear(ctx, m)
	case wire.SubscribeResult:
		f.subscribed(ctx, m)
	case wire.HaveMap:
		f.haveMap(ctx, m)
	case wire.Have:
		f.have(ctx, m)
	case wire.ShareGone:
		f.gone(wire.Reply{Status: wire.Gone, Reason: m.Reason}.String())
	case system.Unreadable:
		f.broken(ctx, transfer.Rule(m.Err))
	case wire.Goodbye:
		f.core.Lost(errGoodbye, f.s.Now())
	case LeaseResponse:
		f.leased(ctx, m)
	case LeasesAvailable:
		f.core.Available(f.s.Now())
	case LeaseRevoked:
		f.revoked(m)
	case LeaseUrgent:
		f.hurry(m)
	case PieceStates:
		f.states(m)
	case BlocksChecked:
		f.checked(m)
	case BlocksHere:
		f.core.Verified(m.Piece, m.First, m.Count, f.s.Now())
	case rationChanged:
		f.limit()
	case budgetFree, system.WakeDue:
	case SourceAlso:
		f.also(m.Addr)
	case *actor.DeadLetterResponse:
		f.unheard(ctx, m)
	case *actor.Stopping:
		f.close(ctx)
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	if !f.closed {
		f.step(ctx)
	}
}

var errGoodbye = errors.New("it has ended")

func (f *fetchPool) start(ctx actor.Context) {
	f.budget, f.part = f.budget.For(ctx.Self()), f.ration.For(ctx.Self())
	f.limit()
	f.requests = map[uint64]*request{}
	f.unclear = map[share.Piece]leasemgr.Lease{}
	ctx.Request(f.leases, SourceUp{f.source.ID})
}

func (f *fetchPool) limit() {
	rate, own := f.ration.lowest()
	f.core.Limit(float64(rate), transfer.Limiter(own), f.s.Now())
}

// step does what the core wants done. It runs after every message.
func (f *fetchPool) step(ctx actor.Context) {
	behind := f.unchecked >= maxUnchecked // the verifiers, or the disk, are slower than the source: what they say next wakes us
	todo := f.core.Next(f.s.Now(), func(n int) fetchpool.Permission { return f.mayAsk(n, behind) })
	for _, id := range todo.Cancel {
		f.link.Cancel(id)
	}
	for _, r := range todo.Ended {
		f.end(r.ID)
	}
	f.giveBack(ctx, todo.Return)
	if todo.Close || todo.Gone {
		f.hangUp()
		ctx.Request(f.leases, SourceHas{Source: f.source.ID}) // nothing, until it announces again
	}
	if todo.Dial {
		f.dial(ctx)
	}
	if todo.Subscribe {
		f.subscribe(ctx)
	}
	if len(todo.Believe) > 0 {
		ctx.Request(f.leases, SourceHasMore{f.source.ID, slices.Clone(todo.Believe)})
	}
	refused := false
	for _, r := range todo.Requests {
		refused = !f.send(r) || refused
	}
	if todo.Starved && !behind {
		f.budget.WaitFor(ctx.Self())
	}
	if todo.Want > 0 && !f.asked && len(f.unclear) == 0 {
		f.ask(ctx, todo.Want)
	}
	f.report(ctx, todo.Gone)
	f.wake.Set(f.s, ctx, times.Earliest(todo.Wake, f.awaitTurn(todo.Paced), f.excuse(ctx, todo)))
	if refused { // the core has more to say about what the link did not take
		f.step(ctx)
	}
}

// mayAsk is whether n bytes may be asked for now.
func (f *fetchPool) mayAsk(n int, behind bool) fetchpool.Permission {
	now := f.s.Now()
	switch {
	case behind:
		return fetchpool.NoMemory
	case !f.part.due(n, now):
		return fetchpool.TooSoon
	case !f.budget.Take(n):
		return fetchpool.NoMemory
	}
	f.part.spend(n, now)
	return fetchpool.Granted
}

func (f *fetchPool) subscribe(ctx actor.Context) {
	sub := wire.Subscribe{Share: f.share, MirrorsOnly: f.member}
	if !f.anonymous {
		sub.Addrs, sub.Nameable = f.net.Addrs(), true
	}
	f.s.ExportTo(f.source.ID, ctx.Self())
	f.joining = true
	ctx.Request(f.s.Remote(f.source.ID, SeederName), sub)
}

// unheard handles a request that reached nobody, and the end of the exchange of
// messages with the source. To a Subscribe that is an answer. After it, the source
// announces nothing more, though the link may still be up: the pool subscribes
// anew. The local actors end with the transfer.
func (f *fetchPool) unheard(ctx actor.Context, m *actor.DeadLetterResponse) {
	switch {
	case f.joining:
		f.joining = false
		f.declined(ctx, 0, "cannot be told that this node wants the share")
	case m.Target == nil && f.core.State() == fetchpool.Ready:
		f.lost(errUnheard)
	}
}

// end gives back the part of the budget that a finished request still holds.
func (f *fetchPool) end(id uint64) {
	if r := f.requests[id]; r != nil {
		f.budget.Give(r.left)
		delete(f.requests, id)
	}
}

func (f *fetchPool) giveBack(ctx actor.Context, back []fetchpool.Return) {
	if len(back) == 0 {
		return
	}
	m := LeaseReturned{Source: f.source.ID}
	for _, b := range back {
		m.Leases = append(m.Leases, ReturnedLease{b.Piece, b.Token, reasonOf(b.Why), b.Retry})
		if b.Why == fetchpool.MissedDeadline || b.Why == fetchpool.NoSuchPiece { // a promise that it did not keep
			f.missed++
		}
	}
	ctx.Request(f.leases, m)
}

func reasonOf(r fetchpool.Reason) leasemgr.Reason {
	switch r {
	case fetchpool.MissedDeadline:
		return leasemgr.Missed
	case fetchpool.NoSuchPiece:
		return leasemgr.NotFound
	case fetchpool.LinkLost:
		return leasemgr.Lost
	case fetchpool.GivenToOthers:
		return leasemgr.Elsewhere
	}
	return leasemgr.GaveBack
}

func (f *fetchPool) ask(ctx actor.Context, n int) {
	f.asked = true
	rate, rtt, known := f.core.Measure()
	if !known {
		rate = 0
	}
	ctx.Request(f.leases, LeaseRequest{Source: f.source.ID, Max: n, Rate: f.useful(rate), RTT: rtt})
}

// useful is the part of a rate that the node's own limit leaves.
func (f *fetchPool) useful(rate float64) float64 {
	if limit := f.ration.Rate(); limit > 0 {
		return min(rate, float64(limit))
	}
	return rate
}

// leased takes on new leases: those of untouched pieces at once, the others
// when the verifier has said which blocks are here.
func (f *fetchPool) leased(ctx actor.Context, m LeaseResponse) {
	f.asked = false
	now := f.s.Now()
	var fresh []fetchpool.Work
	begun := make([]AskPieces, len(f.verifiers))
	for _, l := range m.Leases {
		if !l.Begun && !l.Hedge {
			fresh = append(fresh, fetchpool.Work{Piece: l.Piece, Token: l.Token, Urgent: l.Urgent, Pressed: l.Pressed})
			continue
		}
		f.unclear[l.Piece] = l
		a := &begun[int(l.Piece)%len(f.verifiers)]
		a.Pieces, a.Tokens = append(a.Pieces, l.Piece), append(a.Tokens, l.Token)
	}
	for i, a := range begun {
		if len(a.Pieces) > 0 {
			ctx.Request(f.verifiers[i], a)
		}
	}
	if len(fresh) > 0 {
		f.core.Grant(fresh, now)
	}
	if m.Refused.Reason != 0 { // there are no more for now
		f.core.Refused(m.Refused.String(), m.Refused.Until, now)
	}
}

func (f *fetchPool) states(m PieceStates) {
	var works []fetchpool.Work
	for _, st := range m.States {
		l, ok := f.unclear[st.Piece]
		if !ok || l.Token != st.Token {
			continue // revoked meanwhile
		}
		delete(f.unclear, st.Piece)
		works = append(works, fetchpool.Work{Piece: st.Piece, Token: st.Token, Have: st.Have, Proven: st.Proven, Hedge: l.Hedge, Urgent: l.Urgent, Pressed: l.Pressed})
	}
	f.core.GrantLate(works, f.s.Now())
}

func (f *fetchPool) revoked(m LeaseRevoked) {
	for _, l := range m.Leases {
		if x, ok := f.unclear[l.Piece]; ok && x.Token == l.Token {
			delete(f.unclear, l.Piece)
			continue
		}
		f.core.Revoke(l.Piece, l.Token, f.s.Now())
	}
}

func (f *fetchPool) hurry(m LeaseUrgent) {
	if x, ok := f.unclear[m.Piece]; ok && x.Token == m.Token {
		x.Urgent = true
		f.unclear[m.Piece] = x
	}
	f.core.Hurry(m.Piece, m.Token, f.s.Now())
}

func (f *fetchPool) subscribed(ctx actor.Context, m wire.SubscribeResult) {
	if !f.mine(m.Share) {
		return
	}
	f.joining = false
	switch {
	case m.Accepted:
		f.core.Subscribed(f.s.Now())
		f.sent = m.Elsewhere
		if len(m.Children) > 0 {
			ctx.Send(f.finder, PeersNamed{Share: f.share, By: f.source.ID, Via: peers.ViaPeer, Peers: m.Children})
		}
	case m.Retry > 0, m.Reason.Code == wire.CodeFull: // that passes, whatever it says
		f.declined(ctx, m.Retry, cmp.Or(m.Reason.String(), "is busy"))
	case m.Reason.Code == 0: // from before there were codes
		f.gone(cmp.Or(m.Reason.String(), wire.CodeNoShare.String()))
	default:
		f.refused(m.Reason.Code, m.Reason.String())
	}
}

// declined waits until the source may accept the subscription. What it said of what it has
// counts no longer.
func (f *fetchPool) declined(ctx actor.Context, retry time.Duration, why string) {
	f.core.Declined(retry, why, f.s.Now())
	ctx.Request(f.leases, SourceHas{Source: f.source.ID})
}

// gone ends the pool of a source that does not have the share, or no longer has it.
func (f *fetchPool) gone(why string) {
	f.told.Outcome = share.ErrNotFound
	f.core.Stop(why, f.s.Now())
}

func (f *fetchPool) haveMap(ctx actor.Context, m wire.HaveMap) {
	if !f.listens(m.Share) {
		return
	}
	set, err := share.ParseSet(f.layout.Pieces(), m.Bits)
	if err != nil || m.Pieces != f.layout.Pieces() {
		f.broken(ctx, "it sent a list of the pieces of another share")
		return
	}
	ctx.Request(f.leases, SourceHas{f.source.ID, set})
	if f.sent {
		f.sent = false
		ctx.Send(f.leases, SourceSent{f.source.ID})
	}
	f.core.Announced(nil, f.s.Now())
}

// have passes on the new pieces of the source. If they make a lease possible for a pool
// that was refused, the lease manager wakes it. Asking after every Have would cost each
// member of a large fleet a request for each piece of every other member.
func (f *fetchPool) have(ctx actor.Context, m wire.Have) {
	switch {
	case !f.listens(m.Share) || len(m.Pieces) == 0:
		return
	case slices.ContainsFunc(m.Pieces, func(p share.Piece) bool { return !f.layout.Valid(p) }):
		f.broken(ctx, "it announced pieces that the share does not have")
		return
	}
	f.core.Announced(m.Pieces, f.s.Now())
	ctx.Request(f.leases, SourceHasMore{f.source.ID, m.Pieces})
}

// broken ends the pool of a source that announces what it cannot have, or what nobody can read.
func (f *fetchPool) broken(ctx actor.Context, rule string) {
	ctx.Send(f.transfer, SourceLied{Source: f.source.ID, Kind: transfer.Broken, Rule: rule})
	f.core.Stop("broke the protocol: "+rule, f.s.Now())
}

func (f *fetchPool) checked(m BlocksChecked) {
	f.unchecked -= m.Bytes
	f.earned += int64(m.Good)
}

// listens reports whether an announcement counts: one that comes while the link is down
// is repeated when it is up.
func (f *fetchPool) listens(id share.ID) bool {
	return f.mine(id) && f.core.State() == fetchpool.Ready
}

func (f *fetchPool) mine(id share.ID) bool { return id == f.share }

func (f *fetchPool) verifierOf(p share.Piece) *actor.PID { return f.verifiers[int(p)%len(f.verifiers)] }

const (
	reportEvery = time.Second
	// maxUnchecked bounds the bytes of a source that wait for the verifiers. More
	// would not make a slow disk faster, and is lost when the process is killed.
	maxUnchecked = 3 << 20
)

// report tells the transfer when the state of the pool has changed, and now and then what it measured.
func (f *fetchPool) report(ctx actor.Context, gone bool) {
	st := f.told
	st.Pool, st.Source, st.State, st.Why, st.LastLoss, st.Dials, st.Held = f.number, f.source.ID, stateOf(f.core.State()), f.core.Why(), f.core.LastLoss(), f.core.Dials(), f.core.IsHeld()
	st.Fetching, st.Stood, st.Busy, st.Paced = len(f.requests) > 0, f.core.Stood(), f.core.Busy(), f.core.Paced()
	f.part.tell(st.Paced)
	now := f.s.Now()
	if rate, rtt, known := f.core.Measure(); (f.earned > 0 || rate != f.rate || f.missed > 0) && now.Sub(f.reported) >= reportEvery {
		st.RTT = rtt
		f.measured(ctx, now, rate, rtt)
		if known {
			ctx.Send(f.leases, SourceMeasured{f.source.ID, f.useful(rate), rtt})
		}
	}
	if gone && !st.Gone {
		st.Gone = true
		ctx.Request(f.leases, SourceDown{f.source.ID})
	}
	if st != f.told {
		f.told = st
		ctx.Request(f.transfer, st)
	}
}

// measured tells the node's ranking how the source performs. rtt is the time to the
// first byte of a request that no queue of ours held up.
func (f *fetchPool) measured(ctx actor.Context, now time.Time, rate float64, rtt time.Duration) {
	f.reported, f.rate = now, rate
	ctx.Send(f.transfer, PeerMeasured{Peer: f.source.ID, Bytes: f.earned, Rate: rate, First: rtt, Missed: f.missed})
	f.earned, f.missed = 0, 0
}

func stateOf(st fetchpool.State) SourceState {
	switch st {
	case fetchpool.Idle, fetchpool.Dialing:
		return Connecting
	case fetchpool.Subscribing:
		return Joining
	case fetchpool.Ready:
		return Active
	case fetchpool.Waiting:
		return Resting
	}
	return Left
}

// close ends the link and gives back everything that is held.
func (f *fetchPool) close(ctx actor.Context) {
	f.closed = true
	f.wake.Stop()
	f.part.close(f.s.Now())
	f.hangUp()
	for id := range f.requests {
		f.end(id)
	}
	ctx.Send(f.s.Remote(f.source.ID, SeederName), wire.Unsubscribe{Share: f.share})
	f.s.Unexport(ctx.Self())
}
