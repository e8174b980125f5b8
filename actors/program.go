package actors

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// The sizes of mailboxes, in messages. A full mailbox refuses messages, which are
// counted and logged: none of these is meant to fill up.
const (
	controlBox  = 1 << 14 // Node, Transfer, Finder
	leaseBox    = 1 << 16 // LeaseManager: every run of blocks is a LeaseProgress
	seederBox   = 1 << 16 // Seeder: every request of every child asks here
	poolBox     = 1 << 13 // FetchPool: twice the runs that the budget allows in flight, and control
	verifierBox = 1 << 13 // PieceVerifier: the same, so that it never refuses a block
)

// Deps is what a node is made of.
type Deps struct {
	Runtime *system.Runtime
	Network Network
	Catalog Catalog
	// Discovery finds peers besides those that are named; nil: nothing does.
	Discovery Discovery
	// Beacon makes the node remember for others who has which share.
	Beacon bool
	// Placed says whether a peer has a place at this node, which is a relay; nil: it is none.
	// It must not block.
	Placed func(peers.ID) bool
	// Meetings returns where to announce what the node has; nil: the node uses no beacons.
	// It is called now and then, and soon after MeetingsChanged; it must not block.
	Meetings func() []Meeting
	// InFlight bounds the bytes of blocks asked for and not yet verified;
	// default 32 MiB. Buffers bounds their number; default 1,024.
	InFlight int64
	Buffers  int
	// DownloadRate bounds what is asked for, in bytes per second over all
	// transfers; 0 is no bound.
	DownloadRate int64
	Ranking      peers.RankingConfig
	Uploads      peers.UploadConfig
	Tiers        peers.TierConfig // of children
	// Remembered is the ranking of earlier runs, and Remember keeps it; it is
	// called off the actors, one call at a time. Both may be nil.
	Remembered []peers.Record
	Remember   func([]peers.Record)
	// Elections is for transfers whose FleetConfig has a Secret; nil: there are no elections.
	Elections *Elections
	// Depot makes the node keep shares for accounts; nil: it does not.
	Depot *DepotConfig
	// Holds lets the node have shares kept by depots; nil: it has none kept.
	Holds *HoldsConfig
	// Child is told of each child that takes something of a share: when it begins, and
	// when it ends. The calls come one at a time; it must not block, and may be nil.
	Child func(ChildEvent)
	// ChildMoved is told of each child that comes into another set, first when it subscribes
	// and last when it goes. The calls come one at a time; it must not block, and may be nil.
	ChildMoved func(peers.Move)
	// Failed is told when a bug has ended the program: every transfer ends, and every
	// request is answered with system.ErrNoAnswer. It must not block, and may be nil.
	Failed func(error)
}

// Program is the running actors of one node. Its methods are the edge between
// the actors and everything else, and safe for concurrent use.
type Program struct {
	s      *system.System
	node   *actor.PID
	seeder *atomic.Pointer[actor.PID] // nil until the Node has begun
	budget *Budget
	ration *Ration

	handles atomic.Uint64 // number given out
}

// Start runs the actors of a node. The caller passes what arrives from the
// network to Deliver and Lost, and must call Close.
func Start(d Deps) *Program {
	d.InFlight = cmp.Or(d.InFlight, 32<<20)
	d.Buffers = cmp.Or(d.Buffers, 1024)
	s := system.NewSystem(d.Runtime, d.Network.Self(), d.Network, wire.Codec{})
	n := &node{s: s, deps: d, budget: NewBudget(s, d.InFlight, d.Buffers), ration: NewRation(s, d.DownloadRate)}
	s.OnRootFailed(func(_ string, reason any, _ bool) {
		n.failure = internalError(reason)
		if d.Failed != nil {
			d.Failed(n.failure)
		}
	})
	pid := s.Spawn(nil, "node", controlBox, func() actor.Actor { return n }, system.OnPanicStop)
	return &Program{s: s, node: pid, seeder: &n.served, budget: n.budget, ration: n.ration}
}

// Handle returns the handle of a transfer that is still to be started. It goes with the
// FetchShare, and with all later messages to that transfer.
func (p *Program) Handle(id share.ID) Handle { return Handle{id, p.handles.Add(1)} }

// Fetch starts a transfer, unless ctx has ended. Its events go to m.Notify, Ended last.
func (p *Program) Fetch(ctx context.Context, m FetchShare) error {
	r, err := begin[TransferStarted](ctx, p, m)
	return errors.Join(err, r.Err)
}

// begin asks the Node, which answers at once, to begin something, unless ctx has
// ended. It does not return before the answer: what has begun needs an owner.
func begin[R any](ctx context.Context, p *Program, m any) (r R, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	return system.Ask[R](context.WithoutCancel(ctx), p.s, p.node, m)
}

// StopTransfer ends a transfer; what is verified is kept. Ended says when.
func (p *Program) StopTransfer(h Handle) { p.s.Send(p.node, ToTransfer{h, StopTransfer{}}) }

// Progress is a snapshot of a transfer that runs.
func (p *Program) Progress(ctx context.Context, h Handle) (Progress, error) {
	return system.Ask[Progress](ctx, p.s, p.node, ToTransfer{h, ProgressQuery{}})
}

// Brought says which source of a transfer that runs brought each piece.
func (p *Program) Brought(ctx context.Context, h Handle) ([]byte, error) {
	b, err := system.Ask[Brought](ctx, p.s, p.node, ToTransfer{h, BroughtQuery{}})
	return b.By, err
}

// Why is, for each missing piece or run of pieces of a transfer that runs, who has it,
// who holds it, until when, and what happens next.
func (p *Program) Why(ctx context.Context, h Handle) ([]string, error) {
	st, err := system.Ask[PlanStatus](ctx, p.s, p.node, ToTransfer{h, WhyQuery{}})
	return st.Why, err
}

// SetPriority says how urgent some entries of a transfer are from now on.
func (p *Program) SetPriority(ctx context.Context, h Handle, m SetPriority) error {
	r, err := system.Ask[PrioritySet](ctx, p.s, p.node, ToTransfer{h, m})
	return errors.Join(err, r.Err)
}

// OpenReader tells a transfer that a file will be read. It waits until the share is open.
func (p *Program) OpenReader(ctx context.Context, h Handle, m OpenReader) (ReaderOpened, error) {
	for {
		r, err := system.Ask[ReaderOpened](ctx, p.s, p.node, ToTransfer{h, m})
		if !errors.Is(r.Err, transfer.ErrCrowded) {
			return r, errors.Join(err, r.Err)
		}
	}
}

// AwaitByte waits until the byte at a reader's position has been verified. It returns
// the end of the verified bytes there.
func (p *Program) AwaitByte(ctx context.Context, h Handle, m MoveReader) (end int64, err error) {
	m.Wait = true
	r, err := system.Ask[ReaderReady](ctx, p.s, p.node, ToTransfer{h, m})
	return r.End, errors.Join(err, r.Err)
}

// MoveReader says where a reader is.
func (p *Program) MoveReader(h Handle, m MoveReader) {
	m.Wait = false
	p.s.Send(p.node, ToTransfer{h, m})
}

// CloseReader says that a reader is gone.
func (p *Program) CloseReader(h Handle, r leasemgr.Reader) {
	p.s.Send(p.node, ToTransfer{h, CloseReader{r}})
}

// Offer says that the Catalog offers a share from now on, or another copy of it.
func (p *Program) Offer(id share.ID) { p.s.Send(p.node, OfferShare{id}) }

// Withdraw says that the Catalog no longer offers a share. The children are told, with
// why unless it is 0, an ordinary end.
func (p *Program) Withdraw(ctx context.Context, id share.ID, why wire.Code) (children int, err error) {
	w, err := system.Ask[Withdrawn](ctx, p.s, p.node, WithdrawShare{id, why})
	return w.Children, err
}

// Scores returns the scores of some peers, in their order: see peers.Ranking.Score.
func (p *Program) Scores(ctx context.Context, ids []peers.ID) ([]float64, error) {
	return system.Ask[Scores](ctx, p.s, p.node, ScoresQuery{ids})
}

// Tell passes on a message that has no answer: SetUploadRate, MeetingsChanged, LookAt, ListRequest.
func (p *Program) Tell(m any) { p.s.Send(p.node, m) }

// SetTransferRate bounds what is asked for in one transfer, as SetDownloadRate does in all.
func (p *Program) SetTransferRate(h Handle, rate int64) {
	p.s.Send(p.node, ToTransfer{h, SetDownloadRate{rate}})
}

// SetDownloadRate bounds what is asked for from now on, in bytes per second over
// all transfers; 0 is no bound.
func (p *Program) SetDownloadRate(rate int64) { p.ration.SetRate(rate) }

// toSeeder sends the Seeder what there is for each request of a child: through the Node it would
// cost twice as much.
func toSeeder(p *Program, m any) bool {
	if pid := p.seeder.Load(); pid != nil {
		return p.s.Send(pid, m)
	}
	return p.s.Send(p.node, m) // which has not begun yet
}

// Request asks the Seeder whether a child may be served; m.Reply hears the answer.
func (p *Program) Request(m AdmitRequest) { toSeeder(p, m) }

// Server is what the network asks of a Program that serves.
type Server struct{ *Program }

// List asks who gives a peer a list of files: this node, if the reply is OK.
func (p Server) List(ctx context.Context, child peers.ID, q wire.ManifestRequest) wire.Reply {
	answer := make(chan wire.Reply, 1)
	if !toSeeder(p.Program, ListRequest{Child: child, Share: q.Share, Others: q.Others, Reply: func(r wire.Reply) { answer <- r }}) {
		return wire.Reply{}
	}
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		return wire.Reply{}
	}
}

// Served says that a job that was admitted has ended, and how many bytes of content
// the child was sent.
func (p *Program) Served(j peers.Job, sent int) { toSeeder(p, ServeDone{j, sent}) }

// Parked says that the child has stopped reading an admitted job, with left bytes not
// taken.
func (p *Program) Parked(j peers.Job, left int) { toSeeder(p, ServeParked{j, left}) }

// Children are those that take something of a share at present.
func (p *Program) Children(ctx context.Context) ([]ChildEvent, error) {
	return system.Ask[ChildList](ctx, p.s, p.node, ChildrenQuery{})
}

// Admit asks whether a child may be served now, and waits for its turn. done
// must be called when the child has been served, with the bytes of content that it was
// sent, and park before that if it takes nothing; they are nil when r is not OK.
func (p *Program) Admit(ctx context.Context, child peers.ID, id share.ID, q wire.PieceRequest, bytes int) (done func(sent int), park func(left int), r wire.Reply) {
	w := &admission{bytes: bytes, answer: make(chan Admission, 1)}
	if !toSeeder(p, AdmitRequest{Child: child, Share: id, Piece: q.Piece, Bytes: bytes, Pressed: q.Pressed, Reply: w.reply(p)}) {
		return nil, nil, wire.Reply{Status: wire.Busy, Retry: time.Second}
	}
	select {
	case a := <-w.answer:
		if a.Reply.Status != wire.OK {
			return nil, nil, a.Reply
		}
		return func(sent int) { p.Served(a.Job, sent) }, func(left int) { p.Parked(a.Job, left) }, a.Reply
	case <-ctx.Done():
		w.leave(p)
		return nil, nil, wire.Reply{Status: wire.Busy, Retry: time.Second}
	}
}

// admission is one wait for a turn. A caller that leaves before its turn gives it
// back when it comes, with what the upload limit has counted for it.
type admission struct {
	bytes  int
	answer chan Admission // holds one

	mu   sync.Mutex
	left bool
}

func (w *admission) reply(p *Program) func(Admission) {
	return func(a Admission) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.left {
			w.answer <- a
		} else {
			w.giveBack(p, a)
		}
	}
}

func (w *admission) giveBack(p *Program, a Admission) {
	if a.Reply.Status == wire.OK {
		p.Parked(a.Job, w.bytes)
		p.Served(a.Job, 0)
	}
}

func (w *admission) leave(p *Program) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	select {
	case a := <-w.answer:
		w.giveBack(p, a)
	default:
	}
}

// Deliver takes a message frame that a peer sent. It does not block.
func (p *Program) Deliver(from peers.ID, frame []byte) { p.s.Deliver(from, frame) }

// Lost says that the last connection to a peer has gone.
func (p *Program) Lost(peer peers.ID) {
	p.s.Lost(peer)
	toSeeder(p, ChildLost{peer})
}

// Close ends all transfers, keeping what is verified, tells the children, and
// waits until nothing runs any more, or ctx ends.
func (p *Program) Close(ctx context.Context) error { return p.s.Close(ctx) }
