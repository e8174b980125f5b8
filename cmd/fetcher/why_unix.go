//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// whyAsked receives a value when somebody asks why a fetch waits, with SIGUSR1.
func whyAsked() (asked <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return c, func() { signal.Stop(c) }
}
