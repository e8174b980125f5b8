package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

const (
	tellEvery  = 100 * time.Millisecond // Progress, at most
	quietAfter = 2 * time.Second        // without a verified byte: say why
	repeatWhy  = 4 * time.Second        // ... again, though the reason is the same
	lookEvery  = 5 * time.Second        // for room on a full disk
	whyLines   = 100                    // runs of missing pieces explained in one event
)

// pace does what is due by now and sets the alarm for what comes next. It runs
// after every message.
func (t *transfer) pace(ctx actor.Context) {
	if t.ending != nil {
		t.wake.Stop()
		return
	}
	now := t.s.Now()
	t.count.Since = t.since
	next := earliest(
		t.tellProgress(now),
		t.syncIfDue(ctx, now),
		t.findManifest(ctx, now),
		t.lookForRoom(ctx, now),
		t.watchForStall(ctx, now))
	if t.ending == nil {
		t.wake.Set(t.s, ctx, next)
	}
}

func (t *transfer) tellProgress(now time.Time) (next time.Time) {
	if !t.changed {
		return next
	}
	if due := t.told.Add(tellEvery); due.After(now) {
		return due
	}
	t.told, t.changed = now, false
	t.notify(t.snapshot())
	return next
}

// dirt is what is complete but not yet durable.
type dirt struct {
	bytes int64
	due   time.Time // when it is to be synced; zero when there is none
}

func (d *dirt) add(n int, now time.Time, cfg TransferConfig) {
	if d.bytes == 0 {
		d.due = now.Add(cfg.SyncEvery)
	}
	if d.bytes += int64(n); d.bytes >= cfg.SyncBytes {
		d.due = now
	}
}

func (t *transfer) syncIfDue(ctx actor.Context, now time.Time) (next time.Time) {
	if t.dirty.due.IsZero() || t.busy || t.state != Fetching {
		return next
	}
	if t.dirty.due.After(now) {
		return t.dirty.due
	}
	t.dirty = dirt{}
	target := t.target
	t.onDisk(ctx, func(context.Context) any {
		_, err := target.Sync()
		return synced{err}
	})
	return next
}

func (t *transfer) synced(ctx actor.Context, err error) {
	switch {
	case !t.diskIdle(ctx):
	case err != nil:
		t.diskFailed(ctx, err)
	case t.state == Finishing:
		t.finish(ctx)
	}
}

func (t *transfer) findManifest(ctx actor.Context, now time.Time) (next time.Time) {
	if t.state != Finding {
		return next
	}
	t.askForManifest(ctx)
	for _, src := range t.order {
		at := src.askAt
		if src.asking {
			at = src.slowAt
		}
		if !src.out && at.After(now) { // what has passed waits for an answer, or for one to be slow
			next = earliest(next, at)
		}
	}
	return next
}

// A disk may say with an error which pieces it lost after it had taken them.
type loser interface{ LostPieces() []share.Piece }

// diskFailed waits when the disk is full, begins again when it lost pieces, and
// ends the transfer for any other trouble.
func (t *transfer) diskFailed(ctx actor.Context, err error) {
	var lost loser
	switch {
	case t.ending != nil || t.restarting || t.state == DiskFull:
	case errors.As(err, &lost):
		t.beginAgain(ctx, err)
	case !errors.Is(err, share.ErrDiskFull):
		t.end(ctx, Ended{Err: err})
	default:
		t.enter(DiskFull)
		t.because(err.Error())
		t.roomAt = t.s.Now()
		t.toLeases(ctx, PauseLeases{Paused: true, Why: err.Error()})
	}
}

// roomSeen is how full the disk is, a result of lookForRoom.
type roomSeen struct{ need, free int64 }

func (t *transfer) lookForRoom(ctx actor.Context, now time.Time) (next time.Time) {
	if t.state != DiskFull || t.busy {
		return next
	}
	if t.roomAt.After(now) {
		return t.roomAt
	}
	target := t.target
	t.onDisk(ctx, func(context.Context) any {
		need, free := target.Need()
		return roomSeen{need, free}
	})
	return next
}

func (t *transfer) roomSeen(ctx actor.Context, m roomSeen) {
	if !t.diskIdle(ctx) || t.state != DiskFull {
		return
	}
	if m.free >= 0 && m.free < m.need {
		t.because(share.NoRoom(m.need, m.free).Error())
		t.roomAt = t.s.Now().Add(lookEvery)
		return
	}
	now := t.s.Now()
	if again := t.roomTried.Add(lookEvery); t.count.Verified == t.roomHad && again.After(now) {
		t.because(share.NoRoom(m.need, m.free).Error())
		t.roomAt = again
		return
	}
	if t.count.Verified != t.roomHad || t.roomTried.IsZero() { // else it has waited for the disk all the time
		t.moved = now
	}
	t.roomTried, t.roomHad = now, t.count.Verified
	t.because("")
	if t.allHere() {
		t.finish(ctx)
		return
	}
	t.enter(Fetching)
	t.startWaiting(ctx)     // if it was to be the end, and more was chosen since
	t.dirty.due = t.s.Now() // what could not be synced before
	t.toLeases(ctx, PauseLeases{})
}

// watchForStall says why nothing moves, and gives up after the time it was given.
func (t *transfer) watchForStall(ctx actor.Context, now time.Time) (next time.Time) {
	if !t.canStall() {
		return next
	}
	for _, src := range t.order {
		t.excuse(src)
	}
	quiet := now.Sub(t.moved)
	if quiet < quietAfter {
		t.stalled, t.plan = "", PlanStatus{}
		return t.moved.Add(quietAfter)
	}
	if !now.Before(t.givesUp()) {
		t.end(ctx, Ended{Err: t.stallError(quiet)})
		return next
	}
	if t.leases != nil && now.Sub(t.planAt) >= time.Second {
		t.planAt = now
		ctx.Request(t.leases, PlanQuery{whyLines, t.quietSince()})
	}
	if t.state != DiskFull {
		t.because(t.whyQuiet(t.lastWord()))
	}
	if t.count.Reason != t.stalled || now.Sub(t.stalledAt) >= repeatWhy {
		t.stalled, t.stalledAt = t.count.Reason, now
		t.changed = true
		t.notify(Stalled{For: quiet, Reason: t.count.Reason, Why: t.plan.Why})
	}
	return earliest(now.Add(time.Second), t.givesUp())
}

// canStall says whether it is peers that are waited for, or room on the disk: what
// the disk is at work on cannot be hurried.
func (t *transfer) canStall() bool {
	return t.state == Finding || t.state == Fetching || t.state == DiskFull
}

// givesUp is when a transfer ends of which no byte is verified any more.
func (t *transfer) givesUp() time.Time {
	from := t.moved
	if t.excused.After(from) {
		from = t.excused
	}
	return from.Add(t.cfg.Stall + t.ration.patience())
}

// quietSince is since when the sources could have sent something and have not; zero if
// it is not they that are waited for.
func (t *transfer) quietSince() (since time.Time) {
	if t.state != Fetching {
		return since
	}
	return t.givesUp().Add(-t.cfg.Stall)
}

// excuse takes note of a source that waits for other links of this node: the transfer
// does not end for that.
func (t *transfer) excuse(src *source) {
	if src.held {
		t.excused = t.s.Now()
	}
}

func (t *transfer) stallError(quiet time.Duration) error {
	if t.state == DiskFull {
		return fmt.Errorf("%w: %s", share.ErrDiskFull, strings.TrimPrefix(t.count.Reason, "disk full: "))
	}
	if len(t.order) > 0 && !slices.ContainsFunc(t.order, (*source).connected) {
		return t.noConnection()
	}
	return fmt.Errorf("%w: no verified byte for %s: %s", share.ErrStalled, words.Duration(quiet), t.whyQuiet(t.lastLoss()))
}

// whyQuiet is one sentence on why no byte comes in; word is what a source says.
func (t *transfer) whyQuiet(word string) string {
	var active, left int
	for _, src := range t.order {
		switch {
		case src.out:
			left++
		case src.info.State == Active:
			active++
		}
	}
	n := len(t.order)
	switch {
	case n == 0:
		return "no source is known"
	case left == n:
		return fmt.Sprintf("no source is left of %d (%s)", n, word)
	case active == 0:
		return fmt.Sprintf("no connection to %s (%s)", words.Count(n-left, "source"), word)
	case t.plan.Fleet != "" && t.plan.Leased == 0:
		return t.plan.Fleet
	case len(t.plan.Why) > 0 && t.plan.Leased == 0:
		return t.plan.Why[0]
	case t.plan.Leased > 0 && t.s.Now().Sub(t.moved) < t.ration.patience():
		return pacedBy(t.ration.Rate())
	case t.plan.Leased > 0:
		return fmt.Sprintf("waiting for %s from %s (%s)", words.Count(t.plan.Leased, "piece"), words.Count(active, "source"), word)
	}
	return fmt.Sprintf("%s connected, and none sends (%s)", words.Count(active, "source"), word)
}

// why answers with the state of every missing piece; the LeaseManager knows it, if there is one.
func (t *transfer) why(ctx actor.Context) {
	if t.leases == nil {
		ctx.Respond(PlanStatus{})
		return
	}
	ctx.RequestWithCustomSender(t.leases, PlanQuery{Lines: whyLines}, ctx.Sender())
}

// snapshot is all that is known now.
func (t *transfer) snapshot() Progress {
	p := t.count
	p.State, p.Since, p.At, p.Moved = t.state, t.since, t.s.Now(), t.moved
	if t.canStall() {
		p.GivesUp = t.givesUp()
	}
	p.Rate, p.File = t.rate.perSecond(p.At), t.lastFile()
	p.Sources = make([]Source, len(t.order))
	for i, src := range t.order {
		p.Sources[i] = src.seen(p.At)
		in, out := t.net.Traffic(src.addr.ID)
		p.WireIn, p.WireOut = p.WireIn+in-src.in0, p.WireOut+out-src.out0
	}
	return p
}

// lastFile is the path of the file whose block came last.
func (t *transfer) lastFile() string {
	if t.rate.first.IsZero() {
		return ""
	}
	return t.manifest.Entries[t.manifest.Layout().PieceSpan(t.last).Entry].Path
}

// meter is a rate over the last few seconds.
type meter struct {
	slots [8]int64 // bytes, each over slot
	first time.Time
	at    int64 // number of the newest slot
}

const slot = 500 * time.Millisecond

func (m *meter) add(n int, now time.Time) {
	m.roll(now)
	m.slots[m.at%int64(len(m.slots))] += int64(n)
}

func (m *meter) roll(now time.Time) {
	if m.first.IsZero() {
		m.first = now
	}
	at := int64(now.Sub(m.first) / slot)
	for i := max(m.at+1, at-int64(len(m.slots))+1); i <= at; i++ {
		m.slots[i%int64(len(m.slots))] = 0
	}
	m.at = max(m.at, at)
}

// perSecond is bytes per second; the time since the first byte counts, up to the length of the window.
func (m *meter) perSecond(now time.Time) float64 {
	if m.first.IsZero() {
		return 0
	}
	m.roll(now)
	var sum int64
	for _, n := range m.slots {
		sum += n
	}
	over := min(now.Sub(m.first), slot*time.Duration(len(m.slots)-1)+now.Sub(m.first)%slot)
	if over < slot {
		over = slot
	}
	return float64(sum) / over.Seconds()
}
