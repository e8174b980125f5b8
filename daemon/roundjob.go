package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// A roundJob is work that one member of the fleet does in each round.
type roundJob struct {
	name  string        // of the round; see rounds.Config.Name
	every time.Duration // the round's length
	retry time.Duration // when to try again after an error, and how often to ask for a round that is taken

	// do does the work and returns the round's outcome. Its context ends with the round. An
	// earlier holder may still be at work: what both may write must be refused under the
	// lower of their terms (see rounds.Pointer). After an error another member may have
	// the round at once.
	do func(context.Context, *rounds.Guard) (outcome string, err error)

	counts *roundCounts // may be nil
}

// roundCounts counts rounds of this node.
type roundCounts struct{ won, completed, failed atomic.Int64 }

// endRound bounds how long a node that ends waits for the store to note what became of its
// round.
const endRound = 5 * time.Second

// each does a job in each round that this node wins, until the end.
func (m *member) each(j roundJob) {
	round, err := rounds.New(m.store.KV, rounds.Config{Name: j.name, Holder: string(m.d.node.ID()), Run: rand.Text(), Clock: rounds.ClockOf(time.Now),
		Notice: func(n rounds.Notice) { m.d.log.Warn(n.String()) }})
	if err != nil {
		m.d.log.Error("a job of the fleet cannot be done", "error", err)
		return
	}
	j.counts = &m.jobs
	j.loop(m.d.life, round, m.d.log)
}

func (j roundJob) loop(ctx context.Context, round *rounds.Round, log *slog.Logger) {
	var g *rounds.Guard // of a round that could not be given up
	defer func() {
		if g != nil {
			g.Close()
		}
	}()
	for wait := time.Second; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		var err error
		g, wait, err = j.once(ctx, round, g)
		if err != nil && ctx.Err() == nil {
			log.Warn("a job of the fleet was not done; it is tried again", "round", j.name, "in", wait, "error", err)
		}
	}
}

// once does the job if its round is free, or still has the guard g, and returns when to try again. After
// an error the round is given up. If the store cannot be told so, nobody else gets the round before its
// time is over: then the guard is kept for the next try.
func (j roundJob) once(ctx context.Context, round *rounds.Round, g *rounds.Guard) (kept *rounds.Guard, again time.Duration, err error) {
	if g != nil && g.Left() == 0 {
		g.Close()
		g = nil
	}
	held := g
	if g == nil {
		g, err = round.TryAcquire(ctx, j.every)
	}
	if other, ok := errors.AsType[*rounds.HeldError](err); ok {
		return nil, max(min(other.Again, j.retry), time.Second), nil
	}
	if err != nil {
		return nil, j.retry, err
	}
	counts := cmp.Or(j.counts, &roundCounts{})
	if g != held {
		counts.won.Add(1)
	}
	work, end := context.WithTimeout(ctx, g.Left())
	outcome, err := j.do(work, g)
	end()
	last, end := context.WithTimeout(context.WithoutCancel(ctx), endRound)
	defer end()
	if err == nil {
		counts.completed.Add(1)
		defer g.Close()
		return nil, max(g.Left(), time.Second), g.Complete(last, outcome)
	}
	counts.failed.Add(1)
	told := g.Abandon(last, err.Error())
	if told != nil && !errors.As(told, new(*rounds.LostError)) && ctx.Err() == nil {
		return g, min(j.retry, max(g.Left(), time.Second)), errors.Join(err, told)
	}
	g.Close()
	return nil, j.retry, errors.Join(err, told)
}
