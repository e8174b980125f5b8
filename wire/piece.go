package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/share"
)

// Protocol IDs. A new meaning of any byte needs a new ID.
const (
	PieceProtocol    = "/fetcher/piece/1"
	ManifestProtocol = "/fetcher/manifest/1"
	ProveProtocol    = "/fetcher/prove/1"
	MessageProtocol  = "/fetcher/msg/1"
)

// Limits inside the messages of the piece protocol.
const (
	MaxBlocks = share.MaxPiece / share.BlockSize // blocks of one piece, and hashes of one proof
	MaxReason = 256                              // bytes of a reason
)

const (
	shareIDLen = 36 // bytes of a share ID
	hashLen    = len(share.Hash{})
)

// PieceFrame is what the asker of a piece sends: a request, or the cancellation
// of one.
type PieceFrame struct {
	Cancel  bool   // forget request ID; Share and Request are not set
	ID      uint64 // of the request, in both cases
	Share   share.ID
	Request PieceRequest
}

func (f *PieceFrame) fields(c *coder) {
	q := &f.Request
	c.uint64(1, &f.ID)
	c.bool(2, &f.Cancel)
	if !c.reading && f.Cancel {
		return
	}
	c.share(3, &f.Share)
	c.piece(4, &q.Piece)
	varint(c, 5, &q.First, MaxBlocks-1)
	varint(c, 6, &q.Count, MaxBlocks)
	c.bool(7, &q.Proof)
	c.bool(8, &q.Pressed)
}

// AppendPieceRequest encodes a request for blocks of share id.
func AppendPieceRequest(dst []byte, id share.ID, r PieceRequest) []byte {
	c, f := coder{b: dst}, PieceFrame{ID: r.ID, Share: id, Request: r}
	f.fields(&c)
	return c.b
}

// AppendCancel encodes the cancellation of request req.
func AppendCancel(dst []byte, req uint64) []byte {
	c, f := coder{b: dst}, PieceFrame{Cancel: true, ID: req}
	f.fields(&c)
	return c.b
}

// ParsePieceFrame reads a request or a cancellation. The caller must check that the
// share has the piece and the piece the blocks; that they can exist at all
// is checked here.
func ParsePieceFrame(b []byte) (PieceFrame, error) {
	var f PieceFrame
	q := &f.Request
	c := coder{b: b, reading: true}
	for c.next() {
		f.fields(&c)
	}
	if f.Cancel {
		return PieceFrame{Cancel: true, ID: f.ID}, c.err
	}
	c.need(c.shared, "piece request: no share")
	c.need(q.Count >= 1 && int(q.First)+q.Count <= MaxBlocks, "piece request: %d blocks from block %d on, of at most %d in a piece", q.Count, q.First, MaxBlocks)
	q.ID = f.ID
	return f, c.err
}

// Header comes before each run of raw bytes of a reply. A reply is one or more
// headers with status OK, the last one marked, or some of those and then one
// with another status, which ends it.
type Header struct {
	ID     uint64 // of the request
	Status Status
	Retry  time.Duration // Busy: ask again after
	Reason Reason        // Busy, Refused, Gone
	Proof  []share.Hash  // of all blocks of the piece, if asked for; in the first header only
	First  share.Block   // first block of the run
	Count  int           // blocks of the run; 0 for a header with nothing behind it
	Bytes  int           // raw bytes behind the header, at most MaxRun
	Last   bool          // nothing follows for this request; always set unless Status is OK
	// Elsewhere, with Busy: only for this piece, as in Reply.
	Elsewhere bool
}

// Reply is the header's status and what goes with it.
func (h *Header) Reply() Reply {
	return Reply{Status: h.Status, Retry: h.Retry, Reason: h.Reason, Elsewhere: h.Elsewhere}
}

func (h *Header) fields(c *coder) {
	c.uint64(1, &h.ID)
	c.reply(2, &h.Status, &h.Retry, &h.Reason)
	c.hashes(5, &h.Proof, MaxBlocks)
	varint(c, 6, &h.First, MaxBlocks-1)
	varint(c, 7, &h.Count, MaxBlocks)
	varint(c, 8, &h.Bytes, MaxRun)
	c.bool(9, &h.Last)
	c.bool(10, &h.Elsewhere)
	c.coded(11, &h.Reason)
}

// settle sets what follows from the status.
func (h *Header) settle() {
	h.Last = h.Last || h.Status != OK
	if h.Elsewhere = h.Elsewhere && h.Status == Busy; h.Status == OK {
		h.Reason = Reason{}
	}
}

// AppendHeader encodes a header.
func AppendHeader(dst []byte, h Header) []byte {
	c := coder{b: dst}
	h.settle()
	h.fields(&c)
	return c.b
}

// ParseHeader reads a header. The caller must check that it fits the request,
// before it reads what follows it; that Bytes is a length that Count
// blocks can have is checked here.
func ParseHeader(b []byte) (Header, error) {
	var h Header
	c := coder{b: b, reading: true}
	for c.next() {
		h.fields(&c)
	}
	switch { // rather than need, whose arguments would be allocated for each good header
	case h.Status != OK && (h.Count != 0 || h.Bytes != 0 || h.Proof != nil):
		c.fail("piece header: blocks or a proof with status %v", h.Status)
	case int(h.First)+h.Count > MaxBlocks:
		c.fail("piece header: %d blocks from block %d on, of at most %d in a piece", h.Count, h.First, MaxBlocks)
	case (h.Bytes+share.BlockSize-1)/share.BlockSize != h.Count:
		c.fail("piece header: %d bytes for %d blocks", h.Bytes, h.Count)
	}
	h.settle()
	return h, c.err
}

// reply is a status and what goes with it, in the fields from num on.
func (c *coder) reply(num protowire.Number, s *Status, retry *time.Duration, reason *Reason) {
	varint(c, num, s, uint64(Refused))
	c.ms(num+1, retry)
	c.prosed(num+2, reason, MaxReason)
}
