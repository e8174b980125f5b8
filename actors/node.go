package actors

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// running is a transfer that has not ended.
type running struct {
	pid     *actor.PID
	lists   bool // it is a question for the list of files
	notify  func(Event)
	seat    *actor.PID // whose place in the fleet it takes; nil: none
	failure error      // a bug that ends it
	gone    bool       // it has ended by itself, and has given its place on disk up
}

// node supervises everything on this node. It owns the one ranking of peers,
// and passes its scores to every transfer.
type node struct {
	s         *system.System
	deps      Deps
	budget    *Budget
	ration    *Ration
	seeder    *actor.PID
	served    atomic.Pointer[actor.PID] // the same, for others
	finder    *actor.PID
	depot     *actor.PID // nil: the node has none
	holds     *actor.PID // nil: depots keep nothing for it
	beacon    *actor.PID // nil: the node is no beacon
	beacons   *actor.PID // nil: it uses none
	ranking   *peers.Ranking
	transfers map[Handle]running
	fleets    fleets
	mirrors   map[share.ID]mirroring // of shares that are served on
	started   int
	saveAt    time.Time // when the ranking is to be saved; zero when nothing has changed
	saving    bool
	writing   sync.Mutex                     // one task saves at a time
	unsaved   atomic.Pointer[[]peers.Record] // what the next of them writes
	wake      system.Alarm
	failure   error // a bug that ended it
}

// mirroring is a mirror.
type mirroring struct {
	pid *actor.PID // nil: it waits for a fetch of more of the share to end
	m   ServeOn
}

func (n *node) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		n.start(ctx)
	case FetchShare:
		n.fetch(ctx, m)
	case ToTransfer:
		n.toTransfer(ctx, m)
	case PeerLied:
		n.lied(ctx, m)
	case PeerMeasured:
		n.measured(ctx, m)
	case ScoresQuery:
		n.scores(ctx, m)
	case AskRank:
		n.rank(ctx, ctx.Sender(), m.Peer)
	case WithdrawShare:
		n.withdraw(ctx, m)
	case OfferShare, AdmitRequest, ListRequest, ServeDone, ServeParked, ChildLost, SetUploadRate, ChildrenQuery, UploadsQuery:
		ctx.Forward(n.seeder)
	case transferEnded:
		n.ended(ctx, m.Handle)
	case transferGone:
		n.gone(ctx, m.Handle)
	case ServeOn:
		n.serveOn(ctx, m)
	case StayInFleet:
		n.stay(ctx, m)
	case CoordinateShare, StopCoordinating, AllowMembers, FleetQuery, joinOffice, officeEnded:
		n.coordinates(ctx)
	case AskDepot, DepotQuery, ClockOK, CollectNow, CrawlNow, ScrubNow, LookAt, Imported, Importing:
		n.toDepot(ctx)
	case KeepHold, DropHold, DropShare, AwaitVisits, SetBudget, VisitDepot, DepotAt, HoldsQuery:
		n.toHolds(ctx)
	case BeaconQuery, MeetingsChanged, Speak, stopSpeaking:
		n.toBeacon(ctx)
	case system.ChildFailed:
		n.childFailed(ctx, m)
	case rankingSaved:
		n.saving = false
	case system.WakeDue:
		n.save(ctx)
	case *actor.Stopping, *actor.Restarting:
		n.stop(ctx)
		return
	case *actor.Stopped:
		n.stopped()
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	if n.saving {
		n.wake.Set(n.s, ctx, time.Time{})
	} else {
		n.wake.Set(n.s, ctx, n.saveAt)
	}
}

func (n *node) start(ctx actor.Context) {
	n.transfers, n.mirrors = map[Handle]running{}, map[share.ID]mirroring{}
	n.ranking = peers.NewRanking(n.deps.Ranking)
	n.ranking.Restore(n.deps.Remembered, n.s.Now())
	n.meet(ctx)
	n.finder = n.s.Spawn(ctx, "finder", controlBox, func() actor.Actor { return newFinder(n.s, n.deps.Network, n.deps.Discovery, n.beacons) }, system.OnPanicRestart)
	last := &lasting{rates: map[share.ID]int64{}}
	n.seeder = n.s.Spawn(ctx, "seeder", seederBox, func() actor.Actor { return newSeeder(n.s, n.finder, n.deps, last) }, system.OnPanicRestart)
	n.served.Store(n.seeder)
	n.s.Export(SeederName, n.seeder)
	n.keepShares(ctx)
	n.holdShares(ctx)
}

func (n *node) fetch(ctx actor.Context, m FetchShare) {
	if !m.ListOnly && n.fetches(m.Share) {
		ctx.Respond(TransferStarted{Share: m.Share, Err: words.Error(share.ErrHeld, "share %s is being fetched by this node already", m.Share.Short())})
		return
	}
	if x := n.mirrors[m.Share]; x.pid != nil && !m.ListOnly && x.m.Heard == nil {
		ctx.Stop(x.pid) // a source that hears it again takes this node for done, and its subscription for over
		n.mirrors[m.Share] = mirroring{m: x.m}
		if m.Config.Anonymous { // it is not to be named from now on, however this ends
			delete(n.mirrors, m.Share)
		}
	}
	n.started++
	m.Notify, m.seat = untilEnded(m.Notify), n.fleets.seats[m.Share].pid
	self := ctx.Self()
	m.Config.Verifiers = cmp.Or(m.Config.Verifiers, min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	ration := n.ration.Within(m.DownloadRate)
	pid := n.s.Spawn(ctx, fmt.Sprint("transfer-", n.started), controlBox, func() actor.Actor {
		return &transferActor{s: n.s, net: n.deps.Network, budget: n.budget, ration: ration, node: self, seeder: n.seeder, finder: n.finder, elects: n.deps.Elections, cmd: m}
	}, system.OnPanicStop)
	n.transfers[m.Handle] = running{pid: pid, lists: m.ListOnly, notify: m.Notify, seat: m.seat}
	ctx.Respond(TransferStarted{Share: m.Share})
}

// fetches reports whether a share is being fetched.
func (n *node) fetches(id share.ID) bool {
	for h, t := range n.transfers {
		if h.Share == id && !t.lists {
			return true
		}
	}
	return false
}

// handles are those of the transfers in an order that does not depend on the map.
func (n *node) handles() []Handle {
	return slices.SortedFunc(maps.Keys(n.transfers), func(a, b Handle) int {
		return cmp.Or(a.Share.Compare(b.Share), cmp.Compare(a.serial, b.serial))
	})
}

func (n *node) toTransfer(ctx actor.Context, m ToTransfer) {
	if t, ok := n.transfers[m.Transfer]; ok && t.failure == nil {
		ctx.RequestWithCustomSender(t.pid, m.Message, ctx.Sender())
	} else if ctx.Sender() != nil {
		ctx.Respond(ErrFinishing)
	}
}

// serveOn has the sources of a share told that it can be had here too.
func (n *node) serveOn(ctx actor.Context, m ServeOn) {
	n.noMirror(ctx, m.Share)
	n.started++
	pid := n.s.Spawn(ctx, fmt.Sprint("mirror-", n.started), controlBox, func() actor.Actor { return newMirror(n.s, n.deps.Network, m) }, system.OnPanicRestart)
	n.mirrors[m.Share] = mirroring{pid, m}
}

// servesAgain has what is served of a share served on as before a fetch of more of it, unless the fetch has put more in its place.
func (n *node) servesAgain(ctx actor.Context, id share.ID, fetched running) {
	if fetched.lists {
		return
	}
	if x, ok := n.mirrors[id]; ok && x.pid == nil {
		n.serveOn(ctx, x.m)
	}
	if x := n.fleets.seats[id]; x.pid != nil && x.pid.Equal(fetched.seat) {
		n.stay(ctx, x.m)
	}
}

// withdraw has a share served on no longer, unless it is still offered, as it is when a fetch of more of it has opened nothing.
func (n *node) withdraw(ctx actor.Context, m WithdrawShare) {
	if n.deps.Catalog.Bits(m.Share) == nil {
		n.leaveFleet(ctx, m.Share)
		n.noMirror(ctx, m.Share)
	}
	ctx.Forward(n.seeder)
}

func (n *node) noMirror(ctx actor.Context, id share.ID) {
	if x := n.mirrors[id]; x.pid != nil {
		ctx.Stop(x.pid)
	}
	delete(n.mirrors, id)
}

func (n *node) ended(ctx actor.Context, h Handle) {
	if t, ok := n.transfers[h]; ok {
		ctx.Stop(t.pid)
		delete(n.transfers, h)
		n.servesAgain(ctx, h.Share, t)
	}
}

func (n *node) gone(ctx actor.Context, h Handle) {
	if t, ok := n.transfers[h]; ok {
		t.gone = true
		n.transfers[h] = t
		n.failed(ctx, h)
	}
}

// failed tells whoever waits for a transfer that panicked, when the share may be fetched again.
func (n *node) failed(ctx actor.Context, h Handle) {
	if t := n.transfers[h]; t.gone && t.failure != nil {
		delete(n.transfers, h)
		n.servesAgain(ctx, h.Share, t)
		t.fail(h.Share, t.failure)
	}
}

// childFailed handles a transfer that panicked: whoever waits for it must be told; and a Finder that begins again, or Beacons that do: every
// transfer must say anew what it looks for.
func (n *node) childFailed(ctx actor.Context, m system.ChildFailed) {
	if n.coordinatorFailed(m) || n.officeFailed(m) {
		return
	}
	if m.Restarted && (m.Who.Equal(n.finder) || m.Who.Equal(n.beacons)) {
		for _, h := range n.handles() {
			n.s.Assure(n.transfers[h].pid, findAgain{}, nil)
		}
	}
	for h, t := range n.transfers {
		if !t.pid.Equal(m.Who) {
			continue
		}
		t.failure = internalError(m.Reason)
		n.transfers[h] = t
		ctx.RequestWithCustomSender(n.finder, StopFinding{h.Share}, t.pid)
		n.failed(ctx, h)
		return
	}
}

// stopped runs when no actor below is left: those who still wait for a transfer are told
// that it has ended.
func (n *node) stopped() {
	for _, h := range n.handles() {
		n.transfers[h].fail(h.Share, cmp.Or(n.transfers[h].failure, n.failure, ErrStopped))
	}
}

func (r running) fail(id share.ID, err error) {
	r.notify(Ended{Err: err, Last: Progress{Share: id, State: Failed, Reason: err.Error()}})
}

func internalError(reason any) error { return fmt.Errorf("internal error: %v", reason) }

// untilEnded passes events on up to the first Ended, and nothing after it. notify may be
// nil.
func untilEnded(notify func(Event)) func(Event) {
	over := notify == nil
	return func(e Event) {
		if over {
			return
		}
		_, over = e.(Ended)
		notify(e)
	}
}

// lied notes a lie, and bans the peer in every transfer if the ranking now bans it.
func (n *node) lied(ctx actor.Context, m PeerLied) {
	now := n.s.Now()
	n.changed(now)
	banned := n.ranking.Lied(m.Peer, m.Proof, now)
	n.rank(ctx, ctx.Sender(), m.Peer)
	if !banned {
		return
	}
	n.saveAt = now
	until, _ := n.ranking.Banned(m.Peer, now)
	for _, h := range n.handles() {
		ctx.Send(n.transfers[h].pid, PeerBanned{m.Peer, until})
	}
}

func (n *node) measured(ctx actor.Context, m PeerMeasured) {
	now := n.s.Now()
	n.changed(now)
	if m.Bytes > 0 {
		n.ranking.Verified(m.Peer, m.Bytes, now)
	}
	for range m.Missed {
		n.ranking.Missed(m.Peer, now)
	}
	if m.Rate > 0 {
		n.ranking.Measured(m.Peer, m.Rate, m.First, now)
	}
	n.rank(ctx, ctx.Sender(), m.Peer)
}

// rank tells a transfer how a peer is ranked.
func (n *node) rank(ctx actor.Context, to *actor.PID, peer peers.ID) {
	if to == nil {
		return
	}
	now := n.s.Now()
	until, banned := n.ranking.Banned(peer, now)
	ctx.Send(to, RankSource{Source: peer, Score: n.ranking.Score(peer, now), Banned: banned})
	if banned {
		ctx.Send(to, PeerBanned{peer, until})
	}
}

func (n *node) scores(ctx actor.Context, m ScoresQuery) {
	out := make(Scores, len(m.Peers))
	for i, id := range m.Peers {
		out[i] = n.ranking.Score(id, n.s.Now())
	}
	ctx.Respond(out)
}

// ---- messages to the Node ----

// Handle names one transfer of a program, and no later one of the same share. See
// [Program.Handle].
type Handle struct {
	Share  share.ID
	serial uint64
}

// FetchShare, API -> Node. Answered with TransferStarted.
type FetchShare struct {
	Handle
	Sources []peers.Addr
	// ListOnly says that Disk.Open gets the list of files and ends the transfer with an error. Any
	// number of these run beside one another and beside the one that fetches the share.
	ListOnly bool
	// Beacons are asked who else has it, if Deps.Meetings is set.
	Beacons []Meeting
	// Manifest, if known already, saves asking for it.
	Manifest *share.Manifest
	// DownloadRate bounds what is asked for, in bytes per second, within the limit of the
	// node; 0 is no limit.
	DownloadRate int64
	// Select says how urgent each entry is; Skip is not to be fetched. Nil, and a
	// nil result, is Normal for all. It is called once, off the mailbox; its error
	// ends the transfer.
	Select func(*share.Manifest) ([]leasemgr.Priority, error)
	Disk   Disk
	Config TransferConfig
	// Notify hears the events of the transfer, in order, from the transfer's
	// actor: it must not block.
	Notify func(Event)

	seat *actor.PID // what stay began for a part of the share; it ends when the transfer joins the fleet; nil: none
}

// TransferStarted, Node -> API.
type TransferStarted struct {
	Share share.ID
	Err   error // the share is being fetched already
}

// ToTransfer, API -> Node: passed on to a transfer. If that has ended, a question is answered
// with ErrFinishing.
type ToTransfer struct {
	Transfer Handle
	Message  any
}

// PeerLied, Transfer -> Node.
type PeerLied struct {
	Peer  peers.ID
	Proof bool // proven at once; without it a single bad block may be chance
}

// PeerMeasured, Transfer -> Node: what a pool saw of its source.
type PeerMeasured struct {
	Peer   peers.ID
	Bytes  int64   // verified since the last report
	Rate   float64 // bytes per second; 0 when not yet known
	First  time.Duration
	Missed int // promises that it broke since the last report: a deadline, a piece that it should have had
}

// ScoresQuery, API -> Node: what some peers are worth; answered with Scores in their order.
type ScoresQuery struct{ Peers []peers.ID }

// Scores answers ScoresQuery.
type Scores []float64

// AskRank, Transfer -> Node. Answered with RankSource, and PeerBanned if so.
type AskRank struct{ Peer peers.ID }

// ServeOn, Transfer or API -> Node: what was wanted of the share is here, and is still being
// served. Sources are to be told, so that they name this node to others, or fetch from it
// themselves; with Heard, so that they fetch from it.
type ServeOn struct {
	Share   share.ID
	Layout  *share.Layout
	Sources []peers.Addr
	Whole   bool          // this node has every piece of it
	Again   time.Duration // until a source that is away or refuses is told again; 0: notBefore
	// Heard is called with each answer: nil, an *Unwanted, or why the peer was not reached. It must not block.
	Heard func(peer peers.ID, err error)
}

// Unwanted says that a peer does not fetch a share.
type Unwanted struct {
	Reason wire.Reason
	Retry  time.Duration // it may later; 0: not as things are
}

func (e *Unwanted) Error() string {
	if e.Reason.Prose != "" {
		return "says " + e.Reason.String()
	}
	return cmp.Or(e.Reason.String(), "does not say why")
}

// transferEnded, Transfer -> Node: the transfer is over and may be stopped.
type transferEnded struct{ Handle }

// transferGone, Transfer -> Node: it was stopped before it was over, and has given its place on disk up.
type transferGone struct{ Handle }
