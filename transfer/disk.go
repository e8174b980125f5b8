package transfer

import (
	"errors"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/share"
)

const lookEvery = 5 * time.Second // for room on a full disk

// disk is the work on the disk.
type disk struct {
	*core
	busy      bool // something is under way
	dirty     dirt
	verifiers int       // that may still write
	roomAt    time.Time // when to look for room again, or to open the place again if it is not open
	roomTried time.Time // when there last was some; zero: never
	roomHad   int64     // ... and how much was verified then
	lost      error     // that says which pieces were lost while the disk was full
}

// dirt is what is complete but not yet durable.
type dirt struct {
	bytes int64
	due   time.Time // when it is to be synced; zero when there is none
}

func (d *dirt) add(n int, now time.Time, cfg Config) {
	if d.bytes == 0 {
		d.due = now.Add(cfg.SyncEvery)
	}
	if d.bytes += int64(n); d.bytes >= cfg.SyncBytes {
		d.due = now
	}
}

// work starts work on the disk. There is one such operation at a time, so that opening,
// syncing, finishing and closing never overlap.
func (d *disk) work(action any) {
	d.busy = true
	d.then(action)
}

func (d *disk) syncIfDue() (next time.Time) {
	if d.dirty.due.IsZero() || d.busy || d.state != Fetching {
		return next
	}
	if d.dirty.due.After(d.now) {
		return d.dirty.due
	}
	d.dirty = dirt{}
	d.work(OnDisk{Sync})
	return next
}

func (t *Transfer) lookForRoom() (next time.Time) {
	if t.state != DiskFull || t.busy || t.again {
		return next
	}
	if t.roomAt.After(t.now) {
		return t.roomAt
	}
	if !t.placed {
		t.takesLong()
		t.work(Open{t.manifest, slices.Clone(t.chosen)}) // it is the reason until that has succeeded
		return next
	}
	t.work(OnDisk{LookForRoom})
	return next
}

// Synced is told how a Sync has ended.
func (t *Transfer) Synced(err error, now time.Time) {
	t.now = now
	switch {
	case !t.diskIdle():
	case err != nil:
		t.diskFailed(err)
	case t.state == Finishing:
		t.finish()
	}
}

// A disk may say with an error which pieces it lost after it had taken them.
type loser interface{ LostPieces() []share.Piece }

// DiskFailed is told that the disk did not take something. The transfer waits when it is
// full, begins again when it lost pieces, and ends for any other trouble. If it lost pieces
// and is full, the transfer begins again when there is room: it could not be opened before.
func (t *Transfer) DiskFailed(err error, now time.Time) {
	t.now = now
	t.diskFailed(err)
}

func (t *Transfer) diskFailed(err error) {
	var lost loser
	isLost, full := errors.As(err, &lost), errors.Is(err, share.ErrDiskFull)
	switch {
	case t.ending != nil || t.again || !t.placed: // what is not open any more is opened anew anyway
	case t.state == DiskFull || full:
		if isLost {
			t.lost = err
		}
		if t.state != DiskFull {
			t.waitForRoom(err)
		}
	case isLost:
		t.beginAgain(err)
	default:
		t.end(Ended{Err: err})
	}
}

func (d *disk) waitForRoom(err error) {
	if !d.long.IsZero() {
		d.moved = times.Earliest(d.moved.Add(d.now.Sub(d.long)), d.now)
		d.long = time.Time{}
	}
	if !d.roomTried.IsZero() {
		d.roomTried = d.now // a try that took long is no wait
	}
	d.enter(DiskFull)
	d.because(ForRoom, err.Error())
	d.roomAt = d.now
	d.toLeases(Pause{err.Error()})
}

// unopened waits for room if the disk is too full to begin again, and ends the transfer for any other trouble, or if it
// has not even begun.
func (t *Transfer) unopened(err error) {
	if t.restarts == 0 || t.placed || !errors.Is(err, share.ErrDiskFull) {
		t.end(Ended{Err: err})
		return
	}
	t.waitForRoom(err)
	t.roomAt = t.now.Add(lookEvery)
}

// RoomSeen is told how many bytes are still to be written and how many are free; a
// negative number is not known.
func (t *Transfer) RoomSeen(need, free int64, now time.Time) {
	t.now = now
	if !t.diskIdle() {
		return
	}
	if t.state == Finishing { // what was missing is no longer wanted
		t.finish()
		return
	}
	if free >= 0 && free < need {
		t.because(ForRoom, share.NoRoom(need, free).Error())
		t.roomAt = now.Add(lookEvery)
		return
	}
	if again := t.roomTried.Add(lookEvery); t.count.Verified == t.roomHad && again.After(now) {
		t.because(ForRoom, share.NoRoom(need, free).Error())
		t.roomAt = again
		return
	}
	if t.count.Verified != t.roomHad || t.roomTried.IsZero() { // otherwise it has waited for the disk all the time
		t.moved = now
	}
	t.roomTried, t.roomHad = now, t.count.Verified
	t.because(NoWait, "")
	if t.lost != nil {
		t.failures-- // a disk may be full as often as it likes
		t.beginAgain(t.lost)
		return
	}
	if t.allHere() {
		t.finish()
		return
	}
	t.enter(Fetching)
	t.place()         // if it was to be the end, and more was chosen since
	t.dirty.due = now // for what could not be synced before
	t.toLeases(Pause{})
}

// diskIdle records that the disk has finished its work. It reports whether the
// transfer goes on; if it is ending, or begins again, the disk is closed now.
func (t *Transfer) diskIdle() bool {
	t.busy = false
	t.closeIfQuiet()
	return t.ending == nil
}

// closeIfQuiet gives up the disk once the transfer is ending and nothing uses it any more.
func (t *Transfer) closeIfQuiet() {
	if t.ending == nil && !t.again || t.busy || t.verifiers > 0 {
		return
	}
	if !t.placed {
		t.closed(nil)
		return
	}
	t.work(OnDisk{Close})
}
