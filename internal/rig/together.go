package rig

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// Together makes at least that many tests run at once, for packages whose tests wait for rates
// and timeouts far more than they compute. The flag -parallel overrides it. TestMain calls it.
func Together(tests int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		flag.Set("test.parallel", fmt.Sprint(max(tests, runtime.GOMAXPROCS(0))))
	}
}

// Beside has a test that has a bubble of testing/synctest run beside others, but not under the race
// detector, which then reports races that are none (golang/go issue 78156).
func Beside(t *testing.T) {
	if !Raced {
		t.Parallel()
	}
}

// Buffer is a buffer for several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
