package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
)

// Set changes an entry's wish, durably, and waits a moment for the change to take effect.
func (d *Daemon) Set(ctx context.Context, id int64, s api.Set) (api.Entry, error) {
	k, err := d.keeper(id)
	if err != nil {
		return api.Entry{}, err
	}
	rests, was, cursor := k.rests(), k.view(), d.feed.From("")
	list := k.list()
	err = k.set(ctx, func(w *catalog.Wish) error {
		if err := change(w, s); err != nil {
			return err
		}
		if list != nil && (s.Only != nil || s.Skip != nil) {
			if err := (fetcher.FetchOptions{Only: w.Only, Skip: w.Skip}).Check(list); err != nil {
				return api.Refuse(fetcher.ErrNothingSelected, "%v; nothing was changed", err)
			}
		}
		if err := w.Check(); err != nil {
			return api.Refuse(api.ErrRequest, "%v", err)
		}
		if s.Visible != nil {
			return findable(*w, d.onLAN, d.inTable)
		}
		return nil
	})
	switch {
	case errors.Is(err, catalog.ErrNoEntry): // it was removed meanwhile
		return api.Entry{}, noEntry(id)
	case err != nil:
		return api.Entry{}, err
	}
	if e := k.entry(); e.State == catalog.Ended && !e.Paused && (s.Rescan || enough(e, e.Sent, time.Now()) == "") {
		k.note(func(st *catalog.Status) { st.State, st.Why = catalog.Kept, "" })
		k.show(api.Opening, "") // until it is served
		k.poke()
	}
	if e := k.entry(); e.State == catalog.Failed && s.Rescan {
		k.note(func(st *catalog.Status) { st.State, st.Why = catalog.Asked, "" })
		k.poke()
	}
	if s.Rescan && k.entry().Kind == catalog.Fetch {
		k.touch()
	}
	k.tell()
	switch {
	case s.Paused != nil && *s.Paused != (was.State == api.Paused):
		k.until(ctx, cursor, func(e api.Entry) bool { return *s.Paused == (e.State == api.Paused) })
	case s.Rescan && rests:
		k.until(ctx, cursor, func(e api.Entry) bool { return e.State != api.Waiting || e.Reason != was.Reason })
	case s.Rescan && slices.Contains([]string{api.Missing, api.Failed, api.Opening}, was.State):
		k.looked(ctx, cursor)
	}
	return k.view(), nil
}

// until waits a moment until is accepts the entry.
func (k *keeper) until(ctx context.Context, c *api.Cursor, is func(api.Entry) bool) {
	ctx, cancel := context.WithTimeout(ctx, setTime)
	defer cancel()
	for v := k.view(); !is(v); {
		ev, ok, more, ended := c.Next()
		switch {
		case ended:
			return
		case ok && ev.Entry != nil && ev.Entry.ID == int64(k.id):
			v = *ev.Entry
			continue
		case ok:
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// looked waits a moment until the entry was looked at anew.
func (k *keeper) looked(ctx context.Context, c *api.Cursor) {
	began := false
	k.until(ctx, c, func(e api.Entry) bool {
		began = began || e.State == api.Opening
		return e.State == api.Served || began && e.State != api.Opening
	})
}

// change copies the fields that are set in s.
func change(w *catalog.Wish, s api.Set) (err error) {
	if s.Paused != nil {
		w.Paused = *s.Paused
	}
	if s.Priority != nil {
		if w.Priority, err = parsePriority(*s.Priority); err != nil {
			return err
		}
	}
	if s.Only != nil {
		w.Only = *s.Only
	}
	if s.Skip != nil {
		w.Skip = *s.Skip
	}
	if s.First != nil {
		w.First = *s.First
	}
	if s.Visible != nil {
		w.Visible = wishVisible(*s.Visible)
	}
	if s.Repair {
		if len(w.Paths) > 0 {
			return api.Refuse(api.ErrRequest, "an entry that serves paths is not repaired: its files are yours")
		}
		w.Repair = true
	}
	if s.LimitUp != nil {
		w.Up = *s.LimitUp
	}
	if s.LimitDown != nil {
		w.Down = *s.LimitDown
	}
	if s.SeedRatio != nil {
		w.SeedRatio = *s.SeedRatio
	}
	if s.SeedTime != nil {
		w.SeedTime, err = parseTime(*s.SeedTime)
	}
	return err
}

var priorities = []string{"low", "normal", "high"} // from -1

func parsePriority(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	i := slices.Index(priorities, s)
	if i < 0 {
		return 0, api.Refuse(api.ErrRequest, "a priority is low, normal or high, not %q", s)
	}
	return i - 1, nil
}

func parseTime(s string) (time.Duration, error) {
	if s == "" || s == "0" {
		return 0, nil
	}
	t, err := words.ParseDuration(s)
	if err == nil && t < 0 {
		err = fmt.Errorf("give a time such as 36h or 7d, not %q", s)
	}
	if err != nil {
		return 0, api.Refuse(api.ErrRequest, "%v", err)
	}
	return t, nil
}
