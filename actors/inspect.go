package actors

import (
	"context"

	"github.com/piecelease/fetcher/share"
)

// This file is how people and simulations look into a node, and how simulations
// treat it badly.

// Plan is how the plan of a transfer stands, with at most lines lines on the
// missing pieces. It is empty when nothing has been leased yet, or nothing will be
// any more.
func (p *Program) Plan(ctx context.Context, id share.ID, lines int) (PlanStatus, error) {
	return ask[PlanStatus](ctx, p.s, p.node, transferQuery{id, PlanQuery{lines}})
}

// InFlight is what is asked for and not yet verified, of all transfers.
func (p *Program) InFlight() (bytes int64, blocks int) { return p.budget.Used() }

// DeadLetters counts the messages that nobody received.
func (p *Program) DeadLetters() int64 { return p.s.DeadLetters() }

// RemoteStats counts what did not go well between this node and others.
func (p *Program) RemoteStats() RemoteStats { return p.s.RemoteStats() }

// Crash ends a program of a World as kill -9 does; see [World.Crash].
func (p *Program) Crash() { p.s.world.Crash(p.s) }

// Freeze stops a program of a World until Thaw; see [World.Freeze].
func (p *Program) Freeze() { p.s.world.Freeze(p.s) }

// Thaw ends Freeze.
func (p *Program) Thaw() { p.s.world.Thaw(p.s) }

// Begin is Fetch without waiting to hear that it has begun: what there is to
// hear comes with the events.
func (p *Program) Begin(m FetchShare) { p.s.Send(p.node, m) }

// BeginCoordinating is Coordinate without waiting to hear that it has begun.
func (p *Program) BeginCoordinating(m CoordinateShare) { p.s.Send(p.node, m) }
