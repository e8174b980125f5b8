package model

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
)

// Two lines of the same rate in a row, far apart, and a parcel for another node between
// two: the last one reaches the second line at the very moment when it becomes free.
func TestNothingOvertakesInAPipe(t *testing.T) {
	w := system.NewWorld(1)
	up, down := &Uplink{World: w, Rate: 125_000}, &Pipe{World: w, Rate: 125_000}
	stream, other := &Flow{Up: up}, &Flow{Up: up}
	var came []int
	send := func(i, size int) {
		stream.Send(size, func() {
			w.After(time.Second, func() { down.Pass(size, false, func() { came = append(came, i) }) })
		})
	}
	send(1, 65536)
	other.Send(65536, func() {})
	send(2, 0)
	w.Run(time.Minute)
	if !slices.Equal(came, []int{1, 2}) {
		t.Error("came:", came)
	}
}

// A request passes through a line at once, however much bulk waits there.
func TestWhatIsUrgentDoesNotWaitBehindBulk(t *testing.T) {
	w := system.NewWorld(1)
	p := &Pipe{World: w, Rate: 125_000}
	var bulk, urgent []time.Duration
	for range 20 {
		p.Pass(12_500, false, func() { bulk = append(bulk, w.Elapsed()) })
	}
	for i := range 3 {
		w.After(time.Duration(350+i)*time.Millisecond, func() { p.Pass(125, true, func() { urgent = append(urgent, w.Elapsed()) }) })
	}
	w.Run(time.Minute)
	ms := time.Millisecond
	if want := []time.Duration{401 * ms, 402 * ms, 403 * ms}; !slices.Equal(urgent, want) {
		t.Errorf("requests came after %v, want %v", urgent, want)
	}
	if last := bulk[len(bulk)-1]; len(bulk) != 20 || last != 2003*ms {
		t.Errorf("%d parcels came, the last after %v", len(bulk), last)
	}
}

// A line that loses its limit lets out first what waits in it.
func TestNothingOvertakesInAPipeThatLosesItsLimit(t *testing.T) {
	w := system.NewWorld(1)
	p := &Pipe{World: w, Rate: 125_000}
	var came []int
	send := func(i int) { p.Pass(125_000, false, func() { came = append(came, i) }) }
	send(1)
	send(2)
	w.After(time.Millisecond, func() {
		p.Rate = 0
		send(3)
	})
	w.Run(time.Minute)
	if !slices.Equal(came, []int{1, 2, 3}) {
		t.Error("came:", came)
	}
}
