package transfer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

func TestWhatIsCompleteIsSyncedInTime(t *testing.T) {
	w := fetching(t, Config{SyncEvery: 3 * time.Second}, "a")
	w.pass(5 * time.Second)
	w.claim(w.work == nil, "there is nothing to sync, and %v", w.work)
	w.piece("a", 0)
	w.pass(time.Second)
	w.piece("a", 1)
	w.pass(2*time.Second - time.Millisecond)
	w.claim(w.work == nil, "synced too early")
	w.pass(time.Millisecond)
	w.claim(w.work == Sync, "not synced 3 s after the first piece")
	w.piece("a", 2)
	w.pass(10 * time.Second)
	w.worked(nil, 0, 0)
	w.claim(w.work == Sync, "what came meanwhile is forgotten")
}

func TestSoManyBytesAreSyncedAtOnce(t *testing.T) {
	w := fetching(t, Config{SyncEvery: time.Hour, SyncBytes: 2 << 20}, "a")
	w.piece("a", 0)
	w.claim(w.work == nil, "synced after 1 MiB")
	w.piece("a", 1)
	w.claim(w.work == Sync, "not synced after 2 MiB")
}

// full is a transfer whose disk is full.
func full(t *testing.T) *world {
	w := fetching(t, Config{Stall: time.Minute}, "a")
	w.happens(func() { w.x.DiskFailed(share.ErrDiskFull, w.now) })
	if p := got[Pause](w); len(p) != 1 || p[0].Why == "" || w.progress().State != DiskFull || w.work != LookForRoom {
		t.Fatalf("%v, paused %v, at work on %v", w.progress().State, p, w.work)
	}
	return w
}

func TestAFullDiskIsWaitedFor(t *testing.T) {
	w := full(t)
	w.happens(func() { w.x.DiskFailed(share.ErrDiskFull, w.now) })
	w.claim(len(got[Pause](w)) == 0, "it is full already")
	w.worked(nil, 100, 99)
	w.claim(w.work == nil && w.progress().Wait == ForRoom && strings.Contains(w.progress().Reason, "disk full"), "because of %q, it does %v", w.progress().Reason, w.work)
	w.pass(lookEvery - time.Millisecond)
	w.claim(w.work == nil, "looked for room at once")
	w.claim(strings.Contains(w.progress().Reason, "disk full"), "because of %q", w.progress().Reason)
	if a := got[AskPlan](w); len(a) == 0 || !a[0].Quiet.IsZero() {
		t.Errorf("sources are said to be late: %v", a)
	}
	w.pass(time.Millisecond)
	w.claim(w.work == LookForRoom, "does not look again")
	w.worked(nil, 100, 100)
	if p := got[Pause](w); len(p) != 1 || p[0].Why != "" || w.progress().State != Fetching {
		t.Errorf("there is room: %v, paused %v", w.progress().State, p)
	}
	w.claim(w.work == Sync, "what could not be synced before is not")
}

// A disk that does not report its free space is tried; one that accepted something meanwhile is
// tried again at once; and the time spent waiting for it is not counted.
func TestADiskIsTriedWhenItMayHaveRoom(t *testing.T) {
	w := full(t)
	w.worked(nil, 100, 0)
	w.pass(50 * time.Second)
	w.worked(nil, 100, -1)
	w.claim(w.progress().State == Fetching && w.progress().Moved.Equal(w.now), "%v, waited for since %v", w.progress().State, w.progress().Moved)
	w.worked(nil, 0, 0)
	w.blocksOf("a", 0, 0, 1)
	w.happens(func() { w.x.DiskFailed(share.ErrDiskFull, w.now) })
	w.worked(nil, 100, 200)
	w.claim(w.progress().State == Fetching, "it took something, and is not tried")
	w.worked(nil, 0, 0)
	w.happens(func() { w.x.DiskFailed(share.ErrDiskFull, w.now) })
	w.worked(nil, 100, 200)
	w.claim(w.progress().State == DiskFull, "it took nothing, and is tried at once")
}

// Nothing is synced to a full disk, and the end waits for a sync that is under way.
func TestSyncsAndOtherWorkOfTheDisk(t *testing.T) {
	w := fetching(t, Config{}, "a")
	w.piece("a", 0)
	w.happens(func() { w.x.DiskFailed(share.ErrDiskFull, w.now) })
	w.worked(nil, 100, 0)
	w.pass(3 * time.Second)
	w.claim(w.work == nil, "it does %v", w.work)
	w.blocksOf("a", 1, 0, 1)
	w.claim(strings.Contains(w.progress().Reason, "disk full"), "because of %q", w.progress().Reason)

	w = fetching(t, Config{}, "a")
	for p := range share.Piece(thePieces) {
		if p == thePieces-1 {
			w.pass(2 * time.Second)
			w.claim(w.work == Sync, "it does %v", w.work)
		}
		w.piece("a", p)
	}
	w.worked(nil, 0, 0)
	w.claim(w.work == Finish, "it does %v", w.work)
	w.happens(func() { w.x.Banned("a", w.now.Add(time.Hour), w.now) })
	w.claim(w.x.ending == nil, "all is here, and it ends because of a source")
}

// While a transfer begins again, the disk's earlier reports are ignored, and nothing is
// finished; if something could not be closed, that is the end.
func TestWhatHappensWhileATransferBeginsAgain(t *testing.T) {
	x := full(t)
	x.happens(func() { x.x.WorkerFailed("verifier", "a bug", x.now) })
	x.worked(nil, 100, 0)
	x.pass(lookEvery)
	x.claim(x.work == nil, "it does %v, and is being given up", x.work)
	w := fetching(t, Config{}, "a")
	w.piece("a", 0)
	w.pass(2 * time.Second)
	w.claim(w.work == Sync, "it does %v", w.work)
	w.piece("a", 1)
	w.happens(func() { w.x.WorkerFailed("verifier", "a bug", w.now) })
	w.ends()
	w.worked(errors.New("broken"), 0, 0)
	w.claim(w.work == Close, "it does %v", w.work)
	w.worked(nil, 0, 0)
	w.opens(nil, nil, 0, 1)
	w.pass(5 * time.Second)
	w.claim(w.work == nil, "it does %v, and nothing is to be synced", w.work)
	for p := share.Piece(2); p < thePieces; p++ {
		w.have.Add(p)
	}
	w.have.Add(2)
	w.happens(func() { w.x.WorkerFailed("verifier", "a bug", w.now) })
	for p := share.Piece(2); p < thePieces; p++ {
		w.happens(func() { w.x.PieceDone(p, nil, p == thePieces-1, Leases{}, w.now) })
	}
	w.claim(w.work == nil, "it does %v while verifiers may write", w.work)
	w.ends()
	broken := errors.New("broken")
	w.worked(broken, 0, 0)
	if end := w.isOver(); !errors.Is(end.Err, broken) || end.Last.State != Failed {
		t.Errorf("ended with %v", end.Err)
	}
}

// A disk that is full although it has room is not tried all the time, and the time spent
// waiting for it counts.
func TestADiskThatTakesNothingIsTriedNowAndThen(t *testing.T) {
	w := full(t)
	tried := 0
	for began := w.now; w.over == nil && w.now.Sub(began) < time.Hour; {
		switch {
		case w.work == LookForRoom:
			w.worked(nil, 100, 200)
			if w.progress().State == Fetching {
				tried++
			}
		case w.work == Sync:
			w.worked(share.ErrDiskFull, 0, 0)
		case w.work == Close:
			w.worked(nil, 0, 0)
		case w.x.ending != nil:
			w.ends()
		default:
			w.pass(time.Second)
		}
	}
	if w.over == nil || !errors.Is(w.over.Err, share.ErrDiskFull) || strings.Count(w.over.Err.Error(), "disk full") != 1 {
		t.Errorf("over: %+v", w.over)
	}
	if tried < 5 || tried > 15 {
		t.Errorf("it was tried %d times in a minute", tried)
	}
}

// What is chosen while the disk is full may end the transfer.
func TestNothingMoreIsWantedWhileTheDiskIsFull(t *testing.T) {
	for _, looking := range []bool{true, false} {
		w := full(t)
		if !looking {
			w.worked(nil, 100, 0)
		}
		w.happens(func() { w.x.SetPriority(port("x"), []int{entryA, entryD}, leasemgr.Skip, w.now) })
		w.happens(func() { w.x.PlanDone(w.now) })
		if looking {
			w.worked(nil, 100, 0)
		}
		w.claim(w.work == Finish, "it does %v", w.work)
		w.worked(nil, 0, 0)
		if end := w.isOver(); end.Err != nil || end.Path != "/here" {
			t.Errorf("ended with %+v", end)
		}
	}
}

func TestATransferWhoseEndDidNotFitGoesOn(t *testing.T) {
	w := fetching(t, Config{}, "a")
	for p := range share.Piece(thePieces) {
		w.piece("a", p)
	}
	w.claim(w.work == Finish && len(w.pools) == 0, "it does %v", w.work)
	w.worked(share.ErrDiskFull, 0, 0)
	w.worked(nil, 1, 2)
	w.claim(w.work == Finish, "there is room, and it does %v", w.work)
	w.worked(share.ErrDiskFull, 0, 0)
	w.worked(nil, 1, 2)
	w.claim(w.work == nil, "it has tried that just now, and does %v", w.work)
	w.pass(lookEvery)
	w.worked(nil, 1, 2)
	w.worked(nil, 0, 0)
	if end := w.isOver(); end.Err != nil || end.Last.State != Complete {
		t.Errorf("ended with %+v", end)
	}
}

// More is chosen while there is no room to finish: sources are fetched from again.
func TestMoreIsChosenWhileTheEndDoesNotFit(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(Choice{leasemgr.Normal, 0, 0, leasemgr.Skip, 0}, nil)
	w.find("a")
	w.active("a")
	for p := range share.Piece(2) {
		w.piece("a", p)
	}
	w.blocksOf("a", 2, 0, 3)
	w.have.Add(2)
	w.happens(func() { w.x.PieceDone(2, nil, true, Leases{}, w.now) })
	w.worked(share.ErrDiskFull, 0, 0)
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryD}, leasemgr.Normal, w.now) })
	w.worked(nil, 1, 2)
	w.claim(w.progress().State == Fetching && w.poolOf("a") != 0, "%v, pools of %v", w.progress().State, w.running())
}

// If the disk lost pieces, or a worker panicked, the transfer begins again from what is on
// disk; a few times.
func TestATransferBeginsAgain(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"lost":  func(w *world) { w.x.DiskFailed(lostPieces{errors.New("lost")}, w.now) },
		"panic": func(w *world) { w.x.WorkerFailed("verifier", "a bug", w.now) },
	} {
		w := fetching(t, Config{Verifiers: 2}, "a")
		for i := range maxRestarts {
			w.piece("a", share.Piece(i))
			w.happens(func() { fail(w) })
			again := got[BeginsAgain](w)
			w.claim(len(again) == 1 && len(w.pools) == 0 && !w.leases && w.dying == 2 && w.work == nil, "%s: %v, pools of %v, it does %v", name, again, w.running(), w.work)
			w.happens(func() { fail(w) })
			w.claim(len(got[BeginsAgain](w)) == 0, "it begins again already")
			w.ends()
			w.worked(nil, 0, 0)
			if _, opening := w.work.(Open); !opening {
				t.Fatalf("%s: it does %v", name, w.work)
			}
			w.opens(nil, nil, 0)
			if p := w.progress(); p.State != Fetching || p.Done != 1 || p.Resumed != 0 || w.poolOf("a") == 0 || !w.leases {
				t.Fatalf("%s: %+v", name, p)
			}
		}
		w.happens(func() { fail(w) })
		if end := w.isOver(); end.Err == nil || end.Last.State != Failed {
			t.Errorf("%s: ended with %v", name, end.Err)
		}
	}
}

// What the disk loses when it is closed to begin again is fetched again, as at any other time.
func TestPiecesLostAsATransferBeginsAgainAreNotTheEnd(t *testing.T) {
	w := fetching(t, Config{}, "a")
	w.piece("a", 0)
	w.happens(func() { w.x.WorkerFailed("verifier", "a bug", w.now) })
	w.ends()
	w.worked(lostPieces{errors.New("lost")}, 0, 0)
	if _, opening := w.work.(Open); !opening {
		t.Fatalf("it does %v", w.work)
	}
	w.opens(nil, nil)
	if p := w.progress(); p.State != Fetching || p.Done != 0 {
		t.Errorf("%+v", p)
	}
}

// Pieces that a sync loses while the disk is full are fetched again when there is room, whether another write or the sync itself
// finds it full.
func TestPiecesThatASyncLosesOnAFullDiskAreFetchedAgain(t *testing.T) {
	for name, write := range map[string]error{"a write": share.ErrDiskFull, "the sync": nil} {
		w := fetching(t, Config{}, "a")
		w.piece("a", 0)
		w.pass(2 * time.Second)
		w.claim(w.work == Sync, "it does %v", w.work)
		lost := lostPieces{share.ErrDiskFull}
		if write != nil {
			w.happens(func() { w.x.DiskFailed(write, w.now) })
			lost.error = errors.New("lost")
		}
		w.worked(lost, 0, 0)
		w.worked(nil, 100, 99)
		w.claim(w.progress().State == DiskFull && w.work == nil, "%s: %v, it does %v", name, w.progress().State, w.work)
		w.pass(lookEvery)
		w.worked(nil, 100, 100)
		w.claim(len(got[BeginsAgain](w)) == 1, "%s: it goes on: %v", name, w.progress().State)
		w.ends()
		w.worked(nil, 0, 0)
		w.opens(nil, nil)
		if p := w.progress(); p.State != Fetching || p.Done != 0 || w.poolOf("a") == 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A disk may be full as often as it likes, also if that loses pieces each time: it is waited for.
func TestADiskThatIsFullAgainAndAgainIsWaitedFor(t *testing.T) {
	w := fetching(t, Config{}, "a")
	for n := range 2 * maxRestarts {
		w.piece("a", 0)
		w.pass(2 * time.Second)
		w.claim(w.work == Sync, "it does %v", w.work)
		w.worked(lostPieces{share.ErrDiskFull}, 0, 0)
		w.worked(nil, 100, 99)
		w.pass(lookEvery)
		w.worked(nil, 100, 100)
		w.ends()
		w.worked(nil, 0, 0)
		if w.over != nil {
			t.Fatalf("after the disk was full %d times: %v", n+1, w.over.Err)
		}
		w.opens(nil, nil)
		w.active("a")
	}
}

// A disk that is full as a transfer begins again, be it when its place is closed or when it is opened, is waited for as at any other time.
func TestADiskThatIsFullAsATransferBeginsAgainIsWaitedFor(t *testing.T) {
	for _, closing := range []error{share.ErrDiskFull, lostPieces{share.ErrDiskFull}, nil} {
		w := fetching(t, Config{Stall: time.Minute}, "a")
		for p := range share.Piece(thePieces - 1) {
			w.piece("a", p)
		}
		waits := func(of error) {
			t.Helper()
			p := w.progress()
			w.claim(p.State == DiskFull && p.Wait == ForRoom && p.Reason == of.Error() && w.work == nil, "closed with %v: %v: %s; it does %v", closing, p.State, p.Reason, w.work)
			w.happens(func() { // late words of what ran before
				w.x.PieceDone(thePieces-1, nil, true, Leases{}, w.now)
				w.x.WorkerFailed("leases", "a bug", w.now)
				w.x.DiskFailed(lostPieces{share.ErrDiskFull}, w.now)
			})
			w.claim(w.work == nil, "it does %v", w.work)
			w.pass(lookEvery)
		}
		w.happens(func() { w.x.DiskFailed(lostPieces{errors.New("lost")}, w.now) })
		w.ends()
		w.worked(closing, 0, 0)
		if closing == share.ErrDiskFull {
			waits(closing)
		}
		for range 2 * maxRestarts {
			w.opens(nil, share.NoRoom(2, 1))
			waits(share.NoRoom(2, 1))
		}
		w.opens(nil, nil)
		w.claim(w.progress().State == Fetching && w.poolOf("a") != 0 && w.work == nil, "%v, and it does %v", w.progress().State, w.work)
		w.active("a")
		w.happens(func() { w.x.DiskFailed(lostPieces{errors.New("lost")}, w.now) })
		w.ends()
		w.worked(closing, 0, 0)
		for began := w.now; w.over == nil && w.now.Sub(began) < 2*time.Minute; w.pass(lookEvery) {
			if _, opening := w.work.(Open); opening {
				w.opens(nil, share.NoRoom(2, 1))
			}
		}
		if w.over == nil || !errors.Is(w.over.Err, share.ErrDiskFull) || w.over.Err.Error() != share.NoRoom(2, 1).Error() {
			t.Errorf("closed with %v: over: %+v", closing, w.over)
		}
	}
}

func TestADiskThatFailsOtherwiseIsTheEnd(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(*world){
		"writing": func(w *world) { w.happens(func() { w.x.DiskFailed(broken, w.now) }) },
		"syncing": func(w *world) { w.piece("a", 0); w.pass(time.Minute / 2); w.worked(broken, 0, 0) },
		"finishing": func(w *world) {
			for p := range share.Piece(thePieces) {
				w.piece("a", p)
			}
			w.worked(broken, 0, 0)
		},
	} {
		w := fetching(t, Config{}, "a")
		fail(w)
		if end := w.isOver(); !errors.Is(end.Err, broken) || end.Last.State != Failed {
			t.Errorf("%s: ended with %v", name, end.Err)
		}
	}
}

// saysAtEnd is a disk that says this of what it is doing at the end.
type saysAtEnd string

func (d saysAtEnd) Finishing() string { return string(d) }

// While the disk makes what has no bytes, that is the reason, and people are told of it each second.
func TestTheEndSaysWhatTheDiskDoes(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(nil, nil, 0, 1, 2, 3, 4)
	w.claim(w.work == Finish, "it does %v", w.work)
	for _, x := range []struct{ says, want string }{
		{"", "writing the last data to the disk"},
		{"making folders: 1 of 9", "making folders: 1 of 9"},
		{"making folders: 5 of 9", "making folders: 5 of 9"},
		{"", "writing the last data to the disk"},
	} {
		w.now = w.now.Add(time.Second)
		w.x.Finishing(saysAtEnd(x.says), w.now)
		todo := w.x.Next(w.now)
		p := w.x.Progress(w.now)
		if p.Reason != x.want || p.Wait != NoWait || p.State != Finishing {
			t.Errorf("the disk says %q: %v, %v, %q", x.says, p.State, p.Wait, p.Reason)
		}
		if want := w.now.Add(time.Second); todo.Wake.IsZero() || todo.Wake.After(want) {
			t.Errorf("it looks again at %v, not at %v", todo.Wake, want)
		}
	}
}

// What a disk takes to be opened or to finish is no time that was waited for room: a disk that turns out to be full after that is waited for, as long
// as at any other time.
func TestADiskThatIsFullAfterLongWorkIsWaitedFor(t *testing.T) {
	for name, work := range map[string]func(*world){
		"opening": func(w *world) {
			w.happens(func() { w.x.DiskFailed(lostPieces{errors.New("lost")}, w.now) })
			w.ends()
			w.worked(nil, 0, 0)
			w.pass(time.Hour)
			w.opens(nil, share.NoRoom(2, 1))
		},
		"finishing": func(w *world) {
			w.piece("a", thePieces-1)
			w.happens(func() { w.x.PlanDone(w.now) })
			w.pass(time.Hour)
			w.worked(share.NoRoom(2, 1), 0, 0)
		},
	} {
		w := fetching(t, Config{Stall: time.Minute}, "a")
		for p := range share.Piece(thePieces - 1) {
			w.piece("a", p)
		}
		work(w)
		w.pass(time.Second)
		if p := w.progress(); w.x.ending != nil || p.State != DiskFull {
			t.Errorf("%s: it is %v: %s", name, p.State, p.Reason)
		}
	}
}

// ... and is given up all the same if it is full each time.
func TestADiskThatIsFullAfterEachLongWorkIsGivenUp(t *testing.T) {
	w := fetching(t, Config{Stall: time.Minute}, "a")
	for p := range share.Piece(thePieces) {
		w.piece("a", p)
	}
	tried := 0
	for ; w.x.ending == nil && tried < 100; w.pass(time.Second) {
		switch w.work {
		case Finish:
			tried++
			w.pass(time.Hour)
			w.worked(share.ErrDiskFull, 0, 0)
		case LookForRoom:
			w.worked(nil, 1, 2)
		}
	}
	if tried < 5 || tried > 15 {
		t.Errorf("it was tried %d times", tried)
	}
}

// A transfer that waits for room to begin again has waited since it began to, however often the place is tried meanwhile.
func TestHowLongThereIsNoRoomToBeginAgainIsTold(t *testing.T) {
	w := fetching(t, Config{Stall: time.Hour}, "a")
	w.happens(func() { w.x.DiskFailed(lostPieces{errors.New("lost")}, w.now) })
	w.ends()
	w.worked(nil, 0, 0)
	w.opens(nil, share.NoRoom(2, 1))
	began := w.now
	for range 10 {
		w.pass(lookEvery)
		w.opens(nil, share.NoRoom(2, 1))
	}
	if p := w.progress(); p.State != DiskFull || !p.Since.Equal(began) {
		t.Errorf("%v for %v, want %v", p.State, w.now.Sub(p.Since), w.now.Sub(began))
	}
}
