package passes

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"time"
)

// The refusals of an issuer.
var (
	ErrSpent    = errors.New("a pass was spent before, for another request")
	ErrRedeemed = errors.New("the voucher was redeemed before, by another order")
	ErrUnknown  = errors.New("there is no such voucher; it may be over a year old, or mistyped")
	ErrUnits    = errors.New("the passes do not add up to what is to be paid")
)

// A Kind is what an Entry records.
type Kind byte

const (
	Spent    Kind = iota + 1 // a pass was spent for a request
	Sold                     // a voucher for some units was made
	Redeemed                 // a voucher was used, for one batch
)

// An Entry is one line of a Book. It must be durable before any answer that follows from it
// is sent.
type Entry struct {
	Kind  Kind
	Epoch Epoch             // of the pass's key, or in which the voucher was made or redeemed; says when the entry is forgotten
	Name  Name              // of the pass, or of the voucher
	For   [sha256.Size]byte // Spent: the Name of the binding, its Mark. Redeemed: the batch. Sold: units
}

// A Name is half of a pass's nonce or of a voucher's hash, which is enough to tell honest
// ones apart. A wallet that makes two equal nonces has one pass less.
type Name [16]byte

func nameOf(h [32]byte) Name { return Name(h[:16]) }

// EntryBytes is the encoded size of an entry.
const EntryBytes = 1 + 2 + 16 + sha256.Size + 4

var table = crc32.MakeTable(crc32.Castagnoli)

// Append writes the entry and a checksum over it.
func (e Entry) Append(b []byte) []byte {
	at := len(b)
	b = append(b, byte(e.Kind), byte(e.Epoch>>8), byte(e.Epoch))
	b = append(b, e.Name[:]...)
	b = append(b, e.For[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[at:], table))
}

// ParseEntry reads an entry of EntryBytes.
func ParseEntry(b []byte) (e Entry, err error) {
	if len(b) != EntryBytes {
		return e, fmt.Errorf("%w: an entry of %d bytes", ErrMessage, len(b))
	}
	sum := b[EntryBytes-4:]
	if crc32.Checksum(b[:EntryBytes-4], table) != binary.BigEndian.Uint32(sum) {
		return e, fmt.Errorf("%w: an entry with a wrong checksum", ErrMessage)
	}
	e.Kind, e.Epoch = Kind(b[0]), Epoch(b[1])<<8|Epoch(b[2])
	copy(e.Name[:], b[3:])
	copy(e.For[:], b[3+len(e.Name):])
	if e.Kind < Spent || e.Kind > Redeemed {
		return e, fmt.Errorf("%w: an entry of kind %d", ErrMessage, e.Kind)
	}
	return e, nil
}

type voucher struct {
	units int64
	epoch Epoch // in which it was made, or redeemed
	used  bool
	batch [sha256.Size]byte
}

// A Book is what an issuer must not forget while it matters: which passes were spent, for
// which request, and which vouchers were redeemed, with which batch. Its methods return the
// entries to write; call Enter once they are durable.
//
// A Book is a plain value with one owner. A million spent passes take some 80 MB.
type Book struct {
	spent    map[Epoch]map[Name]use
	vouchers map[Name]voucher
}

// use is what a pass was spent for, and under which Mark.
type use struct {
	id   RequestID
	mark Mark // none in an exchange
}

// NewBook is a book without entries.
func NewBook() *Book {
	return &Book{spent: map[Epoch]map[Name]use{}, vouchers: map[Name]voucher{}}
}

// Enter adds an entry that was written, in the order of writing.
func (b *Book) Enter(e Entry) {
	switch e.Kind {
	case Spent:
		if b.spent[e.Epoch] == nil {
			b.spent[e.Epoch] = map[Name]use{}
		}
		b.spent[e.Epoch][e.Name] = use{RequestID(e.For[:16]), Mark(e.For[16:32])}
	case Sold:
		b.vouchers[e.Name] = voucher{units: int64(binary.BigEndian.Uint64(e.For[:])), epoch: e.Epoch}
	case Redeemed:
		v := b.vouchers[e.Name]
		v.used, v.batch, v.epoch = true, e.For, e.Epoch
		b.vouchers[e.Name] = v
	}
}

// Spend returns the entries to write when checked spends pay units for a request. Either
// all are taken or none: with ErrSpent come the names of those that were spent for another
// request. The same spends are accepted again for the same request, and nothing new is
// written. id must tell the request from all others, as Binding.Name does. keys has the key
// of each spend.
func (b *Book) Spend(spends []Spend, keys []*PublicKey, units int64, id RequestID) (write []Entry, bad []Name, err error) {
	var sum int64
	seen := make(map[Name]bool, len(spends))
	for i, s := range spends {
		epoch := keys[i].Epoch
		if seen[nameOf(s.Nonce)] {
			return nil, nil, fmt.Errorf("%w: a pass that is spent twice in one request", ErrMessage)
		}
		seen[nameOf(s.Nonce)] = true
		sum += int64(keys[i].Size)
		switch had, ok := b.spent[epoch][nameOf(s.Nonce)]; {
		case !ok:
			write = append(write, spent(epoch, nameOf(s.Nonce), use{id: id}))
		case had.id != id:
			bad = append(bad, nameOf(s.Nonce))
		}
	}
	switch {
	case len(bad) > 0:
		return nil, bad, ErrSpent
	case sum != units:
		return nil, nil, fmt.Errorf("%w: %d for %d", ErrUnits, sum, units)
	}
	return write, nil, nil
}

// Marked says whether all spends were taken under a mark.
func (b *Book) Marked(spends []Spend, keys []*PublicKey, m Mark) bool {
	for i, s := range spends {
		if had, ok := b.spent[keys[i].Epoch][nameOf(s.Nonce)]; !ok || had.mark != m {
			return false
		}
	}
	return true
}

// Taken says whether all of some spends were taken for a request. Their keys may be forgotten.
func (b *Book) Taken(spends []Spend, id RequestID) bool {
	for _, s := range spends {
		found := false
		for _, names := range b.spent {
			had, ok := names[nameOf(s.Nonce)]
			found = found || ok && had.id == id
		}
		if !found {
			return false
		}
	}
	return len(spends) > 0
}

func spent(e Epoch, n Name, u use) Entry {
	entry := Entry{Kind: Spent, Epoch: e, Name: n}
	copy(entry.For[copy(entry.For[:], u.id[:]):], u.mark[:])
	return entry
}

// Sell returns the entry to write when a voucher is made.
func (b *Book) Sell(v Voucher, units int64, now time.Time) Entry {
	return sold(EpochAt(now), nameOf(v.Hash()), units)
}

func sold(e Epoch, n Name, units int64) Entry {
	entry := Entry{Kind: Sold, Epoch: e, Name: n}
	binary.BigEndian.PutUint64(entry.For[:], uint64(units))
	return entry
}

// Redeem returns the entries to write when a voucher pays for requests, if any. The same
// requests may be signed again; a voucher never pays for others.
func (b *Book) Redeem(v Voucher, r Requests, now time.Time) (write []Entry, err error) {
	name, batch := nameOf(v.Hash()), r.Hash()
	units, err := r.Units()
	if err != nil {
		return nil, err
	}
	had, ok := b.vouchers[name]
	switch {
	case !ok:
		return nil, ErrUnknown
	case had.used && had.batch != batch:
		return nil, ErrRedeemed
	case had.used:
		return nil, nil
	case had.units != units:
		return nil, fmt.Errorf("%w: passes for %d units with a voucher for %d", ErrUnits, units, had.units)
	}
	return []Entry{{Kind: Redeemed, Epoch: max(had.epoch, EpochAt(now)), Name: name, For: batch}}, nil
}

// Entries yields entries that make the same book, if entered in this order.
func (b *Book) Entries(yield func(Entry) bool) {
	for epoch, names := range b.spent {
		for name, u := range names {
			if !yield(spent(epoch, name, u)) {
				return
			}
		}
	}
	for name, v := range b.vouchers {
		if !yield(sold(v.epoch, name, v.units)) || v.used && !yield(Entry{Kind: Redeemed, Epoch: v.epoch, Name: name, For: v.batch}) {
			return
		}
	}
}

// Forget drops what is no longer needed at now. An exchange, which has no mark, is known for an epoch more, as what was
// signed for it is good for that long. So is a voucher: then it can be redeemed for a year, whenever in its epoch it was made.
func (b *Book) Forget(now time.Time) {
	for e, names := range b.spent {
		maps.DeleteFunc(names, func(_ Name, u use) bool {
			return !now.Before(e.Forget()) && (u.mark != Mark{} || !now.Before((e + 1).Forget()))
		})
		if len(names) == 0 {
			delete(b.spent, e)
		}
	}
	maps.DeleteFunc(b.vouchers, func(_ Name, v voucher) bool { return !now.Before((v.epoch + 1).Forget()) })
}
