//go:build !linux

package daemon

import (
	"crypto/rand"
	"time"

	"github.com/piecelease/fetcher/depot"
)

var (
	began  = time.Now()
	bootID = rand.Text() // each process counts as a boot: the time between two is not measured
)

// reading returns what the system says about the time.
func reading() depot.Reading {
	return depot.Reading{Boot: bootID, Wall: time.Now().Round(0), Passed: time.Since(began)}
}
