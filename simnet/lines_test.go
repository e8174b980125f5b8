package simnet

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
	up, down := &uplink{w: w, rate: 125_000}, &pipe{w: w, rate: 125_000}
	stream, other := &flow{up: up}, &flow{up: up}
	var came []int
	send := func(i, size int) {
		stream.send(size, func() {
			w.After(time.Second, func() { down.pass(size, func() { came = append(came, i) }) })
		})
	}
	send(1, 65536)
	other.send(65536, func() {})
	send(2, 0)
	w.Run(time.Minute)
	if !slices.Equal(came, []int{1, 2}) {
		t.Error("came:", came)
	}
}
