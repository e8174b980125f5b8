package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// from asks for one block on behalf of a child of a set, and returns the request.
func (d *desk) from(child ID, set Set) Job {
	d.job++
	a := Ask{Job: d.job, Child: child, Key: "share", Bytes: 1000, Piece: uint32(d.job), Set: set}
	d.asks[d.job] = a
	if d.u.Ask(a, d.now).Go {
		d.admitted([]Job{d.job})
	}
	return d.job
}

// The fewer slots are left to the others, the more requests of active children are under way.
func TestActiveChildrenHaveTheLine(t *testing.T) {
	for _, test := range []struct{ active, others int }{{0, 64}, {1, 21}, {2, 12}, {4, 7}, {8, 3}, {31, 1}, {40, 1}, {63, 1}, {64, 0}} {
		d := newDesk(UploadConfig{})
		d.hold = true
		for i := range test.active {
			d.from(ID(fmt.Sprint("active", i)), Active)
		}
		for i := range 64 {
			d.from(ID(fmt.Sprint("passive", i)), []Set{Passive, Tracked, Outside}[i%3])
		}
		if got := d.u.Serving() - test.active; got != test.others {
			t.Errorf("beside %d requests of active children %d others are served, want %d", test.active, got, test.others)
		}
	}
}

func TestSlotsAreFreeForOthersOnceTheActiveNeedThemNot(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 8})
	d.hold = true
	a, b := d.from("a", Active), d.from("a", Active)
	for i := range 8 {
		d.from(ID(fmt.Sprint("passive", i)), Passive)
	}
	if d.u.Serving() != 3 {
		t.Fatalf("%d are served beside two of an active child", d.u.Serving())
	}
	if wake := d.u.Wake(); !wake.Equal(d.now.Add(1500 * time.Millisecond)) {
		t.Errorf("the next tick would be %v from now, and change nothing", wake.Sub(d.now))
	}
	d.admitted(d.u.Park(a, 1000, d.now)) // it takes nothing
	if d.u.Serving() != 3 {              // b, and two of the others
		t.Errorf("%d are served beside one of an active child", d.u.Serving())
	}
	d.admitted(d.u.Done(a, d.now))
	d.admitted(d.u.Done(b, d.now))
	if d.u.Serving() != 8 {
		t.Errorf("%d are served of 8 that wait, and nobody is active", d.u.Serving())
	}
	for _, j := range slices.Clone(d.order) {
		d.admitted(d.u.Done(j, d.now))
	}
	if d.u.active != 0 || d.u.Serving() != 0 {
		t.Errorf("%d are being served, %d of them of active children", d.u.Serving(), d.u.active)
	}
}

// Requests that wait are served as is due to what their child is now.
func TestWhatWaitsFollowsItsChild(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 2})
	d.hold = true
	first := d.from("x", Active)
	d.from("x", Active)
	out, in := d.from("out", Active), d.from("in", Passive)
	d.admitted(d.u.Moved("out", Passive, d.now))
	d.admitted(d.u.Moved("in", Active, d.now))
	d.admitted(d.u.Moved("nobody", Active, d.now))
	d.admitted(d.u.Done(first, d.now))
	if d.order[2] != in {
		t.Errorf("served %v", d.order)
	}
	if d.u.active != 2 {
		t.Errorf("%d requests of active children are served, want 2", d.u.active)
	}
	d.admitted(d.u.Done(in, d.now))
	if d.order[3] != out || d.u.active != 1 {
		t.Errorf("served %v, %d of active children", d.order, d.u.active)
	}
}

// A child that has become active may be served at once.
func TestABetterSetMayOpenASlot(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 4})
	d.hold = true
	d.from("a", Active)
	d.from("b", Passive)
	c := d.from("c", Passive)
	if len(d.order) != 2 {
		t.Fatalf("served %v", d.order)
	}
	if d.admitted(d.u.Moved("c", Active, d.now)); len(d.order) != 3 || d.order[2] != c {
		t.Errorf("served %v", d.order)
	}
}

// A child that is no longer active, or has gone, keeps no slots from the others by requests that were begun before.
func TestWhoIsNoLongerActiveKeepsNoSlots(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	for range 8 {
		d.from("slow", Active)
	}
	for i := range 56 {
		d.from(ID(fmt.Sprint("passive", i)), Passive)
	}
	if n := d.u.Serving() - 8; n != 3 {
		t.Fatal(n)
	}
	d.admitted(d.u.Moved("slow", Outside, d.now))
	if n := d.u.Serving() - 8; n != 56 {
		t.Errorf("%d others are served, and nobody is active", n)
	}
}
