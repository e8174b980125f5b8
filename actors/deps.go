package actors

import (
	"context"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Network is what the actors need of the network of peers. No method blocks, and
// every callback may be called from any goroutine.
type Network interface {
	// Self is this node's own ID.
	Self() peers.ID
	// Addrs are the addresses at which others can reach this node; none if it does not listen.
	Addrs() []string
	// AddrsFor are Addrs, first those that say best to a connected peer where it sees this node.
	AddrsFor(to peers.ID) []string
	// Open begins one attempt to connect to a source of a share. The sink is told
	// the outcome, last of all Down. The Link must be closed.
	Open(to peers.Addr, id share.ID, layout *share.Layout, sink Sink) Link
	// FetchManifest asks a peer for the manifest of a share, of at most limit
	// bytes and checked against id. With others the peer may name some that have it in
	// place of sending it. While it comes, came is told now and then how much of it has. done is
	// called once unless cancelled first.
	FetchManifest(from peers.Addr, id share.ID, others bool, limit int, came func(bytes, size int), done func(manifest []byte, r wire.Reply, err error)) (cancel func())
	// Send queues one message frame to a connected peer; false when it is
	// refused.
	Send(to peers.ID, frame []byte) bool
	// Endpoints are those of addrs that can be dialled as they are.
	Endpoints(addrs []string) []peers.Endpoint
	// Where is the remote end of a standing connection with a peer. Not ok: there is none, or only one through a relay.
	Where(id peers.ID) (p peers.Endpoint, ok bool)
	// RoundTrip is the recent round trip of a standing connection with a peer; 0: not known.
	RoundTrip(id peers.ID) time.Duration
	// Traffic is the bytes of our protocols received from and sent to a peer, framing included.
	Traffic(id peers.ID) (in, out int64)
}

// Sink is told what happens to a link and to its requests. No method blocks.
type Sink interface {
	// Waits says why the link has to wait for other links of this node to the same peer,
	// which is no fault of that peer. Up comes after it.
	Waits(why string)
	// Up says that the peer is connected. Unless Waits does, it comes first.
	Up(rtt time.Duration)
	// Proof gives the block hashes of the piece of a request; not yet checked.
	Proof(req uint64, values []share.Hash)
	// Blocks hands over a run of whole blocks; not yet checked. data belongs to
	// the sink until it calls release, once.
	Blocks(req uint64, first share.Block, data []byte, release func())
	// Progress says that more bytes of a run have come in, which is not complete yet.
	Progress(req uint64, bytes int)
	// Finished ends a request of which all blocks were handed over.
	Finished(req uint64)
	// Status ends any other request.
	Status(req uint64, r wire.Reply)
	// Down comes last. err wraps one of peers.ErrUnreachable, ErrLost, ErrProtocol.
	Down(err error)
}

// Link is a connection to one source of one share.
type Link interface {
	// Request asks for blocks; false when too much is queued or the link is down.
	Request(r wire.PieceRequest) bool
	// Cancel withdraws a request. Whatever of it is still on the way is not handed over.
	Cancel(req uint64)
	// Close ends the link; the sink hears nothing more.
	Close()
}

// hangUp closes a link, if there is one.
func hangUp(l *Link) {
	if *l != nil {
		(*l).Close()
		*l = nil
	}
}

// Discovery finds peers that were not named. Its methods do not block.
type Discovery interface {
	// Find calls found with each peer that is said to have a share, and with the peers in
	// known at addresses that they announce as theirs, and with how it found them, until
	// cancel is called. It calls it from any goroutine, and from within Find. found does not block.
	Find(id share.ID, known []peers.ID, found func(peers.Via, peers.Addr)) (cancel func())
}

// Catalog knows which shares this node has. No method blocks, and each may be called from
// any goroutine. Whoever changes it tells the Seeder, which asks here.
type Catalog interface {
	// Offered reports whether a peer may subscribe to a share, and the number of its pieces;
	// if the reply is not OK, it is what the peer is told.
	Offered(id share.ID, to peers.ID) (pieces int, r wire.Reply)
	// Bits are the pieces of an offered share that can be read, as sent on the wire; nil if
	// it is not offered. They are not changed.
	Bits(id share.ID) []byte
	// Whole says whether a share was here from the start, and did not come from others, and
	// if so how many bytes it has.
	Whole(id share.ID) (bytes int64, yes bool)
}

// Disk opens the place on disk of one transfer.
type Disk interface {
	// Open makes or resumes the place for a share; wanted says which entries are
	// wanted, nil: all. It may take as long as a disk takes. Its errors wrap the
	// classes of package share.
	Open(ctx context.Context, m *share.Manifest, wanted []bool) (Target, error)
}

// Target is the place on disk of one share that is being fetched.
type Target interface {
	// Done reports whether what is wanted of the share was here already, with the right content; path is where.
	Done() (path string, done bool)
	// Verified is the pieces that are durable here. The caller owns the set.
	Verified() *share.Set
	// Epoch grows with every Open of this target; the tokens of its leases begin with it.
	Epoch() uint64
	// Write puts verified blocks at their place. Safe for concurrent use on different pieces.
	Write(p share.Piece, first share.Block, data []byte) error
	// Complete says that every block of p was written, with their hashes: p can be proven and served.
	Complete(p share.Piece, values []share.Hash)
	// Sync makes all complete pieces durable, data before bits, and returns how many are durable then.
	Sync() (durable int, err error)
	// Select changes what is wanted, which Finish and Need refer to.
	Select(wanted []bool)
	// Finish moves what is wanted of the share to its final path, and returns that. Its long
	// operations end with ctx.
	Finish(ctx context.Context) (path string, err error)
	// Finishing says, for people, what Finish is doing, if that has many steps; else it is empty. Safe for concurrent use.
	Finishing() string
	// Need is the bytes still to be written and the bytes free; free is -1 if that is not known.
	Need() (bytes, free int64)
	// Close gives the place up; what is durable stays for the next Open.
	Close() error
}
