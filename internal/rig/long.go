package rig

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Long says that tests do all they can, as in .ci/run: LONG=1. Without it they repeat
// themselves less. It is read in each test, where go test sees that a result depends on it.
func Long() bool { return os.Getenv("LONG") != "" }

// Number is the number in an environment variable, or another if that is not set.
func Number(name string, other int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return other
}

// OnlyLong skips a test that takes long.
func OnlyLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("only with LONG=1")
	}
}

// Slow skips a test that takes longer than those beside it, which look at the same, and call the same code.
func Slow(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("only with LONG=1: quicker tests cover the same code")
	}
}

// OneGoroutine skips a test of one goroutine while the race detector is on: there is nothing for it to find.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("one goroutine: nothing for the race detector to find")
	}
}

// Most returns how many of something tests try: all if [Long], else some.
func Most(all, some int) int {
	if Long() {
		return all
	}
	return some
}

// Checks has package rapid try each property n times unless [Long], instead of a hundred times.
// It is called by TestMain: what the command line says of -rapid.checks comes later, and counts.
func Checks(n int) {
	if !Long() {
		flag.Set("rapid.checks", fmt.Sprint(n))
	}
}
