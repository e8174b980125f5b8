package transfer

import (
	"errors"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/internal/words"
)

// finishIfHere makes the share whole if all that was chosen is here, and nothing else
// has begun meanwhile.
func (t *Transfer) finishIfHere() {
	if t.allHere() && t.ending == nil && t.placed && !t.again && t.lost == nil {
		t.finish()
	}
}

// finish makes the share whole. If the disk is at work, the end of that work comes back here.
func (t *Transfer) finish() {
	t.takesLong()
	t.enter(Finishing)
	t.because(NoWait, durable)
	for _, src := range t.order {
		if src.pool != 0 && src.info.State.Connected() {
			t.then(Unsubscribe{src.addr.ID})
		}
	}
	t.stopAll()
	if !t.busy {
		t.work(OnDisk{Finish})
	}
}

// Finished is told where the share is, or why it could not be made whole.
func (t *Transfer) Finished(path string, err error, now time.Time) {
	t.now = now
	switch {
	case t.ending != nil && err == nil: // told to stop, but it is whole after all
		t.ending.Err, t.ending.Path = nil, path
		t.state, t.count.Path = Complete, path
		t.diskIdle()
	case !t.diskIdle():
	case err != nil:
		t.diskFailed(err)
	default:
		t.complete(path)
	}
}

// complete ends the transfer, and has the node say that it serves what it has, if it is to.
func (t *Transfer) complete(path string) {
	t.state = Complete
	t.count.Path = path
	t.because(NoWait, "")
	if t.cfg.Keep && t.cfg.Fleet.Used() {
		t.then(StayInFleet{t.have})
	}
	if t.cfg.Keep && !t.cfg.Anonymous {
		t.then(ServeOn{t.good(), t.have.Full()})
	}
	t.end(Ended{Path: path})
}

// Stop ends the transfer, keeping what is verified.
func (t *Transfer) Stop(now time.Time) {
	t.now = now
	t.end(Ended{Err: ErrStopped})
}

// end begins the end: sources first, then the workers, then the disk, and the
// last event when all is quiet. The first reason counts.
func (t *Transfer) end(how Ended) {
	if t.ending != nil {
		return
	}
	t.ending = &how
	if how.Err != nil {
		t.state = Failed
		t.because(NoWait, words.Plain(how.Err))
	}
	t.dropAll()
	t.then(StopHashing{})
	t.then(StopFinding{})
	t.stopAll()
	t.stopWorkers()
	t.closeIfQuiet()
}

// VerifierGone is told that a verifier has ended: it will not write again.
func (t *Transfer) VerifierGone(now time.Time) {
	t.now = now
	t.verifiers--
	t.closeIfQuiet()
}

// Closed is told that the place on disk was given up.
func (t *Transfer) Closed(err error, now time.Time) {
	t.now = now
	t.closed(err)
}

func (t *Transfer) closed(err error) {
	t.busy = false
	if t.ending == nil { // it begins again with what is on disk
		t.again, t.placed, t.lost = false, false, nil
		if lost := loser(nil); err == nil || errors.As(err, &lost) { // what is lost is fetched again
			t.open(t.manifest)
		} else {
			t.unopened(err)
		}
		return
	}
	if t.ending.Err == nil && err != nil {
		t.ending.Err, t.state = err, Failed
		t.because(NoWait, words.Plain(err))
	}
	t.ending.Last = t.Progress(t.now)
	t.over = true
	t.then(Over{*t.ending})
}

// WorkerFailed is told that a worker panicked. What the LeaseManager or a verifier knew is
// not to be trusted any more, so the transfer begins again from the bits on disk.
func (t *Transfer) WorkerFailed(name string, reason any, now time.Time) {
	t.now = now
	if t.ending == nil && t.placed && !t.again {
		t.beginAgain(fmt.Errorf("internal error in %s: %v", name, reason))
	}
}

// beginAgain stops all work and goes on from what is on disk, or ends the
// transfer with why when that has happened too often.
func (t *Transfer) beginAgain(why error) {
	t.restarts++
	if t.failures++; t.failures > maxRestarts {
		t.end(Ended{Err: why})
		return
	}
	t.then(BeginsAgain{why})
	t.again = true
	t.stopAll()
	t.stopWorkers()
	t.closeIfQuiet()
}
