package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// turnReady is the turn to renew a fleet's leases at a depot, or why another member has it.
type turnReady struct {
	depot  peers.ID
	serial int
	end    func()
	err    error
}

// askTurn asks for the turn, if the tasks of a visit need it; false: they do not.
func (r *renewals) askTurn(ctx actor.Context, v *depotVisit) bool {
	units, needed := leastUnits(v.tasks)
	if !needed || v.turn != nil || r.cfg.Turn == nil {
		return false
	}
	if v.others = r.core.InBudget(v.to.ID, units, r.s.Wall()); v.others != nil {
		return false // another member may pay
	}
	v.giveUp = r.s.Now().Add(visitTime)
	id, serial, turn := v.to.ID, v.serial, r.cfg.Turn
	r.s.Task(ctx, func(ctx context.Context) any {
		end, err := turn(ctx, id, units)
		return turnReady{id, serial, end, err}
	})
	return true
}

// leastUnits is the cost of the cheapest task that needs the turn; false: none does.
func leastUnits(tasks []renewal.Task) (units int64, needed bool) {
	for _, t := range tasks {
		if t.Fleet && (!needed || t.Units < units) {
			units, needed = t.Units, true
		}
	}
	return units, needed
}

// turned goes on with a visit: with the turn, it asks again what the depot keeps, as
// another member may have renewed that meanwhile.
func (r *renewals) turned(ctx actor.Context, m turnReady) {
	v := r.visits[m.depot]
	switch {
	case v == nil || v.serial != m.serial:
		if m.err == nil {
			m.end()
		}
	case m.err != nil:
		v.others = m.err
		r.work(ctx, v)
	default:
		v.turn = m.end
		v.listed, v.pages, v.last = false, 0, share.ID{}
		r.ask(ctx, v, wire.Holdings{})
	}
}

// endTurn lets another member have the turn.
func (v *depotVisit) endTurn() {
	if v.turn != nil {
		v.turn()
		v.turn = nil
	}
}
