package transfer

import (
	"errors"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/few"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	tellEvery   = 100 * time.Millisecond // Progress, at most
	tellEach    = 3 * time.Millisecond   // ... for each source that it names
	tellLatest  = time.Second
	maxRestarts = 3 // how often a transfer begins again from what is on disk
)

// ErrStopped is the end of a transfer that was stopped on request.
var ErrStopped = errors.New("stopped; what is verified is kept")

// ErrUnfound is wrapped by the end of a transfer to which no source was named, and that found none.
var ErrUnfound = errors.New("no source is known")

// ErrNotMember is wrapped by the end of a transfer that the coordinator of its fleet did not let take part. It
// comes with share.ErrNotAllowed.
var ErrNotMember = errors.New("not a member of the fleet")

// Transfer decides how one share is fetched. Its states are those of [State].
type Transfer struct {
	core
	sources
	content
	readers
	disk
	quiet
	restarts int       // how often it began again
	failures int       // ... and had not waited for room before
	told     time.Time // when Progress was last told
}

// New is a transfer that begins.
func New(cfg Config, fetch Fetch, now time.Time) *Transfer {
	t := &Transfer{core: core{cfg: cfg.withDefaults(), fetch: fetch, now: now, since: now, moved: now}}
	t.sources = sources{core: &t.core, places: newPlaces(t.cfg.MaxSources, now), byID: map[peers.ID]*source{}}
	t.content = content{core: &t.core, count: Progress{Share: fetch.Share}}
	t.readers = readers{core: &t.core, content: &t.content}
	t.disk = disk{core: &t.core}
	t.quiet = quiet{core: &t.core, sources: &t.sources, reads: &t.readers, changes: few.Limiter[struct{}]{Most: changesTold, Per: time.Minute}}
	t.then(FindSources{})
	if fetch.Manifest != nil {
		t.open(fetch.Manifest)
	}
	return t
}

// Next does what is due, and hands over all there is to do.
func (t *Transfer) Next(now time.Time) Todo {
	t.now = now
	var out Todo
	if t.ending == nil {
		out.Wake = times.Earliest(t.tellProgress(), t.syncIfDue(), t.pardon(), t.findManifest(), t.lookForRoom(), t.rateAll(t.state != Fetching || t.isUnread()), t.watchForStall(), t.lookAtEnd())
	}
	if t.ending != nil {
		out.Wake = time.Time{}
	}
	out.Do, t.do = t.do, nil
	return out
}

// Limit is told how many bytes a second this node asks for, of all sources together; 0
// is no limit. own: the limit is this transfer's alone. A source waits for up to turn until it may be asked for more, because others
// have their turns before it.
func (t *Transfer) Limit(bytesPerSecond int64, own bool, turn time.Duration) {
	if bytesPerSecond != t.limit || !t.turnOf.Equal(t.moved) {
		t.turn, t.turnOf = 0, t.moved
	}
	t.limit, t.own = bytesPerSecond, own
	t.turn = max(t.turn, turn)
}

// ---- sources ----

// SourceFound is told a source, or more addresses of one.
func (t *Transfer) SourceFound(m SourceFound, now time.Time) {
	t.now = now
	if t.ending == nil && m.Addr.ID != t.fetch.Self {
		t.found(m)
	}
}

// ManifestCame is told what a peer sent that was asked for the manifest.
func (t *Transfer) ManifestCame(from peers.ID, manifest []byte, r wire.Reply, err error, now time.Time) {
	t.now = now
	src := t.byID[from]
	if src == nil || !src.asking {
		return
	}
	src.asking = false
	t.replied(src, r, err)
	if err != nil || r.Status != wire.OK {
		t.judge()
		return
	}
	m, err := share.DecodeManifest(manifest)
	if err != nil {
		// The bytes are those that the share ID names, so no peer has better ones.
		t.end(Ended{Err: err})
		return
	}
	t.stopAsking()
	t.open(m)
}

// SourceStatus is told how a pool stands.
func (t *Transfer) SourceStatus(m SourceStatus, now time.Time) {
	t.now = now
	if t.status(m) {
		t.judge()
	}
}

// SourceLied is told that a source was caught at something.
func (t *Transfer) SourceLied(m SourceLied, now time.Time) {
	t.now = now
	t.lied(m)
}

// Banned is told that a peer is banned, and until when.
func (t *Transfer) Banned(peer peers.ID, until, now time.Time) {
	t.now = now
	if t.ban(peer, until) {
		t.judge()
	}
}

// judge ends the transfer when no source is left that could ever help, and none may come by itself.
func (t *Transfer) judge() {
	if t.ending != nil || t.state >= Finishing || t.cfg.Called {
		return
	}
	if err := t.hopeless(); err != nil {
		t.end(Ended{Err: err})
	}
}

// PoolFailed is told that a pool panicked. It is one source's, and is begun again.
func (t *Transfer) PoolFailed(pool int, now time.Time) {
	t.now = now
	t.poolFailed(pool)
}

// ---- opening ----

// open prepares the place on disk.
func (t *Transfer) open(m *share.Manifest) {
	t.manifest = m
	t.enter(Opening)
	t.because(NoWait, "looking at what is here already")
	t.takesLong()
	t.work(Open{m, slices.Clone(t.chosen)})
}

// Opened is told of the place on disk, and what was chosen of the share.
func (t *Transfer) Opened(place Place, chosen Choice, err error, now time.Time) {
	t.now = now
	t.placed = place.Open
	if !t.diskIdle() {
		return
	}
	if err != nil {
		t.unopened(err)
		return
	}
	t.chosen, t.have, t.begun, t.dirty = chosen, place.Have, map[share.Piece]*begun{}, dirt{}
	c := &t.count
	c.Name = t.manifest.Name
	t.recount()
	if t.restarts == 0 {
		c.Resumed = c.Verified
	}
	t.notify(Planned{t.manifest, c.Bytes, c.Resumed, c.Pieces - c.Done, c.Files, c.Dirs, c.Links})
	t.admitAll()
	t.then(Offer{})
	if place.Whole {
		t.complete(place.Path)
		return
	}
	t.moved, t.long = now, time.Time{}
	t.enter(Fetching)
	t.because(NoWait, "")
	if t.allHere() {
		t.finish()
		return
	}
	t.startWorkers()
	t.place()
}

// startWorkers starts the LeaseManager and the verifiers.
func (t *Transfer) startWorkers() {
	layout := t.manifest.Layout()
	t.working = true
	t.then(StartLeases{t.restarts, t.have, t.chosen.pieces(layout)})
	if runs := t.chosen.runs(layout, func(entry int) bool { return t.chosen[entry] == leasemgr.High || t.chosen[entry] == leasemgr.Low }); len(runs) > 0 {
		t.then(Prioritise{runs})
	}
	t.steerAll()
	t.verifiers = t.cfg.Verifiers
	t.then(StartVerifiers{t.cfg.Verifiers})
}

// ---- fetching ----

// BlocksVerified is told of blocks that were verified and written.
func (t *Transfer) BlocksVerified(m BlocksVerified, now time.Time) {
	t.now = now
	t.count.Duplicate += int64(m.Duplicate)
	t.count.Hashed += int64(m.Hashed)
	if m.Bytes == 0 {
		return
	}
	t.moved = now
	t.blocksVerified(m)
	t.serveAll(m.Piece)
	t.gave(m.Source, m.Bytes)
	if t.state == Fetching {
		t.because(NoWait, "")
	}
}

// PieceDone is told that a piece is verified and written, who had a part in it, and
// whether it was the last of the plan.
func (t *Transfer) PieceDone(p share.Piece, from []peers.ID, last bool, leases Leases, now time.Time) {
	t.now = now
	t.count.Leases = leases
	t.pieceDone(p)
	t.hadAPart(p, t.manifest.Layout().Pieces(), from)
	t.dirty.add(t.manifest.Layout().PieceLen(p), now, t.cfg)
	t.then(Available{p})
	if last {
		t.finishIfHere()
	}
}

// LeasesEnded is told of leases that ended otherwise than with their piece, or that are watched.
// events are those that failed or expired, and all that are watched.
func (t *Transfer) LeasesEnded(leases Leases, events []leasemgr.LeaseEvent, now time.Time) {
	t.now = now
	t.count.Leases, t.changed = leases, true
	for _, e := range events {
		t.failed(e)
		if t.cfg.WatchLeases {
			t.notify(LeaseEvent(e))
		}
	}
}

// Planned is told how the plan of the LeaseManager stands.
func (t *Transfer) Planned(plan PlanStatus) { t.plan = plan }

// PlanDone is told that nothing the LeaseManager knows of is left to fetch.
func (t *Transfer) PlanDone(now time.Time) {
	t.now = now
	t.finishIfHere()
}

// SetPriority is told by somebody how urgent some entries are from now on.
func (t *Transfer) SetPriority(from peers.Port, entries []int, priority leasemgr.Priority, now time.Time) {
	t.now = now
	t.then(PrioritySet{from, t.choose(entries, priority)})
}

func (t *Transfer) choose(entries []int, priority leasemgr.Priority) error {
	switch {
	case t.ending != nil || t.state >= Finishing:
		return ErrFinishing
	case !t.placed:
		return ErrOpening
	}
	if t.chosen == nil {
		t.chosen = make(Choice, t.manifest.Len())
	}
	touched := make(map[int]bool, len(entries))
	for _, i := range entries {
		touched[i] = true
		t.chosen[i] = priority
	}
	t.then(Select{t.chosen.Wanted()})
	t.recount()
	t.moved = t.now // nobody has waited for the new entries yet
	t.rechosen()
	t.toLeases(Prioritise{t.chosen.runs(t.manifest.Layout(), func(entry int) bool { return touched[entry] })})
	return nil
}

// ---- reading ----

// OpenReader is told that somebody opens a file. Nothing is fetched for a reader until it says where it is.
func (t *Transfer) OpenReader(from peers.Port, path string, now time.Time) {
	t.now = now
	switch o := (opening{from, path}); {
	case t.ending != nil || t.left:
		t.then(ReaderOpened{To: from, Err: ErrFinishing})
	case !t.placed:
		t.openings = append(t.openings, o)
		if len(t.openings) > maxOpenings { // whoever has waited longest may have gone
			t.then(ReaderOpened{To: t.openings[0].from, Err: ErrCrowded})
			t.openings = t.openings[1:]
		}
	default:
		t.admit(o)
	}
}

// MoveReader is told where a reader is now, and who is to be told when the byte there is
// verified or never will be; the zero Port is nobody.
func (t *Transfer) MoveReader(id leasemgr.Reader, off, ahead int64, waits peers.Port, now time.Time) {
	t.now = now
	t.move(id, off, ahead, waits)
}

// CloseReader is told that a reader has ended.
func (t *Transfer) CloseReader(id leasemgr.Reader, now time.Time) {
	t.now = now
	t.readers.close(id)
}

// Unheard is told that somebody did not get what he was sent.
func (t *Transfer) Unheard(who peers.Port, now time.Time) {
	t.now = now
	t.unheard(who)
}

// ---- what is told ----

func (t *Transfer) tellProgress() (next time.Time) {
	if !t.changed {
		return next
	}
	if due := t.told.Add(max(tellEvery, min(time.Duration(len(t.order))*tellEach, tellLatest))); due.After(t.now) {
		return due
	}
	t.told, t.changed = t.now, false
	t.notify(t.Progress(t.now))
	return next
}

// Progress is all that is known now, but for the traffic with sources, of which the
// network knows.
func (t *Transfer) Progress(now time.Time) Progress {
	t.now = now
	p := t.count
	p.State, p.Wait, p.Reason, p.Since, p.At, p.Moved = t.state, t.wait, t.reason, t.since, now, t.moved
	if t.canStall() {
		p.GivesUp = t.givesUp()
	}
	p.Rate, p.File = t.content.rate.perSecond(now), t.lastFile()
	p.Sources = make([]Source, len(t.order))
	for i, src := range t.order {
		p.Sources[i] = t.seen(src)
	}
	return p
}

func (t *Transfer) watchForStall() time.Time {
	next, err := t.watch()
	if err != nil {
		t.end(Ended{Err: err})
	}
	return next
}
