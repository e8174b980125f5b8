package wire

import "fmt"

// EnvelopeKind is what an Envelope asks of its receiver.
type EnvelopeKind uint8

const (
	KindTell        EnvelopeKind = 1 + iota // Type and Payload, to the exported name To
	KindReply                               // Type and Payload, to the reply token Token
	KindWatch                               // say Terminated to Reply when To ends
	KindUnwatch                             // no longer
	KindTerminated                          // what was watched with Token has ended
	KindCredit                              // Credit more messages may be sent
	KindUnsupported                         // Type is not known; Token is the Reply of the message that had it
)

// String is the kind's name.
func (k EnvelopeKind) String() string {
	names := [...]string{"tell", "reply", "watch", "unwatch", "terminated", "credit", "unsupported"}
	if k == 0 || int(k) > len(names) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k-1]
}

// Limits inside an envelope.
const (
	MaxName    = 128              // bytes of an exported name
	MaxPayload = MaxMessage - 256 // bytes of a payload
)

// Envelope carries one message between actors of two nodes. The sender is not
// in it: it is the peer at the other end of the connection.
type Envelope struct {
	Kind    EnvelopeKind
	To      string // exported name at the receiver
	Token   uint64 // address at the receiver, made by it and bound to this sender
	Reply   uint64 // the sender's own token for answers; 0 for none
	Type    uint32 // of Payload; one of the Type constants
	Payload []byte
	Credit  uint32 // messages
}

// AppendEnvelope encodes an envelope.
func AppendEnvelope(dst []byte, e Envelope) []byte {
	atMost("name", len(e.To), MaxName)
	atMost("payload", len(e.Payload), MaxPayload)
	dst = appendUint(dst, 1, e.Kind)
	dst = appendBytes(dst, 2, e.To)
	dst = appendUint(dst, 3, e.Token)
	dst = appendUint(dst, 4, e.Reply)
	dst = appendUint(dst, 5, e.Type)
	dst = appendBytes(dst, 6, e.Payload)
	return appendUint(dst, 7, e.Credit)
}

// ParseEnvelope reads an envelope. Its Payload is part of b; the rest owns its memory.
func ParseEnvelope(b []byte) (Envelope, error) {
	var e Envelope
	r := read("envelope", b)
	for r.next() {
		switch r.num {
		case 1:
			e.Kind = EnvelopeKind(r.uint(uint64(KindUnsupported)))
		case 2:
			e.To = r.text(MaxName)
		case 3:
			e.Token = r.uint64()
		case 4:
			e.Reply = r.uint64()
		case 5:
			e.Type = r.uint32()
		case 6:
			e.Payload = r.bytes(MaxPayload)
		case 7:
			e.Credit = r.uint32()
		}
	}
	r.need(e.Kind != 0, "no kind")
	return e, r.err
}

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
)
