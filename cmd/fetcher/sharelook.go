package main

import (
	"slices"
	"time"
)

// looking calls look every so often, until stop. A disk that does not answer holds up neither the caller nor,
// for more than a second, stop.
func looking(every time.Duration, look func()) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() { // until stop; or until the process ends, if the disk never answers
		defer close(done)
		again := time.NewTicker(every)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				look()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		select {
		case <-done:
		case <-time.After(time.Second):
		}
	}
}

// looks returns a function that looks at the next files of the shares, for whether they have changed.
func (s *sharer) looks() func() {
	shares := slices.Clone(s.shares)
	return func() {
		for _, one := range shares { // one that has ended is not looked at
			one.Look(max(1, lookAtOnce/len(shares)))
		}
	}
}

// lookAtOnce is how many files are looked at in a second, for whether they have changed: some milliseconds of work.
const lookAtOnce = 1_000
