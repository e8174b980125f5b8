package actors

import (
	"context"
	"strings"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// This file lets people and simulations look into a node, and lets simulations
// harm it.

// Plan is the state of the plan of a transfer, with at most lines lines on the
// missing pieces. It is empty while nothing has been leased yet, and when nothing
// will be leased any more.
func (p *Program) Plan(ctx context.Context, h Handle, lines int) (PlanStatus, error) {
	return system.Ask[PlanStatus](ctx, p.s, p.node, ToTransfer{h, PlanQuery{Lines: lines}})
}

// InFlight is what is asked for and not yet verified, over all transfers.
func (p *Program) InFlight() (bytes int64, blocks int) { return p.budget.Used() }

// Transfers are the IDs of the transfers that have not stopped, and of all below them.
func (p *Program) Transfers() (ids []string) {
	for _, id := range p.s.Running() {
		if strings.HasPrefix(id, "node/transfer-") {
			ids = append(ids, id)
		}
	}
	return ids
}

// Remains is what is left of a program in a World: actors, pending events, what it
// knows of peers, and what they know of it. After Close nothing is left.
func (p *Program) Remains() []string { return p.s.Remains() }

// Crash ends a program of a World as kill -9 does; see [World.Crash].
func (p *Program) Crash() { p.s.World().Crash(p.s) }

// Freeze stops a program of a World until Thaw; see [World.Freeze].
func (p *Program) Freeze() { p.s.World().Freeze(p.s) }

// Thaw ends Freeze.
func (p *Program) Thaw() { p.s.World().Thaw(p.s) }

// Hear asks the Node something, such as AskDepot or DepotQuery, without waiting: then is
// called with the answer. It is for the programs of a World.
func (p *Program) Hear(question any, then func(answer any)) { p.s.Hear(p.node, question, then) }

// Begin is Fetch without waiting to hear that it has begun: everything comes with
// the events.
func (p *Program) Begin(m FetchShare) { p.s.Send(p.node, m) }

// BeginCoordinating is Coordinate without waiting to hear that it has begun.
func (p *Program) BeginCoordinating(m CoordinateShare) { p.s.Send(p.node, m) }

// Skipping is a FetchShare.Select that leaves out the entries for which skip is true.
func Skipping(skip func(entry int) bool) func(*share.Manifest) ([]leasemgr.Priority, error) {
	return func(m *share.Manifest) ([]leasemgr.Priority, error) {
		out := make([]leasemgr.Priority, m.Len())
		for i := range out {
			if skip(i) {
				out[i] = leasemgr.Skip
			}
		}
		return out, nil
	}
}

// BeginChoice is SetPriority without waiting: entries are wanted from now on, or
// are not.
func (p *Program) BeginChoice(h Handle, entries []int, wanted bool) {
	priority := leasemgr.Normal
	if !wanted {
		priority = leasemgr.Skip
	}
	p.s.Send(p.node, ToTransfer{h, SetPriority{entries, priority}})
}

// BeginReading is OpenReader without waiting: then is called with the answer. It is
// for the programs of a World.
func (p *Program) BeginReading(h Handle, m OpenReader, then func(ReaderOpened)) {
	p.s.Hear(p.node, ToTransfer{h, m}, func(answer any) {
		r, ok := answer.(ReaderOpened)
		if !ok {
			r.Err = system.ErrNoAnswer
		}
		then(r)
	})
}

// HearByte is AwaitByte without waiting.
func (p *Program) HearByte(h Handle, m MoveReader, then func(ReaderReady)) {
	m.Wait = true
	p.s.Hear(p.node, ToTransfer{h, m}, func(answer any) {
		r, ok := answer.(ReaderReady)
		if !ok {
			r.Err = system.ErrNoAnswer
		}
		then(r)
	})
}
