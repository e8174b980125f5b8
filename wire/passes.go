package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of the messages between a wallet, an issuer of passes and a depot.
const (
	MaxListing  = 216     // bytes of a list of keys: six
	VoucherSize = 25      // bytes of a voucher
	PaymentID   = 16      // bytes of the ID of a payment
	PassSizes   = 3       // sizes of passes
	MaxSigning  = 1 << 14 // bytes that ask for passes of one size, or that sign them
	MaxPays     = 1_024   // passes that pay at a time
	SpendSize   = 128     // bytes of a pass as it is spent
	PassNames   = 16      // bytes of the name of a pass
	maxUnits    = 1 << 40 // of a payment
)

// copied is at most limit bytes, which are the message's own.
func (c *coder) copied(num protowire.Number, v *[]byte, limit int) {
	c.bytes(num, v, limit)
	if c.reading && c.num == num {
		*v = bytes.Clone(*v)
	}
}

// exactly is a field of exactly len(v) bytes.
func (c *coder) exactly(num protowire.Number, v []byte) {
	if !c.reading {
		c.b = appendBytes(c.b, num, v)
	} else if c.chunk(num, len(v)) {
		c.need(len(c.data) == len(v), "field %d: %d bytes instead of %d", num, len(c.data), len(v))
		copy(v, c.data)
	}
}

// many is bytes that consist of at most most parts of a size.
func (c *coder) many(num protowire.Number, v *[]byte, size, most int) {
	c.copied(num, v, size*most)
	c.need(len(*v)%size == 0, "field %d: %d bytes, not a multiple of %d", num, len(*v), size)
}

// signing is what asks for passes, or signs them, of each size, the largest first.
func (c *coder) signing(first protowire.Number, v *[PassSizes][]byte) {
	for i := range v {
		c.copied(first+protowire.Number(i), &v[i], MaxSigning)
	}
}

// PassKeys asks an issuer for the keys that it uses. Anybody to issuer; answered with one
// PassKeyList.
type PassKeys struct{}

func (*PassKeys) fields(*coder) {}
func (*PassKeys) shareless()    {}

// PassKeyList is the answer to PassKeys.
type PassKeyList struct {
	Refused uint8  // as in Held
	Keys    []byte // at most MaxListing bytes, in the format of formats.md
}

func (m *PassKeyList) fields(c *coder) {
	varint(c, 1, &m.Refused, 255)
	c.copied(2, &m.Keys, MaxListing)
}
func (*PassKeyList) shareless() {}

// Redeem asks an issuer to sign the passes that a voucher pays for. Anybody to issuer; answered
// with one Signed. The same requests may be sent again.
type Redeem struct {
	Voucher  [VoucherSize]byte
	Requests [PassSizes][]byte // each at most MaxSigning bytes
}

func (m *Redeem) fields(c *coder) {
	c.exactly(1, m.Voucher[:])
	c.signing(2, &m.Requests)
}
func (*Redeem) shareless() {}

// Exchange asks an issuer to sign new passes in exchange for passes of the same sum. Anybody to
// issuer; answered with one Signed. The same may be sent again.
type Exchange struct {
	ID       [PaymentID]byte
	Passes   []byte            // at most MaxPays, SpendSize bytes each
	Requests [PassSizes][]byte // each at most MaxSigning bytes
}

func (m *Exchange) fields(c *coder) {
	c.exactly(1, m.ID[:])
	c.many(2, &m.Passes, SpendSize, MaxPays)
	c.signing(3, &m.Requests)
}
func (*Exchange) shareless() {}

// Signed is the answer to Redeem and Exchange.
type Signed struct {
	Refused uint8             // as in Held
	Signed  [PassSizes][]byte // each at most MaxSigning bytes
	Bad     []byte            // refused: the names of passes that were spent before, PassNames bytes each
}

func (m *Signed) fields(c *coder) {
	varint(c, 1, &m.Refused, 255)
	c.signing(2, &m.Signed)
	c.many(5, &m.Bad, PassNames, MaxPays)
}
func (*Signed) shareless() {}

// Pay pays a depot with passes, for the account of the sender. Account to depot; answered
// with one Paid. Sent again with the same ID and passes it is done once.
type Pay struct {
	ID     [PaymentID]byte
	Passes []byte // at most MaxPays, SpendSize bytes each
}

func (m *Pay) fields(c *coder) {
	c.exactly(1, m.ID[:])
	c.many(2, &m.Passes, SpendSize, MaxPays)
}
func (*Pay) shareless() {}

// Paid is the answer to Pay.
type Paid struct {
	ID      [PaymentID]byte
	Refused uint8  // as in Held
	Units   int64  // how many were paid
	Bad     []byte // refused: the names of passes that were spent before, PassNames bytes each
}

func (m *Paid) fields(c *coder) {
	c.exactly(1, m.ID[:])
	varint(c, 2, &m.Refused, 255)
	varint(c, 3, &m.Units, maxUnits)
	c.many(4, &m.Bad, PassNames, MaxPays)
}
func (*Paid) shareless() {}
