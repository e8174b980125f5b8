package actors

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/verifier"
	"github.com/piecelease/fetcher/wire"
)

// transferActor owns the transfer.Transfer of one share that is fetched. It has below it
// the LeaseManager, the PieceVerifiers and a FetchPool per source, and calls the disk.
type transferActor struct {
	s      *system.System
	net    Network
	budget *Budget
	ration *Ration
	node   *actor.PID
	seeder *actor.PID
	finder *actor.PID
	elects *Elections // nil: the fleet, if any, does not
	cmd    FetchShare

	core        *transfer.Transfer
	manifest    *share.Manifest
	target      Target
	opening     *opening            // the latest; nil: none yet
	stopHashing func()              // ends the long disk work, Open and Finish; nil before it
	asks        map[peers.ID]func() // cancel the requests for the manifest
	traffic     []traffic           // of sources
	ranks       map[peers.ID]RankSource
	run         int // of leases and verifiers
	leases      *actor.PID
	verifiers   []*actor.PID
	workers     []*actor.PID       // both of this run, even those that have ended
	pools       map[int]*actor.PID // by number
	wake        system.Alarm
	ended       bool // the Node was told
}

// traffic is what went between this node and a peer before the transfer.
type traffic struct {
	peer    peers.ID
	in, out int64
}

func (t *transferActor) Receive(ctx actor.Context) {
	now := t.s.Now()
	if t.core != nil {
		t.limited()
		if t.target != nil {
			t.core.Finishing(t.target, now)
		}
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		t.start()
	case SourceFound:
		t.core.SourceFound(m, now)
	case findAgain:
		t.core.FindAgain(now)
	case transfer.Listers:
		t.core.Listers(m, now)
	case manifestComes:
		t.core.ManifestComes(m.from, m.bytes, m.size, t.s.Now())
	case manifestCame:
		t.manifestCame(ctx, m)
	case opened:
		t.opened(m)
	case SourceStatus:
		t.core.SourceStatus(m, now)
	case SourceLied:
		t.core.SourceLied(m, now)
	case PeerMeasured:
		ctx.Request(t.node, m)
	case RankSource:
		t.ranked(ctx, m)
	case PeerBanned:
		t.core.Banned(m.Peer, m.Until, now)
	case BlocksVerified:
		t.core.BlocksVerified(m, now)
	case PieceDone:
		t.core.PieceDone(m.Piece, sourcesOf(m.Credits), m.Last, m.Leases, now)
	case LeasesEnded:
		t.core.LeasesEnded(m.Leases, m.Events, now)
	case PlanStatus:
		t.core.Planned(m)
	case DiskFailed:
		t.core.DiskFailed(m.Err, now)
	case roomSeen:
		t.core.RoomSeen(m.need, m.free, now)
	case synced:
		t.core.Synced(m.err, now)
	case finished:
		t.core.Finished(m.path, m.err, now)
	case closed:
		t.core.Closed(m.err, now)
	case ProgressQuery:
		ctx.Respond(t.withTraffic(t.core.Progress(now)))
	case BroughtQuery:
		ctx.Respond(Brought{t.core.Brought()})
	case PlanQuery:
		t.explain(ctx)
	case WhyQuery:
		t.why(ctx)
	case SetPriority:
		t.core.SetPriority(portOf(ctx.Sender()), m.Entries, m.Priority, now)
	case SetDownloadRate:
		t.limit(m)
	case PlanDone:
		t.core.PlanDone(now)
	case OpenReader:
		t.core.OpenReader(portOf(ctx.Sender()), m.Path, now)
	case MoveReader:
		t.moveReader(ctx, m)
	case CloseReader:
		t.core.CloseReader(m.Reader, now)
	case StopTransfer:
		t.core.Stop(now)
	case system.ChildFailed:
		t.childFailed(m)
	case system.WakeDue:
	case *actor.DeadLetterResponse:
		t.core.Unheard(portOf(m.Target), now)
	case *actor.Terminated:
		t.workerGone(m.Who)
	case *actor.Stopping, *actor.Restarting:
		t.over(ctx)
		return
	case *actor.Stopped:
		t.gone(ctx)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	t.do(ctx)
}

func (t *transferActor) limit(m SetDownloadRate) {
	t.ration.SetRate(m.Rate)
	t.limited()
}

func (t *transferActor) limited() {
	rate, own := t.ration.lowest()
	t.core.Limit(rate, own, t.ration.queue(t.s.Now()))
}

// over gives up what is done outside, and tells those who wait for it that a transfer has gone which did not end by itself.
func (t *transferActor) over(ctx actor.Context) {
	t.wake.Stop()
	t.budget.End()
	if t.core == nil {
		return
	}
	for _, answer := range t.core.Abandon() {
		t.tell(ctx, answer)
	}
	for _, peer := range slices.Sorted(maps.Keys(t.asks)) {
		t.asks[peer]()
	}
}

// An opening is the work of opening the place on disk, which may go on when the actor has gone.
type opening struct {
	target Target      // what was opened, if anything
	ended  atomic.Bool // the work, or the actor
}

// gone gives the place on disk up if the transfer ended before it did that itself, after a bug, and tells the Node. Nothing that
// was below it writes any more.
func (t *transferActor) gone(ctx actor.Context) {
	if o := t.opening; !t.ended {
		t.s.Task(ctx, func(context.Context) any { t.giveUp(o); return nil })
	}
}

// giveUp is called, off the mailbox, when an opening has ended and when the actor has gone. The later call gives the place up.
func (t *transferActor) giveUp(o *opening) {
	if o != nil && !o.ended.Swap(true) {
		return
	}
	defer t.s.Assure(t.node, transferGone{t.cmd.Handle}, nil)
	if o != nil && o.target != nil {
		o.target.Close()
	}
}

func (t *transferActor) start() {
	t.budget.Begin()
	t.asks, t.pools, t.ranks = map[peers.ID]func(){}, map[int]*actor.PID{}, map[peers.ID]RankSource{}
	t.core = transfer.New(t.cmd.Config, transfer.Fetch{Share: t.cmd.Share, Self: t.net.Self(), Sources: t.cmd.Sources, Manifest: t.cmd.Manifest}, t.s.Now())
	t.limited()
}

// do does what the core wants done. It runs after every message.
func (t *transferActor) do(ctx actor.Context) {
	todo := t.core.Next(t.s.Now())
	for _, x := range todo.Do {
		_ = t.doSources(ctx, x) || t.doLeases(ctx, x) || t.doDisk(ctx, x) || t.tell(ctx, x)
	}
	t.wake.Set(t.s, ctx, todo.Wake)
}

// doSources does what concerns sources, and reports whether what did.
func (t *transferActor) doSources(ctx actor.Context, what any) bool {
	switch x := what.(type) {
	case transfer.FindSources:
		ctx.Request(t.finder, FindSources{Share: t.cmd.Share, Known: t.cmd.Sources, Beacons: t.cmd.Beacons, Hidden: t.cmd.Config.Anonymous})
	case transfer.StopFinding:
		ctx.Request(t.finder, StopFinding{t.cmd.Share})
	case transfer.Rank:
		t.count(x.Peer)
		ctx.Request(t.node, AskRank{x.Peer})
	case transfer.Blame:
		ctx.Request(t.node, PeerLied{x.Peer, x.Proof})
	case transfer.AskManifest:
		t.askManifest(ctx, x)
	case transfer.AskListers:
		t.askListers(ctx, x)
	case transfer.StopAsking:
		t.asks[x.Peer]()
		delete(t.asks, x.Peer)
	case transfer.StartPool:
		t.startPool(ctx, x)
	case transfer.StopPool:
		ctx.Stop(t.pools[x.Pool])
		delete(t.pools, x.Pool)
	case transfer.TellPool:
		ctx.Send(t.pools[x.Pool], SourceAlso{x.Addr})
	case transfer.Unsubscribe:
		ctx.Send(t.s.Remote(x.Peer, SeederName), wire.Unsubscribe{Share: t.cmd.Share, Done: true})
	default:
		return false
	}
	return true
}

// doLeases does what concerns leases and verifying, and reports whether what did.
func (t *transferActor) doLeases(ctx actor.Context, what any) bool {
	switch x := what.(type) {
	case transfer.StartLeases:
		t.startLeases(ctx, x)
	case transfer.StartVerifiers:
		t.startVerifiers(ctx, x.Count)
	case transfer.StopWorkers:
		t.stopWorkers(ctx)
	case transfer.AskPlan:
		ctx.Request(t.leases, PlanQuery{x.Lines, x.Quiet})
	case transfer.Prioritise:
		t.toLeases(ctx, SetPriorities{x.Runs})
	case transfer.Pause:
		t.toLeases(ctx, PauseLeases{x.Why != "", x.Why})
	case transfer.DropSource:
		t.toLeases(ctx, SourceDown{x.Peer})
	case transfer.Steer:
		t.toLeases(ctx, SetReader{x.Reader, x.First, x.Count})
	case transfer.DropReader:
		t.toLeases(ctx, CloseReader{x.Reader})
	default:
		return false
	}
	return true
}

// doDisk does what concerns the disk, and reports whether what did.
func (t *transferActor) doDisk(ctx actor.Context, what any) bool {
	switch x := what.(type) {
	case transfer.Open:
		t.open(ctx, x)
	case transfer.StopHashing:
		if t.stopHashing != nil {
			t.stopHashing()
		}
	case transfer.Select:
		t.target.Select(x.Wanted)
	case transfer.OnDisk:
		target, life := t.target, t.hashing(ctx)
		t.s.Task(ctx, func(context.Context) any { return onDisk(life, target, x.Work) })
	default:
		return false
	}
	return true
}

// tell tells others about the transfer, and reports whether what asked for that.
func (t *transferActor) tell(ctx actor.Context, what any) bool {
	switch x := what.(type) {
	case transfer.Offer:
		ctx.Send(t.seeder, OfferShare{t.cmd.Share})
	case transfer.Available:
		ctx.Send(t.seeder, PieceAvailable{t.cmd.Share, x.Piece, !t.cmd.Config.Fleet.Used()})
	case transfer.StayInFleet:
		ctx.Send(t.node, StayInFleet{t.cmd.Share, t.manifest.Layout(), x.Have.Clone(), t.cmd.Config.Fleet})
	case transfer.ServeOn:
		ctx.Send(t.node, ServeOn{Share: t.cmd.Share, Layout: t.manifest.Layout(), Sources: x.Sources, Whole: x.Whole})
	case transfer.ReaderOpened:
		t.readerOpened(ctx, x)
	case transfer.ReaderReady:
		answer(ctx, x.To, ReaderReady{x.End, x.Err})
	case transfer.PrioritySet:
		answer(ctx, x.To, PrioritySet{x.Err})
	case transfer.Tell:
		t.notify(x.Event)
	case transfer.BeginsAgain:
		t.s.Log().Warn("a transfer begins again from what is on disk", "share", t.cmd.Share.String(), "error", x.Why)
	case transfer.Over:
		// The Node first: whoever hears of the end may fetch the share again at once.
		t.ended = true
		ctx.Send(t.node, transferEnded{t.cmd.Handle})
		x.Ended.Last = t.withTraffic(x.Ended.Last)
		t.cmd.Notify(x.Ended)
	default:
		return false
	}
	return true
}

func (t *transferActor) notify(e Event) {
	if p, ok := e.(Progress); ok {
		e = t.withTraffic(p)
	}
	t.cmd.Notify(e)
}

// count has the traffic with a source counted from now on.
func (t *transferActor) count(peer peers.ID) {
	if !slices.ContainsFunc(t.traffic, func(x traffic) bool { return x.peer == peer }) {
		in, out := t.net.Traffic(peer)
		t.traffic = append(t.traffic, traffic{peer, in, out})
	}
}

// withTraffic adds the traffic between this node and the sources since the transfer began.
func (t *transferActor) withTraffic(p Progress) Progress {
	for _, x := range t.traffic {
		in, out := t.net.Traffic(x.peer)
		p.WireIn, p.WireOut = p.WireIn+in-x.in, p.WireOut+out-x.out
	}
	return p
}

func (t *transferActor) toLeases(ctx actor.Context, m any) {
	if t.leases != nil {
		ctx.Send(t.leases, m)
	}
}

// ---- sources ----

// ranked notes what is remembered of a source: each LeaseManager hears it.
func (t *transferActor) ranked(ctx actor.Context, m RankSource) {
	t.ranks[m.Source] = m
	t.toLeases(ctx, m)
}

func (t *transferActor) askManifest(ctx actor.Context, x transfer.AskManifest) {
	self, s, from := ctx.Self(), t.s, x.From
	t.asks[from.ID] = t.net.FetchManifest(from, t.cmd.Share, x.Others, share.MaxManifest, func(bytes, size int) {
		s.Send(self, manifestComes{from.ID, bytes, size})
	}, func(b []byte, r wire.Reply, err error) {
		s.Send(self, manifestCame{from.ID, b, r, err})
	})
}

func (t *transferActor) manifestCame(ctx actor.Context, m manifestCame) {
	delete(t.asks, m.from)
	if len(m.r.Others) > 0 {
		ctx.Send(t.finder, PeersNamed{Share: t.cmd.Share, By: m.from, Via: peers.ViaPeer, Peers: m.r.Others})
	}
	t.core.ManifestCame(m.from, m.manifest, m.r, m.err, t.s.Now())
}

// sourcesOf returns the sources that contributed to a piece.
func sourcesOf(credits []verifier.Credit) []peers.ID {
	out := make([]peers.ID, len(credits))
	for i, c := range credits {
		out[i] = c.Source
	}
	return out
}

// ---- the disk ----

// open opens the place on disk, off the mailbox.
func (t *transferActor) open(ctx actor.Context, x transfer.Open) {
	t.manifest = x.Manifest
	disk, choose, chosen := t.cmd.Disk, t.cmd.Select, x.Chosen
	life, o := t.hashing(ctx), &opening{}
	t.opening = o
	t.s.Task(ctx, func(context.Context) any {
		defer t.giveUp(o)
		if choose != nil && chosen == nil {
			var err error
			if chosen, err = choose(x.Manifest); err != nil {
				return opened{err: err}
			}
		}
		target, err := disk.Open(life, x.Manifest, chosen.Wanted())
		o.target = target
		return opened{target, chosen, err}
	})
}

// hashing returns a context for long disk work. There is one such operation at a
// time.
func (t *transferActor) hashing(ctx actor.Context) context.Context {
	if t.stopHashing != nil {
		t.stopHashing() // what it was for is over
	}
	life, stop := context.WithCancel(t.s.Life(ctx))
	t.stopHashing = stop
	return life
}

func (t *transferActor) opened(m opened) {
	t.target = m.target
	place := transfer.Place{Open: m.target != nil}
	if place.Open && m.err == nil {
		place.Have = m.target.Verified()
		place.Path, place.Whole = m.target.Done()
	}
	t.core.Opened(place, m.chosen, m.err, t.s.Now())
}

// onDisk does one thing on the disk; its result is a message.
func onDisk(ctx context.Context, target Target, what transfer.Work) any {
	switch what {
	case transfer.Sync:
		_, err := target.Sync()
		return synced{err}
	case transfer.LookForRoom:
		need, free := target.Need()
		return roomSeen{need, free}
	case transfer.Finish:
		path, err := target.Finish(ctx)
		return finished{path, err}
	}
	return closed{target.Close()}
}

// ---- reading ----

func (t *transferActor) moveReader(ctx actor.Context, m MoveReader) {
	var waits peers.Port
	if m.Wait {
		waits = portOf(ctx.Sender())
	}
	t.core.MoveReader(m.Reader, m.Offset, m.Ahead, waits, t.s.Now())
}

func (t *transferActor) readerOpened(ctx actor.Context, x transfer.ReaderOpened) {
	m := ReaderOpened{x.Reader, x.Entry, x.Err}
	if m.Err != nil {
		answer(ctx, x.To, m)
	} else {
		ctx.Request(pidOf(x.To), m) // so that we hear if nobody waits for it
	}
}

// answer answers whoever asked, if he waits for it.
func answer(ctx actor.Context, to peers.Port, m any) {
	if pid := pidOf(to); pid != nil {
		ctx.Send(pid, m)
	}
}
