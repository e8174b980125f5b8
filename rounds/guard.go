package rounds

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Guard is proof that a round was won. End every guard with [Guard.Complete],
// [Guard.Abandon] or [Guard.Close].
type Guard struct {
	round *Round
	rec   Record
	rev   uint64
	since time.Duration // when the write that began our time was sent, by the monotonic clock
	ended bool
}

// guard makes the guard for a record of ours.
func (r *Round) guard(rec Record, rev uint64, since time.Duration) *Guard {
	r.mine, r.high = rec.Term, max(r.high, rec.Term)
	r.tried.any = false
	r.open = &Guard{round: r, rec: rec, rev: rev, since: since}
	return r.open
}

// ErrEnded is returned by a guard that has ended.
var ErrEnded = errors.New("the guard was ended")

// A LostError says that somebody else took the round over. What the guard was about
// to write was not written, and the guard has ended.
type LostError struct {
	Round  string
	Term   uint64 // ours
	Record Record // of the holder now; zero if there is none that can be read
}

func (e *LostError) Error() string {
	switch e.Record.Term {
	case 0:
		return fmt.Sprintf("round %s: term %d is over, and there is no record that can be read", e.Round, e.Term)
	case e.Term:
		return fmt.Sprintf("round %s: term %d is over", e.Round, e.Term)
	}
	return fmt.Sprintf("round %s: term %d is over; %q has term %d", e.Round, e.Term, e.Record.Holder, e.Record.Term)
}

// Term is the number of the round: send it with everything the holder does.
func (g *Guard) Term() uint64 { return g.rec.Term }

// Token is the term for systems that compare strings: the token of a later term is
// greater, and no two are equal.
func (g *Guard) Token() string { return fmt.Sprintf("%016x-%s", g.rec.Term, g.rec.Run) }

// Record is what the guard last wrote.
func (g *Guard) Record() Record { return g.rec }

// Left returns how long the round is sure to stay ours, as far as our clocks can tell;
// 0 if somebody may have taken it over. The holder of a job stops then. The holder
// of an office may go on: see the package comment.
func (g *Guard) Left() time.Duration {
	now := g.round.c.Clock()
	left := g.rec.TTL - (now.Mono - g.since)
	if !g.round.c.Office {
		left = min(left, g.rec.Expires().Sub(now.Wall))
	}
	return max(left, 0)
}

// Complete ends the guard of a job that was done. Its record keeps the outcome; its
// time does not end sooner. After a [LostError] somebody else has the round, and
// nothing was changed; after another error, try again.
func (g *Guard) Complete(ctx context.Context, outcome string) error {
	if g.round.c.Office {
		return fmt.Errorf("round %s: an office cannot be completed, only abandoned", g.round.c.Name)
	}
	return g.end(ctx, Completed, outcome)
}

// Abandon ends the guard and frees the round at once; why is kept as its outcome.
// Errors are the same as for Complete.
func (g *Guard) Abandon(ctx context.Context, why string) error {
	return g.end(ctx, Abandoned, why)
}

// Extend restarts the time of an office. After a [LostError] somebody else has it.
// After another error it is not known whether the time was extended; a coordinator
// goes on until somebody shows it a higher term.
func (g *Guard) Extend(ctx context.Context) error {
	if !g.round.c.Office {
		return fmt.Errorf("round %s: a job cannot be extended", g.round.c.Name)
	}
	if g.ended {
		return fmt.Errorf("round %s: %w", g.round.c.Name, ErrEnded)
	}
	sent := g.round.c.Clock().Mono
	rec := g.rec
	rec.Data = g.round.c.Data
	if err := g.write(ctx, rec, g.round.limit(g.rec.TTL)); err != nil {
		return err
	}
	g.since = sent
	return nil
}

// Close ends the guard, if it has not ended, without telling the store: nobody gets
// the round before its time is over, and a [Notice] says so. It is meant to be
// deferred.
func (g *Guard) Close() {
	if !g.ended {
		g.over()
		g.round.c.Notice(Notice{Kind: Unresolved, Round: g.round.c.Name, Record: g.rec, Clock: g.round.c.Clock().Wall})
	}
}

func (g *Guard) over() {
	g.ended = true
	if g.round.open == g {
		g.round.open = nil
	}
}

// end writes the last record of the guard.
func (g *Guard) end(ctx context.Context, s State, outcome string) error {
	if g.ended {
		return fmt.Errorf("round %s: %w", g.round.c.Name, ErrEnded)
	}
	rec := g.rec
	rec.State, rec.Outcome, rec.Ended = s, cut(outcome, MaxOutcome), stamp(g.round.c.Clock().Wall)
	if err := g.write(ctx, rec, g.round.limit(rec.TTL)); err != nil {
		return err
	}
	g.over()
	return nil
}

// attempts is how often a write is tried while the record there is still ours.
const attempts = 3

// write replaces our record with rec. If the store has another revision, or does not say
// whether it wrote, the record that is there decides.
func (g *Guard) write(ctx context.Context, rec Record, within time.Duration) (err error) {
	r := g.round
	value := rec.encode()
	for range attempts {
		var rev uint64
		if rev, err = put(ctx, r.kv, roundKey(r.c.Name), value, g.rev, within); err == nil {
			g.rec, g.rev = rec, rev
			return nil
		}
		e, unread := get(ctx, r.kv, roundKey(r.c.Name), within)
		if unread != nil {
			return fmt.Errorf("round %s: %w (and reading it back failed: %v)", r.c.Name, err, unread)
		}
		is, damaged := decodeRecord(e.Value)
		switch own := damaged == nil && e.Rev > g.rev && is.Term == g.rec.Term && is.by(&r.c); {
		case own && is.State == rec.State && rec.State != Running: // it was written, now or by an earlier attempt
			g.rec, g.rev = is, e.Rev
			return nil
		case own: // an earlier write succeeded, but its answer was lost
			g.rec, g.rev = is, e.Rev
			continue
		case e.Rev == g.rev: // nothing was written yet
			continue
		}
		return g.lost(is)
	}
	return fmt.Errorf("round %s: %w", r.c.Name, err)
}

// lost ends the guard: the holder that is names now has the round.
func (g *Guard) lost(is Record) error {
	r := g.round
	g.over()
	r.high = max(r.high, is.Term)
	kind := Overtaken
	if r.c.Office && is.Holder == r.c.Holder && is.Run != r.c.Run {
		kind = Twin
	}
	r.c.Notice(Notice{Kind: kind, Round: r.c.Name, Record: is, Clock: r.c.Clock().Wall, Term: g.rec.Term})
	return &LostError{Round: r.c.Name, Term: g.rec.Term, Record: is}
}
