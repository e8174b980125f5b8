package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/verifier"
)

// leaseManager owns the leasemgr.Manager of one transfer. It alone keeps what
// every source has, and it alone completes a piece.
type leaseManager struct {
	s        *system.System
	transfer *actor.PID
	ration   *Ration
	files    *share.Manifest // nil: nobody asks for their names
	m        *leasemgr.Manager
	pools    map[peers.ID]*actor.PID
	ranks    map[peers.ID]RankSource // of all that are known, with a pool or without
	told     leasemgr.Stats          // as last told to the transfer
	wake     system.Alarm
}

func newLeaseManager(s *system.System, transfer *actor.PID, ration *Ration, cfg TransferConfig, files *share.Manifest, plan leasemgr.Plan) *leaseManager {
	l := &leaseManager{s: s, transfer: transfer, ration: ration, files: files, m: leasemgr.New(cfg.Leases, plan, s.Now()), pools: map[peers.ID]*actor.PID{}, ranks: map[peers.ID]RankSource{}}
	l.m.Watch(cfg.WatchLeases)
	return l
}

func (l *leaseManager) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case SourceUp:
		l.sourceUp(ctx, m)
	case SourceHas:
		l.do(ctx, l.m.SetHave(m.Source, m.Have, l.s.Now()))
	case SourceAway:
		l.m.Away(m.Source, m.Trip)
	case SourceSent:
		l.m.Spare(m.Source, l.s.Now())
	case SourceHasMore:
		l.do(ctx, l.m.Have(m.Source, m.Pieces, l.s.Now()))
	case SourceHasNot:
		l.do(ctx, l.m.HaveNot(m.Source, m.Pieces, l.s.Now()))
	case SourceDown:
		l.sourceDown(ctx, m.Source)
	case LeaseRequest:
		l.grant(ctx, m)
	case LeaseProgress:
		l.do(ctx, l.m.Progress(m.Source, m.Piece, m.Token, m.Bytes, l.s.Now()))
	case SourceExcused:
		l.do(ctx, l.m.Excuse(m.Source, l.s.Now()))
	case SourceBusy:
		l.do(ctx, l.m.Busy(m.Source, l.s.Now()))
	case SourceMeasured:
		l.do(ctx, l.m.Measured(m.Source, m.Rate, m.RTT, l.s.Now()))
	case LeaseReturned:
		l.returned(ctx, m)
	case PieceBegun:
		l.m.Begun(m.Piece)
	case PieceVerified:
		l.verified(ctx, m)
	case RankSource:
		l.rank(ctx, m)
	case PauseLeases:
		l.pause(ctx, m)
	case SetPriorities:
		l.setPriorities(ctx, m)
	case SetReader:
		l.do(ctx, l.m.SetReader(m.Reader, m.First, m.Count, l.s.Now()))
	case CloseReader:
		l.m.DropReader(m.Reader)
	case PlanQuery:
		ctx.Respond(l.status(m.Lines))
	case system.WakeDue:
		l.do(ctx, l.m.Expire(l.s.Now()))
	case *actor.Terminated:
		l.poolDied(ctx, m.Who)
	case *actor.Stopping, *actor.Restarting:
		l.wake.Stop()
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	l.tellEnds(ctx)
	l.wake.Set(l.s, ctx, l.m.Wake())
}

// tellEnds tells the transfer of leases that ended without their piece being completed, and
// of every event if somebody watches. It hears of completed pieces anyway.
func (l *leaseManager) tellEnds(ctx actor.Context) {
	st, events := l.m.Stats(), l.m.Events()
	rest := st
	rest.Granted, rest.Finished = l.told.Granted, l.told.Finished
	if rest == l.told && len(events) == 0 {
		return
	}
	l.told = st
	ctx.Send(l.transfer, LeasesEnded{st, events})
}

// sourceUp begins with a source. An earlier pool of it that failed may still be about to end: what that held returns.
func (l *leaseManager) sourceUp(ctx actor.Context, m SourceUp) {
	l.sourceDown(ctx, m.Source)
	l.pools[m.Source] = ctx.Sender()
	ctx.Watch(ctx.Sender())
	l.m.AddSource(m.Source, l.s.Now())
	if r, known := l.ranks[m.Source]; known {
		l.rank(ctx, r)
	}
}

func (l *leaseManager) rank(ctx actor.Context, m RankSource) {
	l.ranks[m.Source] = m
	l.do(ctx, l.m.Rank(m.Source, m.Score, m.Banned, l.s.Now()))
}

func (l *leaseManager) sourceDown(ctx actor.Context, id peers.ID) {
	if pool := l.pools[id]; pool != nil {
		ctx.Unwatch(pool)
		delete(l.pools, id)
	}
	l.do(ctx, l.m.RemoveSource(id, l.s.Now()))
}

// poolDied returns the leases of a pool that ended without a word.
func (l *leaseManager) poolDied(ctx actor.Context, who *actor.PID) {
	for id, pool := range l.pools {
		if pool.Equal(who) {
			l.sourceDown(ctx, id)
			return
		}
	}
}

func (l *leaseManager) grant(ctx actor.Context, m LeaseRequest) {
	now := l.s.Now()
	if m.Rate > 0 {
		l.do(ctx, l.m.Measured(m.Source, m.Rate, m.RTT, now))
	}
	leases, refused := l.m.Acquire(m.Source, m.Max, now)
	ctx.Respond(LeaseResponse{Leases: leases, Refused: refused})
}

func (l *leaseManager) returned(ctx actor.Context, m LeaseReturned) {
	now := l.s.Now()
	for _, r := range m.Leases {
		if r.Why == leasemgr.Elsewhere {
			l.do(ctx, l.m.Defer(m.Source, r.Piece, r.Token, r.Retry, now))
		} else {
			l.do(ctx, l.m.Fail(m.Source, r.Piece, r.Token, r.Why, now))
		}
		if pool := l.pools[m.Source]; pool != nil && !sameActor(ctx.Sender(), pool) { // the verifier ended it: the pool must hear
			l.tell(ctx, pool, LeaseRevoked{[]RevokedLease{{r.Piece, r.Token}}})
		}
	}
}

func (l *leaseManager) verified(ctx actor.Context, m PieceVerified) {
	tokens := make([]share.Token, len(m.Credits))
	for i, c := range m.Credits {
		tokens[i] = c.Token
	}
	todo := l.m.Verified(m.Piece, l.s.Now(), tokens...)
	wanted, leased, _ := l.m.Counts()
	l.told = l.m.Stats()
	ctx.Send(l.transfer, PieceDone{Piece: m.Piece, Credits: m.Credits, Last: todo.Done, Remaining: wanted + leased, Leases: l.told})
	l.do(ctx, todo)
}

func (l *leaseManager) setPriorities(ctx actor.Context, m SetPriorities) {
	l.do(ctx, l.m.SetPriorities(m.Runs, l.s.Now()))
	if l.m.Done() {
		ctx.Send(l.transfer, PlanDone{})
	}
}

func (l *leaseManager) pause(ctx actor.Context, m PauseLeases) {
	if m.Paused {
		l.m.Pause(m.Why)
		return
	}
	l.do(ctx, l.m.Resume(l.s.Now()))
}

// do tells the pools what the core decided.
func (l *leaseManager) do(ctx actor.Context, todo leasemgr.Todo) {
	l.revoke(ctx, todo.Expired)
	l.revoke(ctx, todo.Revoked)
	for _, x := range todo.Urgent {
		if pool := l.pools[x.Source]; pool != nil {
			l.tell(ctx, pool, LeaseUrgent{x.Piece, x.Token})
		}
	}
	for _, id := range todo.Wake {
		if pool := l.pools[id]; pool != nil {
			l.tell(ctx, pool, LeasesAvailable{})
		}
	}
}

func (l *leaseManager) revoke(ctx actor.Context, leases []leasemgr.Lease) {
	for _, x := range leases {
		if pool := l.pools[x.Source]; pool != nil {
			l.tell(ctx, pool, LeaseRevoked{[]RevokedLease{{x.Piece, x.Token}}})
		}
	}
}

// tell sends a message to a pool on the same way as its answers. In a fleet that is
// through the leaseClient above. Nothing may overtake the answers: a wake-up that came
// before the refusal that it ends would be lost.
func (l *leaseManager) tell(ctx actor.Context, pool *actor.PID, m any) {
	if above := ctx.Parent(); above != nil && !sameActor(above, l.transfer) {
		ctx.Send(above, toPool{pool, m})
		return
	}
	ctx.Send(pool, m)
}

func (l *leaseManager) status(lines int) PlanStatus {
	var st PlanStatus
	st.Wanted, st.Leased, st.Verified = l.m.Counts()
	for i, e := range l.m.Missing(lines, l.s.Now()) {
		st.Lacking = st.Lacking || i == 0 && e.Connected > 0 && e.Has == 0
		e.Files = l.filesOf(e.First, e.Last)
		st.Why = append(st.Why, e.String())
	}
	if rate, own := l.ration.lowest(); rate > 0 && l.ration.holdsUp() && len(st.Why) > 0 {
		st.Why = append(st.Why, transfer.Paced(rate, own))
	}
	return st
}

// filesOf names the files of a run of pieces: the first and, if there are more, the last.
func (l *leaseManager) filesOf(first, last share.Piece) string {
	if l.files == nil {
		return ""
	}
	a, b := l.files.Layout().PieceSpan(first).Entry, l.files.Layout().PieceSpan(last).Entry
	if a == b {
		return l.files.Entry(a).Path
	}
	return l.files.Entry(a).Path + " to " + l.files.Entry(b).Path
}

// sameActor reports whether a and b are not nil and the same.
func sameActor(a, b *actor.PID) bool { return a != nil && b != nil && a.Equal(b) }

// ---- messages to the LeaseManager ----

// SourceUp, FetchPool -> LeaseManager: the sender fetches from Source.
type SourceUp struct{ Source peers.ID }

// SourceHas, FetchPool -> LeaseManager: all pieces of a source; nil is none.
type SourceHas struct {
	Source peers.ID
	Have   *share.Set
}

// SourceAway, FetchPool -> LeaseManager: how long the round trip of the connection to a source is.
type SourceAway struct {
	Source peers.ID
	Trip   time.Duration
}

// SourceSent, FetchPool -> LeaseManager: a source sent us to others before it was asked for a piece.
type SourceSent struct{ Source peers.ID }

// SourceHasMore, FetchPool -> LeaseManager.
type SourceHasMore struct {
	Source peers.ID
	Pieces []share.Piece
}

// SourceHasNot, leaseClient -> LeaseManager: a source no longer has these; its leases on them end.
type SourceHasNot struct {
	Source peers.ID
	Pieces []share.Piece
}

// SourceDown, FetchPool or Transfer -> LeaseManager: its leases return.
type SourceDown struct{ Source peers.ID }

// LeaseRequest, FetchPool -> LeaseManager (fleet). Answered with LeaseResponse.
type LeaseRequest struct {
	Source peers.ID
	Max    int
	Rate   float64 // bytes per second; 0 when not measured
	RTT    time.Duration
}

// SourceExcused, FetchPool -> LeaseManager: a source is not late, because this node itself holds up what it would send.
type SourceExcused struct{ Source peers.ID }

// LeaseProgress, FetchPool -> LeaseManager (fleet): bytes of a lease came in.
type LeaseProgress struct {
	Source peers.ID
	Piece  share.Piece
	Token  share.Token
	Bytes  int
}

// SourceBusy, FetchPool -> LeaseManager: a source told us to ask again later.
type SourceBusy struct{ Source peers.ID }

// SourceMeasured, FetchPool -> LeaseManager: how fast a source delivers now. A pool with
// enough leases asks for none, and the source may have become slow meanwhile.
type SourceMeasured struct {
	Source peers.ID
	Rate   float64 // bytes per second
	RTT    time.Duration
}

// LeaseReturned, FetchPool -> LeaseManager (fleet): given up, for a reason.
type LeaseReturned struct {
	Source peers.ID
	Leases []ReturnedLease
}

// ReturnedLease is one lease of LeaseReturned.
type ReturnedLease struct {
	Piece share.Piece
	Token share.Token
	Why   leasemgr.Reason
	Retry time.Duration // leasemgr.Elsewhere: when the source may be asked again; 0: it names no time
}

// PieceVerified, PieceVerifier -> LeaseManager: every block is verified and written.
type PieceVerified struct {
	Piece   share.Piece
	Credits []verifier.Credit
}

// PieceBegun, PieceVerifier -> LeaseManager: some blocks of a piece are verified.
type PieceBegun struct{ Piece share.Piece }

// RankSource, Transfer -> LeaseManager.
type RankSource struct {
	Source peers.ID
	Score  float64
	Banned bool
}

// PauseLeases, Transfer -> LeaseManager: grant nothing (or again) while the disk is full.
type PauseLeases struct {
	Paused bool
	Why    string
}

// SetPriorities, Transfer -> LeaseManager. Answered with PlanDone if nothing is left to fetch.
type SetPriorities struct{ Runs []leasemgr.Run }

// SetReader, Transfer -> LeaseManager: the pieces that a reader reads next; none if Count is 0.
type SetReader struct {
	Reader leasemgr.Reader
	First  share.Piece
	Count  int
}

// PlanQuery, API -> Transfer -> LeaseManager. Answered with PlanStatus of at most Lines lines.
type PlanQuery struct {
	Lines int
	Quiet time.Time // since when the transfer has waited for a verified byte from its sources; zero: it does not
}
