package actors

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// travellers are one of each message that travels.
func travellers() []any {
	id := share.IDOf([]byte("a share"))
	return []any{
		Subscribe{id, []string{"/ip4/192.0.2.1/tcp/1"}, true, true},
		SubscribeResult{id, true, "why", time.Second, []peers.Addr{{ID: "p", Addrs: []string{"/ip4/192.0.2.1/tcp/1"}}}},
		Unsubscribe{id, true},
		HaveMap{id, 11, []byte{1, 2}},
		Have{id, []share.Piece{0, 300}},
		ShareGone{id, "why"},
		Goodbye{id},
		wire.LeaseRequest{Share: id, Max: 3, Rate: 4, RTT: time.Second, Source: "s", Keep: []uint32{1, 2}},
		wire.LeaseResponse{Share: id, Leases: []wire.Lease{{Piece: 1, Token: 2, Expires: time.Second, Hedge: true, Begun: true}}, Refused: "why", Until: time.Second, Never: true, Source: "s"},
		wire.LeaseProgress{Share: id, Items: []wire.Progress{{Piece: 1, Token: 2, Bytes: 3}}, Source: "s"},
		wire.LeaseReturned{Share: id, Items: []wire.Returned{{Piece: 1, Token: 2, Reason: string(leasemgr.Missed)}}, Source: "s"},
		wire.LeasesAvailable{Share: id, Source: "s"},
		wire.LeaseRevoked{Share: id, Items: []wire.Revoked{{Piece: 1, Token: 2}}, Source: "s"},
		wire.PieceDone{Share: id, Piece: 1, Token: 2},
		wire.SourceHas{Share: id, Source: "s", Pieces: 11, Bits: []byte{1, 2}},
		wire.SourceHasMore{Share: id, Source: "s", Pieces: []uint32{0, 300}},
		wire.SourceDown{Share: id, Source: "s"},
		wire.FleetMembers{Share: id, Members: []peers.Addr{{ID: "p", Addrs: []string{"/ip4/192.0.2.1/tcp/1"}}}},
	}
}

func TestEveryMessageThatTravelsComesBackAsItWas(t *testing.T) {
	seen := map[uint32]bool{}
	for _, m := range travellers() {
		typ, b, ok := codec{}.Encode(m)
		if !ok || seen[typ] {
			t.Errorf("%T: type %d, ok %v", m, typ, ok)
		}
		seen[typ] = true
		if got, err := (codec{}).Decode(typ, b); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%#v came as %#v, %v", m, got, err)
		}
	}
	if len(seen) != int(wire.TypeFleetMembers) {
		t.Errorf("%d of %d types are tried", len(seen), wire.TypeFleetMembers)
	}
}

func TestMessagesOfTheInsideDoNotTravel(t *testing.T) {
	for _, m := range []any{LeaseRequest{}, LeaseResponse{}, LeaseProgress{}, LeaseReturned{}, LeasesAvailable{}, LeaseRevoked{}, PieceDone{}, SourceHas{},
		SourceHasMore{}, SourceDown{}, StopTransfer{}, CoordinateShare{}, StopCoordinating{}, FleetQuery{}, system.WakeDue{}, nil} {
		if typ, _, ok := (codec{}).Encode(m); ok {
			t.Errorf("%T travels as type %d", m, typ)
		}
	}
	for _, typ := range []uint32{0, wire.TypeFleetMembers + 1} {
		if _, err := (codec{}).Decode(typ, nil); !errors.Is(err, system.ErrUnknownType) {
			t.Errorf("type %d: %v", typ, err)
		}
	}
}

// What is decoded can be sent on, and then means the same.
func FuzzDecode(f *testing.F) {
	for _, m := range travellers() {
		typ, b, _ := codec{}.Encode(m)
		f.Add(typ, b)
	}
	f.Fuzz(func(t *testing.T, typ uint32, b []byte) {
		m, err := codec{}.Decode(typ, b)
		if err != nil {
			return
		}
		again, b, ok := codec{}.Encode(m)
		if !ok || again != typ {
			t.Fatalf("%#v of type %d is of type %d, ok %v", m, typ, again, ok)
		}
		same, err := codec{}.Decode(again, b)
		if err != nil {
			t.Fatalf("%#v: %v", m, err)
		}
		if _, c, _ := (codec{}).Encode(same); string(c) != string(b) {
			t.Fatalf("%#v came as %#v", m, same)
		}
	})
}
