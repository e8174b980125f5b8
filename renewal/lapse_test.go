package renewal

import (
	"testing"
	"time"
)

// What is to lapse is neither renewed nor released, also after a restart, and keeps its name; then nothing is left of it.
func TestWhatIsToLapseIsLeftAlone(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc[:2], Name: "q"}, d.now)
	d.visits()
	d.arrive("a", x) // and b has only begun
	d.did = nil
	d.s.Lapse(1, d.now)
	d.visits()
	again := New(Config{}, 1)
	again.Resume(d.s.Book(), d.now)
	for d.s = again; len(d.at(x)) > 0; d.pass(24 * time.Hour) {
		if h := d.s.Holds(d.now); len(h) != 2 || h[0].Kept || h[0].Name != "q" || h[0].Late {
			t.Fatalf("%+v", h)
		}
	}
	d.pass(30 * 24 * time.Hour)
	if b := d.s.Book(); len(d.did) > 0 || len(b.Holds)+len(b.Wants)+len(b.Accounts) > 0 {
		t.Errorf("it did %v; left: %+v", d.did, b)
	}
}

// What was to lapse is another Want's from when that needs it, and released after that; or it is released when its owner says so.
func TestWhatIsToLapseCanBeWantedAgainAndReleased(t *testing.T) {
	for _, again := range []bool{false, true} {
		d := newDesk(t)
		x := shareID(1)
		d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
		d.visits()
		d.arrive("a", x)
		d.s.Lapse(1, d.now)
		d.visits()
		if again {
			d.s.Want(Want{ID: 2, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
			d.pass(60 * 24 * time.Hour)
			d.expect(x, "a")
			d.s.Unwant(2, d.now)
		} else {
			d.expect(x, "a")
			d.s.DropShare(x, "", d.now)
		}
		d.visits()
		d.expect(x)
		if h := d.s.Holds(d.now); len(h) > 0 {
			t.Errorf("%+v", h)
		}
	}
}

// A share that another Want needs does not lapse.
func TestWhatAnotherWantNeedsDoesNotLapse(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	for id := range int64(2) {
		d.s.Want(Want{ID: id + 1, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
	}
	d.visits()
	d.arrive("a", x)
	d.s.Lapse(1, d.now)
	d.pass(60 * 24 * time.Hour)
	d.expect(x, "a")
	d.s.Unwant(2, d.now)
	d.visits()
	d.expect(x)
}
