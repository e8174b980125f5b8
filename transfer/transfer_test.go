package transfer

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestATransferFromTheFirstSourceToTheLastByte(t *testing.T) {
	w := newWorld(t, Config{Keep: true}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	if len(got[FindSources](w)) != 1 || len(got[Open](w)) != 1 {
		t.Fatalf("it begins with %v", w.did)
	}
	w.find("a")
	w.claim(len(w.pools) == 0, "a pool without a place on disk")
	w.opens(nil, nil, 0)
	plan := got[Planned](w)
	if len(plan) != 1 || plan[0].Bytes != theManifest.Layout().Bytes() || plan[0].Resumed != 1<<20 || plan[0].Pieces != 4 || plan[0].Files != 3 || plan[0].Dirs != 1 || plan[0].Links != 1 {
		t.Fatalf("planned %+v", plan)
	}
	w.active("a")
	w.find("idle")
	w.happens(func() { w.x.PlanDone(w.now) })
	w.claim(w.work == nil, "it does %v, and is not whole", w.work)
	for p := range share.Piece(thePieces) {
		if p > 0 {
			w.piece("a", p)
			if av := got[Available](w); len(av) != 1 || av[0].Piece != p {
				t.Errorf("piece %d: offered %v", p, av)
			}
		}
	}
	if u := got[Unsubscribe](w); len(u) != 1 || u[0].Peer != "a" {
		t.Errorf("it says that it has all to %v", u)
	}
	w.find("late")
	w.claim(len(w.pools) == 0, "a pool though all is here")
	w.worked(nil, 0, 0)
	if on := got[ServeOn](w); len(on) != 1 || !on[0].Whole || len(got[StayInFleet](w)) != 0 {
		t.Errorf("it serves on: %v", w.did)
	}
	end := w.isOver()
	if last := end.Last; end.Err != nil || end.Path != "/here" || last.State != Complete || last.Path != "/here" || last.Verified != last.Bytes || last.Resumed != 1<<20 || last.File != "d" {
		t.Errorf("ended with %+v", end)
	}
}

// What is already here is not fetched, also in a fleet, and is served on anonymously.
func TestWhatIsHereIsNotFetched(t *testing.T) {
	cfg := Config{Keep: true, Anonymous: true}
	cfg.Fleet.Coordinator.ID = "seat"
	w := newWorld(t, cfg, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.happens(func() {
		w.placed, w.work, w.have = true, nil, share.FullSet(thePieces)
		w.x.Opened(Place{Open: true, Have: w.have.Clone(), Path: "/there", Whole: true}, nil, nil, w.now)
	})
	w.claim(len(got[StartLeases](w)) == 0 && len(got[ServeOn](w)) == 0 && len(got[StayInFleet](w)) == 1, "%v", w.did)
	if end := w.isOver(); end.Err != nil || end.Path != "/there" {
		t.Errorf("ended with %+v", end)
	}
	w = newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(nil, nil, 0, 1, 2, 3, 4)
	w.claim(w.work == Finish && len(got[StartLeases](w)) == 0, "all is verified, and it does %v", w.work)
	w.worked(nil, 0, 0)
	w.claim(len(got[ServeOn](w)) == 0, "it serves on, and was not told to")
	w.isOver()
}

// Only what is chosen is wanted, counted and waited for.
func TestWhatIsChosenCounts(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.happens(func() { w.x.SetPriority(port("x"), []int{0}, leasemgr.Skip, w.now) })
	if a := got[PrioritySet](w); len(a) != 1 || a[0].To != port("x") || !errors.Is(a[0].Err, ErrOpening) {
		t.Errorf("before it is open: %v", a)
	}
	w.opens(Choice{leasemgr.Skip, leasemgr.Skip, leasemgr.Skip, leasemgr.High, leasemgr.Skip}, nil)
	l := got[StartLeases](w)
	if len(l) != 1 || l[0].Wanted == nil || l[0].Wanted.Count() != 2 {
		t.Fatalf("leases of %v", l)
	}
	if p := got[Prioritise](w); len(p) != 1 || !reflect.DeepEqual(p[0].Runs, []leasemgr.Run{{First: 3, N: 2, Priority: leasemgr.High}}) {
		t.Errorf("prioritised %v", p)
	}
	if p := w.progress(); p.Bytes != 1<<20+1 || p.Pieces != 2 || p.Files != 1 || p.Dirs != 0 || p.Links != 0 {
		t.Errorf("%+v", p)
	}
	w.find("a")
	w.active("a")
	w.piece("a", 0)
	if p := w.progress(); p.Verified != 0 || p.Done != 0 {
		t.Errorf("what is not wanted counts: %+v", p)
	}
	w.pass(time.Second)
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryA, entryB}, leasemgr.Low, w.now) })
	if s := got[Select](w); len(s) != 1 || !reflect.DeepEqual(s[0].Wanted, []bool{true, true, false, true, false}) {
		t.Errorf("the place hears %v", s)
	}
	if p := got[Prioritise](w); len(p) != 1 || !reflect.DeepEqual(p[0].Runs, []leasemgr.Run{{First: 0, N: 3, Priority: leasemgr.Low}}) {
		t.Errorf("prioritised %v", p)
	}
	if p := w.progress(); p.Verified != 1<<20 || p.Done != 1 || p.Pieces != 5 || p.Files != 3 || !p.Moved.Equal(w.now) {
		t.Errorf("%+v", p)
	}
	w.piece("a", 3)
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryA}, leasemgr.Skip, w.now) })
	w.piece("a", 4)
	w.claim(w.work != Finish, "the LeaseManager has not said that it is done")
	w.happens(func() { w.x.PlanDone(w.now) })
	w.claim(w.work == Finish, "all that is wanted is here, and it does %v", w.work)
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryA}, leasemgr.Normal, w.now) })
	if a := got[PrioritySet](w); len(a) != 1 || !errors.Is(a[0].Err, ErrFinishing) {
		t.Errorf("at the end: %v", a)
	}
	w.happens(func() { w.x.PlanDone(w.now) })
	w.claim(len(w.did) == 0, "done twice: %v", w.did)
}

// Neighbours of one priority are one run, and no others.
func TestRunsOfPriorities(t *testing.T) {
	var entries []share.Entry
	for _, path := range []string{"a", "b", "c", "d"} {
		entries = append(entries, share.Entry{Path: path, Size: 1, Root: share.Hash{path[0]}})
	}
	m, err := share.NewManifest("folder/", entries)
	if err != nil {
		t.Fatal(err)
	}
	c := Choice{leasemgr.High, leasemgr.Low, leasemgr.High, leasemgr.High}
	for _, x := range []struct {
		without int
		want    []leasemgr.Run
	}{
		{-1, []leasemgr.Run{{First: 0, N: 1, Priority: leasemgr.High}, {First: 1, N: 1, Priority: leasemgr.Low}, {First: 2, N: 2, Priority: leasemgr.High}}},
		{1, []leasemgr.Run{{First: 0, N: 1, Priority: leasemgr.High}, {First: 2, N: 2, Priority: leasemgr.High}}},
	} {
		if got := c.runs(m.Layout(), func(i int) bool { return i != x.without }); !reflect.DeepEqual(got, x.want) {
			t.Errorf("without %d: %v, want %v", x.without, got, x.want)
		}
	}
}

func TestNormalIsWhatIsNotSaid(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(Choice{0, 0, 0, 0, 0}, nil)
	w.claim(len(got[Prioritise](w)) == 0, "prioritised %v", got[Prioritise](w))
	if l := got[StartLeases](w); l[0].Wanted != nil {
		t.Errorf("wants %v", l[0].Wanted)
	}
}

// The first reason for the end counts, unless the share turns out to be complete.
func TestTheFirstReasonForTheEndCounts(t *testing.T) {
	w := fetching(t, Config{Verifiers: 2}, "a")
	w.pass(time.Second)
	w.happens(func() { w.x.Stop(w.now) })
	w.claim(len(got[Progress](w)) == 0, "told in passing that it ends")
	for _, f := range []func(){
		func() { w.x.DiskFailed(lostPieces{errors.New("lost")}, w.now) },
		func() { w.x.DiskFailed(share.ErrDiskFull, w.now) },
		func() { w.x.WorkerFailed("verifier", "a bug", w.now) },
	} {
		w.happens(f)
		w.claim(len(w.did) == 0 && w.progress().State == Failed, "at the end it does %v", w.did)
	}
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryA}, leasemgr.High, w.now) })
	if a := got[PrioritySet](w); len(a) != 1 || !errors.Is(a[0].Err, ErrFinishing) {
		t.Errorf("chosen at the end: %v", a)
	}
	w.find("b")
	w.claim(len(w.x.order) == 1 && w.work == nil, "it takes %v on, and does %v", w.x.order, w.work)
	if end := w.isOver(); !errors.Is(end.Err, ErrStopped) || end.Last.State != Failed || end.Last.Reason != ErrStopped.Error() {
		t.Errorf("ended with %+v", end)
	}

	w = fetching(t, Config{}, "a")
	for p := range share.Piece(thePieces) {
		w.piece("a", p)
	}
	w.happens(func() { w.x.Stop(w.now) })
	w.claim(w.work == Finish, "it does %v", w.work)
	if end := w.isOver(); end.Err != nil || end.Path != "/here" || end.Last.State != Complete || end.Last.Path != "/here" {
		t.Errorf("whole, and ended with %+v", end)
	}

	w = fetching(t, Config{}, "a")
	w.happens(func() { w.x.Stop(w.now) })
	w.ends()
	w.worked(errors.New("broken"), 0, 0)
	if end := w.isOver(); !errors.Is(end.Err, ErrStopped) {
		t.Errorf("ended with %v", end.Err)
	}
}

// A place that cannot be closed is a failure, even if all is complete.
func TestAPlaceThatCannotBeClosedIsAFailure(t *testing.T) {
	broken := errors.New("broken")
	w := fetching(t, Config{}, "a")
	for p := range share.Piece(thePieces) {
		w.piece("a", p)
	}
	w.worked(nil, 0, 0)
	w.ends()
	w.worked(broken, 0, 0)
	if end := w.isOver(); !errors.Is(end.Err, broken) || end.Last.State != Failed || end.Path != "/here" {
		t.Errorf("ended with %+v", end)
	}
}

func TestAPlaceThatCannotBeOpenedIsTheEnd(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(nil, share.ErrHeld)
	if end := w.isOver(); !errors.Is(end.Err, share.ErrHeld) {
		t.Errorf("ended with %v", end.Err)
	}
	w = newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.happens(func() { w.x.Stop(w.now) })
	w.claim(len(got[StopHashing](w)) == 1 && w.over == nil, "%v", w.did)
	if end := w.isOver(); !errors.Is(end.Err, ErrStopped) {
		t.Errorf("ended with %v", end.Err)
	}
}

// Progress is reported when it changes, and not all the time.
func TestProgressIsToldInTime(t *testing.T) {
	w := fetching(t, Config{}, "a")
	w.pass(time.Second)
	for range 5 {
		w.blocksOf("a", 0, 0, 1)
		if n := len(got[Progress](w)); n > 1 {
			t.Fatalf("told %d times", n)
		}
	}
	w.pass(tellEvery)
	if p := got[Progress](w); len(p) != 1 || p[0].Verified != 5*share.BlockSize {
		t.Errorf("told %v", p)
	}
	w.pass(time.Second)
	w.claim(len(got[Progress](w)) == 0, "told of nothing")
	few := w.x.order
	w.x.order = slices.Repeat(few[:1], 200) // each report names all of them, so there are fewer
	w.blocksOf("a", 0, 5, 1)
	got[Progress](w)
	w.blocksOf("a", 0, 6, 1)
	w.pass(200*tellEach - 1)
	w.claim(len(got[Progress](w)) == 0, "told too soon of many sources")
	w.pass(1)
	w.claim(len(got[Progress](w)) == 1, "not told of many sources")
	w.x.order = few
	w.pass(time.Second)
	w.happens(func() { w.x.LeasesEnded(Leases{Granted: 3}, []leasemgr.LeaseEvent{{}, {}}, w.now) })
	if p := got[Progress](w); len(p) != 1 || p[0].Leases.Granted != 3 || len(got[LeaseEvent](w)) > 0 {
		t.Errorf("told %v", w.did)
	}
}

// Leases that a source did not keep are counted by reason, and reported one by one to whoever watches.
func TestFailuresAreCountedByWhy(t *testing.T) {
	w := fetching(t, Config{WatchLeases: true}, "a", "b")
	ends := func(end leasemgr.End, why ...leasemgr.Reason) (out []leasemgr.LeaseEvent) {
		for _, r := range why {
			out = append(out, leasemgr.LeaseEvent{Source: "b", End: end, Why: r})
		}
		return out
	}
	all := append(ends(leasemgr.Failed, leasemgr.BadData, leasemgr.NotFound, leasemgr.Lost, leasemgr.Lost, leasemgr.Missed, leasemgr.GaveBack, leasemgr.Disk, leasemgr.Elsewhere),
		append(ends(leasemgr.Expired, 0), append(ends(leasemgr.Finished, 0), leasemgr.LeaseEvent{Source: "stranger", End: leasemgr.Expired})...)...)
	w.pass(time.Second)
	w.happens(func() { w.x.LeasesEnded(Leases{}, all, w.now) })
	if n := len(got[LeaseEvent](w)); n != len(all) {
		t.Errorf("%d of %d are told", n, len(all))
	}
	if s := w.progress().Sources; s[0].Failures != (Failures{}) || s[1].Failures != (Failures{Bad: 1, Late: 2, None: 1, Lost: 2}) {
		t.Errorf("%+v, %+v", s[0].Failures, s[1].Failures)
	}
}

// Late blocks of a finished piece do not count again.
func TestAPieceCountsOnce(t *testing.T) {
	w := fetching(t, Config{}, "a")
	w.piece("a", 0)
	w.blocksOf("a", 0, 0, 1)
	w.happens(func() { w.x.PieceDone(0, nil, false, Leases{}, w.now) })
	for range 2 {
		if p := w.progress(); p.Verified != 1<<20 || p.Done != 1 {
			t.Errorf("%d bytes, %d pieces", p.Verified, p.Done)
		}
		w.happens(func() { w.x.SetPriority(port("x"), []int{entryA}, leasemgr.High, w.now) })
	}
}

// Blocks that were verified twice, or not written, are not progress.
func TestBytesThatCameTwiceDoNotCount(t *testing.T) {
	w := fetching(t, Config{}, "a")
	w.blocksOf("a", 0, 0, 1)
	moved := w.now
	w.pass(time.Second)
	w.happens(func() { w.x.BlocksVerified(BlocksVerified{Source: "a", Duplicate: 7, Hashed: 9}, w.now) })
	if p := w.progress(); p.Duplicate != 7 || p.Hashed != 10 || p.Verified != share.BlockSize || !p.Moved.Equal(moved) {
		t.Errorf("%+v", p)
	}
}

// paced is a source that the download limit holds up.
func paced(w *world) {
	w.find("a")
	w.status(SourceStatus{Source: "a", Why: "fetching", State: Active, Connected: true, Fetching: true, Paced: true})
}

// While nothing moves the reason is reported now and then, and in the end the transfer gives up.
func TestWhyNothingMovesIsSaid(t *testing.T) {
	for name, x := range map[string]struct {
		plan   PlanStatus
		limit  int64
		own    bool
		turn   time.Duration
		begin  func(*world)
		reason string
		end    string
		class  error // nil: it stalled
		wait   Wait
	}{
		"nobody": {begin: func(*world) {}, reason: "no source is known", end: "no source is known", wait: ForSource},
		"not there": {begin: func(w *world) {
			w.find("a")
			w.status(SourceStatus{Source: "a", Why: "dialling", State: Connecting, Connected: true})
		}, reason: "no connection to 1 source (a: dialling)", end: "no connection to 1 source", wait: ForConnection},
		"connected": {begin: func(w *world) {
			w.find("a")
			w.status(SourceStatus{Source: "a", Why: "says nothing; trying again in 2 s", LastLoss: "says nothing", Stood: true, State: Resting, Connected: true, Dials: 1})
		}, reason: "nothing comes from 1 source (a: says nothing; trying again in 2 s)", end: "nothing comes from 1 source (a: says nothing)", wait: ForLease},
		"no proxy": {begin: func(w *world) {
			w.find("a")
			w.status(SourceStatus{Source: "a", Why: "no proxy; trying again in 2 s", LastLoss: "no proxy", Proxy: peers.ErrNoProxy, State: Resting, Connected: true, Dials: 1})
		}, reason: "no connection to 1 source (a: no proxy; trying again in 2 s)", end: "stalled: no verified byte for 20 s: no connection to 1 source (a: no proxy)", class: peers.ErrNoProxy, wait: ForConnection},
		"declines": {begin: func(w *world) {
			w.find("a")
			w.status(SourceStatus{Source: "a", Why: "is full; is asked again in 2 s", State: Joining, Connected: true})
		}, reason: "nothing comes from 1 source (a: is full; is asked again in 2 s)", end: "nothing comes from 1 source (a: is full)", wait: ForLease},
		"busy": {plan: PlanStatus{Why: []string{"x"}}, begin: func(w *world) {
			w.find("a")
			w.status(SourceStatus{Source: "a", Why: "waiting for leases", State: Active, Connected: true, Busy: true})
		}, reason: "nothing comes from 1 source (a: answered that it is busy)", end: "a: answered that it is busy", wait: ForLease},
		"waits": {plan: PlanStatus{Leased: 2, Why: []string{"x"}}, reason: "waiting for 2 pieces; connected to 1 source (a: fetching)", end: "no verified byte for 20 s: waiting for 2 pieces", wait: ForBytes},
		"idle":  {plan: PlanStatus{}, reason: "connected to 1 source, and nothing is sent (a: fetching)", end: "nothing is sent", wait: ForLease},
		"asked": {begin: func(w *world) {
			w.find("a", "b")
			w.active("b")
			w.status(SourceStatus{Source: "a", Why: "fetching", State: Active, Connected: true, Fetching: true})
		}, reason: "asked 1 source, and nothing has come yet", end: "nothing has come yet", wait: ForBytes},
		"a piece":       {plan: PlanStatus{Why: []string{"piece 3: nobody has it"}}, reason: "piece 3: nobody has it", end: "nobody has it", wait: ForLease},
		"the fleet":     {plan: PlanStatus{Fleet: "the fleet waits", Why: []string{"x"}}, reason: "the fleet waits", end: "the fleet waits", wait: ForLease},
		"not a member":  {plan: PlanStatus{Fleet: "the fleet waits", Barred: "not allowed: it is not listed"}, reason: "the fleet waits", end: "not a member of the fleet: it is not listed", class: share.ErrNotAllowed, wait: ForLease},
		"fleet moves":   {plan: PlanStatus{Fleet: "the fleet waits", Leased: 1}, reason: "waiting for 1 piece; connected to 1 source (a: fetching)", end: "waiting for 1 piece", wait: ForBytes},
		"lacking":       {plan: PlanStatus{Why: []string{"x"}, Lacking: true}, reason: "x", end: "x", wait: ForHolder},
		"our limit":     {plan: PlanStatus{Leased: 1}, limit: share.BlockSize / 8, begin: paced, reason: "paced by the download limit of this node: it asks for at most 8.19 kB a second, from all sources together", end: "no verified byte for 52 s: waiting for 1 piece", wait: ForLimit},
		"its turn":      {plan: PlanStatus{Leased: 1}, limit: share.BlockSize / 8, turn: 10 * time.Second, begin: paced, reason: "paced by the download limit of this node: it asks for at most 8.19 kB a second, from all sources together", end: "no verified byte for 62 s: waiting for 1 piece", wait: ForLimit},
		"slow below it": {plan: PlanStatus{Leased: 1}, limit: share.BlockSize / 8, reason: "waiting for 1 piece; connected to 1 source (a: fetching)", end: "no verified byte for 52 s: waiting for 1 piece", wait: ForBytes},
		"its own":       {plan: PlanStatus{Leased: 1}, limit: share.BlockSize / 8, own: true, begin: paced, reason: "paced by the download limit of this fetch: it asks for at most 8.19 kB a second, from all sources together", end: "no verified byte for 52 s: waiting for 1 piece", wait: ForLimit},
	} {
		w := newWorld(t, Config{Stall: 20 * time.Second}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
		w.x.Limit(x.limit, x.own, x.turn)
		w.opens(nil, nil)
		if x.begin == nil {
			w.find("a")
			w.active("a")
		} else {
			x.begin(w)
		}
		w.pass(quietAfter - time.Millisecond)
		w.claim(len(got[Stalled](w)) == 0, "%s: said at once", name)
		w.pass(time.Millisecond)
		w.x.Planned(x.plan)
		w.pass(time.Second)
		if p := w.progress(); p.Reason != x.reason || p.Wait != x.wait {
			t.Errorf("%s: for %v because of %q, want %v, %q", name, p.Wait, p.Reason, x.wait, x.reason)
		}
		if a := got[AskPlan](w); len(a) != 1 || a[0].Lines != whyLines {
			t.Errorf("%s: asked for the plan %v", name, a)
		}
		since := w.progress().Since
		w.pass(10 * time.Second)
		w.claim(w.progress().Since.Equal(since), "%s: the reason is another", name)
		if s := got[Stalled](w); len(s) < 2 || len(s) > 3 || s[0].Reason != x.reason {
			t.Errorf("%s: said %+v", name, s)
		}
		stall := 20 * time.Second
		if x.limit > 0 {
			stall += 32*time.Second + x.turn
		}
		w.pass(w.x.moved.Add(stall - time.Millisecond).Sub(w.now))
		w.claim(w.x.ending == nil, "%s: given up too early", name)
		w.pass(time.Millisecond)
		if end := w.isOver(); !errors.Is(end.Err, cmp.Or(x.class, share.ErrStalled)) || !strings.Contains(end.Err.Error(), x.end) {
			t.Errorf("%s: ended with %v", name, end.Err)
		}
	}
}

// A turn at a limit that was raised since is waited for no longer.
func TestATurnAtALimitThatWasRaisedExplainsNothing(t *testing.T) {
	w := fetching(t, Config{Stall: 20 * time.Second}, "a")
	w.x.Limit(100, false, time.Hour)
	w.pass(time.Second)
	w.x.Limit(10<<20, false, 0)
	w.pass(time.Minute)
	if w.x.ending == nil {
		t.Errorf("it is given up in %v", w.x.givesUp().Sub(w.now))
	}
}

// A transfer none of whose sources accepted a connection says so; and one byte ends the silence.
func TestTheEndOfTheWaitIsPutOff(t *testing.T) {
	w := newWorld(t, Config{Stall: 20 * time.Second}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(nil, nil)
	w.find("a")
	w.status(SourceStatus{Source: "a", State: Resting, Why: "refused; trying again", LastLoss: "refused", Dials: 1})
	w.pass(20 * time.Second)
	if end := w.isOver(); !errors.Is(end.Err, share.ErrNetwork) || !strings.Contains(end.Err.Error(), "no connection to 1 peer (a: refused)") {
		t.Errorf("ended with %v", end.Err)
	}

	w = fetching(t, Config{Stall: 20 * time.Second}, "a")
	w.pass(10 * time.Second)
	if a := got[AskPlan](w); len(a) == 0 || !a[0].Quiet.Equal(theStart) {
		t.Errorf("asked for the plan %v", a)
	}
	w.x.Planned(PlanStatus{Why: []string{"piece 3: nobody has it"}})
	w.pass(9 * time.Second)
	w.claim(w.progress().Reason != "", "nothing is said")
	w.blocksOf("a", 0, 0, 1)
	w.pass(quietAfter - time.Millisecond)
	w.pass(time.Millisecond)
	if s := got[Stalled](w); len(s) != 1 || s[0].Why != nil || s[0].Reason == "piece 3: nobody has it" {
		t.Errorf("quiet again: %+v", s)
	}
	w.blocksOf("a", 0, 1, 1)
	w.claim(w.progress().Reason == "" && w.progress().Wait == NoWait && w.x.givesUp().Equal(w.now.Add(20*time.Second)), "because of %q", w.progress().Reason)
	w.status(SourceStatus{Source: "a", State: Connecting, Why: "waits for another transfer", Connected: true, Held: true})
	w.pass(time.Hour)
	w.claim(w.x.ending == nil, "given up because of our own links")
	w.now = w.now.Add(500 * time.Millisecond)
	w.status(SourceStatus{Source: "a", State: Active, Why: "fetching", Connected: true})
	w.claim(w.x.givesUp().Equal(w.now.Add(20*time.Second)), "gives up at %v", w.x.givesUp())
	w.pass(19 * time.Second)
	w.claim(w.x.ending == nil, "given up too early after our own links")
	w.pass(time.Second)
	w.isOver()
}

// A source that waits for one of our links and is given up no longer holds anything up.
func TestWhoIsGoneHoldsNothingUp(t *testing.T) {
	for name, end := range map[string]func(*world){
		"banned": func(w *world) { w.x.Banned("a", w.now.Add(time.Hour), w.now) },
		"failed": func(w *world) {
			for range maxRestarts + 1 {
				n := w.poolOf("a")
				delete(w.pools, n)
				w.x.PoolFailed(n, w.now)
				w.do()
			}
		},
	} {
		w := fetching(t, Config{Stall: 20 * time.Second}, "a", "b")
		w.status(SourceStatus{Source: "a", State: Connecting, Held: true})
		w.happens(func() { end(w) })
		w.pass(20 * time.Second)
		if w.x.ending == nil {
			t.Errorf("%s: it waits for ever", name)
		}
	}
}

// While the disk is working nothing is given up.
func TestTheDiskIsNotHurried(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.find("a")
	w.pass(time.Hour)
	w.claim(w.x.ending == nil && w.progress().GivesUp.IsZero(), "given up while the disk is opened")
	w.opens(nil, nil)
	w.claim(w.progress().GivesUp.Equal(w.now.Add(time.Minute)), "gives up at %v", w.progress().GivesUp)
}

func TestARateIsOfTheLastSeconds(t *testing.T) {
	var m meter
	if m.perSecond(theStart) != 0 {
		t.Error("a rate of nothing")
	}
	now := theStart
	m.add(1000, now)
	if r := m.perSecond(now); r != 2000 {
		t.Errorf("%v bytes a second at first, want what half a second of it would be", r)
	}
	m = meter{}
	for range 100 {
		m.add(1000, now)
		now = now.Add(100 * time.Millisecond)
	}
	if r := m.perSecond(now); r < 9_500 || r > 10_500 {
		t.Errorf("%v bytes a second, want 10,000", r)
	}
	now = now.Add(2 * time.Second)
	if r := m.perSecond(now); r < 3_000 || r > 6_000 {
		t.Errorf("%v bytes a second after a pause, want about half", r)
	}
	if r := m.perSecond(now.Add(time.Hour)); r != 0 {
		t.Errorf("%v bytes a second after an hour", r)
	}
}
