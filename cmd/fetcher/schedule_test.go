package main

import (
	"runtime"
	"testing"
)

// A node on few cores has threads to answer with; a choice of its owner is kept.
func TestANodeHasThreadsToAnswerWith(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	cores := runtime.NumCPU()
	for _, x := range []struct {
		env    string
		n, got int
	}{{"", cores, max(cores, answering)}, {"", cores + 1, cores + 1}, {"3", cores, cores}} {
		t.Setenv("GOMAXPROCS", x.env)
		runtime.GOMAXPROCS(x.n)
		schedule()
		if got := runtime.GOMAXPROCS(0); got != x.got {
			t.Errorf("%d of %d cores, GOMAXPROCS=%q: %d, want %d", x.n, cores, x.env, got, x.got)
		}
	}
}
