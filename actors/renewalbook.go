package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/wire"
)

// holdsLoaded and holdsSaved are a book that was read or written, and the payments that are over, as it counts them.
type (
	holdsLoaded struct {
		book renewal.Book
		over [][wire.PaymentID]byte
		err  error
	}
	holdsSaved struct {
		over [][wire.PaymentID]byte
		err  error
	}
)

func (r *renewals) load(ctx actor.Context) {
	r.visits, r.ended, r.errs = map[peers.ID]*depotVisit{}, map[peers.ID]int{}, map[renewal.Key]visitError{}
	r.loading = true
	r.s.Task(ctx, func(ctx context.Context) any {
		b, err := r.cfg.Book.LoadHolds(ctx)
		return holdsLoaded{b, r.settled(ctx, b), err}
	})
}

func (r *renewals) loaded(ctx actor.Context, m holdsLoaded) {
	r.loading = false
	if m.err != nil {
		r.s.Log().Error("the list of what depots keep for this node cannot be read", "error", m.err)
		r.retry = r.s.Now().Add(depotRetry)
	} else {
		r.core = renewal.New(r.cfg.Renewal, r.s.Seed("renewals"))
		r.core.Resume(m.book, r.s.Wall())
		r.core.Over(m.over, r.s.Wall())
	}
	for _, e := range r.early {
		r.command(ctx, e.what, e.who, m.err)
	}
	r.early = nil
}

// save writes the book if it has changed, one writing at a time.
func (r *renewals) save(ctx actor.Context) {
	if !r.dirty || r.saving || r.s.Now().Before(r.retry) {
		return
	}
	r.dirty, r.saving = false, true
	r.words.writing = r.words.said
	for i := range r.asked {
		r.asked[i].saving = !r.asked[i].written
	}
	b := r.core.Book()
	r.forget(b)
	r.s.Task(ctx, func(ctx context.Context) any {
		if err := r.cfg.Book.SaveHolds(ctx, b); err != nil {
			return holdsSaved{err: err}
		}
		return holdsSaved{over: r.settled(ctx, b)}
	})
}

// forget drops the errors of what is not wanted or held any more, or was not refused when its depot was asked last.
func (r *renewals) forget(b renewal.Book) {
	refused := map[renewal.Key]bool{}
	for _, w := range b.Wants {
		for _, id := range w.Depots { // also one in whose place another was asked
			refused[renewal.Key{Depot: id, Share: w.Share}] = true
		}
	}
	for _, a := range b.Accounts {
		refused[renewal.Key{Depot: a.Depot}] = true
	}
	for _, h := range b.Holds {
		refused[h.Key] = h.Why != ""
	}
	maps.DeleteFunc(r.errs, func(k renewal.Key, _ visitError) bool { return !refused[k] })
}

func (r *renewals) saved(ctx actor.Context, m holdsSaved) {
	r.saving = false
	if m.err == nil {
		r.words.written = r.words.writing
		r.core.Over(m.over, r.s.Wall())
	} else {
		r.unsaved(ctx, m.err)
	}
	if r.unsaid() && m.err == nil { // what was said meanwhile is written now
		return
	}
	for _, id := range slices.Sorted(maps.Keys(r.visits)) {
		if v := r.visits[id]; v != nil && v.waits {
			v.waits, v.unsure = false, m.err != nil
			r.work(ctx, v)
		}
	}
	if m.err == nil {
		for _, id := range r.behind {
			r.core.Hurry(id, r.s.Wall())
		}
		r.behind = nil
	}
}

// unsaved says to those who wait for the book that it could not be written.
func (r *renewals) unsaved(ctx actor.Context, err error) {
	r.s.Log().Error("the list of what depots keep for this node could not be written", "error", err)
	r.dirty, r.retry = true, r.s.Now().Add(depotRetry)
	r.asked = slices.DeleteFunc(r.asked, func(a holdAsked) bool {
		if a.saving {
			l := r.list(a.want, a.after)
			l.Unwritten = fmt.Errorf("%w: %w", errUnwritten, err)
			r.respond(ctx, a.who, l)
		}
		return a.saving
	})
}

var errUnwritten = errors.New("the list of what depots keep for this node could not be written")

// bookWords count what the owner said: a depot hears of nothing of it that is not written yet. A kill would
// leave it with a lease that nobody knows, or without one that is renewed, and paid, from then on.
type bookWords struct{ said, writing, written uint64 }

func (r *renewals) unsaid() bool { return r.words.written < r.words.said }

// waits reports whether a visit goes on once the book is written.
func (r *renewals) waits(v *depotVisit) bool {
	if v.waits = r.unsaid() && (r.saving || !r.s.Now().Before(r.retry)) && !v.unsure; v.waits {
		v.giveUp = r.s.Now().Add(visitTime)
	}
	return v.waits
}

// unsure reports whether the next task of a visit may come from what could not be written. What a depot has is renewed all the same,
// and what it lost is offered again by a visit that begins later.
func (r *renewals) unsure(v *depotVisit) bool {
	verb := v.tasks[0].Verb
	if !r.unsaid() || verb != renewal.Release && (verb != renewal.Offer || !v.unsure) {
		return false
	}
	if !slices.Contains(r.behind, v.to.ID) {
		r.behind = append(r.behind, v.to.ID)
	}
	return true
}
