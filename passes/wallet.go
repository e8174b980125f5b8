package passes

import (
	"cmp"
	"errors"
	"fmt"
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
	Bad     bool      // an issuer said that it was spent, or is none of its own
}

func (h *Held) free(depot string, now time.Time) bool {
	return h.Depot == depot && h.Request == RequestID{} && !h.Bad && h.Epoch.Alive(now)
}

// A Change is what must be durable before anything that follows from it is sent: passes
// and orders as they are from now on, and those that are gone.
type Change struct {
	Put       []Held
	Drop      [][nonceBytes]byte
	Order     *Order
	DropOrder RequestID // zero: none
}

// Empty says that there is nothing to be written.
func (c *Change) Empty() bool {
	return len(c.Put) == 0 && len(c.Drop) == 0 && c.Order == nil && c.DropOrder == RequestID{}
}

// A Wallet decides which pass pays what. It changes nothing itself: its methods say what
// is to be written, and Apply follows once that is durable. What was written at any
// moment makes, with Load, a wallet that goes on from there: what is reserved then
// is sent again under the same request, which is answered as it was before.
//
// A Wallet is a plain value with one owner.
type Wallet struct {
	held   map[[nonceBytes]byte]Held
	orders map[RequestID]Order
}

// Load is a wallet of what was written.
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

// Apply does what has been written.
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

// Units is what can be spent at a depot.
func (w *Wallet) Units(depot string, now time.Time) (units int64) {
	for _, h := range w.held {
		if h.free(depot, now) {
			units += int64(h.Size)
		}
	}
	return units
}

// Orders are those of which the passes are not here yet, by ID.
func (w *Wallet) Orders() []Order {
	var all []Order
	for _, o := range w.orders {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Order) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return all
}

// All are the passes that are here, by nonce.
func (w *Wallet) All() []Held { return w.those(func(*Held) bool { return true }) }

// Paying are the requests that passes for a depot are reserved for and that are no orders, by ID:
// payments that were not answered.
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

// Reserved are the passes that are reserved for a request, by nonce.
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

func (e *ShortError) Error() string { return fmt.Sprintf("%d passes are missing", e.Missing) }

// A ChangeError says that the sum cannot be made up of the passes that there are: Break
// is to be exchanged for smaller ones first.
type ChangeError struct{ Break Held }

func (e *ChangeError) Error() string {
	return fmt.Sprintf("a pass of %d MiB must be exchanged for smaller ones first", e.Break.Size)
}

// ErrReserved: a request pays for one thing, and never twice.
var ErrReserved = errors.New("passes are reserved for this request already, of another sum")

// Reserve sets passes aside that are worth units exactly, for a request. Which of equal
// ones, chance decides, so that their order tells nothing. Those of the epoch that ends
// first go first. A request for which the same sum is reserved already keeps what it has.
func (w *Wallet) Reserve(depot string, units int64, id RequestID, now time.Time, chance *rand.Rand) (Change, error) {
	if had := w.Reserved(id); len(had) > 0 {
		if worth(had) != units {
			return Change{}, ErrReserved
		}
		return Change{}, nil
	}
	if units <= 0 || id == (RequestID{}) {
		return Change{}, fmt.Errorf("%d units for a request: at least 1, for one with an ID", units)
	}
	all := w.those(func(h *Held) bool { return h.free(depot, now) })
	if missing := units - worth(all); missing > 0 {
		return Change{}, &ShortError{missing}
	}
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Epoch, b.Epoch))
	})
	// Each size divides the one before. So whatever can be paid exactly is paid by taking
	// of each size as much as fits, the largest first.
	var c Change
	var next *Held
	for _, h := range all {
		if int64(h.Size) > units {
			next = &h // the smallest that is too large comes last
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

// Break sets one pass aside to be exchanged, and keeps the order that it pays.
func (w *Wallet) Break(h Held, o Order) Change {
	if had := w.held[h.Nonce]; had != h || had.Request != (RequestID{}) {
		return Change{} // it was spent or reserved meanwhile
	}
	h.Request = o.ID
	return Change{Put: []Held{h}, Order: &o}
}

// Spent is what follows when a request was granted: what was reserved for it is gone.
func (w *Wallet) Spent(id RequestID) (c Change) {
	for _, h := range w.Reserved(id) {
		c.Drop = append(c.Drop, h.Nonce)
	}
	return c
}

// Refused is what follows when a request was refused for good: what was reserved for it
// is free again, but for what the issuer would not take. An order of this ID is gone.
func (w *Wallet) Refused(id RequestID, bad func(Name) bool) (c Change) {
	for _, h := range w.Reserved(id) {
		h.Request, h.Bad = RequestID{}, bad(nameOf(h.Nonce))
		c.Put = append(c.Put, h)
	}
	if _, ok := w.orders[id]; ok {
		c.DropOrder = id
	}
	return c
}

// Ask keeps an order, before it is sent.
func (w *Wallet) Ask(o Order) Change { return Change{Order: &o} }

// Got is what follows when the passes of an order are here: they are kept, and the order
// and what paid for it are gone. A second answer to an order changes nothing: its passes
// may have been spent.
func (w *Wallet) Got(id RequestID, passes []Held) Change {
	if _, ok := w.orders[id]; !ok {
		return Change{}
	}
	c := w.Spent(id)
	c.Put, c.DropOrder = passes, id
	return c
}

// Forget drops the passes of epochs of which issuers remember nothing any more.
func (w *Wallet) Forget(now time.Time) (c Change) {
	for _, h := range w.those(func(h *Held) bool { return !now.Before(h.Epoch.Forget()) }) {
		c.Drop = append(c.Drop, h.Nonce)
	}
	return c
}
