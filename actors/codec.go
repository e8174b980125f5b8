package actors

import (
	"fmt"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// codec maps the messages that may travel to and from their wire form. What is
// not here stays inside the process.
type codec struct{}

func (codec) Encode(msg any) (typ uint32, payload []byte, ok bool) {
	switch m := msg.(type) {
	case Subscribe:
		return wire.TypeSubscribe, wire.AppendSubscribe(nil, wire.Subscribe(m)), true
	case SubscribeResult:
		return wire.TypeSubscribeResult, wire.AppendSubscribeResult(nil, wire.SubscribeResult(m)), true
	case Unsubscribe:
		return wire.TypeUnsubscribe, wire.AppendUnsubscribe(nil, wire.Unsubscribe(m)), true
	case HaveMap:
		return wire.TypeHaveMap, wire.AppendHaveMap(nil, wire.HaveMap{Share: m.Share, Pieces: uint32(m.Pieces), Bits: m.Bits}), true
	case Have:
		return wire.TypeHave, wire.AppendHave(nil, wire.Have{Share: m.Share, Pieces: convert[uint32](m.Pieces)}), true
	case ShareGone:
		return wire.TypeShareGone, wire.AppendShareGone(nil, wire.ShareGone(m)), true
	case Goodbye:
		return wire.TypeGoodbye, wire.AppendGoodbye(nil, wire.Goodbye(m)), true
	// The messages of a fleet travel as they are.
	case wire.LeaseRequest:
		return wire.TypeLeaseRequest, wire.AppendLeaseRequest(nil, m), true
	case wire.LeaseResponse:
		return wire.TypeLeaseResponse, wire.AppendLeaseResponse(nil, m), true
	case wire.LeaseProgress:
		return wire.TypeLeaseProgress, wire.AppendLeaseProgress(nil, m), true
	case wire.LeaseReturned:
		return wire.TypeLeaseReturned, wire.AppendLeaseReturned(nil, m), true
	case wire.LeasesAvailable:
		return wire.TypeLeasesAvailable, wire.AppendLeasesAvailable(nil, m), true
	case wire.LeaseRevoked:
		return wire.TypeLeaseRevoked, wire.AppendLeaseRevoked(nil, m), true
	case wire.PieceDone:
		return wire.TypePieceDone, wire.AppendPieceDone(nil, m), true
	case wire.SourceHas:
		return wire.TypeSourceHas, wire.AppendSourceHas(nil, m), true
	case wire.SourceHasMore:
		return wire.TypeSourceHasMore, wire.AppendSourceHasMore(nil, m), true
	case wire.SourceDown:
		return wire.TypeSourceDown, wire.AppendSourceDown(nil, m), true
	case wire.FleetMembers:
		return wire.TypeFleetMembers, wire.AppendFleetMembers(nil, m), true
	}
	return 0, nil, false
}

func (codec) Decode(typ uint32, b []byte) (any, error) {
	switch typ {
	case wire.TypeSubscribe:
		m, err := wire.ParseSubscribe(b)
		return Subscribe(m), err
	case wire.TypeSubscribeResult:
		m, err := wire.ParseSubscribeResult(b)
		return SubscribeResult(m), err
	case wire.TypeUnsubscribe:
		m, err := wire.ParseUnsubscribe(b)
		return Unsubscribe(m), err
	case wire.TypeHaveMap:
		m, err := wire.ParseHaveMap(b)
		return HaveMap{m.Share, int(m.Pieces), m.Bits}, err
	case wire.TypeHave:
		m, err := wire.ParseHave(b)
		return Have{m.Share, convert[share.Piece](m.Pieces)}, err
	case wire.TypeShareGone:
		m, err := wire.ParseShareGone(b)
		return ShareGone(m), err
	case wire.TypeGoodbye:
		m, err := wire.ParseGoodbye(b)
		return Goodbye(m), err
	case wire.TypeLeaseRequest:
		return wire.ParseLeaseRequest(b)
	case wire.TypeLeaseResponse:
		return wire.ParseLeaseResponse(b)
	case wire.TypeLeaseProgress:
		return wire.ParseLeaseProgress(b)
	case wire.TypeLeaseReturned:
		return wire.ParseLeaseReturned(b)
	case wire.TypeLeasesAvailable:
		return wire.ParseLeasesAvailable(b)
	case wire.TypeLeaseRevoked:
		return wire.ParseLeaseRevoked(b)
	case wire.TypePieceDone:
		return wire.ParsePieceDone(b)
	case wire.TypeSourceHas:
		return wire.ParseSourceHas(b)
	case wire.TypeSourceHasMore:
		return wire.ParseSourceHasMore(b)
	case wire.TypeSourceDown:
		return wire.ParseSourceDown(b)
	case wire.TypeFleetMembers:
		return wire.ParseFleetMembers(b)
	}
	return nil, fmt.Errorf("%w %d", system.ErrUnknownType, typ)
}

// local is a message of package wire as the actors here say it.
func local(msg any) any {
	switch m := msg.(type) {
	case wire.SubscribeResult:
		return SubscribeResult(m)
	case wire.HaveMap:
		return HaveMap{m.Share, int(m.Pieces), m.Bits}
	case wire.Have:
		return Have{m.Share, convert[share.Piece](m.Pieces)}
	}
	return msg
}

func convert[To, From ~uint32](in []From) []To {
	out := make([]To, len(in))
	for i, x := range in {
		out[i] = To(x)
	}
	return out
}
