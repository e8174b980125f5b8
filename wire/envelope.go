package wire

import "fmt"

// EnvelopeKind is what an Envelope asks of its receiver.
type EnvelopeKind uint8

const (
	KindTell        EnvelopeKind = 1 + iota // Type and Payload, to the exported name To
	KindReply                               // Type and Payload, to the reply token Token
	KindWatch                               // send Terminated to Reply when To ends
	KindUnwatch                             // stop watching
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

func (e *Envelope) fields(c *coder) {
	varint(c, 1, &e.Kind, uint64(KindUnsupported))
	c.text(2, &e.To, MaxName)
	c.uint64(3, &e.Token)
	c.uint64(4, &e.Reply)
	c.uint32(5, &e.Type)
	c.bytes(6, &e.Payload, MaxPayload)
	c.uint32(7, &e.Credit)
}

// AppendEnvelope encodes an envelope.
func AppendEnvelope(dst []byte, e Envelope) []byte {
	c := coder{b: dst}
	e.fields(&c)
	return c.b
}

// ParseEnvelope reads an envelope. Its Payload is part of b; the rest owns its memory.
func ParseEnvelope(b []byte) (Envelope, error) {
	var e Envelope
	c := coder{b: b, reading: true}
	for c.next() {
		e.fields(&c)
	}
	c.need(e.Kind != 0, "envelope: no kind")
	return e, c.err
}
