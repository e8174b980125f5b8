package actors

import (
	"context"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file has the local messages to the Seeder. Subscribe, Unsubscribe and their answers
// are messages of package wire, sent as they are.

// OfferShare, API or Transfer -> Seeder: the Catalog offers it from now on, or anew.
type OfferShare struct{ Share share.ID }

// PieceAvailable, Transfer -> Seeder.
type PieceAvailable struct {
	Share share.ID
	Piece share.Piece
	Soon  bool // children that have not heard of it ask others for it meanwhile; in a fleet nobody does
}

// WithdrawShare, API -> Seeder: the Catalog no longer offers it. Answered when the
// children were told, if asked for.
type WithdrawShare struct {
	Share share.ID
	Why   wire.Code // 0: an ordinary end, said with Goodbye
}

// Withdrawn, Seeder -> asker.
type Withdrawn struct{ Children int }

// AdmitRequest, p2p -> Seeder: may this child be served now? Reply is called
// once, when the answer is known; it must not block. Forwarded by the Node
// until the Seeder is known.
type AdmitRequest struct {
	Child   peers.ID
	Share   share.ID
	Piece   share.Piece
	Bytes   int
	Pressed bool // as in wire.PieceRequest
	Reply   func(Admission)
}

// Admission is the answer to AdmitRequest.
type Admission struct {
	Job   peers.Job // to be given back with ServeDone when Reply.Status is OK
	Reply wire.Reply
}

// Undelivered answers for a Seeder that has ended.
func (m AdmitRequest) Undelivered() {
	m.Reply(Admission{Reply: wire.Reply{Status: wire.Busy, Retry: time.Second}})
}

// ListRequest, p2p -> Seeder: a peer asks for the list of files of a share, and may have it. Reply
// is called once, with OK if it is to be sent; it must not block. Forwarded by the Node.
type ListRequest struct {
	Child  peers.ID
	Share  share.ID
	Others bool // as in wire.ManifestRequest
	Reply  func(wire.Reply)
}

// Undelivered answers for a Seeder that has ended.
func (m ListRequest) Undelivered() { m.Reply(wire.Reply{}) }

// ServeDone, p2p -> Seeder: a job that was admitted has ended, or is no longer wanted.
type ServeDone struct {
	Job  peers.Job
	Sent int // bytes of content
}

// ChildrenQuery, API -> Seeder: who takes something of a share at present; answered
// with a ChildList.
type ChildrenQuery struct{}

// UploadsQuery, API -> Seeder: what became of requests; answered with an UploadStatus.
type UploadsQuery struct{}

// UploadStatus says what became of the requests of peers for content.
type UploadStatus struct {
	Waiting, Serving int    // now; without those whose child takes nothing
	Served           uint64 // since the node began: let in
	Busy             uint64 // sent away to come again
	Elsewhere        uint64 // sent to another peer, which was just given the piece
	Refused          uint64 // for good
}

// Uploads is what became of the requests of peers for content.
func Uploads(ctx context.Context, p *Program) (UploadStatus, error) {
	return system.Ask[UploadStatus](ctx, p.s, p.node, UploadsQuery{})
}

// ChildList answers ChildrenQuery, in the order in which they began.
type ChildList []ChildEvent

// ServeParked, p2p -> Seeder: the child has stopped reading an admitted job, with Left
// bytes not taken. Its ServeDone is still to come.
type ServeParked struct {
	Job  peers.Job
	Left int
}

// ChildLost, network -> Seeder: the last connection to a peer has gone.
type ChildLost struct{ Peer peers.ID }

// SetUploadRate, API -> Seeder: bytes per second; 0 is no limit. With a Share it limits
// that share, within the limit for all.
type SetUploadRate struct {
	Share share.ID // zero: all
	Rate  int64
}
