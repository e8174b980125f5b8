package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/few"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

const (
	quietAfter  = 2 * time.Second // without a verified byte: say why
	repeatWhy   = 4 * time.Second // ... again, though the reason is the same
	changesTold = 15              // changes of the reason in a minute that are told at once; then only as often as repeatWhy
	askPlan     = time.Second     // how often the LeaseManager is asked meanwhile
	whyLines    = 100             // runs of missing pieces explained in one event
)

// quiet decides what is reported while nothing moves, and when a transfer is given up for that.
type quiet struct {
	*core
	sources   *sources
	reads     *readers
	unread    bool      // nobody waited for a byte at the last check
	listed    time.Time // until when the manifest has come fast enough to wait for the rest
	stalled   string    // the reason last told in Stalled
	stalledAt time.Time
	changes   few.Limiter[struct{}] // of the reason that were told at once: peers can cause as many as they like
	plan      PlanStatus
	planAt    time.Time
}

// ManifestComes is told how many bytes of the manifest a peer has sent so far.
func (q *quiet) ManifestComes(from peers.ID, bytes, size int, now time.Time) {
	q.now = now
	src := q.sources.byID[from]
	if src == nil || !src.asking {
		return
	}
	if alive := q.sources.listComes(src, bytes, size); alive.After(q.listed) {
		q.listed = alive
	}
}

// watch reports why nothing moves. It returns when to check again, and the error that ends
// the transfer once its patience is over.
func (q *quiet) watch() (next time.Time, end error) {
	if was := q.unread; was != q.isUnread() {
		q.unread, q.moved = !was, q.now
	}
	if q.unread {
		q.because(ForReader, "nobody reads what is missing")
	}
	if !q.canStall() {
		return next, nil
	}
	for _, src := range q.sources.order {
		q.sources.excuse(src)
	}
	quiet := q.now.Sub(q.moved)
	if quiet < quietAfter {
		q.stalled, q.plan = "", PlanStatus{}
		return q.moved.Add(quietAfter), nil
	}
	if !q.now.Before(q.givesUp()) {
		return next, q.stallError(quiet)
	}
	if q.working && q.now.Sub(q.planAt) >= askPlan {
		q.planAt = q.now
		q.then(AskPlan{whyLines, q.quietSince()})
	}
	if q.state != DiskFull {
		q.because(q.why(q.sources.lastWord()))
	}
	about := q.reason
	if src := whoLists(q.sources.order); src != nil { // how much has come is told again in time
		about = src.listing()
	}
	if q.now.Sub(q.stalledAt) >= repeatWhy || about != q.stalled && q.mayTellChange() {
		q.stalled, q.stalledAt = about, q.now
		q.changed = true
		q.notify(Stalled{For: quiet, Reason: q.reason, Why: q.plan.Why})
	}
	return times.Earliest(q.now.Add(time.Second), q.givesUp()), nil
}

// mayTellChange reports whether the reason has not changed too often to be told of at once.
func (q *quiet) mayTellChange() bool {
	say, _ := q.changes.Take(struct{}{}, q.now)
	return say
}

// durable is what a disk does at the end, if it says nothing else.
const durable = "writing the last data to the disk"

// Finishing is told of the disk, which says what it is doing at the end; nothing if that is not counted. It is called with every
// message, and asks at the end alone.
func (q *quiet) Finishing(disk interface{ Finishing() string }, now time.Time) {
	if q.state == Finishing {
		q.now = now
		q.because(NoWait, cmp.Or(disk.Finishing(), durable))
	}
}

// lookAtEnd is when to ask again what the disk is doing at the end.
func (q *quiet) lookAtEnd() (next time.Time) {
	if q.state == Finishing {
		next = q.now.Add(time.Second)
	}
	return next
}

// canStall reports whether the transfer waits for peers or for room on the disk. Work of
// the disk cannot be hurried, and does not count.
func (q *quiet) canStall() bool {
	return q.long.IsZero() && (q.state == Finding || q.state == Fetching && !q.isUnread() || q.state == DiskFull)
}

// isUnread reports whether only readers cause fetching, and none of them waits.
func (q *quiet) isUnread() bool {
	return q.cfg.OnDemand && q.state == Fetching && !slices.ContainsFunc(q.reads.list, (*reader).waiting)
}

// givesUp is when the transfer ends if no further byte is verified.
func (q *quiet) givesUp() time.Time {
	from := q.moved
	for _, t := range []time.Time{q.sources.excused, q.listed} {
		if t.After(from) {
			from = t
		}
	}
	return from.Add(q.cfg.Stall + q.patience())
}

// quietSince is since when the sources could have sent something but have not; zero if
// the transfer does not wait for them.
func (q *quiet) quietSince() (since time.Time) {
	if q.state != Fetching {
		return since
	}
	return q.givesUp().Add(-q.cfg.Stall)
}

// patience is how long our own limit alone may explain a transfer without a new byte: a turn that it had to wait for, and a few blocks.
func (q *quiet) patience() time.Duration {
	if q.limit == 0 {
		return 0
	}
	return q.turn + time.Duration(4*share.BlockSize/float64(q.limit)*float64(time.Second))
}

func (q *quiet) stallError(quiet time.Duration) error {
	if q.state == DiskFull {
		return words.Error(share.ErrDiskFull, "%s", q.reason)
	}
	if q.sources.neverConnected() {
		return q.sources.noConnection()
	}
	_, why := q.why(q.sources.lastLoss())
	if len(q.sources.order) == 0 {
		return fmt.Errorf("%w: no verified byte for %s: %w", share.ErrStalled, words.Duration(quiet), ErrUnfound)
	}
	if q.plan.Barred != "" && q.plan.Leased == 0 {
		return words.Error(errors.Join(ErrNotMember, share.ErrNotAllowed), "%v: %s", ErrNotMember, strings.TrimPrefix(q.plan.Barred, "not allowed: "))
	}
	return q.sources.blamed(fmt.Errorf("%w: no verified byte for %s: %s", share.ErrStalled, words.Duration(quiet), why))
}

// why returns what the transfer waits for while no byte comes in, and a sentence on it;
// word is what a source says.
func (q *quiet) why(word string) (Wait, string) {
	var active, asked, left int
	for _, src := range q.sources.order {
		switch {
		case src.out:
			left++
		case src.info.State == Active && src.fetching:
			active, asked = active+1, asked+1
		case src.info.State == Active:
			active++
		}
	}
	n := len(q.sources.order)
	if src := whoLists(q.sources.order); src != nil {
		return ForBytes, src.listing() + ": " + src.listed
	}
	switch {
	case n == 0:
		return ForSource, ErrUnfound.Error()
	case left == n:
		return ForSource, fmt.Sprintf("%s (%s)", noneLeft(n), word)
	case active == 0 && q.sources.someHere():
		return ForLease, fmt.Sprintf("nothing comes from %s (%s)", words.Count(n-left, "source"), word)
	case active == 0:
		return ForConnection, fmt.Sprintf("no connection to %s (%s)", words.Count(n-left, "source"), word)
	case q.plan.Leased == 0 && allBusy(q.sources.order) != nil:
		return ForLease, fmt.Sprintf("nothing comes from %s (%s: answered that it is busy)", words.Count(active, "source"), allBusy(q.sources.order).addr.ID.Short())
	case q.plan.Fleet != "" && q.plan.Leased == 0:
		return ForLease, q.plan.Fleet
	case len(q.plan.Why) > 0 && q.plan.Leased == 0 && q.plan.Lacking:
		return ForHolder, q.plan.Why[0]
	case len(q.plan.Why) > 0 && q.plan.Leased == 0:
		return ForLease, q.plan.Why[0]
	case q.plan.Leased > 0 && q.now.Sub(q.moved) < q.patience() && slices.ContainsFunc(q.sources.order, func(src *source) bool { return src.paced }):
		return ForLimit, Paced(q.limit, q.own)
	case q.plan.Leased > 0:
		return ForBytes, fmt.Sprintf("waiting for %s; connected to %s (%s)", words.Count(q.plan.Leased, "piece"), words.Count(active, "source"), word)
	}
	if asked > 0 { // under leases that have ended since the plan was made
		return ForBytes, fmt.Sprintf("asked %s, and nothing has come yet", words.Count(asked, "source"))
	}
	return ForLease, fmt.Sprintf("connected to %s, and nothing is sent (%s)", words.Count(active, "source"), word)
}

// Paced says, for people, that a limit in bytes per second holds everything back: that of the fetch, its own, or the node's.
func Paced(limit int64, own bool) string {
	return fmt.Sprintf("paced by the download limit of %s: it asks for at most %s a second, from all sources together", Limiter(own), share.Size(limit))
}

// Limiter is whose a limit is, for people.
func Limiter(own bool) string {
	if own {
		return "this fetch"
	}
	return "this node"
}
