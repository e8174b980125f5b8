package daemon

import (
	"context"
	"maps"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
)

// limitEvery is how late a schedule may take effect after the clock was set, or went to or
// from summer time.
const limitEvery = time.Minute

// limit applies the limits of the hour, until the end.
func limit(d *Daemon) {
	var was rates
	for {
		d.mu.Lock()
		r, scheduled, next := limitsAt(d.chosen.rates(d.settings), d.settings.Schedule, time.Now())
		d.limits = api.Limits{Up: r.up, Down: r.down, Schedule: scheduled, Until: next}
		changed, again := was != r, d.look
		was = r
		d.mu.Unlock()
		d.node.SetUploadRate(r.up)
		d.node.SetDownloadRate(r.down)
		if changed {
			d.log.Info("limits", "up", r.up, "down", r.down, "schedule", scheduled)
			d.feed.Publish(api.Event{At: time.Now(), Type: "limits"})
		}
		wait := limitEvery
		if !next.IsZero() {
			wait = min(wait, time.Until(next))
		}
		timer := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-timer.C:
		case <-again:
		case <-d.life.Done():
		}
		timer.Stop()
		if d.life.Err() != nil {
			return
		}
	}
}

func (r *rates) ways() map[catalog.Way]*int64 {
	return map[catalog.Way]*int64{catalog.Up: &r.up, catalog.Down: &r.down}
}

// chosen has the limits that were set in place of settings.
type chosen map[catalog.Way]catalog.Limit

// rates returns the limits outside the schedule.
func (c chosen) rates(s Settings) rates {
	r := rates{s.Up, s.Down}
	for way, rate := range r.ways() {
		if l, ok := c[way]; ok && l.Setting == *rate {
			*rate = l.Rate
		}
	}
	return r
}

// rechoose takes the limits that were set, but for those in place of a setting that has changed since. The caller holds
// choosing.
func rechoose(d *Daemon, set chosen) {
	d.mu.Lock()
	settings, now := rates{d.settings.Up, d.settings.Down}, maps.Clone(set)
	for way, rate := range settings.ways() {
		if now[way].Setting != *rate {
			delete(now, way)
		}
	}
	d.chosen = now
	d.relook()
	d.mu.Unlock()
	if len(now) == len(set) {
		return
	}
	if err := d.db.SetLimits(d.life, now); err != nil {
		d.log.Warn("an outdated limit could not be removed from the catalog", "error", err)
	}
}

// Limits returns the limits in force.
func (d *Daemon) Limits(context.Context) (api.Limits, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits, nil
}

// SetLimits changes the limits outside the schedule, durably, until their settings change.
func (d *Daemon) SetLimits(ctx context.Context, l api.SetLimits) (api.Limits, error) {
	wanted := map[catalog.Way]*int64{catalog.Up: l.Up, catalog.Down: l.Down}
	for _, rate := range wanted {
		switch {
		case rate == nil || *rate == 0:
		case *rate < 1<<10:
			return api.Limits{}, api.Refuse(api.ErrRequest, "a limit is at least 1.024 kB/s, or 0 for none")
		case *rate > 1<<50:
			return api.Limits{}, api.Refuse(api.ErrRequest, "a limit is at most %s/s, or 0 for none", share.Size(1<<50))
		}
	}
	d.choosing.Lock()
	defer d.choosing.Unlock()
	d.mu.Lock()
	set, settings := maps.Clone(d.chosen), rates{d.settings.Up, d.settings.Down}
	d.mu.Unlock()
	for way, setting := range settings.ways() {
		if rate := wanted[way]; rate != nil {
			set[way] = catalog.Limit{Rate: *rate, Setting: *setting}
		}
	}
	if err := d.db.SetLimits(ctx, set); err != nil {
		return api.Limits{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chosen = set
	r, scheduled, next := limitsAt(set.rates(d.settings), d.settings.Schedule, time.Now())
	d.limits = api.Limits{Up: r.up, Down: r.down, Schedule: scheduled, Until: next} // whoever asks next hears of it
	d.relook()
	return d.limits, nil
}

// bound limits the upload rate of an entry's share to the lowest limit of the entries that
// have it. The caller holds mu.
func (d *Daemon) bound(e catalog.Entry) {
	if e.Share.IsZero() || e.Up == 0 && d.bounded[e.Share] == 0 {
		return
	}
	var up int64
	for _, k := range d.keepers {
		if o := k.entry(); o.Share == e.Share && o.Up > 0 && (up == 0 || o.Up < up) {
			up = o.Up
		}
	}
	d.node.SetShareUploadRate(e.Share, up)
	if d.bounded[e.Share] = up; up == 0 {
		delete(d.bounded, e.Share)
	}
}

// relook makes limit check the limits again. The caller holds mu.
func (d *Daemon) relook() {
	close(d.look)
	d.look = make(chan struct{})
}
