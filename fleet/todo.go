package fleet

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Port is where messages to somebody go.
type Port = peers.Port

// From is who sent a message.
type From struct {
	Peer  peers.ID
	Reply Port
}

// Send is a message of package wire, or Watch or Unwatch, for somebody.
type Send struct {
	To      Port
	Message any
}

// Watch has the owner say when the receiver has ended; Unwatch no longer.
type (
	Watch   struct{}
	Unwatch struct{}
)

// earliest is the first of some times; zero ones do not count.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// count is n things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
