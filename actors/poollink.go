package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// This file connects the FetchPool to its Link: what it sends there, and what it is told.

func (f *fetchPool) hangUp() {
	hangUp(&f.link)
	f.links++ // its last messages are ignored
}

func (f *fetchPool) dial(ctx actor.Context) {
	f.hangUp()
	f.source = f.at.Try(f.nowhere)
	f.link = f.net.Open(f.source, f.share, f.layout, &sink{f.s, ctx.Self(), f.links})
}

// also notes other addresses of the source. If it waits to be dialled again, these are
// dialled, now.
func (f *fetchPool) also(a peers.Addr) {
	if f.at.Also(a) && f.core.Elsewhere(f.s.Now()) {
		f.nowhere = len(f.at) - 1
	}
}

// send puts a request on the link; false when the link does not take it.
func (f *fetchPool) send(r fetchpool.Request) bool {
	f.requests[r.ID] = &request{Request: r, left: r.Bytes}
	ok := f.link.Request(wire.PieceRequest{ID: r.ID, Piece: r.Piece, First: r.First, Count: r.Count, Proof: r.Proof, Pressed: r.Pressed})
	if !ok {
		f.core.Failed(r.ID, fetchpool.Busy, linkFull, f.s.Now())
	}
	return ok
}

const linkFull = 100 * time.Millisecond // before a request is tried again that the link did not take

// sink turns what a link says into messages to its pool.
type sink struct {
	s    *system.System
	pool *actor.PID
	link linkNumber
}

func (k *sink) Waits(why string)     { k.s.Send(k.pool, linkWaits{k.link, why}) }
func (k *sink) Up(rtt time.Duration) { k.s.Send(k.pool, linkUp{k.link, rtt}) }
func (k *sink) Proof(req uint64, values []share.Hash) {
	k.s.Send(k.pool, linkProof{k.link, req, values})
}
func (k *sink) Progress(req uint64, bytes int)  { k.s.Send(k.pool, linkProgress{k.link, req, bytes}) }
func (k *sink) Finished(req uint64)             { k.s.Send(k.pool, linkFinished{k.link, req}) }
func (k *sink) Status(req uint64, r wire.Reply) { k.s.Send(k.pool, linkStatus{k.link, req, r}) }
func (k *sink) Down(err error)                  { k.s.Send(k.pool, linkDown{k.link, err}) }
func (k *sink) Blocks(req uint64, first share.Block, data []byte, release func()) {
	k.s.Send(k.pool, linkBlocks{k.link, req, first, data, release})
}

// fromLink is what a link says to the pool that opened it.
type fromLink interface{ from() linkNumber }

// linkNumber says which of a pool's links a message comes from.
type linkNumber int

func (n linkNumber) from() linkNumber { return n }

type linkUp struct {
	linkNumber
	rtt time.Duration
}

type linkProof struct {
	linkNumber
	req    uint64
	values []share.Hash
}

type linkBlocks struct {
	linkNumber
	req     uint64
	first   share.Block
	data    []byte
	release func()
}

// Undelivered releases the data of a message that is never read.
func (m linkBlocks) Undelivered() { m.release() }

type linkProgress struct {
	linkNumber
	req   uint64
	bytes int
}

type linkFinished struct {
	linkNumber
	req uint64
}

type linkStatus struct {
	linkNumber
	req uint64
	r   wire.Reply
}

type linkWaits struct {
	linkNumber
	why string
}

type linkDown struct {
	linkNumber
	err error
}

// hear handles the messages of the present link, and ignores those of an older one.
func (f *fetchPool) hear(ctx actor.Context, m fromLink) {
	if m.from() != f.links {
		if x, ok := m.(linkBlocks); ok {
			x.release()
		}
		return
	}
	switch m := m.(type) {
	case linkWaits:
		f.linkWaits(m)
	case linkUp:
		f.linkUp(ctx, m)
	case linkProof:
		f.proof(ctx, m)
	case linkBlocks:
		f.blocks(ctx, m)
	case linkProgress:
		f.progress(ctx, m)
	case linkFinished:
		f.finished(m)
	case linkStatus:
		f.status(ctx, m)
	case linkDown:
		f.linkDown(ctx, m)
	}
}

func (f *fetchPool) linkWaits(m linkWaits) {
	f.core.Held(m.why, f.s.Now())
}

func (f *fetchPool) linkUp(ctx actor.Context, m linkUp) {
	f.told.Connected, f.told.Proxy = true, nil
	f.told.From, _ = f.net.Where(f.source.ID)
	f.core.Opened(m.rtt, f.s.Now())
	ctx.Send(f.leases, SourceAway{f.source.ID, m.rtt})
	whole := f.whole
	f.whole = false
	if whole && f.budget.Fetches() <= 1 {
		f.core.Early(f.s.Now())
		ctx.Request(f.leases, SourceHas{f.source.ID, share.FullSet(f.layout.Pieces())})
	}
}

func (f *fetchPool) proof(ctx actor.Context, m linkProof) {
	if r := f.requests[m.req]; r != nil {
		ctx.Send(f.verifierOf(r.Piece), CheckProof{r.Piece, r.Token, f.source.ID, m.values})
	}
}

// blocks passes a run on to the verifier of its piece, even if the lease has been
// lost meanwhile: bytes that verify always count.
func (f *fetchPool) blocks(ctx actor.Context, m linkBlocks) {
	r := f.requests[m.req]
	if r == nil {
		m.release()
		return
	}
	n := len(m.data)
	r.left -= n // from here on its budget goes with the data
	f.unchecked += n
	f.core.Arrived(m.req, n, f.s.Now())
	told := min(r.early, n)
	r.early -= told
	ctx.Send(f.leases, LeaseProgress{f.source.ID, r.Piece, r.Token, n - told})
	ctx.Request(f.verifierOf(r.Piece), CheckBlocks{r.Piece, r.Token, f.source.ID, m.first, m.data, func() {
		m.release()
		f.budget.Give(n)
	}})
}

func (f *fetchPool) progress(ctx actor.Context, m linkProgress) {
	if r := f.requests[m.req]; r != nil {
		f.core.Partial(m.req, m.bytes, f.s.Now())
		r.early += m.bytes
		ctx.Send(f.leases, LeaseProgress{f.source.ID, r.Piece, r.Token, m.bytes})
	}
}

func (f *fetchPool) finished(m linkFinished) {
	f.core.Finished(m.req, f.s.Now())
}

func (f *fetchPool) status(ctx actor.Context, m linkStatus) {
	now := f.s.Now()
	switch {
	case m.r.Status == wire.Busy, m.r.Status == wire.Refused && m.r.Reason.Code == wire.CodeFull:
		how := fetchpool.Elsewhere
		if !m.r.Elsewhere || m.r.Status != wire.Busy {
			how = fetchpool.Busy
			ctx.Send(f.leases, SourceBusy{f.source.ID})
		}
		f.core.Failed(m.req, how, m.r.Retry, now)
	case m.r.Status == wire.NotFound:
		f.core.Failed(m.req, fetchpool.NotFound, 0, now)
	case m.r.Status == wire.Gone:
		f.gone(m.r.String())
	default:
		f.refused(m.r.Reason.Code, m.r.String())
	}
}

func (f *fetchPool) linkDown(ctx actor.Context, m linkDown) {
	if errors.Is(m.err, peers.ErrProtocol) {
		ctx.Send(f.transfer, SourceLied{Source: f.source.ID, Kind: transfer.Broken, Rule: transfer.Rule(m.err)})
	}
	if f.core.State() == fetchpool.Dialing { // it never was up
		f.nowhere++
		f.told.Answered, f.told.Proxy = f.told.Answered || !errors.Is(m.err, peers.ErrUnreachable), peers.ProxyFault(m.err)
	}
	f.lost(m.err)
}

// lost says that the link is down, or never came up. Whether it was a relay that ended a connection is not known here.
func (f *fetchPool) lost(err error) {
	relayed := f.told.Connected && f.told.From == (peers.Endpoint{})
	if relayed && f.core.State() != fetchpool.Dialing && errors.Is(err, peers.ErrLost) {
		err = fmt.Errorf("%w; the source was reached through a relay, which carries only so much for each connection (forward a port on either side, and no relay is needed)", err)
	}
	f.core.Lost(err, f.s.Now())
}

// refused ends the pool of a source that will not serve this node.
func (f *fetchPool) refused(code wire.Code, why string) {
	switch {
	case code == wire.CodeNotAllowed:
		f.told.Outcome = share.ErrNotAllowed
	case code.NoShare():
		f.told.Outcome = share.ErrNotFound
	}
	f.core.Stop(why, f.s.Now())
}

var errUnheard = unheardError{}

// unheardError says that a source sends messages no longer, though it may be connected.
type unheardError struct{}

func (unheardError) Error() string { return "messages from it were lost" }
func (unheardError) Unwrap() error { return peers.ErrStream }
