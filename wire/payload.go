package wire

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnknownType says that a payload is of a type that this version does not know.
var ErrUnknownType = errors.New("unknown message type")

// Types of payloads.
const (
	TypeSubscribe uint32 = 1 + iota
	TypeSubscribeResult
	TypeUnsubscribe
	TypeHaveMap
	TypeHave
	TypeShareGone
	TypeGoodbye
	TypeLeaseRequest
	TypeLeaseResponse
	TypeLeaseProgress
	TypeLeaseReturned
	TypeLeasesAvailable
	TypeLeaseRevoked
	TypePieceDone
	TypeSourceHas
	TypeSourceHasMore
	TypeSourceDown
	TypeFleetMembers
	TypeFleetTerm
	TypeHold
	TypeHeld
	TypeRenew
	TypeRelease
	TypeHoldings
	TypeHoldingsPage
	TypeUsage
	TypeUsageReport
	TypeHoldingChanged
	TypePassKeys
	TypePassKeyList
	TypeRedeem
	TypeExchange
	TypeSigned
	TypePay
	TypePaid
	TypeAnnounce
	TypeAnnounced
	TypeSeek
	TypeFound
	TypeSay
	TypeHeard
)

var payloads = [...]payload{
	TypeSubscribe:       payloadOf[Subscribe](),
	TypeSubscribeResult: payloadOf[SubscribeResult](),
	TypeUnsubscribe:     payloadOf[Unsubscribe](),
	TypeHaveMap:         payloadOf[HaveMap](),
	TypeHave:            payloadOf[Have](),
	TypeShareGone:       payloadOf[ShareGone](),
	TypeGoodbye:         payloadOf[Goodbye](),
	TypeLeaseRequest:    payloadOf[LeaseRequest](),
	TypeLeaseResponse:   payloadOf[LeaseResponse](),
	TypeLeaseProgress:   payloadOf[LeaseProgress](),
	TypeLeaseReturned:   payloadOf[LeaseReturned](),
	TypeLeasesAvailable: payloadOf[LeasesAvailable](),
	TypeLeaseRevoked:    payloadOf[LeaseRevoked](),
	TypePieceDone:       payloadOf[PieceDone](),
	TypeSourceHas:       payloadOf[SourceHas](),
	TypeSourceHasMore:   payloadOf[SourceHasMore](),
	TypeSourceDown:      payloadOf[SourceDown](),
	TypeFleetMembers:    payloadOf[FleetMembers](),
	TypeFleetTerm:       payloadOf[FleetTerm](),
	TypeHold:            payloadOf[Hold](),
	TypeHeld:            payloadOf[Held](),
	TypeRenew:           payloadOf[Renew](),
	TypeRelease:         payloadOf[Release](),
	TypeHoldings:        payloadOf[Holdings](),
	TypeHoldingsPage:    payloadOf[HoldingsPage](),
	TypeUsage:           payloadOf[Usage](),
	TypeUsageReport:     payloadOf[UsageReport](),
	TypeHoldingChanged:  payloadOf[HoldingChanged](),
	TypePassKeys:        payloadOf[PassKeys](),
	TypePassKeyList:     payloadOf[PassKeyList](),
	TypeRedeem:          payloadOf[Redeem](),
	TypeExchange:        payloadOf[Exchange](),
	TypeSigned:          payloadOf[Signed](),
	TypePay:             payloadOf[Pay](),
	TypePaid:            payloadOf[Paid](),
	TypeAnnounce:        payloadOf[Announce](),
	TypeAnnounced:       payloadOf[Announced](),
	TypeSeek:            payloadOf[Seek](),
	TypeFound:           payloadOf[Found](),
	TypeSay:             payloadOf[Say](),
	TypeHeard:           payloadOf[Heard](),
}

// A payload is how one type of message is written and read.
type payload struct {
	append func(msg any) ([]byte, bool) // false: msg is of another type
	parse  func([]byte) (any, error)
}

// A message is one that an envelope carries. Each is about a share, except for those with a
// method shareless. Those whose fields mean something together have a method settle, which is called once all are read.
type message[T any] interface {
	*T
	fields(*coder)
}

func payloadOf[T any, M message[T]]() payload {
	return payload{
		append: func(msg any) ([]byte, bool) {
			m, ok := msg.(T)
			if !ok {
				return nil, false
			}
			return Append[T, M](nil, m), true
		},
		parse: func(b []byte) (any, error) {
			m, err := Parse[T, M](b)
			return m, err
		},
	}
}

// Codec writes and reads the payloads of envelopes.
type Codec struct{}

// Encode returns a message as the payload of an envelope, and its type; not ok if it is
// not one of those that envelopes carry.
func (Codec) Encode(msg any) (typ uint32, b []byte, ok bool) {
	for typ, p := range payloads[1:] {
		if b, ok := p.append(msg); ok {
			return uint32(typ) + 1, b, true
		}
	}
	return 0, nil, false
}

// Decode reads the payload of an envelope. The error wraps ErrUnknownType or
// ErrMalformed.
func (Codec) Decode(typ uint32, b []byte) (any, error) {
	if typ == 0 || typ >= uint32(len(payloads)) {
		return nil, fmt.Errorf("%w %d", ErrUnknownType, typ)
	}
	return payloads[typ].parse(b)
}

// Append encodes a message that an envelope carries.
func Append[T any, M message[T]](dst []byte, m T) []byte {
	c := coder{b: dst}
	M(&m).fields(&c)
	return c.b
}

// Parse reads a message that an envelope carries. The caller must check that the share
// has the pieces named.
func Parse[T any, M message[T]](b []byte) (T, error) {
	var m T
	c := coder{b: b, reading: true}
	for c.next() {
		M(&m).fields(&c)
	}
	if _, ok := any(M(&m)).(interface{ shareless() }); !ok {
		c.need(c.shared, "no share")
	}
	if s, ok := any(M(&m)).(interface{ settle(*coder) }); ok {
		s.settle(&c)
	}
	if c.err != nil {
		return m, fmt.Errorf("%w, in the message %s", c.err, strings.TrimPrefix(fmt.Sprintf("%T", m), "wire."))
	}
	return m, nil
}
