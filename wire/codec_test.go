package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	pb "github.com/piecelease/fetcher/wire/wirepb"
)

// A golden file is a promise: -rewrite makes those that are missing and never
// changes one.
var rewrite = flag.Bool("rewrite", false, "make the golden files that are missing")

func golden(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && *rewrite {
		var w strings.Builder
		for line := range slices.Chunk(b, 32) {
			w.WriteString(hex.EncodeToString(line) + "\n")
		}
		text, err = []byte(w.String()), os.WriteFile(file, []byte(w.String()), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func TestGoldenBytesAreWrittenAndReadForever(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			want := golden(t, c.name, c.append(nil, c.sample))
			if got := c.append(nil, c.sample); !bytes.Equal(got, want) {
				t.Errorf("encodes as\n%x, want\n%x", got, want)
			}
			got, err := c.parse(want)
			if err != nil || !reflect.DeepEqual(got, c.sample) {
				t.Errorf("reads %+v, %v, want %+v", got, err, c.sample)
			}
		})
	}
}

func TestGeneratedCodeWritesTheSameBytes(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			got := c.append(nil, c.sample)
			if want := marshal(t, c.same); !bytes.Equal(got, want) {
				t.Errorf("ours\n%x, generated\n%x", got, want)
			}
		})
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// regenerated decodes and encodes b with the generated code.
func (c codec) regenerated(t testing.TB, b []byte) []byte {
	t.Helper()
	m := c.same.ProtoReflect().New().Interface()
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		t.Fatalf("generated code refuses %x: %v", b, err)
	}
	return marshal(t, m)
}

func TestEveryMessageComesBackAsItWasSent(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				m := c.draw(r)
				b := c.append([]byte("before"), m)
				b, ok := bytes.CutPrefix(b, []byte("before"))
				if !ok {
					t.Fatal("did not append")
				}
				got, err := c.parse(b)
				if err != nil || !reflect.DeepEqual(got, m) {
					r.Fatalf("sent %+v, read %+v, %v", m, got, err)
				}
				if g := c.regenerated(t, b); !bytes.Equal(g, b) {
					r.Fatalf("ours\n%x, generated\n%x", b, g)
				}
			})
		})
	}
}

func TestLargestMessageFitsItsFrame(t *testing.T) {
	limits := map[string]int{
		"piece-request": MaxRequest, "piece-cancel": MaxRequest, "manifest-request": MaxRequest,
		"piece-header": MaxHeader, "piece-header-busy": MaxHeader,
		"manifest-header": MaxHeader, "manifest-header-gone": MaxHeader,
		"envelope": MaxMessage,
	}
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			limit := limits[c.name]
			if limit == 0 {
				limit = MaxPayload
			}
			b := c.append(nil, c.largest)
			if len(b) > limit {
				t.Errorf("%d bytes, limit %d", len(b), limit)
			}
			if got, err := c.parse(b); err != nil || !reflect.DeepEqual(got, c.largest) {
				t.Errorf("not read back: %v", err)
			}
		})
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	var unknown []byte
	unknown = protowire.AppendVarint(protowire.AppendTag(unknown, 100, protowire.VarintType), 1)
	unknown = protowire.AppendString(protowire.AppendTag(unknown, 101, protowire.BytesType), "later \xff")
	unknown = protowire.AppendFixed32(protowire.AppendTag(unknown, 102, protowire.Fixed32Type), 1)
	unknown = protowire.AppendFixed64(protowire.AppendTag(unknown, 103, protowire.Fixed64Type), 1)
	unknown = protowire.AppendTag(unknown, 104, protowire.StartGroupType)
	unknown = protowire.AppendTag(unknown, 104, protowire.EndGroupType)
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			b := c.append(bytes.Clone(unknown), c.sample)
			got, err := c.parse(append(b, unknown...))
			if err != nil || !reflect.DeepEqual(got, c.sample) {
				t.Errorf("reads %+v, %v, want %+v", got, err, c.sample)
			}
		})
	}
}

func TestErrorsSayThatThePeerBrokeTheProtocol(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			b := c.append(nil, c.sample)
			for n := range b { // cut between two fields it may still be a message
				if _, err := c.parse(b[:n]); err != nil && (!errors.Is(err, ErrMalformed) || !errors.Is(err, peers.ErrProtocol)) {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
			if _, err := c.parse(append(b, 0x0a, 0x7f)); !errors.Is(err, ErrMalformed) {
				t.Errorf("field without an end: %v", err)
			}
		})
	}
}

func TestKnownFieldOfAnotherWireTypeIsRefused(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			fields := c.same.ProtoReflect().Descriptor().Fields()
			for i := range fields.Len() {
				f := fields.Get(i)
				text := f.Kind() == protoreflect.BytesKind || f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.MessageKind
				packed := f.IsList() && !text // or one by one: both are valid
				tag := func(typ protowire.Type) []byte { return protowire.AppendTag(c.append(nil, c.sample), f.Number(), typ) }
				wrong := [][]byte{
					protowire.AppendFixed32(tag(protowire.Fixed32Type), 1),
					protowire.AppendFixed64(tag(protowire.Fixed64Type), 1),
					protowire.AppendTag(tag(protowire.StartGroupType), f.Number(), protowire.EndGroupType),
				}
				if text {
					wrong = append(wrong, protowire.AppendVarint(tag(protowire.VarintType), 1))
				} else if !packed {
					wrong = append(wrong, protowire.AppendString(tag(protowire.BytesType), "1"))
				}
				for _, b := range wrong {
					if _, err := c.parse(b); !errors.Is(err, ErrMalformed) {
						t.Errorf("%s: %v", f.Name(), err)
					}
				}
			}
		})
	}
}

// field is one length-prefixed field.
func field[T string | []byte](num protowire.Number, v T) []byte { return appendItem(nil, num, v) }

func number(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestCapsRefuseBeforeAllocating sends what is just over a cap, and as much over it
// as fits in a frame, and checks how much memory the refusal takes.
func TestCapsRefuseBeforeAllocating(t *testing.T) {
	id := field(1, someID.Bytes())
	many := func(item []byte) []byte { return append(bytes.Clone(id), bytes.Repeat(item, MaxPayload/len(item))...) }
	long := strings.Repeat("x", MaxPayload)
	cases := []struct {
		what  string
		codec string
		b     []byte
	}{
		{"status over the last", "piece-header", number(2, 5)},
		{"reason", "piece-header", field(4, long[:MaxReason+1])},
		{"proof", "piece-header", field(5, long[:(MaxBlocks+1)*32])},
		{"proof of half a hash", "piece-header", field(5, long[:48])},
		{"first block", "piece-header", number(6, MaxBlocks)},
		{"count of blocks", "piece-header", number(7, MaxBlocks+1)},
		{"bytes of a run", "piece-header", join(number(7, 5), number(8, MaxRun+1))},
		{"bytes of other blocks", "piece-header", join(number(7, 2), number(8, share.BlockSize))},
		{"blocks past the piece", "piece-header", join(number(6, 255), number(7, 2), number(8, 2*share.BlockSize))},
		{"bytes behind a refusal", "piece-header", join(number(2, 4), number(7, 1), number(8, 1))},
		{"proof in a refusal", "piece-header", join(number(2, 4), field(5, long[:32]))},
		{"share of another length", "piece-request", field(3, long)},
		{"share of another kind", "piece-request", field(3, long[:36])},
		{"piece", "piece-request", join(field(3, someID.Bytes()), number(4, share.MaxPieces), number(6, 1))},
		{"no blocks", "piece-request", field(3, someID.Bytes())},
		{"blocks past the piece", "piece-request", join(field(3, someID.Bytes()), number(5, 1), number(6, MaxBlocks))},
		{"no share", "piece-request", number(6, 1)},
		{"manifest", "manifest-header", number(4, share.MaxManifest+1)},
		{"manifest of no bytes", "manifest-header", nil},
		{"manifest behind a status", "manifest-header", join(number(1, 1), number(4, 1))},
		{"no share", "manifest-request", nil},
		{"kind", "envelope", number(1, 8)},
		{"no kind", "envelope", nil},
		{"name", "envelope", join(number(1, 1), field(2, long))},
		{"payload", "envelope", join(number(1, 1), field(6, long+"x"))},
		{"type over 32 bits", "envelope", join(number(1, 1), number(5, 1<<32))},
		{"credit over 32 bits", "envelope", join(number(1, 1), number(7, 1<<32))},
		{"addresses", "subscribe", many(field(2, "a"))},
		{"address", "subscribe", join(id, field(2, long))},
		{"address with an escape", "subscribe", join(id, field(2, "\x1b[2J"))},
		{"address that is not UTF-8", "subscribe", join(id, field(2, "\xff"))},
		{"children", "subscribe-result", many(field(5, field(1, "p")))},
		{"child without an ID", "subscribe-result", join(id, field(5, ""))},
		{"peer ID", "subscribe-result", join(id, field(5, field(1, long)))},
		{"addresses of a child", "subscribe-result", join(id, field(5, append(field(1, "p"), bytes.Repeat(field(2, ""), 9)...)))},
		{"reason", "subscribe-result", join(id, field(3, long))},
		{"reason with a new line", "subscribe-result", join(id, field(3, "a\nb"))},
		{"pieces of a have-map", "have-map", join(id, number(2, share.MaxPieces+1), field(3, long[:(share.MaxPieces+8)/8]))},
		{"bits for other pieces", "have-map", join(id, number(2, 17), field(3, long[:2]))},
		{"bits for no pieces", "have-map", join(id, field(3, long[:1]))},
		{"no bits", "have-map", join(id, number(2, 1))},
		{"bit past the pieces", "have-map", join(id, number(2, 9), field(3, "\x00\x02"))},
		{"pieces, packed", "have", join(id, field(2, long))},
		{"pieces, one by one", "have", many(number(2, 1))},
		{"piece", "have", join(id, field(2, protowire.AppendVarint(nil, share.MaxPieces)))},
		{"piece cut", "have", join(id, field(2, "\x80"))},
		{"reason", "share-gone", join(id, field(2, long))},
		{"leases", "lease-response", many(field(2, ""))},
		{"lease of a piece over the cap", "lease-response", join(id, field(2, number(1, share.MaxPieces)))},
		{"refusal", "lease-response", join(id, field(3, long))},
		{"progress", "lease-progress", many(field(2, ""))},
		{"bytes of progress", "lease-progress", join(id, field(2, number(3, share.MaxPiece+1)))},
		{"returned", "lease-returned", many(field(2, ""))},
		{"word", "lease-returned", join(id, field(2, field(3, long[:MaxWord+1])))},
		{"revoked", "lease-revoked", many(field(2, ""))},
		{"piece", "piece-done", join(id, number(2, share.MaxPieces))},
		{"kept, packed", "lease-request", join(id, field(6, long))},
		{"kept piece", "lease-request", join(id, field(6, protowire.AppendVarint(nil, share.MaxPieces)))},
		{"source", "lease-request", join(id, field(5, long[:MaxPeerID+1]))},
		{"source", "lease-response", join(id, field(6, long))},
		{"source", "lease-progress", join(id, field(3, long))},
		{"source with an escape", "lease-revoked", join(id, field(3, "\x1b[2J"))},
		{"source", "leases-available", join(id, field(2, long))},
		{"source", "source-down", join(id, field(2, long))},
		{"pieces of a source", "source-has", join(id, number(3, share.MaxPieces+1), field(4, long[:(share.MaxPieces+8)/8]))},
		{"bits for other pieces", "source-has", join(id, number(3, 17), field(4, long[:2]))},
		{"bit past the pieces", "source-has", join(id, number(3, 9), field(4, "\x00\x02"))},
		{"pieces, packed", "source-has-more", join(id, field(3, long))},
		{"pieces of a member, packed", "source-down-member", join(id, field(4, long))},
		{"piece of a member", "source-down-member", join(id, field(4, protowire.AppendVarint(nil, share.MaxPieces)))},
		{"members", "fleet-members", many(field(2, field(1, "p")))},
		{"member without an ID", "fleet-members", join(id, field(2, ""))},
		{"request", "hold", join(id, field(2, long[:MaxRequestID+1]))},
		{"bytes of a share", "hold", join(id, number(3, MaxHeldBytes+1))},
		{"time", "hold", join(id, number(4, maxSeconds+1))},
		{"sources", "hold", many(field(5, field(1, "p")))},
		{"name", "hold", join(id, field(6, long[:MaxHoldName+1]))},
		{"what is expected", "hold", join(id, field(7, long[:36]))},
		{"request", "renew", join(id, field(2, long))},
		{"request", "release", join(id, field(2, long))},
		{"state", "held", join(id, number(4, 256))},
		{"room", "held", join(id, number(8, MaxHeldBytes+1))},
		{"after", "holdings", field(1, long)},
		{"holdings", "holdings-page", bytes.Repeat(field(3, field(1, someID.Bytes())), MaxHoldings+1)},
		{"holding without a share", "holdings-page", field(3, number(2, 1))},
		{"quota", "usage-report", number(4, MaxHeldBytes+1)},
		{"no share", "holding-changed", number(3, 1)},
		{"keys", "pass-key-list", field(2, long[:MaxListing+1])},
		{"short voucher", "redeem", field(1, long[:VoucherSize-1])},
		{"requests", "redeem", field(2, long[:MaxSigning+1])},
		{"passes", "pay", field(2, long[:(MaxPays+1)*SpendSize])},
		{"half a pass", "exchange", field(2, long[:SpendSize-1])},
		{"short payment", "paid", field(1, long[:PaymentID-1])},
		{"half a name", "signed", field(5, long[:PassNames-1])},
		{"keys of a beacon", "announce", field(1, make([]byte, 32*(MaxBeaconKeys+1)))},
		{"half a key", "announce", field(1, long[:48])},
		{"a long key", "seek", field(1, long[:33])},
		{"a short key", "found", field(1, long[:31])},
		{"no key", "seek", field(2, "x")}, // it would be shorter than a beacon counts
		{"a key of zeros", "seek", field(1, make([]byte, 32))},
		{"padding", "seek", join(field(1, long[:32]), field(2, make([]byte, MaxPadding+1)))},
		{"peers of a beacon", "found", bytes.Repeat(field(2, field(1, "p")), MaxIntroduced+1)},
		{"peer without an ID", "found", field(2, field(2, "a"))},
		{"short proof", "fleet-term", join(id, field(5, long[:ProofSize-1]))},
		{"long proof", "fleet-term", join(id, field(5, long[:ProofSize+1]))},
		{"coordinator", "fleet-term", join(id, field(3, long), field(5, long[:ProofSize]))},
		{"addresses of a coordinator", "fleet-term", join(id, bytes.Repeat(field(4, ""), 9), field(5, long[:ProofSize]))},
		{"addresses of a member", "fleet-members", join(id, field(2, append(field(1, "p"), bytes.Repeat(field(2, ""), 9)...)))},
	}
	for _, c := range cases {
		t.Run(c.codec+"/"+c.what, func(t *testing.T) {
			parse := codecOf(c.codec).parse
			if _, err := parse(c.b); !errors.Is(err, ErrMalformed) {
				t.Fatalf("error is %v", err)
			}
			allowed := uint64(4 << 10) // the error and its text
			if c.what == "pieces, one by one" {
				allowed = 20 * MaxHave // a list that doubles
			}
			if got := allocated(func() { _, _ = parse(c.b) }); got > allowed {
				t.Errorf("refusing took %d bytes of memory", got)
			}
		})
	}
}

// allocated returns how many bytes of memory f takes: the least of several runs, because
// the runtime's own allocations count too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 {
		var a, b runtime.MemStats
		runtime.ReadMemStats(&a)
		f()
		runtime.ReadMemStats(&b)
		least = min(least, b.TotalAlloc-a.TotalAlloc)
	}
	return least
}

func TestDurationsAreRoundedUpAndCut(t *testing.T) {
	cases := []struct{ sent, read time.Duration }{
		{0, 0}, {-time.Second, 0}, {1, time.Millisecond}, {time.Millisecond, time.Millisecond},
		{1001 * time.Microsecond, 2 * time.Millisecond}, {MaxDuration, MaxDuration},
		{MaxDuration + 1, MaxDuration}, {1<<63 - 1, MaxDuration},
	}
	for _, c := range cases {
		m, err := Parse[LeaseRequest](Append(nil, LeaseRequest{Share: someID, RTT: c.sent}))
		if err != nil || m.RTT != c.read {
			t.Errorf("%v is read as %v, %v, want %v", c.sent, m.RTT, err, c.read)
		}
	}
	for _, long := range []uint64{1 << 32, maxToken} {
		m, err := Parse[LeaseRequest](join(field(1, someID.Bytes()), number(4, long)))
		if err != nil || m.RTT != MaxDuration {
			t.Errorf("%d ms are read as %v, %v", long, m.RTT, err)
		}
	}
}

func TestTextForPeopleIsCutToWhatMayTravel(t *testing.T) {
	cases := []struct{ sent, read string }{
		{"", ""}, {"plain", "plain"}, {"two\nlines\x1b[2J\u0085", "two lines [2J "},
		{"\xff", "\uFFFD"}, {longText + "y", longText},
		{longText[:MaxReason-1] + "ä", longText[:MaxReason-1]},
	}
	for _, c := range cases {
		m, err := Parse[ShareGone](Append(nil, ShareGone{someID, Reason{Prose: c.sent}}))
		if err != nil || m.Reason != (Reason{Prose: c.read}) {
			t.Errorf("%q is read as %q, %v, want %q", c.sent, m.Reason, err, c.read)
		}
	}
}

func TestHintsOverTheirCapAreLeftOut(t *testing.T) {
	addrs := append([]string{"ok", strings.Repeat("a", MaxAddr+1), "bad\n", "\xff"}, repeat(9, "more")...)
	s, err := Parse[Subscribe](Append(nil, Subscribe{Share: someID, Addrs: addrs}))
	if want := []string{"ok", "more", "more", "more", "more"}; err != nil || !reflect.DeepEqual(s.Addrs, want) {
		t.Errorf("addresses %q, %v, want %q", s.Addrs, err, want)
	}
	r, err := Parse[SubscribeResult](Append(nil, SubscribeResult{Share: someID, Children: repeat(40, peers.Addr{ID: "p"})}))
	if err != nil || len(r.Children) != MaxChildren {
		t.Errorf("%d children, %v", len(r.Children), err)
	}
}

func TestEncodingWhatMayNotTravelPanics(t *testing.T) {
	cases := map[string]func(){
		"no share":   func() { Append(nil, Goodbye{}) },
		"have":       func() { Append(nil, Have{someID, make([]share.Piece, MaxHave+1)}) },
		"have-map":   func() { Append(nil, HaveMap{someID, 9, make([]byte, 1)}) },
		"spare bits": func() { Append(nil, HaveMap{someID, 9, []byte{0, 2}}) },
		"proof":      func() { AppendHeader(nil, Header{Proof: make([]share.Hash, MaxBlocks+1)}) },
		"name":       func() { AppendEnvelope(nil, Envelope{To: longText}) },
		"payload":    func() { AppendEnvelope(nil, Envelope{Payload: make([]byte, MaxPayload+1)}) },
		"peer ID": func() {
			Append(nil, SubscribeResult{Share: someID, Children: []peers.Addr{{ID: peers.ID(longText)}}})
		},
		"leases":          func() { Append(nil, LeaseResponse{Share: someID, Leases: make([]Lease, MaxLeases+1)}) },
		"leases progress": func() { Append(nil, LeaseProgress{Share: someID, Items: make([]Progress, MaxLeases+1)}) },
		"leases returned": func() { Append(nil, LeaseReturned{Share: someID, Items: make([]Returned, MaxLeases+1)}) },
		"kept":            func() { Append(nil, LeaseRequest{Share: someID, Keep: make([]share.Piece, MaxLeases+1)}) },
		"source":          func() { Append(nil, SourceDown{Share: someID, Source: longPeer + "p"}) },
		"bits of source":  func() { Append(nil, SourceHas{someID, somePeer, 9, make([]byte, 1)}) },
		"source has more": func() { Append(nil, SourceHasMore{someID, somePeer, make([]share.Piece, MaxHave+1)}) },
		"source down":     func() { Append(nil, SourceDown{someID, somePeer, true, make([]share.Piece, MaxHave+1)}) },
		"members":         func() { Append(nil, FleetMembers{someID, make([]peers.Addr, MaxMembers+1)}) },
		"leases revoked":  func() { Append(nil, LeaseRevoked{Share: someID, Items: make([]Revoked, MaxLeases+1)}) },
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestHeaderOfAnotherStatusIsTheLast(t *testing.T) {
	h, err := ParseHeader(AppendHeader(nil, Header{ID: 1, Status: NotFound}))
	if err != nil || !h.Last {
		t.Errorf("read %+v, %v", h, err)
	}
	if h, err = ParseHeader(number(2, uint64(NotFound))); err != nil || !h.Last {
		t.Errorf("without the field: %+v, %v", h, err)
	}
}

func TestCancelReadsNothingButItsID(t *testing.T) {
	b := join(number(1, 9), number(2, 1), field(3, someID.Bytes()), number(6, 3))
	f, err := ParsePieceFrame(b)
	if want := (PieceFrame{Cancel: true, ID: 9}); err != nil || f != want {
		t.Errorf("read %+v, %v, want %+v", f, err, want)
	}
}

func TestListOfPiecesMayBePackedOrNot(t *testing.T) {
	b := join(field(1, someID.Bytes()), number(2, 5), field(2, "\x06\x07"), field(2, ""), number(2, 8))
	m, err := Parse[Have](b)
	if want := []share.Piece{5, 6, 7, 8}; err != nil || !reflect.DeepEqual(m.Pieces, want) {
		t.Errorf("read %v, %v, want %v", m.Pieces, err, want)
	}
}

func TestParsedMessagesOwnTheirMemory(t *testing.T) {
	for _, c := range codecs {
		if c.name == "envelope" {
			continue // its payload is part of the frame, as its comment says
		}
		b := c.append(nil, c.sample)
		got, err := c.parse(b)
		clear(b)
		if err != nil || !reflect.DeepEqual(got, c.sample) {
			t.Errorf("%s: after its bytes were cleared: %+v, %v", c.name, got, err)
		}
	}
}

func TestNumbersMatchTheSchema(t *testing.T) {
	for s := OK; s <= Refused; s++ {
		if got := "STATUS_" + s.String(); got != pb.Status(s).String() {
			t.Errorf("status %d is %s here and %v there", s, got, pb.Status(s))
		}
	}
	for k := KindTell; k <= KindUnsupported; k++ {
		if got := "KIND_" + strings.ToUpper(k.String()); got != pb.Envelope_Kind(k).String() {
			t.Errorf("kind %d is %s here and %v there", k, got, pb.Envelope_Kind(k))
		}
	}
	if TypeHoldingChanged != uint32(pb.MessageType_MESSAGE_TYPE_HOLDING_CHANGED) || TypeHoldingChanged != uint32(len(pb.MessageType_name)-1) {
		t.Errorf("last type is %d here", TypeHoldingChanged)
	}
	if s := Status(9).String(); s != "status 9" {
		t.Error(s)
	}
	if s := EnvelopeKind(9).String(); s != "kind 9" {
		t.Error(s)
	}
}

func TestHeadersOnTheHotPathAllocateOnlyTheProof(t *testing.T) {
	plain := AppendHeader(nil, Header{ID: 1 << 40, First: 12, Count: 4, Bytes: MaxRun, Last: true})
	full := AppendHeader(nil, codecOf("piece-header").sample.(Header))
	dst := make([]byte, 0, MaxHeader)
	cases := []struct {
		what string
		want float64
		f    func()
	}{
		{"append", 0, func() { dst = AppendHeader(dst[:0], Header{ID: 1 << 40, Proof: maxProof, Count: 4, Bytes: MaxRun}) }},
		{"parse", 0, func() { _, _ = ParseHeader(plain) }},
		{"parse with proof", 1, func() { _, _ = ParseHeader(full) }},
		{"append request", 1, func() { dst = AppendPieceRequest(dst[:0], someID, PieceRequest{ID: 1 << 40, Piece: 4, Count: 16}) }},
	}
	for _, c := range cases {
		if got := testing.AllocsPerRun(100, c.f); got > c.want {
			t.Errorf("%s: %v allocations, want %v", c.what, got, c.want)
		}
	}
}

func BenchmarkHeader(b *testing.B) {
	proof, _ := proofOf(16)
	h := Header{ID: 1 << 40, Proof: proof, First: 12, Count: 4, Bytes: MaxRun, Last: true}
	buf := AppendHeader(nil, h)
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			buf = AppendHeader(buf[:0], h)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseHeader(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
