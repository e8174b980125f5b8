//go:build !linux

package daemon

import (
	"crypto/rand"
	"time"

	"github.com/piecelease/fetcher/depot"
)

var (
	began  = time.Now()
	bootID = rand.Text() // each process is a start: what lies between counts as not measured
)

// reading is what the system says of the time.
func reading() depot.Reading {
	return depot.Reading{Boot: bootID, Wall: time.Now().Round(0), Passed: time.Since(began)}
}
