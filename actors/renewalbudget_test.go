package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A depot that costs more than its budget is not paid, and the list says what lapses; with a larger budget it is paid.
func TestADepotIsPaidWithinItsBudget(t *testing.T) {
	h := newHeld(t, nil)
	granted, paid := h.answer, int64(0)
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			if paid == 0 {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
			}
		case wire.Holdings:
			if at := h.s.Wall().Unix(); paid > 0 {
				return wire.HoldingsPage{At: at, Items: []wire.Holding{{Share: share.IDOf([]byte{1}), State: uint8(depot.Stable), Bytes: 1 << 30, Expires: at + 31*86400}}}
			}
		case wire.Pay:
			paid = h.purse
			return wire.Paid{}
		}
		return granted(id, q)
	}
	budget := func(units int64) (l HoldList) {
		h.s.Hear(h.pid, SetBudget{Depot: "d", Units: units}, func(a any) { l, _ = a.(HoldList) })
		h.w.Run(time.Minute)
		return l
	}
	if l := budget(1<<10 - 1); l.Budgets["d"] != (renewal.Budget{Units: 1<<10 - 1, Left: 1<<10 - 1}) {
		t.Errorf("%+v", l)
	}
	h.keep(1, "d")
	k := renewal.Key{Depot: "d", Share: share.IDOf([]byte{1})}
	if over := (*renewal.BudgetError)(nil); paid != 0 || !errors.As(h.r.errs[k].err, &over) || over.Units != 1<<10 {
		t.Errorf("%d were paid: %v", paid, h.r.errs[k].err)
	}
	if budget(1 << 10); paid != 1<<10 {
		t.Errorf("%d were paid of a budget of 1,024", paid)
	}
	if a := h.r.core.Account("d"); a.Spent != 1<<10 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	if l := budget(5); len(l.Lapses) != 1 || l.Lapses[0].Key != k || l.Lapses[0].Expires.IsZero() {
		t.Errorf("%+v", l.Lapses)
	}
	if book := h.book.Accounts; len(book) != 1 || book[0].Budget != 5 {
		t.Errorf("%+v", book)
	}
}

// A member whose budget does not pay for what is due leaves the turn to renew to other members.
func TestNoTurnIsTakenBeyondTheBudget(t *testing.T) {
	h := newHeld(t, nil)
	granted, turns := h.answer, 0
	h.answer = func(id peers.ID, q any) any {
		if m, ok := q.(wire.Hold); ok {
			return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
		}
		return granted(id, q)
	}
	h.r.cfg.Turn = func(context.Context, peers.ID, int64) (func(), error) { turns++; return func() {}, nil }
	h.s.Send(h.pid, SetBudget{Depot: "d", Units: 5})
	x := share.IDOf([]byte{1})
	h.s.Send(h.pid, KeepHold{Want: renewal.Want{ID: 1, Share: x, Bytes: 1 << 30, Depots: []peers.ID{"d"}, Fleet: true}, Depots: []peers.Addr{{ID: "d"}}})
	h.w.Run(time.Minute)
	if turns != 1 { // it is not known yet that the depot takes passes
		t.Errorf("%d turns were taken", turns)
	}
	h.s.Send(h.pid, VisitDepot{Depot: "d"})
	h.w.Run(time.Minute)
	if over := (*renewal.BudgetError)(nil); turns != 1 || !errors.As(h.r.errs[renewal.Key{Depot: "d", Share: x}].err, &over) {
		t.Errorf("%d turns were taken: %v", turns, h.r.errs)
	}
}
