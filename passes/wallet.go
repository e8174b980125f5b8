package passes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// A Held is a pass in a wallet.
type Held struct {
	Pass
	Size    Size
	Epoch   Epoch
	Issuer  string    // its peer ID
	Depot   string    // where the pass is good
	Request RequestID // what it is reserved for; zero: nothing
	Lease   string    // ... if that is a payment: the ID of the share for whose lease it was begun; empty: not known
	Bad     bool      // an issuer said that it was spent, or is not the issuer's own
}

func (h *Held) free(depot string, now time.Time) bool {
	return h.Depot == depot && h.Request == RequestID{} && !h.Bad && h.Epoch.Alive(now)
}

// A Change must be durable before anything that follows from it is sent: new states of passes
// and orders, and those that are gone.
type Change struct {
	Put       []Held
	Drop      [][nonceBytes]byte
	Order     *Order
	DropOrder RequestID // zero: none
}

// Empty reports whether there is nothing to write.
func (c *Change) Empty() bool {
	return len(c.Put) == 0 && len(c.Drop) == 0 && c.Order == nil && c.DropOrder == RequestID{}
}

// A Wallet decides which pass pays for what. Its methods change nothing: they return what must be
// written; call Apply once that is durable. Load makes a wallet from what was written at any
// moment, and it goes on from there: what is reserved is sent again under the same request,
// which gets the same answer.
//
// A Wallet is a plain value with one owner.
type Wallet struct {
	held   map[[nonceBytes]byte]Held
	orders map[RequestID]Order
}

// Load makes a wallet from what was written.
func Load(held []Held, orders []Order) *Wallet {
	w := &Wallet{held: make(map[[nonceBytes]byte]Held, len(held)), orders: map[RequestID]Order{}}
	for _, h := range held {
		w.held[h.Nonce] = h
	}
	for _, o := range orders {
		w.orders[o.ID] = o
	}
	return w
}

// Apply applies a change that has been written.
func (w *Wallet) Apply(c Change) {
	for _, h := range c.Put {
		w.held[h.Nonce] = h
	}
	for _, n := range c.Drop {
		delete(w.held, n)
	}
	if c.Order != nil {
		w.orders[c.Order.ID] = *c.Order
	}
	delete(w.orders, c.DropOrder)
}

// Units returns what can be spent at a depot.
func (w *Wallet) Units(depot string, now time.Time) (units int64) {
	for _, h := range w.held {
		if h.free(depot, now) {
			units += int64(h.Size)
		}
	}
	return units
}

// Listed returns the wallet without the passes whose keys are not in a listing.
func (w *Wallet) Listed(l Listing) *Wallet {
	held := maps.Clone(w.held)
	maps.DeleteFunc(held, func(_ [nonceBytes]byte, h Held) bool { return l.Key(h.Key) == nil })
	return &Wallet{held, w.orders}
}

// Orders returns those whose passes have not arrived yet, by ID.
func (w *Wallet) Orders() []Order {
	var all []Order
	for _, o := range w.orders {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Order) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return all
}

// All returns the passes in the wallet, by nonce.
func (w *Wallet) All() []Held { return w.those(func(*Held) bool { return true }) }

// Paying returns the requests, by ID, that have passes for a depot reserved and are not orders:
// payments that are not over.
func (w *Wallet) Paying(depot string) (ids []RequestID) {
	for _, h := range w.held {
		_, order := w.orders[h.Request]
		if h.Depot == depot && h.Request != (RequestID{}) && !h.Bad && !order && !slices.Contains(ids, h.Request) {
			ids = append(ids, h.Request)
		}
	}
	slices.SortFunc(ids, func(a, b RequestID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// Reserved returns the passes that are reserved for a request, by nonce.
func (w *Wallet) Reserved(id RequestID) []Held {
	return w.those(func(h *Held) bool { return h.Request == id && !h.Bad })
}

func (w *Wallet) those(is func(*Held) bool) []Held {
	var all []Held
	for _, h := range w.held {
		if is(&h) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b Held) int { return slices.Compare(a.Nonce[:], b.Nonce[:]) })
	return all
}

// A ShortError says how many units are missing.
type ShortError struct{ Missing int64 }

func (e *ShortError) Error() string { return fmt.Sprintf("passes missing: %d", e.Missing) }

// A ChangeError says that the passes cannot make up the sum: Break must be exchanged for smaller
// ones first.
type ChangeError struct{ Break Held }

func (e *ChangeError) Error() string {
	return fmt.Sprintf("a pass of %d MiB must be exchanged for smaller ones first", e.Break.Size)
}

// ErrReserved: a request pays for one thing only.
var ErrReserved = errors.New("passes worth another sum are already reserved for this request")

// Reserve sets passes aside that are worth exactly units, for a request. Of each size, passes of
// the epoch that ends first go first; among equal ones chance decides, so that their order reveals
// nothing. A request for which the same sum is already reserved keeps what it has.
func (w *Wallet) Reserve(depot string, units int64, id RequestID, now time.Time, chance *rand.Rand) (Change, error) {
	if had := w.Reserved(id); len(had) > 0 {
		if worth(had) != units {
			return Change{}, ErrReserved
		}
		return Change{}, nil
	}
	if units <= 0 || id == (RequestID{}) {
		return Change{}, fmt.Errorf("%d units cannot be reserved: a request needs at least 1, and an ID", units)
	}
	all := w.those(func(h *Held) bool { return h.free(depot, now) })
	if missing := units - worth(all); missing > 0 {
		return Change{}, &ShortError{missing}
	}
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Epoch, b.Epoch))
	})
	// Each size divides the one before. So if a sum can be paid exactly, it can be paid by taking
	// as many as fit of each size, the largest first.
	var c Change
	var next *Held
	for _, h := range all {
		if int64(h.Size) > units {
			next = &h // the last one found is the smallest that is too large
			continue
		}
		units -= int64(h.Size)
		h.Request = id
		c.Put = append(c.Put, h)
	}
	if units > 0 {
		return Change{}, &ChangeError{*next}
	}
	return c, nil
}

func worth(held []Held) (units int64) {
	for _, h := range held {
		units += int64(h.Size)
	}
	return units
}

// Break sets one pass aside to be exchanged, and keeps the order that it pays for.
func (w *Wallet) Break(h Held, o Order) Change {
	if had := w.held[h.Nonce]; had != h || had.Request != (RequestID{}) {
		return Change{} // it was spent or reserved meanwhile
	}
	h.Request = o.ID
	return Change{Put: []Held{h}, Order: &o}
}

// Spent is the change when a request was granted: what was reserved for it is gone.
func (w *Wallet) Spent(id RequestID) (c Change) {
	for _, h := range w.Reserved(id) {
		c.Drop = append(c.Drop, h.Nonce)
	}
	return c
}

// Refused is the change when a request was refused for good: what was reserved for it is free
// again, except what the issuer would not take. An order of this ID is gone.
func (w *Wallet) Refused(id RequestID, bad func(Name) bool) (c Change) {
	for _, h := range w.Reserved(id) {
		h.Request, h.Lease, h.Bad = RequestID{}, "", bad(nameOf(h.Nonce))
		c.Put = append(c.Put, h)
	}
	if _, ok := w.orders[id]; ok {
		c.DropOrder = id
	}
	return c
}

// Ask keeps an order, before it is sent.
func (w *Wallet) Ask(o Order) Change { return Change{Order: &o} }

// Got is the change when the passes of an order have arrived: they are kept, and the order and
// what paid for it are gone. A second answer to an order changes nothing: its passes may have
// been spent.
func (w *Wallet) Got(id RequestID, passes []Held) Change {
	if _, ok := w.orders[id]; !ok {
		return Change{}
	}
	c := w.Spent(id)
	c.Put, c.DropOrder = passes, id
	return c
}

// Forget drops the passes of an issuer of whose epochs that remembers nothing any more, by our clock and by the keys that
// it lists: a clock that is wrong for a moment would otherwise cost passes that are good.
func (w *Wallet) Forget(issuer string, l Listing, now time.Time) (c Change) {
	for _, h := range w.those(func(h *Held) bool { return h.Issuer == issuer && !now.Before(h.Epoch.Forget()) }) {
		if slices.ContainsFunc(l, func(k *PublicKey) bool { return k.Epoch > EpochAt(h.Epoch.Forget()) }) {
			c.Drop = append(c.Drop, h.Nonce)
		}
	}
	return c
}
