package rig

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// NoLeaks runs a package's tests, and fails if they leave goroutines behind. Those of a QUIC connection end when its timers
// have run out and it gets to run then: on a busy machine that is later than goleak waits by itself.
func NoLeaks(m *testing.M) {
	code := m.Run()
	for end := time.Now().Add(30 * time.Second); code == 0; {
		err := goleak.Find()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
