package issuer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

var errFull = errors.New("no space left")

// fullAfter makes a disk fail after some changes.
func fullAfter(d *storetest.Disk, changes int) {
	d.Fault = func(op storetest.Op) error {
		if op.Changes() {
			if changes--; changes < 0 {
				return errFull
			}
		}
		return nil
	}
}

// The disk is full for a while, from any of its changes on: in a payment, or when a new half year
// begins. The issuer says why it takes nothing, and goes on by itself; no pass counts twice.
func TestABookThatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	for _, halves := range []int{0, 2} {
		for at := range 12 {
			d := storetest.New(1 << 24)
			i := opened(t, d, now)
			before, b := bought(t, i, 1, 1), passes.Binding{Depot: "depot", Account: "a", Request: passes.RequestID{1}}
			spent, units := spends(before, b)
			if _, err := i.Spend(spent, b, passes.Mark{}, units, now); err != nil {
				t.Fatal(err)
			}
			fullAfter(d, at)
			later := now.Add(time.Duration(halves) * epoch)
			_, err := i.Listing(later)
			if _, err2 := i.Sell(1, later); err == nil {
				err = err2
			}
			if err == nil {
				continue // all of it was written before the disk was full
			}
			if why := i.Trouble(); !errors.Is(err, errFull) || why != nil && !strings.Contains(why.Error(), "no space left") {
				t.Errorf("fault %d: %v; it says %v", at, err, why)
			}
			d.Fault = nil
			if i.Trouble() != nil {
				if _, err := i.Sell(1, later.Add(bookRetry-time.Second)); !errors.Is(err, errFull) {
					t.Errorf("fault %d, at once: %v", at, err)
				}
			}
			v, err := i.Sell(1, later.Add(bookRetry))
			if err != nil || i.Trouble() != nil {
				t.Fatalf("fault %d, a minute later: %v, %v", at, err, i.Trouble())
			}
			i.Close()
			d.CutPower()
			d.Restart(uint64(at))
			i = opened(t, d, later)
			must[passes.Listing](t)(i.Listing(later))
			p := order(t, i, 1, 9, later)
			must[passes.Responses](t)(i.Redeem(v, p.Requests, later))
			other := passes.Binding{Depot: "depot", Account: "a", Request: passes.RequestID{2}}
			again, _ := spends(before, other)
			if _, err := i.Spend(again, other, passes.Mark{}, units, later); err == nil {
				t.Errorf("fault %d: a pass counted twice", at)
			}
			i.Close()
		}
	}
}

// A disk that stays full is written to once a minute, however often somebody asks.
func TestAFullDiskIsTriedOnceAMinute(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	fullAfter(d, 0)
	tries := 0
	full := d.Fault
	d.Fault = func(op storetest.Op) error {
		tries++
		return full(op)
	}
	for tenth := range 600 {
		i.Sell(1, now.Add(time.Duration(tenth)*time.Second/10))
	}
	if most := 2 * 6; tries > most {
		t.Errorf("%d operations in a minute", tries)
	}
	i.Sell(1, now.Add(-time.Hour)) // a clock that was set back holds up nothing
	if i.tried != now.Add(-time.Hour) {
		t.Error("it was not tried again")
	}
}
