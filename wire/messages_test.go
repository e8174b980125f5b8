package wire

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	pb "github.com/piecelease/fetcher/wire/wirepb"
)

// A codec is one kind of message, with its struct hidden behind any, so that every
// test can go through all of them.
type codec struct {
	name   string
	append func(dst []byte, m any) []byte
	parse  func([]byte) (any, error)
	draw   func(*rapid.T) any
	// sample has every field set; same is what the generated code calls it.
	sample any
	same   proto.Message
	// largest is the longest message that the encoder makes.
	largest any
}

func of[T any](name string, enc func([]byte, T) []byte, dec func([]byte) (T, error), draw func(*rapid.T) T, sample, largest T, same proto.Message) codec {
	return codec{
		name:    name,
		append:  func(dst []byte, m any) []byte { return enc(dst, m.(T)) },
		parse:   func(b []byte) (any, error) { return dec(b) },
		draw:    func(t *rapid.T) any { return draw(t) },
		sample:  sample,
		largest: largest,
		same:    same,
	}
}

// manifestHeader holds the arguments of AppendManifestHeader.
type manifestHeader struct {
	reply Reply
	size  int64
}

func appendManifestHeader(dst []byte, h manifestHeader) []byte {
	return AppendManifestHeader(dst, h.reply, h.size)
}

func parseManifestHeader(b []byte) (manifestHeader, error) {
	p, n, err := ParseManifestHeader(b)
	return manifestHeader{p, n}, err
}

func appendPieceFrame(dst []byte, f PieceFrame) []byte {
	if f.Cancel {
		return AppendCancel(dst, f.ID)
	}
	return AppendPieceRequest(dst, f.Share, f.Request)
}

// someID is a share ID: the CID 01 71 1e 20 and the digest 0, 1, 2 ... 31.
var someID = func() share.ID {
	b := []byte{0x01, 0x71, 0x1e, 0x20}
	for i := range byte(32) {
		b = append(b, i)
	}
	id, err := share.IDFromBytes(b)
	if err != nil {
		panic(err)
	}
	return id
}()

// otherID is another one.
var otherID = share.IDOf(someID.Bytes())

var (
	largeHold = Hold{someID, longText[:MaxRequestID], MaxHeldBytes, maxSeconds, repeat(MaxHoldSources, peers.Addr{ID: longPeer, Addrs: longAddrs}),
		longText[:MaxHoldName], otherID, otherID}
	largeHeld = Held{someID, maxSeconds, 255, 255, MaxHeldBytes, maxSeconds, maxSeconds, MaxHeldBytes, MaxDuration, otherID, otherID}
)

func proofOf(n int) (hashes []share.Hash, flat []byte) {
	for i := range n {
		h := share.Hash{byte(i), 31: 0xff}
		hashes, flat = append(hashes, h), append(flat, h[:]...)
	}
	return hashes, flat
}

func repeat[T any](n int, v T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

const (
	someAddr = "/ip4/192.0.2.1/tcp/4001"
	somePeer = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	maxToken = 1<<64 - 1
	maxPiece = share.MaxPieces - 1
)

var (
	longText   = strings.Repeat("x", MaxReason)
	longReason = Reason{255, longText}
	overdue    = Reason{Prose: "overdue"}
	newReason  = Reason{200, "not yet known"} // the sentences of known codes may still change
	longPeer   = peers.ID(strings.Repeat("p", MaxPeerID))
	longAddrs  = repeat(MaxAddrs, strings.Repeat("a", MaxAddr))
	proof, raw = proofOf(16)
	maxProof   = func() []share.Hash { p, _ := proofOf(MaxBlocks); return p }()
)

// codecs is every message of the package.
var codecs = []codec{
	of("piece-request", appendPieceFrame, ParsePieceFrame, drawPieceFrame,
		PieceFrame{ID: 7, Share: someID, Request: PieceRequest{ID: 7, Piece: 300, First: 4, Count: 12, Proof: true}},
		PieceFrame{ID: maxToken, Share: someID, Request: PieceRequest{ID: maxToken, Piece: maxPiece, First: 127, Count: 129, Proof: true}},
		&pb.PieceFrame{Id: 7, Share: someID.Bytes(), Piece: 300, First: 4, Count: 12, Proof: true}),
	of("piece-request-pressed", appendPieceFrame, ParsePieceFrame, drawPieceFrame,
		PieceFrame{ID: 7, Share: someID, Request: PieceRequest{ID: 7, Piece: 300, First: 4, Count: 12, Pressed: true}},
		PieceFrame{ID: maxToken, Share: someID, Request: PieceRequest{ID: maxToken, Piece: maxPiece, First: 127, Count: 129, Proof: true, Pressed: true}},
		&pb.PieceFrame{Id: 7, Share: someID.Bytes(), Piece: 300, First: 4, Count: 12, Pressed: true}),
	of("piece-cancel", appendPieceFrame, ParsePieceFrame, drawPieceFrame,
		PieceFrame{Cancel: true, ID: 7}, PieceFrame{Cancel: true, ID: maxToken},
		&pb.PieceFrame{Id: 7, Cancel: true}),
	of("piece-header", AppendHeader, ParseHeader, drawHeader,
		Header{ID: 7, Proof: proof, First: 4, Count: 4, Bytes: MaxRun, Last: true},
		Header{ID: maxToken, Proof: maxProof, First: 252, Count: 4, Bytes: MaxRun, Last: true},
		&pb.PieceHeader{Id: 7, Proof: raw, First: 4, Count: 4, Bytes: MaxRun, Last: true}),
	of("piece-header-busy", AppendHeader, ParseHeader, drawHeader,
		Header{ID: 8, Status: Busy, Retry: 1500 * time.Millisecond, Reason: Reason{Prose: "too many at once"}, Last: true},
		Header{ID: maxToken, Status: Refused, Retry: MaxDuration, Reason: longReason, Last: true},
		&pb.PieceHeader{Id: 8, Status: pb.Status_STATUS_BUSY, RetryMs: 1500, Reason: "too many at once", Last: true}),
	of("piece-header-elsewhere", AppendHeader, ParseHeader, drawHeader,
		Header{ID: 8, Status: Busy, Retry: 1500 * time.Millisecond, Last: true, Elsewhere: true},
		Header{ID: maxToken, Status: Busy, Retry: MaxDuration, Reason: longReason, Last: true, Elsewhere: true},
		&pb.PieceHeader{Id: 8, Status: pb.Status_STATUS_BUSY, RetryMs: 1500, Last: true, Elsewhere: true}),
	of("piece-header-code", AppendHeader, ParseHeader, drawHeader,
		Header{ID: 8, Status: Gone, Reason: newReason, Last: true},
		Header{ID: maxToken, Status: Gone, Retry: MaxDuration, Reason: longReason, Last: true},
		&pb.PieceHeader{Id: 8, Status: pb.Status_STATUS_GONE, Reason: "not yet known", Code: 200, Last: true}),
	of("manifest-request", AppendManifestRequest, ParseManifestRequest, drawManifestRequest,
		ManifestRequest{Share: someID}, ManifestRequest{Share: someID}, &pb.ManifestRequest{Share: someID.Bytes()}),
	of("manifest-request-others", AppendManifestRequest, ParseManifestRequest, drawManifestRequest,
		ManifestRequest{someID, true}, ManifestRequest{someID, true}, &pb.ManifestRequest{Share: someID.Bytes(), Others: true}),
	of("prove-ask", AppendProve, ParseProve, drawProve,
		Prove{Share: someID, Nonce: make([]byte, NonceSize)}, Prove{Share: someID, Nonce: make([]byte, NonceSize), Proof: make([]byte, ProofSize)},
		&pb.Prove{Share: someID.Bytes(), Nonce: make([]byte, NonceSize)}),
	of("prove-source", AppendProve, ParseProve, drawProve,
		Prove{Nonce: make([]byte, NonceSize), Proof: someProof}, Prove{Share: someID, Nonce: make([]byte, NonceSize), Proof: make([]byte, ProofSize)},
		&pb.Prove{Nonce: make([]byte, NonceSize), Proof: someProof}),
	of("manifest-header", appendManifestHeader, parseManifestHeader, drawManifestHeader,
		manifestHeader{size: 123_456}, manifestHeader{size: share.MaxManifest},
		&pb.ManifestHeader{Size: 123_456}),
	of("manifest-header-whole", appendManifestHeader, parseManifestHeader, drawManifestHeader,
		manifestHeader{reply: Reply{Whole: true}, size: 123_456}, manifestHeader{reply: Reply{Whole: true}, size: share.MaxManifest},
		&pb.ManifestHeader{Size: 123_456, Whole: true}),
	of("manifest-header-gone", appendManifestHeader, parseManifestHeader, drawManifestHeader,
		manifestHeader{reply: Reply{Status: Gone, Retry: time.Second, Reason: Reason{Prose: "datei verändert"}}},
		manifestHeader{reply: Reply{Status: Refused, Retry: MaxDuration, Reason: longReason}},
		&pb.ManifestHeader{Status: pb.Status_STATUS_GONE, RetryMs: 1000, Reason: "datei verändert"}),
	of("manifest-header-others", appendManifestHeader, parseManifestHeader, drawManifestHeader,
		manifestHeader{reply: Reply{Status: Busy, Retry: time.Second, Others: []peers.Addr{{ID: somePeer, Addrs: []string{someAddr}}}}},
		manifestHeader{reply: Reply{Status: Busy, Retry: MaxDuration, Reason: longReason, Others: repeat(MaxOthers, peers.Addr{ID: longPeer, Addrs: longAddrs})}},
		&pb.ManifestHeader{Status: pb.Status_STATUS_BUSY, RetryMs: 1000, Others: []*pb.PeerAddr{{Id: somePeer, Addrs: []string{someAddr}}}}),
	of("manifest-header-code", appendManifestHeader, parseManifestHeader, drawManifestHeader,
		manifestHeader{reply: Reply{Status: Refused, Reason: newReason}},
		manifestHeader{reply: Reply{Status: Refused, Retry: MaxDuration, Reason: longReason}},
		&pb.ManifestHeader{Status: pb.Status_STATUS_REFUSED, Reason: "not yet known", Code: 200}),
	of("envelope", AppendEnvelope, ParseEnvelope, drawEnvelope,
		Envelope{Kind: KindTell, To: "seeder", Token: 5, Reply: 9, Type: TypeGoodbye, Payload: []byte{1, 2, 3}, Credit: 64},
		Envelope{Kind: KindUnsupported, To: strings.Repeat("n", MaxName), Token: maxToken, Reply: maxToken, Type: 1<<32 - 1, Payload: make([]byte, MaxPayload), Credit: 1<<32 - 1},
		&pb.Envelope{Kind: pb.Envelope_KIND_TELL, To: "seeder", Token: 5, Reply: 9, Type: uint32(pb.MessageType_MESSAGE_TYPE_GOODBYE), Payload: []byte{1, 2, 3}, Credit: 64}),
	of("subscribe", Append[Subscribe], Parse[Subscribe], drawSubscribe,
		Subscribe{Share: someID, Addrs: []string{someAddr, "/ip6/::1/udp/4001/quic-v1"}, Nameable: true},
		Subscribe{someID, longAddrs, true, true, true, true, true},
		&pb.Subscribe{Share: someID.Bytes(), Addrs: []string{someAddr, "/ip6/::1/udp/4001/quic-v1"}, Nameable: true}),
	of("subscribe-mirror", Append[Subscribe], Parse[Subscribe], drawSubscribe,
		Subscribe{Share: someID, Addrs: []string{someAddr}, Mirror: true},
		Subscribe{someID, longAddrs, true, true, true, true, true},
		&pb.Subscribe{Share: someID.Bytes(), Addrs: []string{someAddr}, Mirror: true}),
	of("subscribe-offer", Append[Subscribe], Parse[Subscribe], drawSubscribe,
		Subscribe{Share: someID, Mirror: true, Offer: true},
		Subscribe{someID, longAddrs, true, true, true, true, true},
		&pb.Subscribe{Share: someID.Bytes(), Mirror: true, Offer: true}),
	of("subscribe-whole", Append[Subscribe], Parse[Subscribe], drawSubscribe,
		Subscribe{Share: someID, Mirror: true, Whole: true},
		Subscribe{someID, longAddrs, true, true, true, true, true},
		&pb.Subscribe{Share: someID.Bytes(), Mirror: true, Whole: true}),
	of("subscribe-mirrors-only", Append[Subscribe], Parse[Subscribe], drawSubscribe,
		Subscribe{Share: someID, Addrs: []string{someAddr}, Nameable: true, MirrorsOnly: true},
		Subscribe{someID, longAddrs, true, true, true, true, true},
		&pb.Subscribe{Share: someID.Bytes(), Addrs: []string{someAddr}, Nameable: true, MirrorsOnly: true}),
	of("subscribe-result", Append[SubscribeResult], Parse[SubscribeResult], drawSubscribeResult,
		SubscribeResult{someID, true, Reason{Prose: "full"}, 30 * time.Second, []peers.Addr{{ID: somePeer, Addrs: []string{someAddr}}, {ID: "other"}}, false},
		SubscribeResult{someID, true, longReason, MaxDuration, repeat(MaxChildren, peers.Addr{ID: longPeer, Addrs: longAddrs}), true},
		&pb.SubscribeResult{Share: someID.Bytes(), Accepted: true, Reason: "full", RetryMs: 30_000,
			Children: []*pb.PeerAddr{{Id: somePeer, Addrs: []string{someAddr}}, {Id: "other"}}}),
	of("subscribe-result-code", Append[SubscribeResult], Parse[SubscribeResult], drawSubscribeResult,
		SubscribeResult{Share: someID, Reason: newReason},
		SubscribeResult{someID, true, longReason, MaxDuration, repeat(MaxChildren, peers.Addr{ID: longPeer, Addrs: longAddrs}), true},
		&pb.SubscribeResult{Share: someID.Bytes(), Reason: "not yet known", Code: 200}),
	of("subscribe-result-elsewhere", Append[SubscribeResult], Parse[SubscribeResult], drawSubscribeResult,
		SubscribeResult{Share: someID, Accepted: true, Elsewhere: true},
		SubscribeResult{someID, true, longReason, MaxDuration, repeat(MaxChildren, peers.Addr{ID: longPeer, Addrs: longAddrs}), true},
		&pb.SubscribeResult{Share: someID.Bytes(), Accepted: true, Elsewhere: true}),
	of("unsubscribe", Append[Unsubscribe], Parse[Unsubscribe], drawUnsubscribe,
		Unsubscribe{Share: someID}, Unsubscribe{someID, true}, &pb.Unsubscribe{Share: someID.Bytes()}),
	of("unsubscribe-done", Append[Unsubscribe], Parse[Unsubscribe], drawUnsubscribe,
		Unsubscribe{someID, true}, Unsubscribe{someID, true}, &pb.Unsubscribe{Share: someID.Bytes(), Done: true}),
	of("have-map", Append[HaveMap], Parse[HaveMap], drawHaveMap,
		HaveMap{someID, 11, []byte{0b1010_0101, 0b101}},
		HaveMap{someID, share.MaxPieces, repeat(share.MaxPieces/8, byte(0xff))},
		&pb.HaveMap{Share: someID.Bytes(), Pieces: 11, Bits: []byte{0b1010_0101, 0b101}}),
	of("have", Append[Have], Parse[Have], drawHave,
		Have{someID, []share.Piece{0, 127, 128, maxPiece}},
		Have{someID, repeat(MaxHave, share.Piece(maxPiece))},
		&pb.Have{Share: someID.Bytes(), Pieces: []uint32{0, 127, 128, maxPiece}}),
	of("share-gone", Append[ShareGone], Parse[ShareGone], drawShareGone,
		ShareGone{someID, Reason{Prose: "a file changed"}}, ShareGone{someID, longReason},
		&pb.ShareGone{Share: someID.Bytes(), Reason: "a file changed"}),
	of("share-gone-code", Append[ShareGone], Parse[ShareGone], drawShareGone,
		ShareGone{someID, newReason}, ShareGone{someID, longReason},
		&pb.ShareGone{Share: someID.Bytes(), Reason: "not yet known", Code: 200}),
	of("goodbye", Append[Goodbye], Parse[Goodbye], drawShareOnly[Goodbye],
		Goodbye{someID}, Goodbye{someID}, &pb.Goodbye{Share: someID.Bytes()}),
	of("lease-request", Append[LeaseRequest], Parse[LeaseRequest], drawLeaseRequest,
		LeaseRequest{Share: someID, Max: 400, Rate: 12_500_000, RTT: 80 * time.Millisecond},
		LeaseRequest{someID, 1<<32 - 1, maxToken, MaxDuration, longPeer, repeat(MaxLeases, share.Piece(maxPiece))},
		&pb.LeaseRequest{Share: someID.Bytes(), Max: 400, Rate: 12_500_000, RttMs: 80}),
	of("lease-response", Append[LeaseResponse], Parse[LeaseResponse], drawLeaseResponse,
		LeaseResponse{someID, []Lease{{Piece: 3, Token: 1<<40 | 17, Expires: 5 * time.Second, Hedge: true, Begun: true}, {}}, Reason{Prose: "all leased"}, time.Minute, true, ""},
		LeaseResponse{someID, repeat(MaxLeases, Lease{maxPiece, maxToken, MaxDuration, true, true}), longReason, MaxDuration, true, longPeer},
		&pb.LeaseResponse{Share: someID.Bytes(), Leases: []*pb.Lease{{Piece: 3, Token: 1<<40 | 17, ExpiresMs: 5000, Hedge: true, Begun: true}, {}},
			Refused: "all leased", UntilMs: 60_000, Never: true}),
	of("lease-progress", Append[LeaseProgress], Parse[LeaseProgress], drawLeaseProgress,
		LeaseProgress{someID, []Progress{{3, 1<<40 | 17, share.BlockSize}, {}}, ""},
		LeaseProgress{someID, repeat(MaxLeases, Progress{maxPiece, maxToken, share.MaxPiece}), longPeer},
		&pb.LeaseProgress{Share: someID.Bytes(), Items: []*pb.LeaseProgress_Item{{Piece: 3, Token: 1<<40 | 17, Bytes: share.BlockSize}, {}}}),
	of("lease-returned", Append[LeaseReturned], Parse[LeaseReturned], drawLeaseReturned,
		LeaseReturned{someID, []Returned{{3, 1<<40 | 17, overdue}, {}}, ""},
		LeaseReturned{someID, repeat(MaxLeases, Returned{maxPiece, maxToken, Reason{255, longText[:MaxWord]}}), longPeer},
		&pb.LeaseReturned{Share: someID.Bytes(), Items: []*pb.LeaseReturned_Item{{Piece: 3, Token: 1<<40 | 17, Reason: "overdue"}, {}}}),
	of("leases-available", Append[LeasesAvailable], Parse[LeasesAvailable], drawLeasesAvailable,
		LeasesAvailable{Share: someID}, LeasesAvailable{someID, longPeer}, &pb.LeasesAvailable{Share: someID.Bytes()}),
	of("lease-revoked", Append[LeaseRevoked], Parse[LeaseRevoked], drawLeaseRevoked,
		LeaseRevoked{someID, []Revoked{{3, 1<<40 | 17}, {}}, ""},
		LeaseRevoked{someID, repeat(MaxLeases, Revoked{maxPiece, maxToken}), longPeer},
		&pb.LeaseRevoked{Share: someID.Bytes(), Items: []*pb.LeaseRevoked_Item{{Piece: 3, Token: 1<<40 | 17}, {}}}),
	of("piece-done", Append[PieceDone], Parse[PieceDone], drawPieceDone,
		PieceDone{someID, 3, 1<<40 | 17}, PieceDone{someID, maxPiece, maxToken},
		&pb.PieceDone{Share: someID.Bytes(), Piece: 3, Token: 1<<40 | 17}),

	// The same as some of the above, with the fields that came later.
	of("lease-request-source", Append[LeaseRequest], Parse[LeaseRequest], drawLeaseRequest,
		LeaseRequest{someID, 400, 12_500_000, 80 * time.Millisecond, somePeer, []share.Piece{3, 300}},
		LeaseRequest{someID, 1<<32 - 1, maxToken, MaxDuration, longPeer, repeat(MaxLeases, share.Piece(maxPiece))},
		&pb.LeaseRequest{Share: someID.Bytes(), Max: 400, Rate: 12_500_000, RttMs: 80, Source: somePeer, Keep: []uint32{3, 300}}),
	of("lease-response-source", Append[LeaseResponse], Parse[LeaseResponse], drawLeaseResponse,
		LeaseResponse{someID, []Lease{{Piece: 3, Token: 1<<40 | 17, Expires: 5 * time.Second}}, Reason{Prose: "all leased"}, time.Minute, true, somePeer},
		LeaseResponse{someID, nil, longReason, MaxDuration, true, longPeer},
		&pb.LeaseResponse{Share: someID.Bytes(), Leases: []*pb.Lease{{Piece: 3, Token: 1<<40 | 17, ExpiresMs: 5000}},
			Refused: "all leased", UntilMs: 60_000, Never: true, Source: somePeer}),
	of("lease-response-code", Append[LeaseResponse], Parse[LeaseResponse], drawLeaseResponse,
		LeaseResponse{Share: someID, Refused: newReason, Source: somePeer},
		LeaseResponse{someID, nil, longReason, MaxDuration, true, longPeer},
		&pb.LeaseResponse{Share: someID.Bytes(), Refused: "not yet known", Source: somePeer, Code: 200}),
	of("lease-progress-source", Append[LeaseProgress], Parse[LeaseProgress], drawLeaseProgress,
		LeaseProgress{someID, []Progress{{3, 1<<40 | 17, share.BlockSize}}, somePeer}, LeaseProgress{someID, nil, longPeer},
		&pb.LeaseProgress{Share: someID.Bytes(), Items: []*pb.LeaseProgress_Item{{Piece: 3, Token: 1<<40 | 17, Bytes: share.BlockSize}}, Source: somePeer}),
	of("lease-returned-source", Append[LeaseReturned], Parse[LeaseReturned], drawLeaseReturned,
		LeaseReturned{someID, []Returned{{3, 1<<40 | 17, overdue}}, somePeer}, LeaseReturned{someID, nil, longPeer},
		&pb.LeaseReturned{Share: someID.Bytes(), Items: []*pb.LeaseReturned_Item{{Piece: 3, Token: 1<<40 | 17, Reason: "overdue"}}, Source: somePeer}),
	of("lease-returned-code", Append[LeaseReturned], Parse[LeaseReturned], drawLeaseReturned,
		LeaseReturned{someID, []Returned{{3, 1<<40 | 17, newReason}, {4, 1<<40 | 18, Why(CodeNotFound)}}, somePeer}, LeaseReturned{someID, nil, longPeer},
		&pb.LeaseReturned{Share: someID.Bytes(), Items: []*pb.LeaseReturned_Item{{Piece: 3, Token: 1<<40 | 17, Reason: "not yet known", Code: 200},
			{Piece: 4, Token: 1<<40 | 18, Reason: "does not have the piece", Code: uint32(CodeNotFound)}}, Source: somePeer}),
	of("leases-available-source", Append[LeasesAvailable], Parse[LeasesAvailable], drawLeasesAvailable,
		LeasesAvailable{someID, somePeer}, LeasesAvailable{someID, longPeer}, &pb.LeasesAvailable{Share: someID.Bytes(), Source: somePeer}),
	of("lease-revoked-source", Append[LeaseRevoked], Parse[LeaseRevoked], drawLeaseRevoked,
		LeaseRevoked{someID, []Revoked{{3, 1<<40 | 17}}, somePeer}, LeaseRevoked{someID, nil, longPeer},
		&pb.LeaseRevoked{Share: someID.Bytes(), Items: []*pb.LeaseRevoked_Item{{Piece: 3, Token: 1<<40 | 17}}, Source: somePeer}),

	of("source-has", Append[SourceHas], Parse[SourceHas], drawSourceHas,
		SourceHas{someID, somePeer, 11, []byte{0b1010_0101, 0b101}},
		SourceHas{someID, longPeer, share.MaxPieces, repeat(share.MaxPieces/8, byte(0xff))},
		&pb.SourceHas{Share: someID.Bytes(), Source: somePeer, Pieces: 11, Bits: []byte{0b1010_0101, 0b101}}),
	of("source-has-more", Append[SourceHasMore], Parse[SourceHasMore], drawSourceHasMore,
		SourceHasMore{someID, somePeer, []share.Piece{0, 127, 128, maxPiece}},
		SourceHasMore{someID, longPeer, repeat(MaxHave, share.Piece(maxPiece))},
		&pb.SourceHasMore{Share: someID.Bytes(), Source: somePeer, Pieces: []uint32{0, 127, 128, maxPiece}}),
	of("source-down", Append[SourceDown], Parse[SourceDown], drawSourceDown,
		SourceDown{Share: someID, Source: somePeer}, SourceDown{Share: someID, Source: longPeer}, &pb.SourceDown{Share: someID.Bytes(), Source: somePeer}),
	of("source-down-member", Append[SourceDown], Parse[SourceDown], drawSourceDown,
		SourceDown{someID, somePeer, true, []share.Piece{0, 127, 128, maxPiece}},
		SourceDown{someID, longPeer, true, repeat(MaxHave, share.Piece(maxPiece))},
		&pb.SourceDown{Share: someID.Bytes(), Source: somePeer, Member: true, Pieces: []uint32{0, 127, 128, maxPiece}}),
	of("fleet-members", Append[FleetMembers], Parse[FleetMembers], drawFleetMembers,
		FleetMembers{someID, []peers.Addr{{ID: somePeer, Addrs: []string{someAddr}}, {ID: "other"}}},
		FleetMembers{someID, repeat(MaxMembers, peers.Addr{ID: longPeer, Addrs: longAddrs})},
		&pb.FleetMembers{Share: someID.Bytes(), Members: []*pb.PeerAddr{{Id: somePeer, Addrs: []string{someAddr}}, {Id: "other"}}}),
	of("fleet-term", Append[FleetTerm], Parse[FleetTerm], drawFleetTerm,
		FleetTerm{someID, 300, peers.Addr{ID: somePeer, Addrs: []string{someAddr}}, [ProofSize]byte(repeat(ProofSize, byte(0xa5)))},
		FleetTerm{someID, maxToken, peers.Addr{ID: longPeer, Addrs: longAddrs}, [ProofSize]byte(repeat(ProofSize, byte(0xff)))},
		&pb.FleetTerm{Share: someID.Bytes(), Term: 300, Coordinator: somePeer, Addrs: []string{someAddr}, Proof: repeat(ProofSize, byte(0xa5))}),

	of("hold", Append[Hold], Parse[Hold], drawHold,
		Hold{Share: someID, Request: "r1", Bytes: 53_248, Until: 2_000_000_000, Sources: []peers.Addr{{ID: somePeer, Addrs: []string{someAddr}}, {ID: "other"}}}, largeHold,
		&pb.Hold{Share: someID.Bytes(), Request: "r1", Bytes: 53_248, Until: 2_000_000_000,
			Sources: []*pb.PeerAddr{{Id: somePeer, Addrs: []string{someAddr}}, {Id: "other"}}}),
	of("hold-name", Append[Hold], Parse[Hold], drawHold,
		Hold{Share: someID, Request: "r2", Bytes: 1, Until: 5, Name: "photos", Expect: otherID, Supersedes: otherID}, largeHold,
		&pb.Hold{Share: someID.Bytes(), Request: "r2", Bytes: 1, Until: 5, Name: "photos", Expect: otherID.Bytes(), Supersedes: otherID.Bytes()}),
	of("renew", Append[Renew], Parse[Renew], drawRenew,
		Renew{someID, "r3", 2_000_000_000}, Renew{someID, longText[:MaxRequestID], maxSeconds},
		&pb.Renew{Share: someID.Bytes(), Request: "r3", Until: 2_000_000_000}),
	of("release", Append[Release], Parse[Release], drawRelease,
		Release{someID, "r4"}, Release{someID, longText[:MaxRequestID]}, &pb.Release{Share: someID.Bytes(), Request: "r4"}),
	of("held", Append[Held], Parse[Held], drawHeld,
		Held{Share: someID, At: 1_900_000_000, State: 1, Bytes: 53_248, Expires: 2_000_000_000, Added: 100_000_000}, largeHeld,
		&pb.Held{Share: someID.Bytes(), At: 1_900_000_000, State: 1, Bytes: 53_248, Expires: 2_000_000_000, Added: 100_000_000}),
	of("held-refused", Append[Held], Parse[Held], drawHeld,
		Held{Share: someID, At: 1_900_000_000, Refused: 7, Room: 9, Retry: time.Minute, Current: someID, Coming: otherID}, largeHeld,
		&pb.Held{Share: someID.Bytes(), At: 1_900_000_000, Refused: 7, Room: 9, RetryMs: 60_000, Current: someID.Bytes(), Coming: otherID.Bytes()}),
	of("holdings", Append[Holdings], Parse[Holdings], drawHoldings, Holdings{someID}, Holdings{someID}, &pb.Holdings{After: someID.Bytes()}),
	of("holdings-page", Append[HoldingsPage], Parse[HoldingsPage], drawHoldingsPage,
		HoldingsPage{1_900_000_000, 1, []Holding{{someID, 2, 53_248, 2_000_000_000, 0, 0}, {Share: otherID}}, true},
		HoldingsPage{maxSeconds, 255, repeat(MaxHoldings, Holding{someID, 255, MaxHeldBytes, maxSeconds, MaxHeldBytes, 255}), true},
		&pb.HoldingsPage{At: 1_900_000_000, Refused: 1, More: true, Items: []*pb.HoldingsPage_Item{
			{Share: someID.Bytes(), State: 2, Bytes: 53_248, Expires: 2_000_000_000}, {Share: otherID.Bytes()}}}),
	of("holdings-page-coming", Append[HoldingsPage], Parse[HoldingsPage], drawHoldingsPage,
		HoldingsPage{At: 1_900_000_000, Items: []Holding{{someID, 1, 53_248, 2_000_000_000, 9_000, 2}}}, HoldingsPage{At: maxSeconds},
		&pb.HoldingsPage{At: 1_900_000_000, Items: []*pb.HoldingsPage_Item{{Share: someID.Bytes(), State: 1, Bytes: 53_248, Expires: 2_000_000_000, Here: 9_000, Delay: 2}}}),
	of("usage", Append[Usage], Parse[Usage], drawUsage, Usage{true}, Usage{true}, &pb.Usage{Watch: true}),
	of("usage-report", Append[UsageReport], Parse[UsageReport], drawUsageReport,
		UsageReport{1_900_000_000, 1, 53_248, 1 << 30, 2_678_400, true}, UsageReport{maxSeconds, 255, MaxHeldBytes, MaxHeldBytes, maxSeconds, true},
		&pb.UsageReport{At: 1_900_000_000, Refused: 1, Used: 53_248, Quota: 1 << 30, MaxLease: 2_678_400, Complete: true}),
	of("holding-changed", Append[HoldingChanged], Parse[HoldingChanged], drawHoldingChanged,
		HoldingChanged{1_900_000_000, Holding{someID, 3, 53_248, 2_000_000_000, 0, 0}}, HoldingChanged{maxSeconds, Holding{someID, 255, MaxHeldBytes, maxSeconds, 0, 0}},
		&pb.HoldingChanged{Share: someID.Bytes(), At: 1_900_000_000, State: 3, Bytes: 53_248, Expires: 2_000_000_000}),

	of("pass-keys", Append[PassKeys], Parse[PassKeys], func(*rapid.T) PassKeys { return PassKeys{} }, PassKeys{}, PassKeys{}, &pb.PassKeys{}),
	of("pass-key-list", Append[PassKeyList], Parse[PassKeyList], drawPassKeyList,
		PassKeyList{Keys: repeat(36, byte(7))}, PassKeyList{255, repeat(MaxListing, byte(0xff))},
		&pb.PassKeyList{Keys: repeat(36, byte(7))}),
	of("redeem", Append[Redeem], Parse[Redeem], drawRedeem,
		Redeem{someVoucher, [PassSizes][]byte{nil, repeat(35, byte(1)), repeat(67, byte(2))}}, Redeem{someVoucher, manySigned},
		&pb.Redeem{Voucher: someVoucher[:], Medium: repeat(35, byte(1)), Small: repeat(67, byte(2))}),
	of("exchange", Append[Exchange], Parse[Exchange], drawExchange,
		Exchange{somePayment, repeat(SpendSize, byte(3)), [PassSizes][]byte{2: repeat(67, byte(2))}}, Exchange{somePayment, repeat(MaxPays*SpendSize, byte(3)), manySigned},
		&pb.Exchange{Id: somePayment[:], Passes: repeat(SpendSize, byte(3)), Small: repeat(67, byte(2))}),
	of("signed", Append[Signed], Parse[Signed], drawSigned,
		Signed{Refused: 14, Signed: [PassSizes][]byte{repeat(98, byte(4))}, Bad: repeat(2*PassNames, byte(5))}, Signed{255, manySigned, repeat(MaxPays*PassNames, byte(0xff))},
		&pb.Signed{Refused: 14, Large: repeat(98, byte(4)), Bad: repeat(2*PassNames, byte(5))}),
	of("pay", Append[Pay], Parse[Pay], drawPay,
		Pay{somePayment, repeat(2*SpendSize, byte(3))}, Pay{somePayment, repeat(MaxPays*SpendSize, byte(3))},
		&pb.Pay{Id: somePayment[:], Passes: repeat(2*SpendSize, byte(3))}),
	of("paid", Append[Paid], Parse[Paid], drawPaid,
		Paid{ID: somePayment, Refused: 14, Units: 12, Bad: repeat(PassNames, byte(5))}, Paid{somePayment, 255, maxUnits, repeat(MaxPays*PassNames, byte(0xff))},
		&pb.Paid{Id: somePayment[:], Refused: 14, Units: 12, Bad: repeat(PassNames, byte(5))}),
	of("announce", Append[Announce], Parse[Announce], drawAnnounce,
		Announce{someHashes, []string{someAddr}, true}, Announce{repeat(MaxBeaconKeys, someHashes[1]), longAddrs, true},
		&pb.Announce{Keys: someFlat, Addrs: []string{someAddr}, Gone: true}),
	of("announced", Append[Announced], Parse[Announced], drawAnnounced,
		Announced{30 * time.Minute, 2, time.Minute}, Announced{MaxDuration, 255, MaxDuration}, &pb.Announced{TtlMs: 1_800_000, Refused: 2, RetryMs: 60_000}),
	of("seek", Append[Seek], Parse[Seek], drawSeek,
		Seek{someHashes[1], 5}, Seek{someHashes[1], MaxPadding}, &pb.Seek{Key: someHashes[1][:], Padding: make([]byte, 5)}),
	of("found", Append[Found], Parse[Found], drawFound,
		Found{someHashes[1], []peers.Addr{{ID: somePeer, Addrs: []string{someAddr}}}, time.Second},
		Found{someHashes[1], repeat(MaxIntroduced, peers.Addr{ID: longPeer, Addrs: longAddrs}), MaxDuration},
		&pb.Found{Key: someHashes[1][:], Peers: []*pb.PeerAddr{{Id: somePeer, Addrs: []string{someAddr}}}, RetryMs: 1_000}),
	of("say", Append[Say], Parse[Say], drawSay,
		Say{7, repeat(3, byte(6)), true}, Say{MaxChannel, repeat(MaxSaid, byte(0xff)), true}, &pb.Say{Channel: 7, Body: repeat(3, byte(6)), Last: true}),
	of("heard", Append[Heard], Parse[Heard], drawHeard,
		Heard{7, repeat(3, byte(6)), somePeer, 5, time.Second, 2 * time.Minute}, Heard{MaxChannel, repeat(MaxSaid, byte(0xff)), longPeer, 255, MaxDuration, MaxDuration},
		&pb.Heard{Channel: 7, Body: repeat(3, byte(6)), From: somePeer, Refused: 5, RetryMs: 1_000, LifeMs: 120_000}),
}

// someHashes are two, and someFlat is one behind the other.
var someHashes, someFlat = proofOf(2)

func drawHash(t *rapid.T) share.Hash {
	h := share.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
	h[0] |= 1 // not all zeros, which would be no hash
	return h
}

func drawAnnounce(t *rapid.T) Announce {
	return Announce{drawList(t, "keys", MaxBeaconKeys, drawHash), drawAddrs(t), drawBool(t)}
}

func drawAnnounced(t *rapid.T) Announced {
	return Announced{drawMS(t), rapid.Uint8().Draw(t, "refused"), drawMS(t)}
}

func drawSeek(t *rapid.T) Seek {
	return Seek{drawHash(t), rapid.IntRange(0, MaxPadding).Draw(t, "padding")}
}

func drawSay(t *rapid.T) Say {
	return Say{rapid.IntRange(0, MaxChannel).Draw(t, "channel"), drawBytes(t, "body", 1, MaxSaid), drawBool(t)}
}

func drawHeard(t *rapid.T) Heard {
	return Heard{rapid.IntRange(0, MaxChannel).Draw(t, "channel"), drawBytes(t, "body", 1, MaxSaid), drawPeer(t).ID, rapid.Uint8().Draw(t, "refused"), drawMS(t), drawMS(t)}
}

func drawFound(t *rapid.T) Found {
	return Found{drawHash(t), drawList(t, "peers", MaxIntroduced, drawPeer), drawMS(t)}
}

var (
	someVoucher = [VoucherSize]byte(repeat(VoucherSize, byte('v')))
	somePayment = [PaymentID]byte(repeat(PaymentID, byte(9)))
	manySigned  = [PassSizes][]byte{repeat(MaxSigning, byte(1)), repeat(MaxSigning, byte(2)), repeat(MaxSigning, byte(3))}
)

func codecOf(name string) codec {
	for _, c := range codecs {
		if c.name == name {
			return c
		}
	}
	panic(fmt.Sprintf("no codec %q", name))
}

// Generators. Each draws only values that the encoder keeps as they are, so that reading
// back gives an equal value; empty lists are nil.

// someProof is that of a source that knows the secret of 16 zeros.
var someProof = ProofOf(share.Secret{}, someID, "source", "asker", true, make([]byte, NonceSize))

func drawProve(t *rapid.T) (p Prove) {
	if rapid.Bool().Draw(t, "about a share") {
		p.Share = drawID(t)
	}
	if rapid.Bool().Draw(t, "a nonce") {
		p.Nonce = rapid.SliceOfN(rapid.Byte(), NonceSize, NonceSize).Draw(t, "nonce")
	}
	if rapid.Bool().Draw(t, "a proof") {
		p.Proof = rapid.SliceOfN(rapid.Byte(), ProofSize, ProofSize).Draw(t, "proof")
	}
	return p
}

func drawID(t *rapid.T) share.ID {
	b := append([]byte{0x01, 0x71, 0x1e, 0x20}, rapid.SliceOfN(rapid.Byte(), 31, 31).Draw(t, "digest")...)
	id, err := share.IDFromBytes(append(b, 1)) // not the zero ID
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func drawShareOnly[T ~struct{ Share share.ID }](t *rapid.T) T {
	return T(struct{ Share share.ID }{drawID(t)})
}

func drawUnsubscribe(t *rapid.T) Unsubscribe { return Unsubscribe{drawID(t), drawBool(t)} }

func text(limit int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string { return printable(rapid.String().Draw(t, "text"), limit) })
}

func drawList[T any](t *rapid.T, name string, limit int, one func(*rapid.T) T) []T {
	got := rapid.SliceOfN(rapid.Custom(one), 0, min(limit, 20)).Draw(t, name)
	if len(got) == 0 {
		return nil
	}
	return got
}

func drawMS(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(MaxDuration/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
}

func drawPiece(t *rapid.T) share.Piece {
	return share.Piece(rapid.Uint32Range(0, maxPiece).Draw(t, "piece"))
}
func drawToken(t *rapid.T) share.Token { return share.Token(rapid.Uint64().Draw(t, "token")) }
func drawBool(t *rapid.T) bool         { return rapid.Bool().Draw(t, "bool") }

func drawPieceFrame(t *rapid.T) PieceFrame {
	id := rapid.Uint64().Draw(t, "id")
	if drawBool(t) {
		return PieceFrame{Cancel: true, ID: id}
	}
	first := rapid.IntRange(0, MaxBlocks-1).Draw(t, "first")
	return PieceFrame{ID: id, Share: drawID(t), Request: PieceRequest{
		ID: id, Piece: drawPiece(t), First: share.Block(first),
		Count: rapid.IntRange(1, MaxBlocks-first).Draw(t, "count"), Proof: drawBool(t), Pressed: drawBool(t),
	}}
}

// drawReason draws a reason as it is read: a known code, or prose.
func drawReason(t *rapid.T, most int) Reason {
	r := Reason{Code: Code(rapid.Uint8().Draw(t, "code"))}
	if r.Code.String() == "" {
		r.Prose = text(most).Draw(t, "prose")
	}
	return r
}

func drawReply(t *rapid.T) Reply {
	return Reply{Status: Status(rapid.Uint8Range(1, uint8(Refused)).Draw(t, "status")), Retry: drawMS(t), Reason: drawReason(t, MaxReason)} // Elsewhere is of pieces only
}

func drawHeader(t *rapid.T) Header {
	h := Header{ID: rapid.Uint64().Draw(t, "id")}
	if drawBool(t) {
		p := drawReply(t)
		h.Status, h.Retry, h.Reason, h.Last = p.Status, p.Retry, p.Reason, true
		h.Elsewhere = h.Status == Busy && drawBool(t)
		return h
	}
	h.Proof = drawList(t, "proof", MaxBlocks, func(t *rapid.T) share.Hash {
		return share.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
	})
	h.Bytes = rapid.IntRange(0, MaxRun).Draw(t, "bytes")
	h.Count = (h.Bytes + share.BlockSize - 1) / share.BlockSize
	h.First = share.Block(rapid.IntRange(0, MaxBlocks-max(h.Count, 1)).Draw(t, "first"))
	h.Last = drawBool(t)
	return h
}

func drawManifestRequest(t *rapid.T) ManifestRequest { return ManifestRequest{drawID(t), drawBool(t)} }

func drawManifestHeader(t *rapid.T) manifestHeader {
	if drawBool(t) {
		r := drawReply(t)
		if r.Status == Busy {
			r.Others = drawList(t, "others", MaxOthers, drawPeer)
		}
		return manifestHeader{reply: r}
	}
	return manifestHeader{reply: Reply{Whole: drawBool(t)}, size: rapid.Int64Range(1, share.MaxManifest).Draw(t, "size")}
}

func drawEnvelope(t *rapid.T) Envelope {
	return Envelope{
		Kind: EnvelopeKind(rapid.Uint8Range(1, uint8(KindUnsupported)).Draw(t, "kind")),
		To:   text(MaxName).Draw(t, "to"), Token: rapid.Uint64().Draw(t, "token"), Reply: rapid.Uint64().Draw(t, "reply"),
		Type:    rapid.Uint32().Draw(t, "type"),
		Payload: drawList(t, "payload", MaxPayload, func(t *rapid.T) byte { return rapid.Byte().Draw(t, "byte") }),
		Credit:  rapid.Uint32().Draw(t, "credit"),
	}
}

func drawAddrs(t *rapid.T) []string {
	return drawList(t, "addrs", MaxAddrs, func(t *rapid.T) string { return text(MaxAddr).Draw(t, "addr") })
}

func drawSubscribe(t *rapid.T) Subscribe {
	return Subscribe{drawID(t), drawAddrs(t), drawBool(t), drawBool(t), drawBool(t), drawBool(t), drawBool(t)}
}

func drawSubscribeResult(t *rapid.T) SubscribeResult {
	return SubscribeResult{drawID(t), drawBool(t), drawReason(t, MaxReason), drawMS(t),
		drawList(t, "children", MaxChildren, drawPeer), drawBool(t)}
}

func drawPeer(t *rapid.T) peers.Addr {
	return peers.Addr{ID: peers.ID("p" + text(MaxPeerID-1).Draw(t, "id")), Addrs: drawAddrs(t)}
}

func drawHaveMap(t *rapid.T) HaveMap {
	s := share.NewSet(rapid.IntRange(0, 200).Draw(t, "pieces"))
	for p := range s.Len() {
		if drawBool(t) {
			s.Add(share.Piece(p))
		}
	}
	m := HaveMap{Share: drawID(t), Pieces: s.Len()}
	if s.Len() > 0 {
		m.Bits = s.Bytes()
	}
	return m
}

func drawHave(t *rapid.T) Have { return Have{drawID(t), drawList(t, "pieces", MaxHave, drawPiece)} }

func drawShareGone(t *rapid.T) ShareGone {
	return ShareGone{drawID(t), drawReason(t, MaxReason)}
}

func drawLeaseRequest(t *rapid.T) LeaseRequest {
	return LeaseRequest{drawID(t), rapid.Uint32().Draw(t, "max"), rapid.Uint64().Draw(t, "rate"), drawMS(t), drawSource(t),
		drawList(t, "keep", MaxLeases, drawPiece)}
}

func drawLeaseResponse(t *rapid.T) LeaseResponse {
	return LeaseResponse{drawID(t), drawList(t, "leases", MaxLeases, func(t *rapid.T) Lease {
		return Lease{drawPiece(t), drawToken(t), drawMS(t), drawBool(t), drawBool(t)}
	}), drawReason(t, MaxReason), drawMS(t), drawBool(t), drawSource(t)}
}

func drawLeaseProgress(t *rapid.T) LeaseProgress {
	return LeaseProgress{drawID(t), drawList(t, "items", MaxLeases, func(t *rapid.T) Progress {
		return Progress{drawPiece(t), drawToken(t), rapid.IntRange(0, share.MaxPiece).Draw(t, "bytes")}
	}), drawSource(t)}
}

func drawLeaseReturned(t *rapid.T) LeaseReturned {
	return LeaseReturned{drawID(t), drawList(t, "items", MaxLeases, func(t *rapid.T) Returned {
		return Returned{drawPiece(t), drawToken(t), drawReason(t, MaxWord)}
	}), drawSource(t)}
}

func drawLeaseRevoked(t *rapid.T) LeaseRevoked {
	return LeaseRevoked{drawID(t), drawList(t, "items", MaxLeases, func(t *rapid.T) Revoked {
		return Revoked{drawPiece(t), drawToken(t)}
	}), drawSource(t)}
}

func drawPieceDone(t *rapid.T) PieceDone { return PieceDone{drawID(t), drawPiece(t), drawToken(t)} }

func drawSource(t *rapid.T) peers.ID { return peers.ID(text(MaxPeerID).Draw(t, "source")) }

func drawLeasesAvailable(t *rapid.T) LeasesAvailable {
	return LeasesAvailable{drawID(t), drawSource(t)}
}

func drawSourceHas(t *rapid.T) SourceHas {
	m := drawHaveMap(t)
	return SourceHas{m.Share, drawSource(t), m.Pieces, m.Bits}
}

func drawSourceHasMore(t *rapid.T) SourceHasMore {
	return SourceHasMore{drawID(t), drawSource(t), drawList(t, "pieces", MaxHave, drawPiece)}
}

func drawSourceDown(t *rapid.T) SourceDown {
	return SourceDown{drawID(t), drawSource(t), rapid.Bool().Draw(t, "member"), drawList(t, "pieces", MaxHave, drawPiece)}
}

func drawFleetTerm(t *rapid.T) FleetTerm {
	m := FleetTerm{Share: drawID(t), Term: rapid.Uint64().Draw(t, "term"), Proof: [ProofSize]byte(rapid.SliceOfN(rapid.Byte(), ProofSize, ProofSize).Draw(t, "proof"))}
	m.Coordinator = peers.Addr{ID: drawSource(t), Addrs: drawAddrs(t)}
	return m
}

func drawFleetMembers(t *rapid.T) FleetMembers {
	return FleetMembers{drawID(t), drawList(t, "members", MaxMembers, func(t *rapid.T) peers.Addr {
		return peers.Addr{ID: "p" + peers.ID(text(MaxPeerID-1).Draw(t, "id")), Addrs: drawAddrs(t)}
	})}
}

func drawNumber(t *rapid.T, limit int64) int64 { return rapid.Int64Range(0, limit).Draw(t, "number") }

func drawOtherID(t *rapid.T) share.ID {
	if drawBool(t) {
		return share.ID{}
	}
	return drawID(t)
}

func drawHold(t *rapid.T) Hold {
	return Hold{drawID(t), text(MaxRequestID).Draw(t, "request"), drawNumber(t, MaxHeldBytes), drawNumber(t, maxSeconds),
		drawList(t, "sources", MaxHoldSources, func(t *rapid.T) peers.Addr {
			return peers.Addr{ID: "p" + peers.ID(text(MaxPeerID-1).Draw(t, "id")), Addrs: drawAddrs(t)}
		}), text(MaxHoldName).Draw(t, "name"), drawOtherID(t), drawOtherID(t)}
}

func drawRenew(t *rapid.T) Renew {
	return Renew{drawID(t), text(MaxRequestID).Draw(t, "request"), drawNumber(t, maxSeconds)}
}

func drawRelease(t *rapid.T) Release {
	return Release{drawID(t), text(MaxRequestID).Draw(t, "request")}
}

func drawHeld(t *rapid.T) Held {
	return Held{drawID(t), drawNumber(t, maxSeconds), rapid.Uint8().Draw(t, "refused"), rapid.Uint8().Draw(t, "state"), drawNumber(t, MaxHeldBytes),
		drawNumber(t, maxSeconds), drawNumber(t, maxSeconds), drawNumber(t, MaxHeldBytes), drawMS(t), drawOtherID(t), drawOtherID(t)}
}

func drawHolding(t *rapid.T) Holding {
	return Holding{drawID(t), rapid.Uint8().Draw(t, "state"), drawNumber(t, MaxHeldBytes), drawNumber(t, maxSeconds), drawNumber(t, MaxHeldBytes), rapid.Uint8().Draw(t, "delay")}
}

func drawHoldings(t *rapid.T) Holdings { return Holdings{drawOtherID(t)} }

func drawHoldingsPage(t *rapid.T) HoldingsPage {
	return HoldingsPage{drawNumber(t, maxSeconds), rapid.Uint8().Draw(t, "refused"), drawList(t, "items", MaxHoldings, drawHolding), drawBool(t)}
}

func drawUsage(t *rapid.T) Usage { return Usage{drawBool(t)} }

func drawUsageReport(t *rapid.T) UsageReport {
	return UsageReport{drawNumber(t, maxSeconds), rapid.Uint8().Draw(t, "refused"), drawNumber(t, MaxHeldBytes), drawNumber(t, MaxHeldBytes),
		drawNumber(t, maxSeconds), drawBool(t)}
}

func drawHoldingChanged(t *rapid.T) HoldingChanged {
	h := drawHolding(t)
	h.Here, h.Delay = 0, 0
	return HoldingChanged{drawNumber(t, maxSeconds), h}
}

func drawBytes(t *rapid.T, name string, size, most int) []byte {
	if n := rapid.IntRange(0, min(most, 9)).Draw(t, name); n > 0 {
		return rapid.SliceOfN(rapid.Byte(), n*size, n*size).Draw(t, name)
	}
	return nil
}

func drawSigning(t *rapid.T) (s [PassSizes][]byte) {
	for i := range s {
		s[i] = drawBytes(t, "signing", 1, MaxSigning)
	}
	return s
}

func drawPayment(t *rapid.T) [PaymentID]byte {
	return [PaymentID]byte(rapid.SliceOfN(rapid.Byte(), PaymentID, PaymentID).Draw(t, "id"))
}

func drawPassKeyList(t *rapid.T) PassKeyList {
	return PassKeyList{rapid.Uint8().Draw(t, "refused"), drawBytes(t, "keys", 1, MaxListing)}
}

func drawRedeem(t *rapid.T) Redeem {
	return Redeem{[VoucherSize]byte(rapid.SliceOfN(rapid.Byte(), VoucherSize, VoucherSize).Draw(t, "voucher")), drawSigning(t)}
}

func drawExchange(t *rapid.T) Exchange {
	return Exchange{drawPayment(t), drawBytes(t, "passes", SpendSize, MaxPays), drawSigning(t)}
}

func drawSigned(t *rapid.T) Signed {
	return Signed{rapid.Uint8().Draw(t, "refused"), drawSigning(t), drawBytes(t, "bad", PassNames, MaxPays)}
}

func drawPay(t *rapid.T) Pay { return Pay{drawPayment(t), drawBytes(t, "passes", SpendSize, MaxPays)} }

func drawPaid(t *rapid.T) Paid {
	return Paid{drawPayment(t), rapid.Uint8().Draw(t, "refused"), drawNumber(t, maxUnits), drawBytes(t, "bad", PassNames, MaxPays)}
}
