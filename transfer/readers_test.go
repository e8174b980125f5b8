package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// read makes somebody open a file.
func (w *world) read(path string) (ReaderOpened, bool) {
	w.Helper()
	who := port("opens " + path)
	w.openers[who] = true
	w.happens(func() { w.x.OpenReader(who, path, w.now) })
	all := got[ReaderOpened](w)
	if len(all) == 0 {
		return ReaderOpened{}, false
	}
	return all[0], true
}

// move makes a reader move, and returns what it is told at once.
func (w *world) move(id leasemgr.Reader, off, ahead int64) []ReaderReady {
	w.Helper()
	who := port("waits")
	w.waits[who] = MoveOf{w.readers[id], off}
	w.happens(func() { w.x.MoveReader(id, off, ahead, who, w.now) })
	return got[ReaderReady](w)
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(Choice{leasemgr.Normal, leasemgr.Normal, leasemgr.Normal, leasemgr.Skip, leasemgr.Normal}, nil)
	for path, want := range map[string]error{"a": nil, "b": nil, "c": fs.ErrInvalid, "d": ErrSkipped, "e": fs.ErrInvalid, "f": fs.ErrNotExist} {
		if r, ok := w.read(path); !ok || !errors.Is(r.Err, want) {
			t.Errorf("%s: %v, want %v", path, r.Err, want)
		}
	}
}

// A reader steers the LeaseManager as far as it will read, and is told when its byte is there.
func TestAReaderSteersAndHears(t *testing.T) {
	w := fetching(t, Config{}, "s")
	r, _ := w.read("a")
	if s := got[Steer](w); len(s) > 0 {
		t.Errorf("steers %v before it reads", s)
	}
	w.move(r.Reader, 0, 1<<20+1)
	if s := got[Steer](w); len(s) != 1 || s[0] != (Steer{r.Reader, 0, 2}) {
		t.Errorf("steers %v", s)
	}
	w.move(r.Reader, 0, 1<<20) // to the end of a piece
	if s := got[Steer](w); len(s) != 1 || s[0] != (Steer{r.Reader, 0, 1}) {
		t.Errorf("steers %v", s)
	}
	w.move(r.Reader, share.BlockSize, 1<<20)
	if ready := w.move(r.Reader, share.BlockSize+5, 1); len(ready) > 0 || got[Steer](w)[0] != (Steer{r.Reader, 0, 1}) {
		t.Errorf("hears %v, steers %v", ready, got[Steer](w))
	}
	w.blocksOf("s", 0, 0, 1)
	if len(got[ReaderReady](w)) > 0 {
		t.Error("it hears of another block")
	}
	w.blocksOf("s", 0, 1, 1)
	if ready := got[ReaderReady](w); len(ready) != 1 || ready[0].End != 2*share.BlockSize {
		t.Errorf("hears %v", ready)
	}
	w.blocksOf("s", 0, 2, 1)
	if len(got[ReaderReady](w)) > 0 {
		t.Error("it hears twice")
	}
	w.move(r.Reader, 1<<20, 1<<40)
	if s := got[Steer](w); len(s) != 1 || s[0] != (Steer{r.Reader, 1, 2}) {
		t.Errorf("steers %v", s)
	}
	w.blocksOf("s", 0, 3, 1)
	if len(got[ReaderReady](w)) > 0 {
		t.Error("it hears of another piece")
	}
	for _, off := range []int64{theManifest.Entry(entryA).Size, 1 << 40} {
		if ready := w.move(r.Reader, off, 1); len(ready) != 1 || ready[0].End != off || ready[0].Err != nil {
			t.Errorf("at %d: hears %v", off, ready)
		}
	}
	w.happens(func() { w.x.MoveReader(r.Reader, -1, 1, peers.Port{}, w.now) })
	w.claim(len(got[Steer](w)) == 0, "steers nowhere twice")
	w.happens(func() { w.x.CloseReader(r.Reader, w.now) })
	if d := got[DropReader](w); len(d) != 1 || d[0].Reader != r.Reader {
		t.Errorf("drops %v", d)
	}
	w.happens(func() { w.x.CloseReader(r.Reader, w.now) })
	w.claim(len(w.did) == 0, "closed twice: %v", w.did)
	if ready := w.move(r.Reader, 0, 1); len(ready) != 1 || !errors.Is(ready[0].Err, ErrFinishing) {
		t.Errorf("closed, and hears %v", ready)
	}
}

// Readers survive a transfer that begins again, and wait until it has begun.
func TestReadersGoOnAfterATransferHasBegunAgain(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	if _, opened := w.read("a"); opened {
		t.Fatal("opened before the share was")
	}
	w.opens(nil, nil)
	if r := got[ReaderOpened](w); len(r) != 1 || r[0].Err != nil {
		t.Fatalf("%v", r)
	}
	w.piece("s", 0)
	w.happens(func() { w.x.WorkerFailed("verifier", "a bug", w.now) })
	if ready := w.move(1, 5, 1); len(ready) > 0 {
		t.Errorf("hears %v of what may be lost", ready)
	}
	w.ends()
	w.worked(nil, 0, 0)
	if ready := w.move(1, 5, 1); len(ready) > 0 {
		t.Errorf("hears %v of what is not open", ready)
	}
	w.opens(nil, nil, 0)
	if ready := got[ReaderReady](w); len(ready) != 1 || ready[0].End != 1<<20 {
		t.Errorf("hears %v", ready)
	}
	if s := got[Steer](w); len(s) != 1 || s[0] != (Steer{1, 0, 1}) {
		t.Errorf("a new LeaseManager hears %v", s)
	}
}

func TestReadersOfWhatIsNotWantedAnyMoreAreTold(t *testing.T) {
	w := fetching(t, Config{}, "s")
	a, _ := w.read("a")
	d, _ := w.read("d")
	w.move(a.Reader, 1<<20, 1)
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryA}, leasemgr.Skip, w.now) })
	if ready := got[ReaderReady](w); len(ready) != 1 || !errors.Is(ready[0].Err, ErrSkipped) {
		t.Errorf("hears %v", ready)
	}
	if s := got[Steer](w); len(s) != 1 || s[0] != (Steer{a.Reader, 0, 0}) {
		t.Errorf("steers %v", s)
	}
	if ready := w.move(a.Reader, 5, 1); len(ready) != 1 || !errors.Is(ready[0].Err, ErrSkipped) {
		t.Errorf("hears %v when it reads on", ready)
	}
	w.happens(func() { w.x.SetPriority(port("x"), []int{entryA}, leasemgr.Normal, w.now) })
	if s := got[Steer](w); len(s) != 1 || s[0] != (Steer{a.Reader, 0, 1}) {
		t.Errorf("chosen again, steers %v", s)
	}
	if ready := w.move(a.Reader, 5, 1); len(ready) > 0 {
		t.Errorf("chosen again, hears %v", ready)
	}
	w.happens(func() { w.x.CloseReader(a.Reader, w.now) })
	w.move(d.Reader, 0, 1)
	w.happens(func() { w.x.Stop(w.now) })
	if ready := got[ReaderReady](w); len(ready) != 1 || !errors.Is(ready[0].Err, ErrFinishing) {
		t.Errorf("hears %v", ready)
	}
	if r, ok := w.read("a"); !ok || !errors.Is(r.Err, ErrFinishing) {
		t.Errorf("opened at the end: %v", r)
	}
	w.isOver()
}

func TestWhoGaveUpBeforeAReaderWasOpenedHasNone(t *testing.T) {
	w := fetching(t, Config{}, "s")
	r, _ := w.read("a")
	w.happens(func() { w.x.Unheard(port("somebody"), w.now) })
	w.claim(len(w.did) == 0, "%v", w.did)
	w.happens(func() { w.x.Unheard(r.To, w.now) })
	if d := got[DropReader](w); len(d) != 1 || d[0].Reader != r.Reader {
		t.Errorf("drops %v", d)
	}
}

// However far a reader looks ahead, and however much is here, an answer is bounded.
func TestAnAnswerToAReaderIsBounded(t *testing.T) {
	const n = 300
	e := share.Entry{Path: "big", Size: n << 20, Pieces: make([]share.Hash, n)}
	e.Root = share.FileRoot(e.Pieces)
	m, err := share.NewManifest("big", []share.Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	x := New(Config{}, Fetch{Share: m.ID(), Manifest: m}, theStart)
	have := share.FullSet(n)
	have.Remove(n - 1)
	x.Opened(Place{Open: true, Have: have}, nil, nil, theStart)
	x.OpenReader(port("x"), "big", theStart)
	x.MoveReader(1, 0, 1<<40, port("x"), theStart)
	w := &world{did: x.Next(theStart).Do}
	if s := got[Steer](w); len(s) != 1 || s[0].Count != maxAhead {
		t.Errorf("steers %v", s)
	}
	if r := got[ReaderReady](w); len(r) != 1 || r[0].End != maxReady {
		t.Errorf("hears %v", r)
	}
}

// Whoever waits is answered when the owner of a transfer goes before its end, and so is whoever comes then.
func TestReadersOfAnAbandonedTransferWaitNoLonger(t *testing.T) {
	w := fetching(t, Config{}, "a")
	open := func(who string) { w.x.OpenReader(port(who), "a", w.now) }
	w.openers[port("waits")] = true
	w.happens(func() { open("waits") })
	w.x.MoveReader(1, 0, 1<<20, port("byte"), w.now)
	open("opens") // the answer is still to be handed over
	answers := w.x.Abandon()
	if len(answers) != 2 || answers[0].(ReaderOpened).To != port("opens") || answers[1] != (ReaderReady{To: port("byte"), Err: ErrFinishing}) {
		t.Errorf("answers: %+v", answers)
	}
	open("late")
	if todo := w.x.Next(w.now); len(todo.Do) != 1 || todo.Do[0] != (ReaderOpened{To: port("late"), Err: ErrFinishing}) {
		t.Errorf("whoever comes late is told: %+v", todo.Do)
	}
}

// Those that come before the share is open and go away are forgotten once there are many.
func TestReadersThatWaitForTheShareAreBounded(t *testing.T) {
	x := New(Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest}, theStart)
	for i := range maxOpenings + 1 {
		x.OpenReader(port(fmt.Sprint(i)), "a", theStart)
	}
	w := &world{did: x.Next(theStart).Do}
	if r := got[ReaderOpened](w); len(r) != 1 || r[0] != (ReaderOpened{To: port("0"), Err: ErrCrowded}) || len(x.openings) != maxOpenings {
		t.Errorf("%d wait; %v", len(x.openings), r)
	}
}
