package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/verifier"
)

// pieceVerifier checks blocks and writes the good ones. A piece in progress
// belongs to one verifier, so its state needs no lock. It is the only actor
// that computes and writes inside Receive: that is its work, and its mailbox
// holds at least as many blocks as the node's budget allows in flight.
type pieceVerifier struct {
	s        *system.System
	transfer *actor.PID
	leases   *actor.PID
	target   Target
	v        *verifier.Verifier
	joint    map[share.Piece][]*actor.PID // pools at work on a piece that another began
}

func newPieceVerifier(s *system.System, transfer, leases *actor.PID, target Target, m *share.Manifest) *pieceVerifier {
	return &pieceVerifier{s: s, transfer: transfer, leases: leases, target: target, v: verifier.New(m), joint: map[share.Piece][]*actor.PID{}}
}

func (v *pieceVerifier) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case AskPieces:
		v.states(ctx, m)
	case CheckProof:
		v.proof(ctx, m)
	case CheckBlocks:
		v.blocks(ctx, m)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		system.Unexpected(ctx)
	}
}

func (v *pieceVerifier) states(ctx actor.Context, m AskPieces) {
	out := PieceStates{make([]PieceState, len(m.Pieces))}
	for i, p := range m.Pieces {
		have, proven := v.v.State(p)
		out.States[i] = PieceState{p, m.Tokens[i], have, proven}
		if !v.v.Complete(p) {
			v.joint[p] = withPool(v.joint[p], ctx.Sender())
		}
	}
	ctx.Respond(out)
}

func withPool(pools []*actor.PID, pool *actor.PID) []*actor.PID {
	if slices.ContainsFunc(pools, pool.Equal) {
		return pools
	}
	return append(pools, pool)
}

// here tells the other pools at work on a piece that they need not fetch these blocks.
func (v *pieceVerifier) here(ctx actor.Context, p share.Piece, first share.Block, n int) {
	for _, pool := range v.joint[p] {
		if !sameActor(pool, ctx.Sender()) {
			ctx.Send(pool, BlocksHere{p, first, n})
		}
	}
}

func (v *pieceVerifier) proof(ctx actor.Context, m CheckProof) {
	if err := v.v.Proof(m.Piece, m.Source, m.Values); err != nil {
		v.lied(ctx, m.Source, m.Piece, m.Token, transfer.BadProof)
	}
}

func (v *pieceVerifier) blocks(ctx actor.Context, m CheckBlocks) {
	defer m.Release()
	if pools := v.joint[m.Piece]; pools != nil {
		v.joint[m.Piece] = withPool(pools, ctx.Sender())
	}
	verdict := v.v.Check(m.Piece, m.First, m.Source, m.Data)
	done := BlocksVerified{Source: m.Source, Piece: m.Piece, Duplicate: verdict.Duplicate, Hashed: len(m.Data) - verdict.Duplicate}
	var complete *verifier.Completion
	for _, run := range verdict.Write {
		if err := v.target.Write(m.Piece, run.First, run.Data); err != nil {
			ctx.Send(v.transfer, DiskFailed{err})
			v.end(ctx, m.Source, m.Piece, m.Token, leasemgr.Disk)
			break
		}
		done.Bytes += len(run.Data)
		done.Blocks.Add(run.First, run.Blocks())
		complete = v.v.Wrote(m.Piece, run.First, run.Blocks(), m.Source, m.Token)
		v.here(ctx, m.Piece, run.First, run.Blocks())
	}
	if done.Bytes > 0 || done.Duplicate > 0 {
		ctx.Send(v.transfer, done)
	}
	switch {
	case complete != nil:
		v.completed(ctx, complete)
	case done.Bytes > 0:
		ctx.Send(v.leases, PieceBegun{m.Piece})
	}
	ctx.Send(ctx.Sender(), BlocksChecked{len(m.Data), done.Bytes})
	if len(verdict.Bad) > 0 {
		v.lied(ctx, m.Source, m.Piece, m.Token, transfer.BadBlock)
	} else if verdict.Err != nil { // came without a proof, or with a length no honest reply has
		v.end(ctx, m.Source, m.Piece, m.Token, leasemgr.GaveBack)
	}
}

func (v *pieceVerifier) completed(ctx actor.Context, c *verifier.Completion) {
	delete(v.joint, c.Piece)
	v.target.Complete(c.Piece, c.Values)
	ctx.Send(v.leases, PieceVerified{c.Piece, c.Credits})
}

// lied reports the exact source and ends the lease it worked under.
func (v *pieceVerifier) lied(ctx actor.Context, source peers.ID, p share.Piece, t share.Token, how transfer.Lie) {
	ctx.Send(v.transfer, SourceLied{Source: source, Piece: p, Token: t, Kind: how})
	v.end(ctx, source, p, t, leasemgr.BadData)
}

func (v *pieceVerifier) end(ctx actor.Context, source peers.ID, p share.Piece, t share.Token, why leasemgr.Reason) {
	ctx.Send(v.leases, LeaseReturned{source, []ReturnedLease{{Piece: p, Token: t, Why: why}}})
}

// ---- messages to a PieceVerifier ----

// AskPieces, FetchPool -> PieceVerifier. Answered with PieceStates.
type AskPieces struct {
	Pieces []share.Piece
	Tokens []share.Token
}

// CheckProof, FetchPool -> PieceVerifier.
type CheckProof struct {
	Piece  share.Piece
	Token  share.Token
	Source peers.ID
	Values []share.Hash
}

// CheckBlocks, FetchPool -> PieceVerifier. The verifier releases data.
type CheckBlocks struct {
	Piece   share.Piece
	Token   share.Token
	Source  peers.ID
	First   share.Block
	Data    []byte
	Release func()
}

// Undelivered releases the data of a message that is never read.
func (m CheckBlocks) Undelivered() { m.Release() }
