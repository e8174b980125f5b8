package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// heldWorld is renewals alone, whose depots are the test.
type heldWorld struct {
	Network
	Catalog
	t       *testing.T
	w       *system.World
	s       *system.System
	r       *renewals // of now
	pid     *actor.PID
	names   []string                        // of requests
	answer  func(depot peers.ID, q any) any // nil: there is none
	book    renewal.Book
	fault   error // of the book
	begun   []payment
	last    byte        // number of payments that were begun
	purse   int64       // units of the payment that was sent last
	offered wire.Status // of what is held
}

func (h *heldWorld) Self() peers.ID                                      { return "self" }
func (h *heldWorld) Addrs() []string                                     { return nil }
func (h *heldWorld) Open(peers.Addr, share.ID, *share.Layout, Sink) Link { return h }
func (h *heldWorld) Request(wire.PieceRequest) bool                      { return false }
func (h *heldWorld) Cancel(uint64)                                       {}
func (h *heldWorld) Close()                                              {}
func (h *heldWorld) Offered(share.ID, peers.ID) (int, wire.Reply) {
	return 1, wire.Reply{Status: h.offered}
}
func (h *heldWorld) LoadHolds(context.Context) (renewal.Book, error) { return h.book, h.fault }
func (h *heldWorld) SaveHolds(_ context.Context, b renewal.Book) error {
	if h.fault == nil {
		h.book = b
	}
	return h.fault
}

// payment is one that a heldWorld has begun and that is not over.
type payment struct {
	id    [wire.PaymentID]byte
	lease share.ID
	units int64
}

func (h *heldWorld) Pay(_ context.Context, _ peers.Addr, lease share.ID, units int64, counted [][wire.PaymentID]byte) (m wire.Pay, err error) {
	i := slices.IndexFunc(h.begun, func(p payment) bool { return !slices.Contains(counted, p.id) })
	if i < 0 && units > 0 {
		h.last++
		i, h.begun = len(h.begun), append(h.begun, payment{[wire.PaymentID]byte{h.last}, lease, units})
	}
	if h.purse = 0; i >= 0 {
		h.purse, m.ID, m.Passes = h.begun[i].units, h.begun[i].id, make([]byte, wire.SpendSize)
	}
	return m, nil
}
func (h *heldWorld) Paid(_ context.Context, _ peers.ID, m wire.Paid) (share.ID, int64, error) {
	if m.Refused != 0 {
		return share.ID{}, 0, &depot.Refusal{Reason: depot.Reason(m.Refused)}
	}
	p := h.begun[slices.IndexFunc(h.begun, func(p payment) bool { return p.id == m.ID })]
	return p.lease, p.units, nil
}
func (h *heldWorld) Counted(_ context.Context, payments [][wire.PaymentID]byte) error {
	h.begun = slices.DeleteFunc(h.begun, func(p payment) bool { return slices.Contains(payments, p.id) })
	return nil
}

func (h *heldWorld) hear(ctx actor.Context) {
	m, ok := ctx.Message().(AskDepot)
	if !ok {
		return
	}
	switch q := m.Question.(type) {
	case wire.Hold:
		h.names = append(h.names, q.Request)
	case wire.Renew:
		h.names = append(h.names, q.Request)
	}
	a := h.answer(m.Depot.ID, m.Question)
	if q, ok := m.Question.(wire.Pay); ok && a != nil {
		a = wire.Paid{ID: q.ID, Refused: a.(wire.Paid).Refused}
	}
	if a != nil {
		ctx.Respond(DepotAnswer{Depot: m.Depot.ID, Answer: a})
	}
}

func newHeld(t *testing.T, start func(*heldWorld)) *heldWorld {
	w, n, _ := newWorld(1, "self")
	h := &heldWorld{offered: wire.OK, t: t, w: w, s: n[0]}
	h.answer = func(_ peers.ID, q any) any {
		if m, ok := q.(wire.Hold); ok {
			return wire.Held{Share: m.Share, At: h.s.Wall().Unix(), State: uint8(depot.Stable), Bytes: m.Bytes, Expires: m.Until, Added: m.Until - h.s.Wall().Unix()}
		}
		return wire.HoldingsPage{At: h.s.Wall().Unix()}
	}
	if start != nil {
		start(h)
	}
	self := h.s.Spawn(nil, "node", 1000, receive(h.hear), system.OnPanicStop)
	n1 := &node{s: h.s, deps: Deps{Network: h, Catalog: h, Holds: &HoldsConfig{Book: h, Purse: h}}}
	produce := n1.renewals(self)
	h.pid = h.s.Spawn(nil, "renewals", 1000, func() actor.Actor {
		h.r = produce().(*renewals)
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if ctx.Message() == "panic" {
				panic("a test")
			}
			h.r.Receive(ctx)
		})
	}, system.OnPanicRestart)
	w.Settle()
	t.Cleanup(func() { closeNode(t, h.s) })
	return h
}

func (h *heldWorld) keep(id int64, depots ...peers.ID) {
	m := KeepHold{Want: renewal.Want{ID: id, Share: share.IDOf([]byte{byte(id)}), Bytes: 1 << 30, Depots: depots}}
	for _, d := range depots {
		m.Depots = append(m.Depots, peers.Addr{ID: d})
	}
	h.s.Send(h.pid, m)
	h.w.Run(time.Second)
}

// Why a depot cannot fetch a share from here is said as it is.
func TestADepotIsSaidNotToBeLetIn(t *testing.T) {
	for status, want := range map[wire.Status]error{wire.Refused: errGuarded, wire.Gone: errNotServed, wire.NotFound: errNotServed} {
		h := newHeld(t, nil)
		h.offered = status
		h.keep(1, "d")
		if got := h.r.errs[renewal.Key{Depot: "d", Share: share.IDOf([]byte{1})}]; got.err != want {
			t.Errorf("%v: %v, want %v", status, got.err, want)
		}
	}
}

// Depots remember requests by their names: no name comes again after a restart.
func TestRequestsAreNamedAnewAfterARestart(t *testing.T) {
	h := newHeld(t, nil)
	h.keep(1, "d")
	h.s.Send(h.pid, "panic")
	h.w.Settle()
	h.keep(2, "d")
	seen := map[string]bool{}
	for _, name := range h.names {
		if seen[name] {
			t.Errorf("two requests are named %s", name)
		}
		seen[name] = true
	}
	if len(h.names) < 2 {
		t.Error(h.names)
	}
}

// A dead letter ends no visit that goes on.
func TestADeadLetterEndsNoOtherVisit(t *testing.T) {
	h := newHeld(t, nil)
	h.answer = func(peers.ID, any) any { return nil }
	h.keep(1, "d", "e")
	if len(h.r.visits) != 2 {
		t.Fatal(h.r.visits)
	}
	h.s.Send(h.pid, &actor.DeadLetterResponse{})
	h.w.Settle()
	if len(h.r.visits) != 2 {
		t.Errorf("%d of 2 visits go on", len(h.r.visits))
	}
	h.w.Run(visitTime + time.Second)
	if a := h.r.core.Account("d"); a.Failed == 0 {
		t.Errorf("a visit without an answer: %+v", a)
	}
}

// What was paid is ours once, also if the wallet takes longer to enter it than the visit lasts; and that has its own time.
func TestAPaymentThatIsWrittenLateIsCredit(t *testing.T) {
	for writing, failed := range map[time.Duration]int{visitTime / 2: 0, 2 * visitTime: 1} {
		h := newHeld(t, nil)
		granted, soon, paid := h.answer, h.w.TaskDelay, false
		h.answer = func(id peers.ID, q any) any {
			switch m := q.(type) {
			case wire.Hold:
				if !paid {
					return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
				}
			case wire.Pay:
				if paid {
					return wire.Paid{}
				}
				paid = true
				h.w.After(visitTime*3/4, func() {
					h.w.TaskDelay = func(*rand.Rand) time.Duration { return writing }
					h.s.Send(h.pid, DepotAnswer{Depot: id, Answer: wire.Paid{ID: m.ID}})
				})
				return nil
			}
			return granted(id, q)
		}
		h.keep(1, "d")
		h.w.Run(visitTime*3/4 + writing + time.Second)
		a := h.r.core.Account("d")
		if a.Failed != failed {
			t.Errorf("writing takes %v: %+v", writing, a)
		}
		h.w.TaskDelay = soon
		h.w.Run(time.Hour) // the next visit
		if a = h.r.core.Account("d"); a.Spent != 1<<10 || len(h.begun) > 0 {
			t.Errorf("1,024 units were paid, %d are counted, and %d payments go on", a.Spent, len(h.begun))
		}
	}
}

// The latest word on where a depot is comes first, and what was known is not forgotten at once.
func TestADepotIsWhereItWasNamedLast(t *testing.T) {
	h := newHeld(t, nil)
	h.keep(1, "d")
	for _, x := range []struct{ depot, named, want string }{{"d", "a", "[a]"}, {"d", "b", "[b a]"}, {"d", "a", "[a b]"}, {"d", "", "[a b]"}, {"stranger", "a", "[]"}} {
		h.s.Send(h.pid, DepotAt{peers.Addr{ID: peers.ID(x.depot), Addrs: strings.Fields(x.named)}})
		h.w.Run(time.Second)
		if got := fmt.Sprint(h.r.core.Account(peers.ID(x.depot)).Addrs); got != x.want {
			t.Errorf("%+v: %s", x, got)
		}
	}
	for i := range maxDepotAddrs {
		h.s.Send(h.pid, DepotAt{peers.Addr{ID: "d", Addrs: []string{fmt.Sprint(i)}}})
	}
	h.w.Run(time.Second)
	if got := h.book.Accounts; len(got) != 1 || len(got[0].Addrs) != maxDepotAddrs || got[0].Addrs[0] != fmt.Sprint(maxDepotAddrs-1) {
		t.Errorf("%+v", got)
	}
}

// What was refused once, and stands now or is not held any more, has no error.
func TestOldRefusalsAreForgotten(t *testing.T) {
	h := newHeld(t, nil)
	answer := h.answer
	h.answer = func(id peers.ID, q any) any {
		if m, ok := q.(wire.Hold); ok {
			return wire.Held{Share: m.Share, Refused: uint8(depot.OverQuota)}
		}
		return answer(id, q)
	}
	h.keep(1, "d")
	h.keep(2, "d")
	if len(h.r.errs) != 2 {
		t.Fatalf("%+v", h.r.errs)
	}
	h.answer = func(id peers.ID, q any) any { // somebody else had the depot keep it
		if _, ok := q.(wire.Holdings); ok {
			at := h.s.Wall().Unix()
			return wire.HoldingsPage{At: at, Items: []wire.Holding{{Share: share.IDOf([]byte{1}), State: uint8(depot.Stable), Bytes: 1 << 30, Expires: at + 30*86400}}}
		}
		return nil
	}
	h.s.Send(h.pid, DropHold{Want: 2})
	h.s.Send(h.pid, VisitDepot{Depot: "d"})
	h.w.Run(10 * time.Second)
	for _, x := range h.r.core.Holds(h.s.Wall()) {
		if x.Why != "" {
			t.Errorf("%+v", x)
		}
	}
	if len(h.r.errs) != 0 {
		t.Errorf("%+v", h.r.errs)
	}
}

// Requests that wait for a book that cannot be read are not without number.
func TestRequestsThatWaitForTheBookAreBounded(t *testing.T) {
	h := newHeld(t, func(h *heldWorld) { h.fault = errors.New("a full disk") })
	h.w.Run(time.Second) // it is not read now, and tried again in a minute
	refused := 0
	for range maxAsked + 5 {
		h.s.Hear(h.pid, HoldsQuery{}, func(a any) {
			if err, ok := a.(error); ok && errors.Is(err, errManyAsked) {
				refused++
			}
		})
		h.w.Settle()
	}
	h.w.Run(time.Second)
	if refused != 5 || len(h.r.early) != maxAsked {
		t.Errorf("%d were refused, and %d wait", refused, len(h.r.early))
	}
	h.fault = nil
	h.w.Run(2 * depotRetry)
	h.answer = func(peers.ID, any) any { return nil }
	for range maxAsked + 5 {
		h.s.Send(h.pid, KeepHold{Want: renewal.Want{ID: 1, Depots: []peers.ID{"d"}}})
		h.w.Settle()
	}
	if len(h.r.asked) != maxAsked {
		t.Errorf("%d wait", len(h.r.asked))
	}
}

// Whoever asks is told that the book cannot be written, at once and each time; what waits for a visit, too.
func TestABookThatCannotBeWrittenIsSaid(t *testing.T) {
	h := newHeld(t, nil)
	h.answer = func(peers.ID, any) any { return nil }
	var said []error
	ask := func(what any) {
		h.s.Hear(h.pid, what, func(a any) { said = append(said, a.(HoldList).Unwritten) })
		h.w.Run(time.Second)
	}
	want := KeepHold{Want: renewal.Want{ID: 1, Depots: []peers.ID{"d"}}}
	ask(want)
	if len(said) != 0 {
		t.Fatalf("the depot has not answered: %v", said)
	}
	h.fault = errors.New("a full disk")
	ask(want)
	ask(SetBudget{Depot: "d", Units: 1})
	if len(said) != 3 || !errors.Is(said[0], h.fault) || !errors.Is(said[1], h.fault) || !errors.Is(said[2], h.fault) {
		t.Errorf("%v", said)
	}
	h.fault = nil
	ask(DropHold{Want: 1}) // which waits for the depot
	ask(SetBudget{Depot: "d", Units: 2})
	if len(said) != 4 || said[3] != nil || len(h.book.Wants) != 0 {
		t.Errorf("%v; written are %v", said, h.book.Wants)
	}
}
