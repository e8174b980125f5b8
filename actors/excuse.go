package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/fetchpool"
)

// excuseEvery is how often the lease manager is told that a source is not late: well within
// the time after which it would count as overdue.
const excuseEvery = 250 * time.Millisecond

// excuse tells the lease manager that the source is not late, while this node itself holds up what it would send: by its limit, by
// its memory, or because the verifiers, or the disk, have owed an answer for a while. It returns when to call it again.
func (f *fetchPool) excuse(ctx actor.Context, todo fetchpool.Todo) (next time.Time) {
	now := f.s.Now()
	switch owed := f.unchecked > 0 || len(f.unclear) > 0; {
	case !owed:
		f.owed = time.Time{}
	case f.owed.IsZero():
		f.owed = now
	}
	switch slow := f.owed.Add(excuseEvery); {
	case todo.Paced, todo.Starved:
	case f.owed.IsZero():
		return next
	case slow.After(now):
		return slow
	}
	if next = f.excused.Add(excuseEvery); !next.After(now) {
		f.excused, next = now, now.Add(excuseEvery)
		ctx.Send(f.leases, SourceExcused{f.source.ID})
	}
	return next
}

// awaitTurn waits for the turn to ask for more, if the node's own limit is what holds the pool up.
func (f *fetchPool) awaitTurn(paced bool) (next time.Time) {
	if !paced {
		f.part.cancel(f.s.Now())
		return next
	}
	return f.part.wait()
}
