package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// This file is how the Node keeps the ranking of peers for the next run.

const saveRanking = time.Minute

func (n *node) changed(now time.Time) {
	if n.saveAt.IsZero() {
		n.saveAt = now.Add(saveRanking)
	}
}

// rankingSaved is the end of the task that saves the ranking.
type rankingSaved struct{}

// save saves the changes of the ranking when that is due.
func (n *node) save(ctx actor.Context) {
	if !n.saving && !n.saveAt.After(n.s.Now()) {
		n.saveNow(ctx)
	}
}

func (n *node) stop(ctx actor.Context) {
	n.wake.Stop()
	n.saveNow(ctx) // also what has changed since a task under way began
}

// saveNow saves the newest ranking, whichever of the tasks under way comes last.
func (n *node) saveNow(ctx actor.Context) {
	if n.saveAt.IsZero() {
		return
	}
	n.saveAt = time.Time{}
	if n.deps.Remember == nil {
		return
	}
	n.saving = true
	records := n.ranking.Records(n.s.Now())
	n.unsaved.Store(&records)
	n.s.Task(ctx, func(context.Context) any {
		n.writing.Lock()
		defer n.writing.Unlock()
		if newest := n.unsaved.Swap(nil); newest != nil {
			n.deps.Remember(*newest)
		}
		return rankingSaved{}
	})
}
