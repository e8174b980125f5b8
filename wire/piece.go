package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/share"
)

// Protocol IDs. A new meaning of any byte is a new ID.
const (
	PieceProtocol    = "/fetcher/piece/1"
	ManifestProtocol = "/fetcher/manifest/1"
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

// PieceFrame is what the asker of a piece sends: a request, or the taking back
// of one.
type PieceFrame struct {
	Cancel  bool   // forget request ID; Share and Request are not set
	ID      uint64 // of the request, in both cases
	Share   share.ID
	Request PieceRequest
}

// AppendPieceRequest encodes a request for blocks of share id.
func AppendPieceRequest(dst []byte, id share.ID, r PieceRequest) []byte {
	dst = appendUint(dst, 1, r.ID)
	dst = appendShare(dst, 3, id)
	dst = appendUint(dst, 4, r.Piece)
	dst = appendUint(dst, 5, r.First)
	dst = appendUint(dst, 6, r.Count)
	dst = appendBool(dst, 7, r.Proof)
	return appendBool(dst, 8, r.Pressed)
}

// AppendCancel encodes the taking back of request req.
func AppendCancel(dst []byte, req uint64) []byte {
	return appendBool(appendUint(dst, 1, req), 2, true)
}

// ParsePieceFrame reads a request or a cancel. Whether the share has the piece
// and the piece the blocks is the caller's to check; that they can exist at all
// is checked here.
func ParsePieceFrame(b []byte) (PieceFrame, error) {
	var f PieceFrame
	q := &f.Request
	r := read("piece request", b)
	for r.next() {
		switch r.num {
		case 1:
			f.ID = r.uint64()
		case 2:
			f.Cancel = r.bool()
		case 3:
			f.Share = r.share()
		case 4:
			q.Piece = r.piece()
		case 5:
			q.First = uint32(r.uint(MaxBlocks - 1))
		case 6:
			q.Count = uint32(r.uint(MaxBlocks))
		case 7:
			q.Proof = r.bool()
		case 8:
			q.Pressed = r.bool()
		}
	}
	if f.Cancel {
		return PieceFrame{Cancel: true, ID: f.ID}, r.err
	}
	r.hasShare(f.Share)
	r.need(q.Count >= 1 && q.First+q.Count <= MaxBlocks, "blocks %d+%d", q.First, q.Count)
	q.ID = f.ID
	return f, r.err
}

// Header stands before each run of raw bytes of a reply. A reply is one or more
// headers with status OK, the last one marked, or some of those and then one
// with another status, which ends it.
type Header struct {
	ID     uint64 // of the request
	Status Status
	Retry  time.Duration // Busy: ask again after
	Reason string        // Refused, Gone: for people; at most MaxReason bytes
	Proof  []share.Hash  // of all blocks of the piece, if asked for; in the first header only
	First  uint32        // first block of the run
	Count  uint32        // blocks of the run; 0 for a header with nothing behind it
	Bytes  uint32        // raw bytes behind the header, at most MaxRun
	Last   bool          // nothing follows for this request; always set unless Status is OK
	// Elsewhere, with Busy: only for this piece, as in Reply.
	Elsewhere bool
}

// Reply is the header's status and what goes with it.
func (h *Header) Reply() Reply { return Reply{h.Status, h.Retry, h.Reason, h.Elsewhere} }

// AppendHeader encodes a header.
func AppendHeader(dst []byte, h Header) []byte {
	atMost("proof", len(h.Proof), MaxBlocks)
	dst = appendUint(dst, 1, h.ID)
	dst = appendReply(dst, 2, h.Reply())
	if len(h.Proof) > 0 {
		var at int
		dst, at = openItem(dst, 5)
		for i := range h.Proof {
			dst = append(dst, h.Proof[i][:]...)
		}
		dst = closeItem(dst, at)
	}
	dst = appendUint(dst, 6, h.First)
	dst = appendUint(dst, 7, h.Count)
	dst = appendUint(dst, 8, h.Bytes)
	dst = appendBool(dst, 9, h.Last || h.Status != OK)
	return appendBool(dst, 10, h.Elsewhere && h.Status == Busy)
}

// ParseHeader reads a header. That it fits the request is the caller's to check,
// before it reads what stands behind it; that Bytes is a length that Count
// blocks can have is checked here.
func ParseHeader(b []byte) (Header, error) {
	var h Header
	r := read("piece header", b)
	for r.next() {
		switch r.num {
		case 1:
			h.ID = r.uint64()
		case 2:
			h.Status = r.status()
		case 3:
			h.Retry = r.ms()
		case 4:
			h.Reason = r.text(MaxReason)
		case 5:
			h.Proof = r.hashes(MaxBlocks)
		case 6:
			h.First = uint32(r.uint(MaxBlocks - 1))
		case 7:
			h.Count = uint32(r.uint(MaxBlocks))
		case 8:
			h.Bytes = uint32(r.uint(MaxRun))
		case 9:
			h.Last = r.bool()
		case 10:
			h.Elsewhere = r.bool()
		}
	}
	switch { // rather than need, whose arguments would be allocated for each good header
	case h.Status != OK && (h.Count != 0 || h.Bytes != 0 || h.Proof != nil):
		r.fail("blocks or a proof with status %v", h.Status)
	case h.First+h.Count > MaxBlocks:
		r.fail("blocks %d+%d", h.First, h.Count)
	case (h.Bytes+share.BlockSize-1)/share.BlockSize != h.Count:
		r.fail("%d bytes for %d blocks", h.Bytes, h.Count)
	}
	h.Last = h.Last || h.Status != OK
	h.Elsewhere = h.Elsewhere && h.Status == Busy
	return h, r.err
}

// hashes is a list of hashes, 32 bytes each.
func (r *reader) hashes(limit int) []share.Hash {
	b := r.bytes(limit * hashLen)
	if len(b)%hashLen != 0 {
		r.fail("field %d: %d bytes of hashes", r.num, len(b))
	}
	if r.err != nil || len(b) == 0 {
		return nil
	}
	out := make([]share.Hash, len(b)/hashLen)
	for i := range out {
		out[i] = share.Hash(b[i*hashLen:])
	}
	return out
}

// status is a status that we know.
func (r *reader) status() Status { return Status(r.uint(uint64(Refused))) }

// appendReply encodes a status and what goes with it as fields num, num+1 and num+2.
func appendReply(dst []byte, num protowire.Number, p Reply) []byte {
	dst = appendUint(dst, num, p.Status)
	dst = appendMS(dst, num+1, p.Retry)
	return appendBytes(dst, num+2, printable(p.Reason, MaxReason))
}
