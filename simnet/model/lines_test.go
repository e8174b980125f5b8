package model

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
)

// Two lines of the same rate in a row, far apart, and a parcel for somebody else between
// two: what comes last comes to the second line in the very moment in which it is free.
func TestNothingOvertakesInAPipe(t *testing.T) {
	w := system.NewWorld(1)
	up, down := &Uplink{World: w, Rate: 125_000}, &Pipe{World: w, Rate: 125_000}
	stream, other := &Flow{Up: up}, &Flow{Up: up}
	var came []int
	send := func(i, size int) {
		stream.Send(size, func() {
			w.After(time.Second, func() { down.Pass(size, func() { came = append(came, i) }) })
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
