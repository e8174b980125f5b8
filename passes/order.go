package passes

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Voucher buys passes at its issuer, once: 125 bits, told to the buyer. The issuer keeps
// only its hash.
type Voucher [25]byte

var voucherText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewVoucher draws a voucher.
func NewVoucher(chance io.Reader) (v Voucher, err error) {
	var raw [16]byte
	if _, err := io.ReadFull(chance, raw[:]); err != nil {
		return v, err
	}
	copy(v[:], voucherText.EncodeToString(raw[:]))
	return v, nil
}

// String writes it in five groups of five letters and digits.
func (v Voucher) String() string {
	return fmt.Sprintf("%s-%s-%s-%s-%s", v[:5], v[5:10], v[10:15], v[15:20], v[20:])
}

// Hash returns the hash by which an issuer knows the voucher.
func (v Voucher) Hash() [sha256.Size]byte {
	return sha256.Sum256(append([]byte("fetcher voucher\x00"), v[:]...))
}

// ErrVoucher: the text is not a voucher.
var ErrVoucher = errors.New("a voucher is five groups of five letters and digits")

// ParseVoucher reads a voucher in any case, with spaces or hyphens anywhere.
func ParseVoucher(s string) (v Voucher, err error) {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\n' || r == '\t' {
			return -1
		}
		return r
	}, strings.ToLower(s))
	if len(s) != len(v) || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return v, ErrVoucher
	}
	copy(v[:], s)
	return v, nil
}

// Requests ask for passes of each size, in the order of Sizes; empty: none of that size.
type Requests [len(Sizes)][]byte

// Responses are what an issuer has signed, for each size.
type Responses [len(Sizes)][]byte

// Hash identifies the requests that a voucher or an exchange is bound to once it was first sent.
func (r Requests) Hash() [sha256.Size]byte {
	h := sha256.New()
	for _, one := range r {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(one))))
		h.Write(one)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Units returns the value of the passes that the requests ask for.
func (r Requests) Units() (units int64, err error) {
	for i, one := range r {
		if len(one) == 0 {
			continue
		}
		n, err := count(one)
		if err != nil {
			return 0, err
		}
		units += int64(n) * int64(Sizes[i])
	}
	if units == 0 {
		return 0, fmt.Errorf("%w: an order of nothing", ErrMessage)
	}
	return units, nil
}

// An Order asks an issuer for passes for a depot. A wallet keeps it until the passes have
// arrived: the same order asks for the same passes again.
type Order struct {
	ID      RequestID // in an exchange, also the request for which the paying passes are reserved
	Seed    Seed
	Issuer  string                 // its peer ID
	Depot   string                 // where the passes will be good
	Keys    [len(Sizes)]*PublicKey // the keys that sign; nil where Counts is 0
	Counts  [len(Sizes)]int64
	Voucher Voucher // zero in an exchange
}

// NewOrder returns an order of passes worth units, as few as possible, of sizes up to most.
// One that needs more than MaxBatch of one size is too large.
func NewOrder(id RequestID, seed Seed, issuer, depot string, listed Listing, units int64, most Size, now time.Time) (Order, error) {
	o := Order{ID: id, Seed: seed, Issuer: issuer, Depot: depot}
	if units <= 0 {
		return o, fmt.Errorf("an order of passes must be for at least 1 unit, not %d", units)
	}
	for i, s := range Sizes {
		n := units / int64(s)
		if s > most || n == 0 {
			continue
		}
		units %= int64(s)
		key := listed.Signing(s, now)
		switch {
		case key == nil:
			return o, fmt.Errorf("the issuer lists no key that signs passes of %d MiB now", s)
		case n > MaxBatch:
			return o, fmt.Errorf("%d passes of %d MiB are too many: one order has at most %d of a size", n, s, MaxBatch)
		}
		o.Keys[i], o.Counts[i] = key, n
	}
	return o, nil
}

// Units returns the value of the passes of the order.
func (o *Order) Units() (units int64) {
	for i, n := range o.Counts {
		units += n * int64(Sizes[i])
	}
	return units
}

// A Purchase is an order under way.
type Purchase struct {
	Requests
	order   Order
	pending [len(Sizes)]*Pending
}

// Prepare makes the message for the issuer.
func (o Order) Prepare() (*Purchase, error) {
	p := &Purchase{order: o}
	for i, key := range o.Keys {
		if key == nil {
			continue
		}
		one, err := Prepare(key, o.Depot, int(o.Counts[i]), o.Seed)
		if err != nil {
			return nil, err
		}
		p.pending[i], p.Requests[i] = one, one.Request
	}
	return p, nil
}

// Finish makes the passes of an order.
func (p *Purchase) Finish(responses Responses) ([]Held, error) {
	var all []Held
	for i, one := range p.pending {
		if one == nil {
			continue
		}
		passes, err := one.Finish(responses[i])
		if err != nil {
			return nil, err
		}
		for _, pass := range passes {
			all = append(all, Held{Pass: pass, Size: one.key.Size, Epoch: one.key.Epoch, Issuer: p.order.Issuer, Depot: p.order.Depot})
		}
	}
	return all, nil
}
